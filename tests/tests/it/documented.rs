//! Every public function, type and constant has a doc comment. The compiler's `missing_docs` also wants one for every
//! field and variant, even when the name says enough, so it is not used.

use std::fs;
use std::path::Path;

use tidemill_tests::workspace;

const FOLDERS: [&str; 10] =
    ["common", "scheduler", "worker", "cli", "sim", "sandbox", "documents", "plugins", "tests/src", "bench"];
const ITEMS: [&str; 7] = ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static "];

/// Production files below a folder.
fn sources(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("it can be listed").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !["tests", "target", "fixtures"].contains(&name) {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") && !name.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

fn is_public_item(line: &str) -> bool {
    let Some(mut rest) = line.trim_start().strip_prefix("pub ") else { return false };
    for word in ["async ", "unsafe "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    ITEMS.iter().any(|item| rest.starts_with(item))
}

/// Returns true when a doc comment is above a line, with only attributes between them.
fn is_documented(above: &[&str]) -> bool {
    for line in above.iter().rev().map(|line| line.trim()) {
        if line.starts_with("///") {
            return true;
        }
        if line.is_empty() || line.ends_with(['{', '}', ';']) {
            return false;
        }
    }
    false
}

#[test]
fn public_items_have_docs() {
    let root = workspace();
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&root.join(folder), &mut files));
    assert!(files.len() > 500, "only {} files: the folders have moved", files.len());
    let mut missing = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let lines: Vec<&str> = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").collect();
        for (at, line) in lines.iter().enumerate() {
            if is_public_item(line) && !is_documented(&lines[..at]) {
                missing.push(format!("{}:{}: {}", file.display(), at + 1, line.trim()));
            }
        }
    }
    assert!(missing.is_empty(), "without a doc comment:\n{}", missing.join("\n"));
}
