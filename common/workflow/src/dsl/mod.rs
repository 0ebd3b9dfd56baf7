//! Reads workflow files: from the text to a [`Document`] and a list of all problems in the text.
//!
//! Parsing returns everything that it could read and every problem with its path, so that an author can fix
//! ten mistakes at once. The stages: bytes become a tree within [`ParseOptions`], the tree is split by the
//! shape of the file, old spellings are rewritten to the canonical form, and the rest becomes the
//! [`Document`].

mod app;
mod around;
pub(crate) mod children;
pub mod diagnostic;
mod document;
mod elements;
pub mod features;
pub(crate) mod fields;
mod front;
pub mod moderation;
mod normal_form;
mod read;
mod render;
pub mod seal;
mod simple_app;
mod stored;
pub mod suggest;
mod variables;
pub mod version;

use serde_json::Value as Json;

pub(crate) use diagnostic::merge_same_warnings;
pub use diagnostic::{Diagnostic, Problems, Severity};
pub use document::hash_of;
pub use document::{AppMode, Document, DocumentEdge, DocumentNode, DocumentVariable, GraphHash};
pub use front::Front;
pub use normal_form::{HttpRetryDefault, Migrations, RetryReading, RetryWithoutEnabled, Rewrite};
pub use read::{ParseOptions, resolve_plain};
pub use render::render_for_people;
pub use seal::{Salt, SealError, SealingKey};
pub use simple_app::SimpleMode;

use tidemill_base::value::JsonMap;
use variables::Scope;

/// Parses a workflow file: a Dify app export of any version, or a bare graph; YAML or JSON. Returns a
/// document whenever a graph was found, even when there are errors.
pub fn parse(text: &[u8], limits: &ParseOptions) -> (Option<Document>, Vec<Diagnostic>) {
    let (document, mut problems, lines) = parse_with_lines(text, limits);
    lines.fill_in(&mut problems);
    (document, problems)
}

/// Reads a YAML or JSON text that is not a workflow, within the limits of a workflow file.
///
/// # Errors
/// The first problem; reading stops at it.
pub fn read_plain(text: &[u8]) -> Result<Json, Diagnostic> {
    read::read(text, &ParseOptions::default(), &mut Problems::new()).map(|(_, value)| value)
}

/// A YAML or JSON text that is not a workflow, with the line of every value.
pub struct PlainText {
    /// The content.
    pub value: Json,
    tree: read::Tree,
}

impl PlainText {
    /// Reads a text within these limits.
    ///
    /// # Errors
    /// The first problem; reading stops at it.
    pub fn read(text: &[u8], limits: &ParseOptions) -> Result<Self, Diagnostic> {
        let (tree, value) = read::read(text, limits, &mut Problems::new())?;
        Ok(Self { value, tree })
    }

    /// The line of the value at a path such as `a.b[0].c`, or of the last part of the path that exists.
    pub fn line_of(&self, path: &str) -> Option<u32> {
        self.tree.line_of(path)
    }
}

/// Returns the rewrites of older and other spellings that change a workflow file when it is read. Empty for a text that
/// is no workflow.
pub fn explain(text: &[u8], options: &ParseOptions) -> Vec<Rewrite> {
    let mut ignored = Problems::new();
    let Ok((tree, Json::Object(mut root))) = read::read(text, options, &mut ignored) else {
        return Vec::new();
    };
    let converted = convert(&mut root, options.migrations, &mut ignored);
    let app = app::take_apart(root, &mut ignored);
    let Some((graph_path, mut graph)) = app.graph else { return Vec::new() };
    let path = "model_config";
    let first = converted.map(|mode| Rewrite {
        rule: mode.rule(),
        path: path.into(),
        line: tree.line_of(path),
        note: None,
    });
    let mut found = normal_form::explain(&graph, options.migrations);
    normal_form::apply(&mut graph, options.migrations);
    if app.is_bare {
        found.extend(normal_form::explain_bare(&mut graph));
    }
    found.extend(normal_form::retries::explain(&graph, options.retries, app.is_bare));
    for rewrite in &mut found {
        // The graph of a bare file has no path of its own.
        if !graph_path.is_empty() {
            rewrite.path = format!("{graph_path}.{}", rewrite.path);
        }
        rewrite.line = tree.line_of(&rewrite.path);
    }
    first.into_iter().chain(found).collect()
}

/// Converts an app of mode `chat`, `agent-chat` or `completion` and returns the file that Dify's editor would export.
/// `None` for any other file, and for an app that cannot be converted.
pub fn converted(text: &[u8]) -> Option<Json> {
    let mut ignored = Problems::new();
    let (_, Json::Object(mut root)) = read::read(text, &ParseOptions::default(), &mut ignored).ok()? else {
        return None;
    };
    convert(&mut root, Migrations::On, &mut ignored)?;
    Some(Json::Object(root))
}

/// Converts an app without a workflow, unless migrations are off. Returns the mode that it had.
fn convert(root: &mut JsonMap, migrations: Migrations, problems: &mut Problems) -> Option<SimpleMode> {
    match migrations {
        Migrations::On => simple_app::convert(root, problems),
        Migrations::Off => None,
    }
}

/// Finds the line of a path. Available as long as the text is in memory.
pub(crate) struct Lines(Option<read::Tree>);

impl Lines {
    /// Sets the line of every problem.
    pub(crate) fn fill_in(&self, problems: &mut [Diagnostic]) {
        let Some(tree) = &self.0 else { return };
        for problem in
            problems.iter_mut().filter(|problem| problem.line.is_none() && !problem.path.is_empty())
        {
            problem.line = tree.line_of(&problem.path);
        }
    }
}

/// As [`parse`], but the lines of the problems are not set yet.
pub(crate) fn parse_with_lines(
    text: &[u8],
    limits: &ParseOptions,
) -> (Option<Document>, Vec<Diagnostic>, Lines) {
    let mut problems = Problems::new();
    let (tree, value) = match read::read(text, limits, &mut problems) {
        Ok(found) => found,
        Err(problem) => {
            problems.add(problem);
            return (None, problems.into_vec(), Lines(None));
        }
    };
    let document = match value {
        Json::Object(root) => document(root, limits, &mut problems),
        other => {
            let message =
                format!("Invalid YAML format: content must be a mapping, not {}", fields::kind_of(&other));
            problems.error("parse.expected_mapping", message);
            None
        }
    };
    (document, problems.into_vec(), Lines(Some(tree)))
}

/// The path of the features in a file: that of an app without a workflow, which is converted, has them in its settings.
pub fn features_place(is_converted: bool) -> &'static str {
    if is_converted { "model_config" } else { "workflow.features" }
}

fn document(mut root: JsonMap, options: &ParseOptions, problems: &mut Problems) -> Option<Document> {
    let converted = convert(&mut root, options.migrations, problems);
    if converted.is_none() && options.migrations == Migrations::On && simple_app::is_one(&root) {
        // The reason why it cannot be converted is reported.
        return None;
    }
    let mut app = app::take_apart(root, problems);
    let (environment, conversation, features, run_options) = problems.within("workflow", |problems| {
        let environment = variables::read(&app.workflow, Scope::Environment, problems);
        let conversation = variables::read(&app.workflow, Scope::Conversation, problems);
        let features = optional_mapping(&mut app.workflow, "features", problems);
        (environment, conversation, features, optional_mapping(&mut app.workflow, "tidemill", problems))
    });
    problems.within(features_place(converted.is_some()), |problems| {
        moderation::warn(&features, problems);
        features::warn(&features, options.served, problems);
    });
    let (graph_path, mut graph) = app.graph?;
    problems.within(graph_path, |problems| normal_form::warn_of_unread_keys(&graph, problems));
    normal_form::apply(&mut graph, options.migrations);
    if app.is_bare {
        normal_form::apply_bare(&mut graph);
    }
    normal_form::retries::apply(&mut graph, options.retries, app.is_bare);
    let ((nodes, refused), edges) = problems.within(graph_path, |problems| {
        (elements::nodes(&mut graph, problems), elements::edges(&mut graph, problems))
    });
    Some(Document {
        version: app.version,
        name: app.name,
        description: app.description,
        mode: app.mode.unwrap_or_else(|| suggested_mode(&nodes)),
        nodes,
        refused,
        edges,
        environment,
        conversation,
        features,
        options: run_options,
        front: Front { mode: converted, ..app.front },
        graph_path,
    })
}

fn optional_mapping(workflow: &mut JsonMap, key: &str, problems: &mut Problems) -> JsonMap {
    match workflow.get_mut(key).map(Json::take) {
        Some(Json::Object(map)) => map,
        None | Some(Json::Null) => JsonMap::new(),
        Some(other) => {
            let message = format!("`{key}` must be a mapping, not {}", fields::kind_of(&other));
            problems.within(key, |problems| problems.error("graph.invalid_workflow", message));
            JsonMap::new()
        }
    }
}

/// Suggests the mode of a bare graph: chat when it has an `answer` node and no `end` node.
fn suggested_mode(nodes: &[DocumentNode]) -> AppMode {
    let has = |name: &str| nodes.iter().any(|node| node.type_name() == name);
    if has("answer") && !has("end") { AppMode::Chat } else { AppMode::Workflow }
}

#[cfg(test)]
mod tests;
