//! A function of the programs fits on a screen: a longer one does several things that deserve names. The test counts
//! the lines from `fn` to the closing brace, in formatted code. Tests may be longer, because they tell a story.

use std::fs;
use std::path::{Path, PathBuf};

use tidemill_tests::workspace;

/// The most lines of a function.
const LINES_MAX: usize = 80;

#[test]
fn no_function_of_the_programs_is_longer_than_a_screen() {
    let root = workspace();
    let (mut counted, mut too_long) = (0, Vec::new());
    for folder in ["scheduler/src", "worker/src", "embed/src", "cli/src"] {
        for file in production_files(&root.join(folder)) {
            let text = fs::read_to_string(&file).expect("a source can be read");
            for (name, first_line, lines) in functions(production_part(&text)) {
                counted += 1;
                if lines > LINES_MAX {
                    let file = file.strip_prefix(&root).unwrap_or(&file).display();
                    too_long.push(format!("{file}:{first_line} {name} has {lines} lines"));
                }
            }
        }
    }
    assert!(counted > 1000, "only {counted} functions were found: the test does not see them all");
    assert!(too_long.is_empty(), "more than {LINES_MAX} lines; name its steps:\n{}", too_long.join("\n"));
}

#[test]
fn a_function_is_counted_from_its_first_line_to_its_closing_brace() {
    let text = "\
trait T {
    fn declared(&self);
    fn declared_over_lines(
        &self,
    ) -> u8;
}
pub(super) async fn outer(
    a: u8,
) {
    fn inner() {}
    if a == 0 {
    }
}
";
    let found = [("declared", 2, 1), ("declared_over_lines", 3, 3), ("outer", 7, 7), ("inner", 10, 1)];
    assert_eq!(functions(text), found);
}

/// The files below a folder, without those that hold only tests.
fn production_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder can be read") {
        let path = entry.expect("an entry can be read").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && name != "tests" {
            found.extend(production_files(&path));
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            found.push(path);
        }
    }
    found
}

/// The text before the tests inside a file.
fn production_part(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default()
}

/// The functions of a text: name, number of the first line, and how many lines.
fn functions(text: &str) -> Vec<(&str, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let named = lines.iter().enumerate().filter_map(|(at, line)| Some((at, name_of(line)?)));
    named.map(|(at, name)| (name, at + 1, length(&lines[at..]))).collect()
}

/// The name of the function that begins in this line.
fn name_of(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public.strip_prefix('(').and_then(|scope| Some(scope.split_once(')')?.1)).unwrap_or(public);
        rest = rest.strip_prefix(' ')?;
    }
    for word in ["const ", "async ", "unsafe "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    rest.strip_prefix("fn ")?.split(['(', '<']).next()
}

/// How many lines a function has: it ends with the first line as far to the left as its `fn` that ends with a brace, or
/// with a semicolon if it has no body.
fn length(lines: &[&str]) -> usize {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let is_end = |line: &&str| {
        let is_as_far_left = !line.is_empty() && indent(line) == indent(lines[0]);
        is_as_far_left && (line.ends_with('}') || line.ends_with(';'))
    };
    lines.iter().position(is_end).map_or(lines.len(), |at| at + 1)
}
