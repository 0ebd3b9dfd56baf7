//! An outgoing call: what Dify checks of its configuration when a file comes in.

use serde_json::Value as Json;

use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields, kind_of};
use crate::value::JsonMap;

// All lower or all upper case, never mixed.
const METHODS: [&str; 14] = [
    "get", "post", "put", "patch", "delete", "head", "options", "GET", "POST", "PUT", "PATCH", "DELETE",
    "HEAD", "OPTIONS",
];
const BODY_TYPES: [&str; 6] = ["none", "form-data", "x-www-form-urlencoded", "raw-text", "json", "binary"];

/// Reports what is wrong with `data` of an http-request node.
pub(super) fn check(data: &JsonMap, problems: &mut Problems) {
    let fields = Fields::new(data, BUILD_FAILED);
    fields.one_of("method", &METHODS, problems);
    for key in ["url", "headers", "params"] {
        fields.text(key, problems);
    }
    match data.get("authorization").and_then(Json::as_object) {
        Some(given) => problems.within("authorization", |problems| authorization(given, problems)),
        None => fields.wrong("authorization", "a mapping", problems),
    }
    match fields.given("body") {
        None => {}
        Some(Json::Object(given)) => problems.within("body", |problems| body(given, problems)),
        Some(_) => fields.wrong("body", "a mapping or null", problems),
    }
    if fields.given("ssl_verify").is_some() {
        fields.boolean("ssl_verify", true, problems);
    }
}

fn authorization(given: &JsonMap, problems: &mut Problems) {
    let fields = Fields::new(given, BUILD_FAILED);
    let kind = fields.one_of("type", &["no-auth", "api-key"], problems);
    // An absent config is an error of the run, not of the file.
    if kind != Some("api-key") || !given.contains_key("config") {
        return;
    }
    match given.get("config").and_then(Json::as_object) {
        Some(config) => problems.within("config", |problems| {
            let fields = Fields::new(config, BUILD_FAILED);
            fields.one_of("type", &["basic", "bearer", "custom"], problems);
            fields.text("api_key", problems);
        }),
        None => problems.within("config", |problems| problems.error(BUILD_FAILED, "config should be a dict")),
    }
}

fn body(given: &JsonMap, problems: &mut Problems) {
    let fields = Fields::new(given, BUILD_FAILED);
    fields.one_of("type", &BODY_TYPES, problems);
    let items = match fields.given("data") {
        Some(Json::Array(items)) => items,
        // A text is the old form; what is empty in any way is no body.
        None | Some(Json::String(_) | Json::Bool(false)) => return,
        Some(_) => return fields.wrong("data", "a list or a text", problems),
    };
    for (at, item) in items.iter().enumerate() {
        problems.within(format!("data[{at}]"), |problems| match item.as_object() {
            Some(item) => _ = Fields::new(item, BUILD_FAILED).one_of("type", &["file", "text"], problems),
            None => problems.error(BUILD_FAILED, format!("an item must be a mapping, not {}", kind_of(item))),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::tests::paths_of;
    use super::*;
    use serde_json::json;

    #[test]
    fn each_wrong_field_is_reported_at_its_path() {
        let right = json!({
            "method": "get", "url": "u", "headers": "", "params": "", "authorization": {"type": "no-auth", "config": null},
            "body": {"type": "json", "data": [{"key": "", "type": "text", "value": "{}"}]}, "ssl_verify": true,
        });
        assert_eq!(paths_of(check, right.clone()), Vec::<String>::new());
        for (key, value, path) in [
            ("method", json!("Get"), "method"),
            ("url", json!(null), "url"),
            ("headers", json!({}), "headers"),
            ("authorization", json!(null), "authorization"),
            ("authorization", json!({"type": "oauth"}), "authorization.type"),
            ("authorization", json!({"type": "api-key", "config": null}), "authorization.config"),
            (
                "authorization",
                json!({"type": "api-key", "config": {"type": "bearer"}}),
                "authorization.config.api_key",
            ),
            ("body", json!([]), "body"),
            ("body", json!({"type": "xml"}), "body.type"),
            ("body", json!({"type": "json", "data": 5}), "body.data"),
            ("body", json!({"type": "json", "data": [{"type": "x"}]}), "body.data[0].type"),
            ("ssl_verify", json!("x"), "ssl_verify"),
        ] {
            let mut data = right.clone();
            data[key] = value;
            assert_eq!(paths_of(check, data), [path]);
        }
    }
}
