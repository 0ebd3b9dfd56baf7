//! Asks a model for a reply that fits a schema: by parameters if it accepts a schema, otherwise in words.

use serde_json::{Value as Json, json};

use super::{FEATURE, Schema};
use crate::nodes::llm::message::{Message, MessagePart, ModelFacts};
use crate::nodes::llm::params::Params;
use crate::nodes::llm::{ModelConfig, Role};

impl Schema {
    /// Adds the schema to a request. As on Dify the record of the prompt does not show this.
    pub fn ask_for(
        &self,
        model: &ModelConfig,
        facts: &ModelFacts,
        messages: &mut Vec<Message>,
        params: &mut Params,
    ) {
        if facts.has(FEATURE) {
            params.values.insert("json_schema".into(), json!(self.parameter(model).to_string()));
            params.values.insert("response_format".into(), json!("json_schema"));
        } else {
            self.ask_in_words(messages);
        }
    }

    /// The schema in the format of the model's API (Dify's rules).
    fn parameter(&self, model: &ModelConfig) -> Json {
        if model.name.contains("gemini") {
            return without_additional_properties(&self.json);
        }
        if model.provider.contains("ollama") {
            return self.json.clone();
        }
        json!({"schema": self.json, "name": "llm_response"})
    }

    /// The workflow's instructions stay, after ours.
    fn ask_in_words(&self, messages: &mut Vec<Message>) {
        let words = format!(
            "Answer with one JSON value and nothing else: no explanation, no Markdown fence, no text before or behind it. \
             It must be valid under the JSON schema between the <schema> tags: keep its names exactly as they are, leave \
             out no property that it requires, and use the types that it states.\n\n<schema>\n{}\n</schema>",
            self.json
        );
        match messages.first_mut().filter(|first| first.role == Role::System) {
            Some(system) => system.parts.insert(0, MessagePart::Text(format!("{words}\n\n"))),
            None => messages.insert(0, Message::text(Role::System, words)),
        }
        if let Some(system) = messages.first_mut() {
            *system = Message { parts: vec![MessagePart::Text(system.joined_text())], ..system.clone() };
        }
    }
}

fn without_additional_properties(schema: &Json) -> Json {
    match schema {
        Json::Object(map) => {
            let allowed = map.iter().filter(|(key, _)| *key != "additionalProperties");
            allowed.map(|(key, value)| (key.clone(), without_additional_properties(value))).collect()
        }
        Json::Array(items) => items.iter().map(without_additional_properties).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => schema.clone(),
    }
}
