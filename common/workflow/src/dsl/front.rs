//! The part of an app that only its clients see: its icon, the texts of its page, its tags, and the mode that a converted app
//! had in its file. The engine never reads it.

use serde_json::{Value as Json, json};

use super::simple_app::SimpleMode;
use tidemill_base::value::JsonMap;

/// The fields of `app` that are kept. The first four are in Dify's exports; the others may be added to a file.
const KEPT: [&str; 14] = [
    "icon_type",
    "icon",
    "icon_background",
    "use_icon_as_answer_icon",
    "author_name",
    "tags",
    "chat_color_theme",
    "chat_color_theme_inverted",
    "copyright",
    "privacy_policy",
    "input_placeholder",
    "custom_disclaimer",
    "default_language",
    "show_workflow_steps",
];

/// What clients see of an app, besides its name, its description and its form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Front {
    /// The mode in the file, if the app was converted.
    pub mode: Option<SimpleMode>,
    /// Fields of `app` with Dify's names, unchanged. Fields that are null are left out.
    pub shown: JsonMap,
}

impl Front {
    /// Reads the mapping `app` of a file.
    pub(super) fn of(app: &JsonMap) -> Self {
        let is_kept = |(key, value): &(&String, &Json)| KEPT.contains(&key.as_str()) && !value.is_null();
        let shown = app.iter().filter(is_kept).map(|(key, value)| (key.clone(), value.clone()));
        Self { mode: None, shown: shown.collect() }
    }

    /// The form in a stored document. `None` if there is nothing to store: documents of older versions have no such field.
    pub(super) fn to_stored(&self) -> Option<Json> {
        let mode = self.mode.map(SimpleMode::name);
        (*self != Self::default()).then(|| json!({"mode": mode, "shown": self.shown}))
    }

    /// Reads the form in a stored document. A mode that this version does not know is left out.
    pub(super) fn from_stored(stored: Option<&Json>) -> Self {
        let part = |key: &str| stored.and_then(|stored| stored.get(key));
        Self {
            mode: part("mode").and_then(Json::as_str).and_then(SimpleMode::from_name),
            shown: part("shown").and_then(Json::as_object).cloned().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::dsl::{AppMode, Document, SimpleMode};
    use crate::graph;

    const CHAT: &str = "kind: app
version: 0.1.5
app: {mode: chat, name: Help, icon: robot, icon_type: emoji, icon_background: null, max_active_requests: 3}
model_config:
  model: {provider: openai, name: gpt-4o, mode: chat, completion_params: {}}
  pre_prompt: Help.
";

    #[test]
    fn a_converted_app_keeps_its_mode_and_its_icon_also_when_it_is_stored() {
        let imported = graph::import(CHAT.as_bytes());
        let document = imported.document.unwrap();
        let stored = Document::from_stored(&document.canonical()).unwrap();
        for front in [&document.front, &stored.front, &imported.graph.unwrap().front] {
            assert_eq!(front.mode, Some(SimpleMode::Chat));
            let shown = front.shown.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap()));
            assert_eq!(shown.collect::<Vec<_>>(), [("icon", "robot"), ("icon_type", "emoji")]);
        }
        assert_eq!((stored.mode, stored.app_mode()), (AppMode::Chat, "chat"));
    }

    #[test]
    fn an_app_with_nothing_to_keep_is_stored_as_before() {
        let text = "kind: app\nversion: 0.6.0\napp: {mode: workflow, name: x}\nworkflow: {graph: {nodes: [{id: s, data: {type: start, title: s, variables: []}}], edges: []}}";
        let document = graph::import(text.as_bytes()).document.unwrap();
        assert!(!document.canonical().contains("front"));
        assert_eq!(document.app_mode(), "workflow");
    }
}
