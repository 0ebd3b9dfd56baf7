//! Reads workflow files from disk, checks them and shows their problems.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tidemill_common::dsl::{Diagnostic, ParseOptions, Rewrite, explain, render_for_people};
use tidemill_common::graph::{AppMode, Graph, Imported, import};
use tidemill_common::nodes::start::InputField;

use crate::console::Console;
use crate::error::Error;

/// A file and the result of checking it.
#[derive(Debug)]
pub(crate) struct WorkflowFile {
    pub(crate) path: PathBuf,
    pub(crate) source: Vec<u8>,
    pub(crate) imported: Imported,
}

/// A workflow that can be run.
#[derive(Debug)]
pub(crate) struct Workflow {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
    pub(crate) graph: Graph,
}

impl WorkflowFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// The file cannot be read. Problems inside the file are in `imported` instead.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let source = std::fs::read(path)
            .map_err(|error| Error::Usage(format!("cannot read {}: {error}", path.display())))?;
        let imported = import(&source);
        Ok(Self { path: path.into(), source, imported })
    }

    /// Formats the problems with the lines that they are about.
    pub(crate) fn problems(&self) -> String {
        render_for_people(&self.path.display().to_string(), &self.source, &self.imported.diagnostics)
    }

    /// Shows the problems and returns the workflow if it can be run.
    ///
    /// # Errors
    /// The workflow cannot be run.
    pub(crate) fn usable(self, console: &mut Console) -> Result<Workflow, Error> {
        if !self.imported.diagnostics.is_empty() {
            console.note(self.problems().trim_end());
        }
        let errors = self.imported.diagnostics.iter().filter(|found| found.is_error()).count();
        let Some(graph) = self.imported.graph else {
            return Err(Error::Failed(format!(
                "{} cannot be run: {}",
                self.path.display(),
                count(errors, "error")
            )));
        };
        let text = String::from_utf8_lossy(&self.source).into_owned();
        Ok(Workflow { path: self.path, text, graph })
    }

    /// The rewrites of older and other spellings, in the order of their application.
    pub(crate) fn rewrites(&self) -> Vec<Rewrite> {
        explain(&self.source, &ParseOptions::default())
    }

    pub(crate) fn diagnostics(&self) -> &[Diagnostic] {
        &self.imported.diagnostics
    }
}

impl Workflow {
    /// The inputs that the start form declares.
    pub(crate) fn form(&self) -> &[InputField] {
        self.graph.node(self.graph.root).data.form_fields()
    }
    /// An input of the start form.
    pub(crate) fn field(&self, name: &str) -> Option<&InputField> {
        self.form().iter().find(|field| field.variable == name)
    }
    /// Returns true if a message can have files.
    pub(crate) fn takes_files(&self) -> bool {
        let upload = self.graph.features.get("file_upload");
        upload.and_then(|upload| upload.get("enabled")).and_then(Json::as_bool) == Some(true)
    }
    /// Returns true for a chatflow.
    pub(crate) fn is_chat(&self) -> bool {
        self.graph.mode == AppMode::Chat
    }
    pub(crate) fn name(&self) -> String {
        if self.graph.name.is_empty() { self.path.display().to_string() } else { self.graph.name.clone() }
    }
}

/// Formats a number with its noun: `1 error`, `2 errors`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
