//! Reads workflow files from disk, checks them and shows their problems.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tidemill_common::dsl::{Diagnostic, ParseOptions, Rewrite, explain, moderation, render_for_people};
use tidemill_common::graph::{AppMode, Graph, Imported, import};
use tidemill_common::nodes::start::InputField;
use tidemill_common::warning::FEATURE_NOT_SERVED;

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

    /// Leaves out the warnings that depend on the settings of the scheduler which will get the file. Its answer has those that are
    /// true there.
    pub(crate) fn for_scheduler(mut self) -> Self {
        leave_to_scheduler(&mut self.imported.diagnostics);
        self
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

/// Removes the warnings that depend on the settings of a scheduler.
pub(crate) fn leave_to_scheduler(found: &mut Vec<Diagnostic>) {
    found.retain(|found| ![FEATURE_NOT_SERVED, moderation::CODE].contains(&found.code));
}

/// Formats a number with its noun: `1 error`, `2 errors`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_scheduler_knows_is_left_to_it() {
        let file = b"kind: app\nversion: 0.1.5\napp: {mode: chat, name: x}\nmodel_config:\n  model: {provider: p, name: m, mode: chat, completion_params: {}}\n  text_to_speech: {enabled: true}\n  sensitive_word_avoidance: {enabled: true, type: openai_moderation, config: {inputs_config: {enabled: true, preset_response: No}}}\n";
        let mut found = import(file).diagnostics;
        let places: Vec<(&str, &str, bool)> =
            found.iter().map(|found| (found.code, found.path.as_str(), found.line > Some(1))).collect();
        let expected = [
            (moderation::CODE, "model_config.sensitive_word_avoidance", true),
            (FEATURE_NOT_SERVED, "model_config.text_to_speech", true),
        ];
        assert_eq!(places, expected, "{found:#?}");
        leave_to_scheduler(&mut found);
        assert_eq!(found, []);
    }
}
