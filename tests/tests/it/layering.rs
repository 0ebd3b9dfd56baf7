//! The layers of the source depend on each other in one direction only. The test reads the `use` lines and all paths
//! in the code of each file. Tests inside a file or a `tests` module may use anything, so they are left out.

use std::fs;
use std::path::{Path, PathBuf};

use tidemill_tests::workspace;

/// Files below a folder may not use these names; a violation prints the reason.
struct Rule {
    folder: &'static str,
    but: &'static [&'static str],
    never: &'static [&'static str],
    because: &'static str,
}

const RULES: [Rule; 17] = [
    Rule {
        folder: "common/engine/src",
        but: &[],
        never: &["tokio::", "std::time::SystemTime", "std::time::Instant"],
        because: "the engine only decides: storage and the current time are passed in",
    },
    Rule {
        folder: "common/engine/src/state",
        but: &[],
        never: &["crate::fact", "crate::order", "crate::step", "crate::cost", "crate::flow", "crate::on"],
        because: "the state of a run is data, below everything that changes it",
    },
    Rule {
        folder: "common/engine/src/fact.rs",
        but: &[],
        never: &["crate::order", "crate::step", "crate::cost", "crate::flow", "crate::on"],
        because: "a fact is data",
    },
    Rule {
        folder: "common/engine/src/order",
        but: &[],
        never: &["crate::step", "crate::cost", "crate::flow", "crate::on"],
        because: "what a step orders is data",
    },
    Rule {
        folder: "common/engine/src/step.rs",
        but: &[],
        never: &["crate::cost", "crate::flow", "crate::on"],
        because: "every handler uses a step, so a step uses no handler",
    },
    Rule {
        folder: "common/engine/src/cost",
        but: &[],
        never: &["crate::flow", "crate::on"],
        because: "costs are counted, whatever follows",
    },
    Rule {
        folder: "common/engine/src/flow",
        but: &[],
        never: &["crate::on"],
        because: "the handlers of facts use the flow, not the other way round",
    },
    Rule {
        folder: "common/engine/src",
        but: &["common/engine/src/step.rs", "common/engine/src/flow/rewind.rs"],
        never: &["run.status = ", "].status = ", "nodes.get_mut", "nodes.iter_mut"],
        because: "a status changes through `Step`, which looks the change up in state/transitions.rs",
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
        folder: "plugins",
        but: &[],
        never: &["tidemill_worker", "tidemill_scheduler"],
        because: "a host of plugins may be any program",
    },
    Rule {
        folder: "embed/src",
        but: &[],
        never: &["store::redis", "RedisStore", "TcpListener", "tidemill::"],
        because: "an embedded engine needs no Redis and no port",
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
fn every_layer_uses_only_the_layers_below_it() {
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

/// The fuzz targets are built only at night; this test notices a moved file earlier.
#[test]
fn every_file_that_a_fuzz_target_includes_exists_and_needs_no_other_file() {
    let targets = workspace().join("fuzz/targets");
    let mut named = 0;
    for target in sources(&targets, &workspace(), &[]) {
        let text = fs::read_to_string(&target).expect("a target can be read");
        // The folders of the modules that are open, and the folder of the next module that opens.
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
                    line.strip_prefix("use crate::")
                        .is_some_and(|name| !name.starts_with("outside::providers"))
                });
                assert!(
                    foreign.is_none(),
                    "{}: {foreign:?} is not in the fuzz target that includes this file",
                    file.display()
                );
            }
        }
    }
    assert!(named > 5, "fuzz targets name files of the worker in another way than this test expects");
}

fn sources(folder: &Path, root: &Path, but: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if folder.is_file() {
        found.push(folder.to_owned());
    }
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
