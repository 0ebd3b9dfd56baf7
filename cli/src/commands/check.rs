//! `tidemill check`: shows all problems of workflow files before they are run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};
use tidemill_common::config::{Config, Sources};
use tidemill_common::dsl::Rewrite;
use tidemill_common::graph::datasets;

use super::check_code;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::migrate::remedy::word;
use crate::output::{json, text};
use crate::workflow_file::{WorkflowFile, count};
use crate::workflow_folder::{self, Candidate, Candidates};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Workflow files, YAML or JSON, and folders with such files
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Show the problems as JSON
    #[arg(long)]
    json: bool,
    /// Settings file of the workers: what it provides is known [default: tidemill.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show also how older and other spellings were rewritten
    #[arg(long)]
    explain: bool,
    /// Show only the total
    #[arg(long, short)]
    quiet: bool,
}

pub(super) fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let mut all = workflow_folder::read(&arguments.files);
    if let [Candidate { read: Err(reason), .. }] = &all.files[..] {
        return Err(Error::Usage(reason.clone()));
    }
    let mut readable: Vec<&mut WorkflowFile> =
        all.files.iter_mut().filter_map(|file| file.read.as_mut().ok()).collect();
    warn_of_datasets(&mut readable, arguments.config.clone())?;
    check_code::warn(&mut readable, arguments.config.clone())?;
    if arguments.json {
        let shown = all.files.iter().map(|file| as_json(file, arguments.explain)).collect();
        json::whole(&Json::Array(shown), console)?;
    } else {
        if !arguments.quiet {
            for file in &all.files {
                show(file, arguments.explain, console)?;
            }
        }
        if all.files.len() != 1 || arguments.quiet || all.others > 0 {
            console.text(total(&all))?;
            if arguments.files.iter().any(|path| path.is_dir()) {
                let paths = arguments.files.iter().map(|path| word(&path.display().to_string()));
                let paths = paths.collect::<Vec<_>>().join(" ");
                console.line(format_args!("What they need: tidemill migrate {paths}"))?;
            }
        }
    }
    let usable = all.files.iter().all(is_usable);
    Ok(if usable { Exit::Succeeded } else { Exit::Failed })
}

/// Adds a warning to each file with datasets that the settings do not have.
fn warn_of_datasets(files: &mut [&mut WorkflowFile], config: Option<PathBuf>) -> Result<(), Error> {
    let searches = |file: &&mut WorkflowFile| {
        file.imported.graph.as_ref().is_some_and(|graph| !datasets::unknown(graph, |_| false).is_empty())
    };
    // The settings are read only for a file that needs them.
    if config.is_none() && !files.iter().any(searches) {
        return Ok(());
    }
    let config = Config::load(&Sources::of_process(config, Vec::new()));
    let config = config.map_err(|error| Error::Usage(error.to_string()))?;
    let known: BTreeSet<&str> = config.knowledge.names().collect();
    for file in files {
        let Some(graph) = &file.imported.graph else { continue };
        let unknown = datasets::unknown(graph, |id| known.contains(id));
        file.imported.diagnostics.extend(datasets::warning(datasets::NEEDED, &unknown));
    }
    Ok(())
}

fn is_usable(file: &Candidate) -> bool {
    file.read.as_ref().is_ok_and(|file| file.imported.is_usable())
}

fn show(file: &Candidate, explain: bool, console: &mut Console) -> Result<(), Error> {
    match &file.read {
        Err(reason) => console.line(text::one_line(reason)),
        Ok(file) => {
            if explain {
                file.rewrites().iter().try_for_each(|rewrite| console.line(in_words(file, rewrite)))?;
            }
            console.text(file.problems())?;
            console.line(summary(file))
        }
    }
}

fn as_json(candidate: &Candidate, explain: bool) -> Json {
    let path = candidate.path.display().to_string();
    let file = match &candidate.read {
        Err(reason) => {
            let unread = json!({"severity": "error", "code": "file.unreadable", "path": "", "line": null,
                "message": reason, "hint": null});
            return json!({"file": path, "ok": false, "diagnostics": [unread]});
        }
        Ok(file) => file,
    };
    let mut all = json!({
        "file": path,
        "ok": file.imported.is_usable(),
        "diagnostics": file.diagnostics().iter().map(|found| found.to_json()).collect::<Vec<_>>(),
    });
    if explain {
        let rewrites = file.rewrites();
        let rewrites = rewrites
            .iter()
            .map(|one| json!({"rule": one.rule, "path": one.path, "line": one.line, "note": one.note}));
        all["rewrites"] = rewrites.collect();
    }
    all
}

/// The line of a rewrite, or of a note about a place that was left alone, such as `flow.yml:12: rewritten[tool-options]: nodes[3].data.tool_configurations.x`.
fn in_words(file: &WorkflowFile, rewrite: &Rewrite) -> String {
    let line = rewrite.line.map(|line| format!(":{line}")).unwrap_or_default();
    let path = file.path.display();
    match rewrite.note {
        None => format!("{path}{line}: rewritten[{}]: {}", rewrite.rule, rewrite.path),
        Some(note) => format!("{path}{line}: note[{}]: {}: {note}", rewrite.rule, rewrite.path),
    }
}

fn summary(file: &WorkflowFile) -> String {
    let errors = file.diagnostics().iter().filter(|found| found.is_error()).count();
    let warnings = file.diagnostics().len() - errors;
    let path = file.path.display();
    let found: Vec<String> = [(errors, "error"), (warnings, "warning")]
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, thing)| count(number, thing))
        .collect();
    match &file.imported.graph {
        Some(graph) if found.is_empty() => format!("{path}: ok ({})", count(graph.nodes.len(), "node")),
        Some(_) => format!("{path}: ok, with {}", found.join(" and ")),
        None => format!("{path}: {}", found.join(", ")),
    }
}

/// The last lines for several files: how many can run, and the problems by their code, most files first.
fn total(all: &Candidates) -> String {
    let usable = all.files.iter().filter(|file| is_usable(file)).count();
    let mut shown = format!("\n{usable} of {} can run\n", count(all.files.len(), "file"));
    if all.others > 0 {
        shown.push_str(&format!("{} passed over: not a workflow\n", count(all.others, "other file")));
    }
    for (is_error, kind) in [(true, "error"), (false, "warning")] {
        for (code, Counted { files, message, is_only }) in by_code(all, is_error) {
            let between = if is_only { ": " } else { ", such as: " };
            shown.push_str(&format!("{files:>6}  {kind}[{code}]{between}{message}\n"));
        }
    }
    shown
}

/// The files with a code.
struct Counted {
    files: usize,
    /// The message in the first of them.
    message: String,
    /// True when all of them have this message.
    is_only: bool,
}

/// The number of files with each code, most files first.
fn by_code(all: &Candidates, is_error: bool) -> Vec<(&'static str, Counted)> {
    let mut codes: BTreeMap<&'static str, Counted> = BTreeMap::new();
    for file in &all.files {
        let mut of_file: BTreeMap<&'static str, Vec<&str>> = BTreeMap::new();
        match &file.read {
            Ok(file) => {
                for found in file.diagnostics().iter().filter(|found| found.is_error() == is_error) {
                    of_file.entry(found.code).or_default().push(&found.message);
                }
            }
            Err(reason) if is_error => {
                of_file.insert("file.unreadable", vec![reason]);
            }
            Err(_) => {}
        }
        for (code, messages) in of_file {
            let shown = messages.iter().map(|one| text::shortened(&text::one_line(one), MESSAGE_CHARS_MAX));
            let shown: Vec<String> = shown.collect();
            let Some(first) = shown.first() else { continue };
            let first = || Counted { files: 0, message: first.clone(), is_only: true };
            let counted = codes.entry(code).or_insert_with(first);
            counted.files += 1;
            counted.is_only &= shown.iter().all(|one| *one == counted.message);
        }
    }
    let mut sorted: Vec<_> = codes.into_iter().collect();
    sorted.sort_by_key(|(code, counted)| (std::cmp::Reverse(counted.files), *code));
    sorted
}

/// Longest message in the total, in characters.
const MESSAGE_CHARS_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_counts_files_by_the_code_of_their_problems() {
        let dir = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("writes");
        let fine = "graph: {nodes: [{id: s, data: {type: start, title: S, variables: []}}, {id: e, data: {type: end, title: E, outputs: []}}], \
                    edges: [{source: s, target: e}]}";
        put("a.yml", fine);
        put("b.yml", &fine.replace("target: e", "target: x"));
        put("c.yml", &fine.replace("target: e", "target: y"));
        put("d.yml", "kind: [");
        put("package.json", "{}");
        let all = workflow_folder::read(&[dir.path().to_path_buf()]);
        let shown = total(&all);
        assert!(shown.contains("1 of 4 files can run\n1 other file passed over"), "{shown}");
        let lines: Vec<&str> = shown.lines().filter(|line| line.contains("error[")).collect();
        assert!(lines[0].starts_with("     2  error[graph."), "{shown}");
        assert!(lines[0].contains("], such as: "), "the two messages differ: {shown}");
        assert!(lines.iter().any(|line| line.starts_with("     1  error[parse.")), "{shown}");
    }
}
