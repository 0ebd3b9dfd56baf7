//! Arrows point one way. Reads the `use` lines, and every path in between, of each file. Tests beside the code may name
//! what they like, so their modules are left out.

use std::fs;
use std::path::{Path, PathBuf};

use tidemill_tests::workspace;

/// Files below a folder may not name these; the reason is told when one does.
struct Rule {
    folder: &'static str,
    but: &'static [&'static str],
    never: &'static [&'static str],
    because: &'static str,
}

const RULES: [Rule; 8] = [
    Rule {
        folder: "common/engine/src",
        but: &[],
        never: &["tokio::", "std::time::SystemTime", "std::time::Instant"],
        because: "the machine decides; how things are written and what time it is, it is told",
    },
    Rule {
        folder: "common/workflow/src/dsl",
        but: &[],
        never: &["crate::nodes", "crate::graph"],
        because: "a document is read without knowing what its nodes do",
    },
    Rule {
        folder: "common/workflow/src/nodes",
        but: &[],
        never: &["crate::graph"],
        because: "a graph is built from nodes",
    },
    Rule {
        folder: "common/wire/src",
        but: &[],
        never: &["tokio::", "std::time::SystemTime", "std::time::Instant"],
        because: "reading and writing messages needs no clock and no I/O",
    },
    Rule {
        folder: "scheduler",
        but: &[],
        never: &["tidemill_worker"],
        because: "scheduler and worker meet in Redis alone",
    },
    Rule {
        folder: "worker",
        but: &[],
        never: &["tidemill_scheduler"],
        because: "scheduler and worker meet in Redis alone",
    },
    Rule {
        folder: "common",
        but: &["common/storage/src/store/redis"],
        never: &["use redis::", " redis::cmd", "(redis::", "bb8_redis"],
        because: "one module speaks Redis",
    },
    Rule {
        folder: ".",
        but: &["common", "tests", "bench", "target"],
        never: &["use redis::", " redis::cmd", "(redis::", "bb8_redis"],
        because: "one module speaks Redis",
    },
];

#[test]
fn every_part_knows_only_what_lies_below_it() {
    let root = workspace();
    let mut broken = Vec::new();
    for rule in RULES {
        let files = sources(&root.join(rule.folder), &root, rule.but);
        assert!(!files.is_empty(), "there is no source in {}: the rule guards nothing", rule.folder);
        for file in files {
            let text = fs::read_to_string(&file).expect("a source can be read");
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                if let Some(name) = rule.never.iter().find(|name| code.contains(**name)) {
                    let file = file.strip_prefix(&root).unwrap_or(&file).display();
                    broken.push(format!("{file}:{} names {name}, but {}", number + 1, rule.because));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// They are built every night; a file that was moved should be seen before.
#[test]
fn every_file_that_a_fuzz_target_names_by_its_path_is_there_and_needs_no_other() {
    let targets = workspace().join("fuzz/targets");
    let mut named = 0;
    for target in sources(&targets, &workspace(), &[]) {
        let text = fs::read_to_string(&target).expect("a target can be read");
        // Where the modules are that are open, and where the next one is that opens.
        let (mut open, mut next): (Vec<PathBuf>, Option<PathBuf>) = (Vec::new(), None);
        for line in text.lines().map(|line| line.trim().trim_start_matches("pub ")) {
            let module = line.strip_prefix("mod ");
            if let Some(path) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
                next = Some(targets.join(path));
            } else if let Some(module) = module.and_then(|rest| rest.strip_suffix(" {")) {
                let inside = open.last().unwrap_or(&targets).join(module);
                open.push(next.take().unwrap_or(inside));
            } else if line == "}" {
                open.pop();
            } else if let (Some(module), Some(folder)) =
                (module.and_then(|m| m.strip_suffix(';')), open.last())
            {
                named += 1;
                let files = [format!("{module}.rs"), format!("{module}/mod.rs")];
                let file = files.iter().map(|file| folder.join(file)).find(|file| file.is_file());
                let file = file.unwrap_or_else(|| {
                    panic!("{} names {module}, which is not in {}", target.display(), folder.display())
                });
                let text = fs::read_to_string(&file).expect("a source can be read");
                let production = text.split("#[cfg(test)]").next().unwrap_or_default();
                let foreign = production.lines().find(|line| {
                    line.strip_prefix("use crate::").is_some_and(|name| !name.starts_with("providers"))
                });
                assert!(
                    foreign.is_none(),
                    "{}: {foreign:?} is not in the fuzz target that includes this file",
                    file.display()
                );
            }
        }
    }
    assert!(named > 5, "fuzz targets name files of the worker in another way now");
}

fn sources(folder: &Path, root: &Path, but: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_left_out = name.starts_with('.') || name == "tests" || name == "tests.rs";
        if is_left_out || but.iter().any(|but| path == root.join(but)) {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path, root, but));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
