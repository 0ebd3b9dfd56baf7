//! Parses `data` of an `http-request` node into [`HttpRequestData`], or reports all its problems.

use serde_json::Value as Json;

use super::{Authorization, Body, BodyItem, BodyKind, HttpRequestData, KeyConfig, KeyScheme, Timeouts};
use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields, kind_of};
use tidemill_base::value::JsonMap;
use tidemill_base::value::lines::is_line_end;
use tidemill_base::value::template::Template;

// All in lower or all in upper case, never mixed.
const METHODS: [&str; 14] = [
    "get", "post", "put", "patch", "delete", "head", "options", "GET", "POST", "PUT", "PATCH", "DELETE",
    "HEAD", "OPTIONS",
];

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<HttpRequestData> {
    // All parts are read before any `?`, so that all mistakes are reported at once.
    let fields = Fields::new(data, BUILD_FAILED);
    let method = fields.one_of("method", &METHODS, problems);
    let url = fields.text("url", problems);
    let headers = fields.text("headers", problems);
    let params = fields.text("params", problems);
    let authorization = match data.get("authorization").and_then(Json::as_object) {
        Some(given) => problems.within("authorization", |problems| authorization(given, problems)),
        None => {
            fields.wrong("authorization", "a mapping", problems);
            None
        }
    };
    let body = match fields.given("body") {
        None => Some(None),
        Some(Json::Object(given)) => problems.within("body", |problems| body(given, problems)).map(Some),
        Some(_) => {
            fields.wrong("body", "a mapping or null", problems);
            None
        }
    };
    let timeouts = match fields.given("timeout") {
        None => Some(Timeouts::default()),
        Some(Json::Object(given)) => problems.within("timeout", |problems| timeouts(given, problems)),
        Some(_) => {
            fields.wrong("timeout", "a mapping or null", problems);
            None
        }
    };
    let ssl_verify = match fields.given("ssl_verify") {
        None => Some(None),
        Some(_) => fields.boolean("ssl_verify", true, problems).map(Some),
    };
    Some(HttpRequestData {
        method: method?.to_owned(),
        url: Template::parse(url?),
        headers: Template::parse(headers?),
        params: lines_of(params?),
        authorization: authorization?,
        body: body?,
        timeouts: timeouts?,
        ssl_verify: ssl_verify?,
    })
}

/// The pairs in the lines of a text. Space around keys and values is removed, blank lines are skipped.
pub(super) fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(is_line_end).map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let (key, value) = line.split_once(':').unwrap_or((line, ""));
        (key.trim(), value.trim())
    })
}

fn lines_of(text: &str) -> Vec<(Template, Template)> {
    let named = pairs(text).filter(|(key, _)| !key.is_empty());
    named.map(|(key, value)| (Template::parse(key), Template::parse(value))).collect()
}

fn authorization(given: &JsonMap, problems: &mut Problems) -> Option<Authorization> {
    let fields = Fields::new(given, BUILD_FAILED);
    match fields.one_of("type", &["no-auth", "api-key"], problems)? {
        "api-key" => {}
        _ => return Some(Authorization::None),
    }
    match given.get("config") {
        // A missing config fails the run, not the import.
        None => Some(Authorization::ApiKey(None)),
        Some(Json::Object(config)) => problems
            .within("config", |problems| key_config(config, problems))
            .map(|config| Authorization::ApiKey(Some(config))),
        Some(_) => {
            problems.within("config", |problems| problems.error(BUILD_FAILED, "config should be a dict"));
            None
        }
    }
}

fn key_config(config: &JsonMap, problems: &mut Problems) -> Option<KeyConfig> {
    let fields = Fields::new(config, BUILD_FAILED);
    let scheme = fields.one_of("type", &["basic", "bearer", "custom"], problems);
    let api_key = fields.text("api_key", problems);
    let header = match fields.given("header") {
        None => Some(""),
        Some(_) => fields.text("header", problems),
    };
    let scheme = match scheme? {
        "basic" => KeyScheme::Basic,
        "bearer" => KeyScheme::Bearer,
        _ => KeyScheme::Custom,
    };
    Some(KeyConfig { scheme, api_key: Template::parse(api_key?), header: header?.to_owned() })
}

fn body(given: &JsonMap, problems: &mut Problems) -> Option<Body> {
    let fields = Fields::new(given, BUILD_FAILED);
    let name = fields.one_of("type", &BodyKind::ALL.map(BodyKind::name), problems);
    let items = match fields.given("data") {
        Some(Json::Array(items)) => items_of(items, problems),
        // A text is the old form; an empty value means no items.
        Some(Json::String(text)) if !text.is_empty() => Some(vec![text_item("", text)]),
        None | Some(Json::String(_) | Json::Bool(false)) => Some(Vec::new()),
        Some(_) => {
            fields.wrong("data", "a list or a text", problems);
            None
        }
    };
    let kind = BodyKind::ALL.into_iter().find(|kind| Some(kind.name()) == name);
    Some(Body { kind: kind?, items: items? })
}

fn items_of(items: &[Json], problems: &mut Problems) -> Option<Vec<BodyItem>> {
    let read: Vec<Option<BodyItem>> = items
        .iter()
        .enumerate()
        .map(|(at, item)| {
            problems.within(format!("data[{at}]"), |problems| match item.as_object() {
                Some(item) => body_item(item, problems),
                None => {
                    problems.error(BUILD_FAILED, format!("an item must be a mapping, not {}", kind_of(item)));
                    None
                }
            })
        })
        .collect();
    read.into_iter().collect()
}

fn body_item(item: &JsonMap, problems: &mut Problems) -> Option<BodyItem> {
    let fields = Fields::new(item, BUILD_FAILED);
    let kind = fields.one_of("type", &["file", "text"], problems);
    let mut text = |key: &str| match item.contains_key(key) {
        true => fields.text(key, problems),
        false => Some(""),
    };
    let (key, value) = (text("key"), text("value"));
    let file = match item.get("file") {
        None => Some(Vec::new()),
        // Exports of text items sometimes contain an empty mapping or null.
        Some(Json::Null) => Some(Vec::new()),
        Some(_) => fields.selector("file", problems),
    };
    let text = text_item(key?, value?);
    Some(BodyItem { is_file: kind? == "file", file: file?, ..text })
}

fn text_item(key: &str, value: &str) -> BodyItem {
    BodyItem { key: Template::parse(key), is_file: false, value: Template::parse(value), file: Vec::new() }
}

fn timeouts(given: &JsonMap, problems: &mut Problems) -> Option<Timeouts> {
    let fields = Fields::new(given, BUILD_FAILED);
    // On Dify zero means the server's setting; negative values are treated the same.
    let mut wait = |key: &str| match fields.given(key) {
        None => Some(None),
        Some(_) => {
            fields.integer(key, 0, i64::MIN, problems).map(|s| u64::try_from(s).ok().filter(|s| *s > 0))
        }
    };
    let (connect, read, write) = (wait("connect"), wait("read"), wait("write"));
    Some(Timeouts { connect: connect?, read: read?, write: write? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn paths_of(data: Json) -> Vec<String> {
        let mut problems = Problems::new();
        let parsed = parse(data.as_object().expect("a mapping"), &mut problems);
        assert_eq!(parsed.is_none(), problems.has_errors());
        problems.into_vec().into_iter().map(|problem| problem.path).collect()
    }

    fn right() -> Json {
        json!({
            "method": "get", "url": "u", "headers": "", "params": "", "authorization": {"type": "no-auth", "config": null},
            "body": {"type": "json", "data": [{"key": "", "type": "text", "value": "{}"}]}, "ssl_verify": true,
            "timeout": {"max_connect_timeout": 0, "connect": "5", "read": 0, "write": null},
        })
    }

    #[test]
    fn each_wrong_field_is_reported_at_its_path() {
        assert_eq!(paths_of(right()), Vec::<String>::new());
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
            ("body", json!({"type": "json", "data": [{"type": "text", "value": 5}]}), "body.data[0].value"),
            ("body", json!({"type": "binary", "data": [{"type": "file", "file": "x"}]}), "body.data[0].file"),
            ("ssl_verify", json!("x"), "ssl_verify"),
            ("timeout", json!(5), "timeout"),
            ("timeout", json!({"read": "soon"}), "timeout.read"),
        ] {
            let mut data = right();
            data[key] = value;
            assert_eq!(paths_of(data), [path]);
        }
    }

    #[test]
    fn zero_and_null_mean_the_workers_own_timeouts() {
        let mut problems = Problems::new();
        let data = parse(right().as_object().expect("a mapping"), &mut problems).expect("it is right");
        assert_eq!(data.timeouts, Timeouts { connect: Some(5), read: None, write: None });
    }

    #[test]
    fn lines_are_pairs() {
        let text = "a: 1\r\n\n : skipped?\nno colon\n k : v:w \u{2028}b:";
        let found: Vec<_> = pairs(text).collect();
        assert_eq!(found, [("a", "1"), ("", "skipped?"), ("no colon", ""), ("k", "v:w"), ("b", "")]);
    }
}
