use serde_json::json;

use super::*;
use crate::nodes::llm::message::Message;
use crate::nodes::llm::params::Params;
use crate::nodes::llm::{ModelMode, Role};

fn model(provider: &str, name: &str) -> ModelConfig {
    ModelConfig {
        provider: provider.into(),
        name: name.into(),
        mode: ModelMode::Chat,
        completion_params: JsonMap::new(),
    }
}

fn facts(features: Option<&[&str]>) -> ModelFacts {
    let features = features.map(|features| features.iter().map(ToString::to_string).collect());
    ModelFacts { is_declared: features.is_some(), features, context_size: None }
}

fn read(schema: Json) -> Result<Schema, String> {
    let data = json!({"schema": schema});
    Schema::read(data.as_object().unwrap()).map_err(|failure| {
        assert_eq!(failure.error_type, "LLMNodeError");
        failure.message
    })
}

fn output(schema: Json, reply: &str) -> Result<Json, String> {
    read(schema).unwrap().output(reply).map(Json::Object).map_err(|failure| failure.message)
}

#[test]
fn capability_has_three_states_and_unknown_is_allowed() {
    let model = model("langgenius/openai/openai", "m");
    let check = |features: Option<&[&str]>| check_capability(&model, &facts(features)).map_err(|f| f.message);
    assert_eq!(check(None), Ok(()));
    assert_eq!(check(Some(&["vision", "structured-output"])), Ok(()));
    let refused = "Structured output is not supported by model openai/m (stage=capability)";
    for features in [&[][..], &["vision"]] {
        assert_eq!(check(Some(features)), Err(refused.into()));
    }
    // The table of known models does not refuse: it may be older than the model's API.
    let known = ModelFacts { features: Some(Vec::new()), ..ModelFacts::default() };
    assert_eq!(check_capability(&model, &known), Ok(()));
}

#[test]
fn a_schema_is_checked_before_the_model_is_called() {
    let failed = |schema: Json| read(schema).unwrap_err();
    for schema in [json!(null), json!([]), json!("{}")] {
        let message =
            "Invalid structured output schema (stage=schema, path=$.schema): expected a JSON object";
        assert_eq!(failed(schema), message);
    }
    let message = failed(json!({"type": "strange"}));
    assert!(
        message.starts_with("Invalid structured output schema (stage=schema, path=$.type): "),
        "{message}"
    );
    let message = failed(json!({"properties": {"a": {"required": "a"}}}));
    assert!(message.contains("path=$.properties.a.required"), "{message}");
}

#[test]
fn a_reply_is_read_strictly_and_then_with_good_will() {
    for (reply, expected) in [
        ("{\"a\": 1}", Some(json!({"a": 1}))),
        ("```json\n{\"a\": 1}\n```", Some(json!({"a": 1}))),
        ("{a: 1, 'b': 2,}", Some(json!({"a": 1, "b": 2}))),
        ("{\"a\": [1, 2", Some(json!({"a": [1, 2]}))),
        ("[1, {\"a\": 1}]", Some(json!({"a": 1}))),
        ("[1, 2]", Some(json!({}))),
        ("5", None),
        ("not json", None),
        ("", None),
    ] {
        match output(json!({}), reply) {
            Ok(value) => assert_eq!(Some(value), expected, "{reply}"),
            Err(message) => {
                assert_eq!(expected, None, "{reply}");
                let error = format!("Failed to parse structured output: {reply}");
                assert_eq!(
                    message,
                    format!("Failed to parse structured output (stage=result, path=$): {error}")
                );
            }
        }
    }
}

#[test]
fn a_mismatch_is_reported_with_its_path() {
    let schema = json!({
        "type": "object", "required": ["profile"], "properties": {"profile": {
            "type": "object", "required": ["role"], "properties": {
                "role": {"enum": ["admin"]}, "scores": {"type": "array", "items": {"type": "integer"}},
                "odd name": {"type": "string"}
            }
        }}
    });
    for (reply, expected) in [
        (json!({}), "path=$): 'profile' is a required property"),
        (json!({"profile": {}}), "path=$.profile): 'role' is a required property"),
        (json!({"profile": {"role": "x"}}), "path=$.profile.role): 'x' is not one of ['admin']"),
        (
            json!({"profile": {"role": "admin", "scores": [1, "two"]}}),
            "path=$.profile.scores[1]): 'two' is not of type 'integer'",
        ),
        (
            json!({"profile": {"role": "admin", "odd name": 1}}),
            "path=$.profile['odd name']): 1 is not of type 'string'",
        ),
    ] {
        let message = output(schema.clone(), &reply.to_string()).unwrap_err();
        assert_eq!(message, format!("Structured output validation failed (stage=result, {expected}"));
    }
}

#[test]
fn references_are_followed_within_the_schema_and_never_elsewhere() {
    let local =
        json!({"properties": {"a": {"$ref": "#/definitions/n"}}, "definitions": {"n": {"type": "integer"}}});
    assert_eq!(output(local.clone(), "{\"a\": 1}"), Ok(json!({"a": 1})));
    assert!(output(local, "{\"a\": \"x\"}").unwrap_err().contains("path=$.a)"));
    let unresolved =
        "Structured output validation failed (stage=result, path=$): schema reference could not be resolved";
    for reference in ["http://example.com/schema.json", "#/definitions/gone", "other.json"] {
        let schema = json!({"properties": {"a": {"$ref": reference}}});
        assert_eq!(output(schema, "{\"a\": 1}").unwrap_err(), unresolved, "{reference}");
    }
}

#[test]
fn a_model_that_takes_schemas_is_given_it_in_the_shape_of_its_api() {
    let json = json!({"type": "object", "additionalProperties": false, "properties": {"a": {"additionalProperties": true}}});
    for (provider, name, expected) in [
        ("langgenius/openai/openai", "gpt", json!({"schema": json, "name": "llm_response"})),
        ("langgenius/ollama/ollama", "llama", json.clone()),
        ("langgenius/gemini/google", "gemini-2", json!({"type": "object", "properties": {"a": {}}})),
    ] {
        let (mut messages, mut params) = (vec![Message::text(Role::User, "q")], Params::default());
        let schema = read(json.clone()).unwrap();
        schema.ask_for(&model(provider, name), &facts(Some(&[FEATURE])), &mut messages, &mut params);
        assert_eq!(messages, [Message::text(Role::User, "q")]);
        assert_eq!(params.values["response_format"], "json_schema");
        let sent: Json = serde_json::from_str(params.values["json_schema"].as_str().unwrap()).unwrap();
        assert_eq!(sent, expected, "{provider}");
    }
}

#[test]
fn any_other_model_gets_the_schema_in_a_system_message() {
    let schema = read(json!({"type": "object"})).unwrap();
    let with_schema = |mut messages: Vec<Message>| {
        let mut params = Params::default();
        schema.ask_for(&model("p", "m"), &facts(None), &mut messages, &mut params);
        assert_eq!(params, Params::default());
        messages
    };
    let messages = with_schema(vec![Message::text(Role::User, "q")]);
    assert_eq!(messages.iter().map(|m| m.role).collect::<Vec<_>>(), [Role::System, Role::User]);
    assert!(messages[0].joined_text().contains("{\"type\":\"object\"}"));
    let messages = with_schema(vec![Message::text(Role::System, "be kind"), Message::text(Role::User, "q")]);
    assert_eq!(messages.len(), 2);
    assert!(messages[0].joined_text().ends_with("</schema>\n\nbe kind"), "{:?}", messages[0]);
    assert_eq!(messages[0].parts.len(), 1);
}
