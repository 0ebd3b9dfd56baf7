//! Converts apps without a workflow (modes `chat`, `agent-chat` and `completion`) into an equivalent chatflow or workflow,
//! as Dify's own "switch to workflow" does: a start node with the form, a knowledge retrieval if there are datasets, a
//! model or an agent, and an answer or an end.
//!
//! An app that cannot be converted stays as it is, and the reason is one sentence. `compat.editor_migrations` switches
//! the conversion off.

mod agent;
mod knowledge;
mod prompt;
mod start;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use super::Problems;
use crate::kinds::SOURCE_HANDLE;
use tidemill_base::value::JsonMap;

/// The id of the start node, which texts name.
const START: &str = "start";
/// The id of the node that searches the datasets.
const KNOWLEDGE: &str = "knowledge_retrieval";
/// Distance between nodes on the canvas of Dify's editor.
const DISTANCE: usize = 300;
/// The advice for an app that cannot be converted.
const BY_DIFY: &str =
    "switch the app to a workflow in Dify (Switch to Workflow Orchestrate), and export that";

/// The features that a chatflow keeps.
const FEATURES: [&str; 9] = [
    "opening_statement",
    "suggested_questions",
    "suggested_questions_after_answer",
    "speech_to_text",
    "text_to_speech",
    "file_upload",
    "sensitive_word_avoidance",
    "retriever_resource",
    "annotation_reply",
];
/// The features that the workflow of a completion app keeps.
const FEATURES_OF_COMPLETION: [&str; 8] = [
    "opening_statement",
    "suggested_questions",
    "speech_to_text",
    "text_to_speech",
    "file_upload",
    "sensitive_word_avoidance",
    "retriever_resource",
    "more_like_this",
];

/// An app mode without a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SimpleMode {
    /// A model with a memory (`chat`).
    Chat,
    /// A model that calls tools (`agent-chat`).
    AgentChat,
    /// A prompt with a form, and no conversation (`completion`).
    Completion,
}

impl SimpleMode {
    /// Returns the mode with this name of Dify's.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Chat, Self::AgentChat, Self::Completion].into_iter().find(|one| one.name() == name)
    }
    /// Returns Dify's name of the mode.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::AgentChat => "agent-chat",
            Self::Completion => "completion",
        }
    }
    /// The name of the rewrite that `tidemill check --explain` shows.
    pub(super) const fn rule(self) -> &'static str {
        match self {
            Self::Chat => "chat-app",
            Self::AgentChat => "agent-app",
            Self::Completion => "completion-app",
        }
    }
    /// The mode of the converted app.
    const fn converted(self) -> &'static str {
        match self {
            Self::Chat | Self::AgentChat => "advanced-chat",
            Self::Completion => "workflow",
        }
    }
}

/// Converts the app if it is one of these, and reports what is lost, or why it cannot be converted. Returns the mode
/// that the app had if the file was changed.
pub(super) fn convert(root: &mut JsonMap, problems: &mut Problems) -> Option<SimpleMode> {
    let mode = mode_of(root)?;
    let config = config_of(root)?;
    let workflow = match workflow_of(mode, config) {
        Ok(workflow) => workflow,
        Err(reason) => {
            problems.within("model_config", |problems| {
                let message = format!("an app of mode {} cannot be converted: {reason}", mode.name());
                problems.error_with_hint("app.not_convertible", message, BY_DIFY);
            });
            return None;
        }
    };
    let is_without_pictures = mode == SimpleMode::AgentChat && files_of(config).is_some();
    root.shift_remove("model_config");
    root.insert("workflow".into(), workflow);
    if let Some(app) = root.get_mut("app").and_then(Json::as_object_mut) {
        app.insert("mode".into(), mode.converted().into());
    }
    if is_without_pictures {
        problems.within("app.mode", |problems| {
            problems.warning(
                "app.pictures_left_out",
                "the app takes files, and an agent node does not send them to its model",
            );
        });
    }
    Some(mode)
}

/// True for an app that [`convert`] has not converted: its problem is reported already.
pub(super) fn is_one(root: &JsonMap) -> bool {
    mode_of(root).is_some() && config_of(root).is_some()
}

/// The settings of the app. Without any there is nothing to convert.
fn config_of(root: &JsonMap) -> Option<&JsonMap> {
    root.get("model_config").and_then(Json::as_object).filter(|config| !config.is_empty())
}

fn mode_of(root: &JsonMap) -> Option<SimpleMode> {
    if !matches!(root.get("kind"), None | Some(Json::Null)) && root.get("kind") != Some(&"app".into()) {
        return None;
    }
    SimpleMode::from_name(root.get("app")?.get("mode")?.as_str()?)
}

fn workflow_of(mode: SimpleMode, config: &JsonMap) -> Result<Json, String> {
    let form = start::Form::read(config)?;
    let datasets = knowledge::node(mode, config);
    let mut nodes = vec![(START, form.node())];
    let has_knowledge = datasets.is_some();
    nodes.extend(datasets.map(|data| (KNOWLEDGE, data)));
    match mode {
        SimpleMode::AgentChat => nodes.push(("agent", agent::node(config, &form, has_knowledge)?)),
        SimpleMode::Chat | SimpleMode::Completion => {
            nodes.push(("llm", prompt::node(mode, config, &form, has_knowledge)?));
        }
    }
    nodes.push(match mode {
        SimpleMode::Completion => {
            let outputs = json!([{"variable": "result", "value_selector": ["llm", "text"]}]);
            ("end", json!({"type": "end", "title": "End", "outputs": outputs}))
        }
        SimpleMode::Chat => {
            ("answer", json!({"type": "answer", "title": "Answer", "answer": "{{#llm.text#}}"}))
        }
        SimpleMode::AgentChat => {
            ("answer", json!({"type": "answer", "title": "Answer", "answer": "{{#agent.text#}}"}))
        }
    });
    let kept = if mode == SimpleMode::Completion { &FEATURES_OF_COMPLETION[..] } else { &FEATURES[..] };
    let features = kept.iter().filter_map(|name| {
        let feature = config.get(*name).filter(|feature| !feature.is_null())?;
        Some(((*name).to_owned(), feature.clone()))
    });
    Ok(json!({
        "graph": graph(nodes),
        "features": features.collect::<JsonMap>(),
        "environment_variables": [],
        "conversation_variables": [],
    }))
}

/// Builds a graph in which each node follows the one before.
fn graph(nodes: Vec<(&str, Json)>) -> Json {
    let edges: Vec<Json> = nodes
        .windows(2)
        .map(|pair| {
            let (source, target) = (pair[0].0, pair[1].0);
            json!({
                "id": format!("{source}-{target}"), "source": source, "target": target,
                "sourceHandle": SOURCE_HANDLE, "targetHandle": "target", "type": "custom",
            })
        })
        .collect();
    let nodes: Vec<Json> = nodes
        .into_iter()
        .enumerate()
        .map(|(at, (id, data))| {
            json!({"id": id, "type": "custom", "data": data, "position": {"x": at * DISTANCE, "y": 0}})
        })
        .collect();
    json!({"nodes": nodes, "edges": edges})
}

/// The model of the app: provider, name, mode, and parameters.
fn model_of(config: &JsonMap) -> Json {
    let model = config.get("model");
    let text = |key: &str| model.and_then(|model| model.get(key)?.as_str()).unwrap_or_default();
    let mode = if text("mode") == "completion" { "completion" } else { "chat" };
    let params = model.and_then(|model| model.get("completion_params")).filter(|params| params.is_object());
    let params = params.cloned().unwrap_or_else(|| json!({}));
    json!({"provider": text("provider"), "name": text("name"), "mode": mode, "completion_params": params})
}

/// The settings for the files of a message, if the app takes some.
fn files_of(config: &JsonMap) -> Option<&JsonMap> {
    let upload = config.get("file_upload")?.as_object()?;
    let is_on = |map: &JsonMap| map.get("enabled").and_then(Json::as_bool);
    let image = upload.get("image").and_then(Json::as_object);
    is_on(upload).or_else(|| is_on(image?)).unwrap_or(false).then_some(upload)
}

fn text<'a>(map: &'a JsonMap, key: &str) -> &'a str {
    map.get(key).and_then(Json::as_str).unwrap_or_default()
}
