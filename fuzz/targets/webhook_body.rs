//! A webhook request. First byte: the type of its body; second byte: the number of declared parameters; then the query,
//! a line feed, and the body. Form fields are `name=text`, separated by `&`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::json;
use tidemill_common::dsl::Problems;
use tidemill_common::nodes::trigger_webhook::{Body, Request, TriggerWebhookData};

const TYPES: [&str; 5] = [
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
    "text/plain",
    "application/octet-stream",
];

const PARAMETERS: [&str; 9] = [
    "string",
    "number",
    "boolean",
    "object",
    "array[string]",
    "array[number]",
    "array[boolean]",
    "array[object]",
    "file",
];

fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.to_string(), value.to_string())
    };
    text.split('&').map(pair).collect()
}

fuzz_target!(|bytes: &[u8]| {
    let [ty, declared, rest @ ..] = bytes else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let (query, content) = text.split_once('\n').unwrap_or(("", text));
    let ty = TYPES[usize::from(*ty) % TYPES.len()];
    // Names of one letter, which a fuzzer finds quickly.
    let named =
        PARAMETERS.iter().zip('a'..).map(|(ty, name)| json!({"name": name, "type": ty, "required": false}));
    let named: Vec<_> = named.take(usize::from(*declared) % (PARAMETERS.len() + 1)).collect();
    let params: Vec<_> = named.iter().take(3).cloned().collect();
    let data = json!({"method": "POST", "content_type": ty, "params": params, "headers": [], "body": named});
    let Some(map) = data.as_object() else { return };
    let Some(webhook) = TriggerWebhookData::parse(map, &mut Problems::new()) else { return };
    let body = match ty {
        "application/json" => Body::Json(content.into()),
        "text/plain" => Body::Text(content.into()),
        "application/octet-stream" => Body::Binary(content.len()),
        _ => Body::Form { fields: pairs(content), files: vec!["i".into()] },
    };
    let request = Request { headers: pairs(query), query: pairs(query), body };
    if let Ok(accepted) = webhook.accept(request) {
        let _ = accepted.inputs(vec![("i".into(), json!({}))]);
    }
});
