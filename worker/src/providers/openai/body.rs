//! The JSON body of a chat request.

use serde_json::{Map, Value as Json, json};

use crate::providers::{ChatRequest, ErrorClass, ModelError};

/// Writes the body. What the client sets itself wins over parameters of the same name.
pub(super) fn write(request: &ChatRequest, stream_usage: bool) -> Result<String, ModelError> {
    let messages: Vec<Json> =
        request.messages.iter().map(|m| json!({"role": m.role.name(), "content": m.joined_text()})).collect();
    let mut body = Map::new();
    body.insert("model".into(), json!(request.model));
    body.insert("messages".into(), Json::Array(messages));
    for (key, value) in &request.params {
        if !matches!(key.as_str(), "model" | "messages" | "stream" | "stream_options") {
            body.insert(key.clone(), value.clone());
        }
    }
    response_format(&request.label, &mut body)?;
    if !request.stop.is_empty() {
        body.insert("stop".into(), json!(request.stop));
    }
    body.insert("stream".into(), json!(true));
    if stream_usage {
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Ok(Json::Object(body).to_string())
}

/// Workflows hold `response_format` as a word and `json_schema` as JSON text beside it (Dify); the API wants one
/// object.
fn response_format(label: &str, body: &mut Map<String, Json>) -> Result<(), ModelError> {
    let schema = body.shift_remove("json_schema");
    let Some(Json::String(format)) = body.get("response_format").cloned() else { return Ok(()) };
    let mut object = json!({"type": format});
    if format == "json_schema" {
        let schema = match schema {
            Some(Json::String(text)) => serde_json::from_str(&text).map_err(|error| {
                let cause = format!("the parameter json_schema is not JSON: {error}");
                ModelError::new(label, ErrorClass::BadRequest, &cause)
            })?,
            Some(schema) => schema,
            None => Json::Null,
        };
        object["json_schema"] = schema;
    }
    body.insert("response_format".into(), object);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::nodes::llm::message::Message;
    use tidemill_common::nodes::llm::{ModelMode, Role};

    fn body(params: Json, stop: &[&str]) -> Result<Json, ModelError> {
        let Json::Object(params) = params else { panic!("parameters are an object") };
        let request = ChatRequest {
            label: "p".into(),
            model: "m".into(),
            messages: vec![Message::text(Role::User, "hi")],
            params,
            stop: stop.iter().map(ToString::to_string).collect(),
            tools: Vec::new(),
            mode: ModelMode::Chat,
            stream: true,
        };
        write(&request, true).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn parameters_stand_beside_what_the_client_sets() {
        assert_eq!(
            body(json!({"temperature": 0.5, "stream": false, "model": "x"}), &["END"]).unwrap(),
            json!({
                "model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5, "stop": ["END"],
                "stream": true, "stream_options": {"include_usage": true}
            })
        );
        assert_eq!(body(json!({}), &[]).unwrap().get("stop"), None);
    }

    #[test]
    fn a_response_format_becomes_an_object_and_a_stray_schema_is_dropped() {
        for (params, expected) in [
            (json!({"response_format": "json_object", "json_schema": "{}"}), json!({"type": "json_object"})),
            (
                json!({"response_format": "json_schema", "json_schema": "{\"name\":\"n\"}"}),
                json!({"type": "json_schema", "json_schema": {"name": "n"}}),
            ),
            (json!({"response_format": {"type": "text"}}), json!({"type": "text"})),
            (json!({"json_schema": "{}"}), json!(null)),
        ] {
            let body = body(params.clone(), &[]).unwrap();
            assert_eq!(body["response_format"], expected, "{params}");
            assert_eq!(body.get("json_schema"), None);
        }
        let error = body(json!({"response_format": "json_schema", "json_schema": "{"}), &[]).unwrap_err();
        assert_eq!(error.class.error_type(), "InvokeBadRequestError");
    }
}
