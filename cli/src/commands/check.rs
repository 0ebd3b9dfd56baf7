//! `tidemill check`: shows all problems of workflow files before they are run.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};
use tidemill_common::dsl::Rewrite;

use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::json;
use crate::workflow_file::{WorkflowFile, count};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Workflow files, YAML or JSON
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Show the problems as JSON
    #[arg(long)]
    json: bool,
    /// Show also how older and other spellings were rewritten
    #[arg(long)]
    explain: bool,
}

pub(super) fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    // All files are read first, so that an unreadable file leaves no partial report.
    let files: Vec<WorkflowFile> =
        arguments.files.iter().map(|path| WorkflowFile::read(path)).collect::<Result<_, _>>()?;
    if arguments.json {
        let all = files.iter().map(|file| as_json(file, arguments.explain)).collect();
        json::whole(&Json::Array(all), console)?;
    } else {
        for file in &files {
            if arguments.explain {
                file.rewrites().iter().try_for_each(|rewrite| console.line(in_words(file, rewrite)))?;
            }
            console.text(file.problems())?;
            console.line(summary(file))?;
        }
    }
    let usable = files.iter().all(|file| file.imported.is_usable());
    Ok(if usable { Exit::Succeeded } else { Exit::Failed })
}

fn as_json(file: &WorkflowFile, explain: bool) -> Json {
    let mut all = json!({
        "file": file.path.display().to_string(),
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
