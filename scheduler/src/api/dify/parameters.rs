//! The parts of an app that front-ends show, in Dify's forms: its form, its page, and the icons of its tools.

use serde_json::{Map, Value as Json, json};
use tidemill_common::dsl::{Document, DocumentNode};
use tidemill_common::graph::{Front, SimpleMode};
use tidemill_common::nodes::tool::form::shown;
use tidemill_common::value::JsonMap;
use tidemill_common::workflows::WorkflowError;

use crate::workflows::{GraphError, Workflow};

/// Kinds of tools for which Dify has icons.
const WITH_ICON: [&str; 2] = ["builtin", "api"];

/// The fields of the form, each with its kind as the key. A field is as the file has it.
pub(super) fn form(workflow: &Workflow) -> Result<Vec<Json>, GraphError> {
    let graph = &workflow.graph;
    let root = graph.node(graph.root);
    if root.data.form_fields().is_empty() {
        return Ok(Vec::new());
    }
    let document = document(workflow)?;
    let start = document.nodes.iter().find(|node| node.id == root.id.as_str());
    Ok(start.map(|node| shown(&node.data, graph.front.mode.is_some())).unwrap_or_default())
}

/// The icon of each tool, by the tool's name: the one in the file, else the one that Dify shows for a tool without one.
pub(super) fn tool_icons(workflow: &Workflow) -> Result<Map<String, Json>, GraphError> {
    let document = document(workflow)?;
    let mut icons = Map::new();
    for node in &document.nodes {
        let tools = match (node.type_name(), document.front.mode) {
            ("tool", _) => vec![&node.data],
            ("agent", Some(SimpleMode::AgentChat)) => of_agent(node),
            _ => Vec::new(),
        };
        for tool in tools {
            let text = |key: &str| tool.get(key).and_then(Json::as_str).unwrap_or_default();
            let kind = if tool.contains_key("provider_type") { text("provider_type") } else { text("type") };
            if WITH_ICON.contains(&kind) && !text("tool_name").is_empty() {
                icons.insert(text("tool_name").to_owned(), icon(tool));
            }
        }
    }
    Ok(icons)
}

fn of_agent(node: &DocumentNode) -> Vec<&JsonMap> {
    let tools = node.data.get("agent_parameters").and_then(|all| all.get("tools")?.get("value")?.as_array());
    tools.into_iter().flatten().filter_map(Json::as_object).collect()
}

fn icon(tool: &JsonMap) -> Json {
    let given = ["provider_icon", "icon"].iter().find_map(|key| tool.get(*key));
    let given = given.filter(|icon| icon.is_object() || icon.as_str().is_some_and(|text| !text.is_empty()));
    given.cloned().unwrap_or_else(|| json!({"background": "#252525", "content": "\u{1F601}"}))
}

/// The page of an app, with Dify's values for what the file does not say.
pub(super) fn site_of(name: &str, front: &Front) -> Json {
    let or = |key: &str, absent: Json| front.shown.get(key).cloned().unwrap_or(absent);
    let (kind, icon) = (or("icon_type", "emoji".into()), or("icon", "".into()));
    // Dify's own files of icons are not in an export.
    let url = icon.as_str().filter(|icon| kind != "emoji" && icon.starts_with("http"));
    json!({
        "title": name,
        "chat_color_theme": or("chat_color_theme", Json::Null),
        "chat_color_theme_inverted": or("chat_color_theme_inverted", false.into()),
        "icon_type": kind,
        "icon": icon,
        "icon_background": or("icon_background", Json::Null),
        "icon_url": url,
        "description": null,
        "copyright": or("copyright", Json::Null),
        "privacy_policy": or("privacy_policy", Json::Null),
        "input_placeholder": or("input_placeholder", Json::Null),
        "custom_disclaimer": or("custom_disclaimer", "".into()),
        "default_language": or("default_language", "en-US".into()),
        "show_workflow_steps": or("show_workflow_steps", true.into()),
        "use_icon_as_answer_icon": or("use_icon_as_answer_icon", false.into()),
    })
}

/// The names of the app's tags.
pub(super) fn tags_of(front: &Front) -> Vec<&str> {
    let tags = front.shown.get("tags").and_then(Json::as_array).into_iter().flatten();
    tags.filter_map(|tag| tag.as_str().or_else(|| tag.get("name")?.as_str())).collect()
}

fn document(workflow: &Workflow) -> Result<Document, GraphError> {
    let unreadable = |problem: tidemill_common::dsl::Diagnostic| WorkflowError::Unreadable {
        hash: workflow.graph.hash.clone(),
        reason: problem.to_string(),
    };
    Ok(Document::from_stored(&workflow.document).map_err(unreadable)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(shown: Json) -> Front {
        Front { mode: None, shown: shown.as_object().cloned().expect("fields") }
    }

    #[test]
    fn a_page_has_all_of_difys_fields_and_the_files_values() {
        let plain = site_of("Tide", &Front::default());
        assert_eq!(
            plain.to_string(),
            r#"{"title":"Tide","chat_color_theme":null,"chat_color_theme_inverted":false,"icon_type":"emoji","icon":"","icon_background":null,"icon_url":null,"description":null,"copyright":null,"privacy_policy":null,"input_placeholder":null,"custom_disclaimer":"","default_language":"en-US","show_workflow_steps":true,"use_icon_as_answer_icon":false}"#
        );
        let shown =
            front(json!({"icon": "robot", "icon_background": "#FFEAD5", "use_icon_as_answer_icon": true}));
        let page = site_of("Tide", &shown);
        assert_eq!(
            (&page["icon"], &page["icon_background"], &page["use_icon_as_answer_icon"], &page["icon_url"]),
            (&json!("robot"), &json!("#FFEAD5"), &json!(true), &Json::Null)
        );
        let linked = site_of("Tide", &front(json!({"icon_type": "link", "icon": "https://a.example/i.png"})));
        assert_eq!(linked["icon_url"], "https://a.example/i.png");
    }

    #[test]
    fn tags_are_names_in_either_spelling() {
        assert_eq!(tags_of(&front(json!({"tags": ["one", {"id": "1", "name": "two"}, 3]}))), ["one", "two"]);
        assert!(tags_of(&Front::default()).is_empty());
    }
}
