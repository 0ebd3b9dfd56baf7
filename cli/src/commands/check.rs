//! `tidemill check`: shows all problems of workflow files before they are run.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};

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
}

pub(super) fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    // All files are read first, so that an unreadable file leaves no partial report.
    let files: Vec<WorkflowFile> =
        arguments.files.iter().map(|path| WorkflowFile::read(path)).collect::<Result<_, _>>()?;
    if arguments.json {
        json::whole(&Json::Array(files.iter().map(as_json).collect()), console)?;
    } else {
        for file in &files {
            console.text(file.problems())?;
            console.line(summary(file))?;
        }
    }
    let usable = files.iter().all(|file| file.imported.is_usable());
    Ok(if usable { Exit::Succeeded } else { Exit::Failed })
}

fn as_json(file: &WorkflowFile) -> Json {
    json!({
        "file": file.path.display().to_string(),
        "ok": file.imported.is_usable(),
        "diagnostics": file.diagnostics().iter().map(|found| found.to_json()).collect::<Vec<_>>(),
    })
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
