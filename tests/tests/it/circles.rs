//! Files of the pure crates and of the store do not import each other in a circle across folders, so each folder can be
//! read by itself. The test reads the `use` lines and all paths in the code of each file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tidemill_tests::workspace;

const CRATES: [&str; 5] =
    ["common/base/src", "common/workflow/src", "common/engine/src", "common/wire/src", "common/storage/src"];
/// A run is a circle: an end makes nodes ready, they begin, and they end. ARCHITECTURE.md names this exception.
const MAY: &str = "common/engine/src/flow/";

/// The path of a module: `["flow", "ready"]`.
type Module = Vec<String>;

#[test]
fn no_circle_of_imports_crosses_folders() {
    for of in CRATES {
        let root = workspace().join(of);
        let mut files = BTreeMap::new();
        collect(&root, &mut Vec::new(), &mut files);
        assert!(files.len() > 10, "{of} has hardly any file");
        let imports: BTreeMap<&Module, BTreeSet<&Module>> =
            files.iter().map(|(module, (_, text))| (module, imported(module, text, &files))).collect();
        for (module, (file, _)) in &files {
            for other in reached(module, &imports) {
                let (there, _) = &files[other];
                let is_circle = other != module && reached(other, &imports).contains(module);
                let (here, there) = (format!("{of}/{file}"), format!("{of}/{there}"));
                let allowed = here.starts_with(MAY) && there.starts_with(MAY);
                assert!(
                    !is_circle || folder(&here) == folder(&there) || allowed,
                    "{here} and {there} import each other in a circle; move the shared names below both"
                );
            }
        }
    }
}

fn folder(file: &str) -> &str {
    file.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Reads the production files below a folder, by module.
fn collect(folder: &Path, at: &mut Module, files: &mut BTreeMap<Module, (String, String)>) {
    for entry in fs::read_dir(folder).expect("a folder of sources can be read").flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == "tests" || name == "tests.rs" {
            continue;
        }
        at.push(name.trim_end_matches(".rs").into());
        if entry.path().is_dir() {
            collect(&entry.path(), at, files);
        } else if name.ends_with(".rs") {
            let text = fs::read_to_string(entry.path()).expect("a source can be read");
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            let file = format!("{}.rs", at.join("/"));
            let module = match name.as_str() {
                "mod.rs" | "lib.rs" => at[..at.len() - 1].to_vec(),
                _ => at.clone(),
            };
            files.insert(module, (file, text));
        }
        at.pop();
    }
}

/// Returns the modules that a file names. What the root of the crate re-exports belongs to no folder.
fn imported<'a>(
    module: &Module,
    text: &str,
    files: &'a BTreeMap<Module, (String, String)>,
) -> BTreeSet<&'a Module> {
    let code: String = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let uses = code.match_indices("use ").filter_map(|(at, _)| code[at + 4..].split(';').next());
    let mut paths: Vec<String> = uses.flat_map(expanded).collect();
    paths.extend(code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).map(str::to_owned));
    let names = paths.iter().filter_map(|path| {
        let mut parts: Vec<&str> = path.split("::").collect();
        let mut base = match *parts.first()? {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => module[..module.len().saturating_sub(1)].to_vec(),
            _ => return None,
        };
        parts.remove(0);
        for part in parts {
            if part == "super" {
                base.pop();
            } else {
                base.push(part.into());
            }
        }
        let known = (1..=base.len()).rev().find_map(|length| files.get_key_value(&base[..length]));
        known.map(|(known, _)| known).filter(|known| *known != module)
    });
    names.collect()
}

/// `a::{b, c::d}` as `a::b` and `a::c::d`.
fn expanded(tree: &str) -> Vec<String> {
    let tree: String = tree.split_whitespace().collect();
    let Some((base, rest)) = tree.split_once('{') else { return vec![tree] };
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in rest.strip_suffix('}').unwrap_or(rest).chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match parts.last_mut() {
            Some(_) if c == ',' && depth == 0 => parts.push(String::new()),
            Some(part) => part.push(c),
            None => {}
        }
    }
    let below = parts.iter().filter(|part| !part.is_empty());
    below.flat_map(|part| expanded(part)).map(|part| format!("{base}{part}")).collect()
}

fn reached<'a>(
    from: &'a Module,
    imports: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
) -> BTreeSet<&'a Module> {
    let mut found = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for other in &imports[module] {
            if found.insert(*other) {
                open.push(other);
            }
        }
    }
    found
}
