//! Tables for webhooks: refused requests with their reasons, and the outputs of accepted ones.

use serde_json::{Value as Json, json};

use super::*;
use crate::nodes::condition::tests::Pool;
use crate::nodes::parse::tests::paths_of;

fn webhook(data: Json) -> TriggerWebhookData {
    let mut problems = Problems::new();
    let read = TriggerWebhookData::parse(data.as_object().expect("a mapping"), &mut problems);
    read.unwrap_or_else(|| panic!("{data}: {:?}", problems.into_vec()))
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, text)| ((*name).to_string(), (*text).to_string())).collect()
}

fn request_of(query: &[(&str, &str)], body: Body) -> Request {
    Request { headers: pairs(&[("X-Sig", "s"), ("Host", "h")]), query: pairs(query), body }
}

fn json_body(value: Json) -> Body {
    Body::Json(value.to_string())
}

fn form(fields: &[(&str, &str)], files: &[&str]) -> Body {
    Body::Form { fields: pairs(fields), files: files.iter().map(ToString::to_string).collect() }
}

#[test]
fn an_empty_configuration_is_that_of_dify() {
    let data = webhook(json!({}));
    assert_eq!((data.method.as_str(), data.content_type, data.status_code), ("get", ContentType::Json, 200));
    assert_eq!(data.reply().body, json!({"status": "success", "message": "Webhook processed successfully"}));
}

#[test]
fn a_wrong_configuration_is_reported_at_its_place() {
    let check: fn(&JsonMap, &mut Problems) = |data, problems| {
        TriggerWebhookData::parse(data, problems);
    };
    for (data, path) in [
        (json!({"method": "TRACE"}), "method"),
        (json!({"content_type": "text/html"}), "content_type"),
        (json!({"headers": {}}), "headers"),
        (json!({"headers": [{"required": true}]}), "headers[0].name"),
        (json!({"params": [{"name": "p", "type": "object"}]}), "params[0].type"),
        (json!({"body": [{"name": "b", "type": "array[any]"}]}), "body[0].type"),
        (json!({"body": [{"name": "b", "required": "perhaps"}]}), "body[0].required"),
        (json!({"status_code": 500}), "status_code"),
        (json!({"response_body": 1}), "response_body"),
        (json!({"tidemill": {"secret": 1}}), "tidemill.secret"),
    ] {
        assert_eq!(paths_of(check, data.clone()), [path], "{data}");
    }
}

#[test]
fn an_id_of_the_file_counts_when_it_can_be_part_of_a_url() {
    for (id, taken) in [("abcdefghijklmnopqrstuvwx", true), ("", false), ("abc/efghijklmnopqrstuvwx", false)]
    {
        assert_eq!(webhook(json!({"webhook_id": id})).webhook_id.is_some(), taken, "{id:?}");
    }
}

#[test]
fn a_request_that_does_not_fit_is_refused_in_difys_words() {
    let data = |content_type: &str| {
        webhook(json!({"method": "POST", "content_type": content_type,
            "headers": [{"name": "X_Sig", "required": true}],
            "params": [{"name": "page", "type": "number", "required": true}, {"name": "deep", "type": "boolean"}],
            "body": [{"name": "order", "type": "object", "required": true}, {"name": "tags", "type": "array[string]"},
                {"name": "n", "type": "number"}]}))
    };
    let page = [("page", "1")];
    let order = json!({"order": {}});
    let said = |query: &[(&str, &str)], body| {
        data("application/json").accept(request_of(query, body)).map_err(|r| r.0)
    };
    for (query, body, message) in [
        (&[][..], json_body(order.clone()), "Required parameter missing: page"),
        (
            &[("page", "x")],
            json_body(order.clone()),
            "Parameter 'page' validation failed: Cannot convert 'x' to number",
        ),
        (
            &[("page", "1"), ("deep", "maybe")],
            json_body(order.clone()),
            "Parameter 'deep' validation failed: Cannot convert 'maybe' to boolean",
        ),
        (&page, json_body(json!({})), "Required body parameter missing: order"),
        (&page, Body::Json(String::new()), "Required body parameter missing: order"),
        (
            &page,
            json_body(json!({"order": 1})),
            "Parameter 'order' validation failed: Expected object, got int",
        ),
        (
            &page,
            json_body(json!({"order": {}, "tags": ["a", 1]})),
            "Parameter 'tags' validation failed: Expected array of strings, got list",
        ),
        (
            &page,
            json_body(json!({"order": {}, "n": null})),
            "Parameter 'n' validation failed: Expected number, got NoneType",
        ),
        (&page, json_body(json!([1])), "Invalid JSON body: expected an object"),
    ] {
        assert_eq!(said(query, body).err().as_deref(), Some(message), "{query:?}");
    }
    assert!(said(&page, Body::Json("{".into())).unwrap_err().starts_with("Invalid JSON body: "));
    let without = Request { headers: Vec::new(), ..request_of(&page, json_body(order)) };
    let refused = data("application/json").accept(without).unwrap_err();
    assert_eq!(refused.0, "Required header missing: X_Sig");
    let refused =
        data("application/x-www-form-urlencoded").accept(request_of(&page, form(&[("order", "{}")], &[])));
    assert_eq!(
        refused.unwrap_err().0,
        "Parameter 'order' validation failed: Unsupported type 'object' for form data parameter 'order'"
    );
}

#[test]
fn method_and_type_of_the_body_are_checked_first() {
    let data = webhook(json!({"method": "POST"}));
    for (method, content_type, said) in [
        ("POST", None, None),
        ("post", Some("Application/JSON; charset=utf-8"), None),
        ("GET", None, Some("HTTP method mismatch. Expected POST, got GET")),
        (
            "POST",
            Some("text/plain"),
            Some("Content-type mismatch. Expected application/json, got text/plain"),
        ),
    ] {
        let refused = data.check_head(method, content_type).err();
        assert_eq!(refused.map(|r| r.0).as_deref(), said, "{method} {content_type:?}");
    }
}

#[test]
fn content_that_is_required_must_be_there() {
    for (content_type, empty, some) in [
        ("text/plain", Body::Text(String::new()), Body::Text("x".into())),
        ("application/octet-stream", Body::Binary(0), Body::Binary(1)),
    ] {
        let data = webhook(json!({"content_type": content_type, "body": [{"name": "b", "required": true}]}));
        let said = format!("Required body content missing for {content_type} request");
        assert_eq!(data.accept(request_of(&[], empty)).unwrap_err().0, said);
        assert!(data.accept(request_of(&[], some)).is_ok());
    }
    let file = webhook(json!({"content_type": "multipart/form-data",
        "body": [{"name": "photo", "type": "file", "required": true}]}));
    assert_eq!(
        file.accept(request_of(&[], form(&[], &[]))).unwrap_err().0,
        "Required body parameter missing: photo"
    );
    assert!(file.accept(request_of(&[], form(&[], &["photo"]))).is_ok());
}

/// The outputs of the node for an accepted request, without system variables and the raw request.
fn outputs(data: &TriggerWebhookData, request: Request, files: Vec<(String, Json)>) -> Json {
    outputs_as(false, data, request, files)
}

fn outputs_as(
    missing_file_is_all: bool,
    data: &TriggerWebhookData,
    request: Request,
    files: Vec<(String, Json)>,
) -> Json {
    let inputs = data.accept(request).expect("accepted").inputs(files);
    let pool = Pool::new(json!({"hook": inputs, "sys": {"user_id": "u"}}));
    let result = data.evaluate("hook", &pool, missing_file_is_all);
    assert!(
        result
            .outputs
            .iter()
            .any(|(name, value)| name == "_webhook_raw" && value.value["method"].is_string())
    );
    assert!(result.outputs.iter().any(|(name, _)| name == "sys.user_id"));
    let shown =
        result.outputs.into_iter().filter(|(name, _)| name != "_webhook_raw" && !name.starts_with("sys."));
    Json::Object(shown.map(|(name, segment)| (name, segment.value)).collect())
}

#[test]
fn the_node_takes_the_request_apart() {
    let declared = json!([{"name": "n", "type": "number"}, {"name": "ok", "type": "boolean"}, {"name": "s"}, {"name": "gone"}]);
    let data = webhook(json!({"method": "post", "headers": [{"name": "x-sig"}, {"name": "X-None"}],
        "params": [{"name": "page", "type": "number"}], "body": declared}));
    let request = request_of(
        &[("page", "2.50"), ("page", "3"), ("more", "1")],
        json_body(json!({"n": 1, "ok": false, "s": "x"})),
    );
    let expected =
        json!({"x_sig": "s", "X_None": null, "page": 2.5, "n": 1, "ok": false, "s": "x", "gone": null});
    assert_eq!(outputs(&data, request, vec![]), expected);

    let data = webhook(json!({"content_type": "application/x-www-form-urlencoded", "body": declared}));
    let request = request_of(&[], form(&[("n", "4.0"), ("ok", "YES"), ("s", "y"), ("s", "z")], &[]));
    assert_eq!(outputs(&data, request, vec![]), json!({"n": 4, "ok": true, "s": "y", "gone": null}));

    let text = webhook(json!({"content_type": "text/plain", "body": [{"name": "note"}, {"name": "b"}]}));
    assert_eq!(outputs(&text, request_of(&[], Body::Text("hello".into())), vec![]), json!({"note": "hello"}));

    let file = json!({"dify_model_identity": "__dify__file__", "filename": "a.png"});
    let binary = webhook(json!({"content_type": "application/octet-stream", "body": [{"name": "blob"}]}));
    let got = outputs(&binary, request_of(&[], Body::Binary(3)), vec![("raw".into(), file.clone())]);
    assert_eq!(got, json!({"blob": file}));

    let multipart = webhook(json!({"content_type": "multipart/form-data",
        "body": [{"name": "photo", "type": "file"}, {"name": "other", "type": "file"}, {"name": "n", "type": "number"}]}));
    for (is_all, other) in [(false, json!(null)), (true, json!({"photo": file}))] {
        let request = request_of(&[], form(&[("n", "1")], &["photo"]));
        let got = outputs_as(is_all, &multipart, request, vec![("photo".into(), file.clone())]);
        assert_eq!(got, json!({"photo": file, "other": other, "n": 1}), "a missing file, {is_all}");
    }
}

#[test]
fn types_are_those_of_the_file_where_the_value_does_not_tell() {
    let data = webhook(json!({"body": [{"name": "tags", "type": "array[string]"}]}));
    let inputs =
        data.accept(request_of(&[], json_body(json!({"tags": []})))).expect("accepted").inputs(vec![]);
    let result = data.evaluate("hook", &Pool::new(json!({"hook": inputs})), false);
    let tags = result.outputs.iter().find(|(name, _)| name == "tags").map(|(_, value)| value.ty);
    assert_eq!(tags, Some(SegmentType::ArrayString));
}

#[test]
fn a_run_without_a_request_has_its_outputs_given_by_name() {
    let data =
        webhook(json!({"headers": [{"name": "X-Sig"}], "body": [{"name": "order"}, {"name": "more"}]}));
    let given = Pool::new(json!({"hook": {"order": "o", "X_Sig": "s", "stray": 1}}));
    let result = data.evaluate("hook", &given, false);
    let got: Vec<_> = result.outputs.into_iter().map(|(name, value)| (name, value.value)).collect();
    let expected =
        [("X_Sig", json!("s")), ("order", json!("o")), ("more", json!(null)), ("_webhook_raw", json!(null))];
    assert_eq!(got, expected.map(|(name, value)| (name.to_string(), value)));
}

#[test]
fn answers_are_json_or_a_message() {
    for (body, reply) in [
        ("", json!({"status": "success", "message": "Webhook processed successfully"})),
        (r#"{"ok": true}"#, json!({"ok": true})),
        ("[1]", json!([1])),
        ("{broken", json!({"message": "{broken"})),
        ("thanks", json!({"message": "thanks"})),
    ] {
        let data = webhook(json!({"response_body": body, "status_code": "202"}));
        assert_eq!(data.reply(), Reply { status: 202, body: reply }, "{body}");
    }
}
