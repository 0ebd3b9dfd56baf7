//! Detects the shape of a workflow file (app export or bare graph) and finds the graph in it.

use serde_json::Value as Json;

use super::document::AppMode;
use super::front::Front;
use super::{Problems, suggest, version};
use tidemill_base::value::JsonMap;

/// The parts of a file.
#[derive(Default)]
pub(super) struct App {
    /// `version` of an app export; empty for a bare graph.
    pub(super) version: String,
    /// `app.name`.
    pub(super) name: String,
    /// `app.description`.
    pub(super) description: String,
    /// `app.mode`; `None` for a bare graph, which has no mode.
    pub(super) mode: Option<AppMode>,
    /// `workflow`; empty for shapes that have none.
    pub(super) workflow: JsonMap,
    /// The graph and the path to it.
    pub(super) graph: Option<(&'static str, JsonMap)>,
    /// What only clients see.
    pub(super) front: Front,
    /// True for a graph without an app around it.
    pub(super) is_bare: bool,
}

/// The paths at which a bare graph may be. The empty path is the file itself.
const BARE_PATHS: [&str; 4] = ["workflow.graph", "graph_config", "graph", ""];

/// Splits a file into its parts: an app export, or one of the bare shapes.
pub(super) fn take_apart(mut root: JsonMap, problems: &mut Problems) -> App {
    match kind(&root, problems) {
        Kind::App => app(root, problems),
        Kind::Graph => {
            let workflow = take_mapping(&mut root, "workflow").unwrap_or_default();
            bare(root, workflow, problems)
        }
        Kind::Other => App::default(),
    }
}

enum Kind {
    App,
    Graph,
    Other,
}

fn kind(root: &JsonMap, problems: &mut Problems) -> Kind {
    let is_bare = ["graph_config", "graph", "nodes"].iter().any(|key| root.contains_key(*key));
    let is_app = root.contains_key("app") || root.contains_key("workflow");
    match root.get("kind") {
        Some(Json::String(kind)) if kind == "app" => Kind::App,
        Some(Json::String(kind)) if kind == "graph" => Kind::Graph,
        // Dify reads it so, too.
        None | Some(Json::Null) if is_app => Kind::App,
        None | Some(Json::Null) if is_bare => Kind::Graph,
        None | Some(Json::Null) => {
            let hint =
                "a file begins with `kind: app` as Dify exports it, or is a graph of `nodes` and `edges`";
            problems.error_with_hint("kind.missing", "DSL kind is required.", hint);
            Kind::Other
        }
        Some(Json::String(kind)) if kind == "rag_pipeline" => {
            problems.within("kind", |problems| {
                problems.error("plan.unsupported", "a file of kind rag_pipeline cannot be run");
            });
            Kind::Other
        }
        Some(other) => {
            let hint = other.as_str().and_then(|kind| suggest::hint(kind, ["app", "graph"]));
            let hint = hint.unwrap_or_else(|| "the kinds that can be run are app and graph".into());
            problems.within("kind", |problems| {
                problems.error_with_hint(
                    "kind.unsupported",
                    format!("the kind {other} is not supported"),
                    hint,
                );
            });
            if is_app { Kind::App } else { Kind::Other }
        }
    }
}

fn app(mut root: JsonMap, problems: &mut Problems) -> App {
    let version = version::read(root.get("version"), problems);
    let app = take_mapping(&mut root, "app");
    let mode = match &app {
        Some(app) => problems.within("app", |problems| mode(app, problems)),
        None => {
            problems.error("kind.missing_app", "Missing app data: the file has no mapping `app`");
            None
        }
    };
    let has_workflow = root.contains_key("workflow");
    let workflow = take_mapping(&mut root, "workflow");
    // A chat or agent app has a `model_config` instead; its unsupported mode is already reported.
    if workflow.is_none() && (mode.is_some() || has_workflow || app.is_none()) {
        let message = "Missing workflow data: the file has no mapping `workflow`";
        problems.error("graph.missing_workflow", message);
    }
    let mut workflow = workflow.unwrap_or_default();
    let graph = take_mapping(&mut workflow, "graph").map(|graph| ("workflow.graph", graph));
    if graph.is_none() && !workflow.is_empty() || (graph.is_none() && has_workflow) {
        problems.within("workflow", |problems| {
            problems.error("graph.missing", "the workflow has no mapping `graph`");
        });
    }
    let text = |key: &str| app.as_ref().and_then(|app| app.get(key)).and_then(Json::as_str);
    App {
        version,
        name: text("name").unwrap_or_default().into(),
        description: text("description").unwrap_or_default().into(),
        mode,
        workflow,
        graph,
        front: app.as_ref().map(Front::of).unwrap_or_default(),
        is_bare: false,
    }
}

fn mode(app: &JsonMap, problems: &mut Problems) -> Option<AppMode> {
    let found = match app.get("mode") {
        Some(Json::String(mode)) if mode == AppMode::Workflow.name() => return Some(AppMode::Workflow),
        Some(Json::String(mode)) if mode == AppMode::Chat.name() => return Some(AppMode::Chat),
        Some(mode) => format!("an app of mode {mode} cannot be run"),
        None => "the app has no `mode`".into(),
    };
    problems.within("mode", |problems| {
        problems.error_with_hint(
            "plan.unsupported",
            found,
            "the modes that can be run are workflow, advanced-chat, chat, agent-chat and completion",
        );
    });
    None
}

fn bare(mut root: JsonMap, mut workflow: JsonMap, problems: &mut Problems) -> App {
    // Dify's editor exports a draft with the features next to the graph.
    if !workflow.contains_key("features")
        && let Some(features) = take_mapping(&mut root, "features")
    {
        workflow.insert("features".into(), features.into());
    }
    let mut graph = None;
    for path in BARE_PATHS {
        let found = match path {
            "workflow.graph" => take_mapping(&mut workflow, "graph"),
            "" => root.contains_key("nodes").then(|| std::mem::take(&mut root)),
            key => take_mapping(&mut root, key),
        };
        if let Some(found) = found {
            graph = Some((path, found));
            break;
        }
    }
    if graph.is_none() {
        problems.error("graph.missing", "the file has no graph of `nodes` and `edges`");
    }
    App { workflow, graph, is_bare: true, ..App::default() }
}

fn take_mapping(map: &mut JsonMap, key: &str) -> Option<JsonMap> {
    match map.get_mut(key) {
        Some(Json::Object(inner)) => Some(std::mem::take(inner)),
        Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) | None => None,
    }
}
