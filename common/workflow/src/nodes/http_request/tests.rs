//! Requests as sent and as recorded, for various configurations.

use serde_json::{Value as Json, json};

use super::body::{Content, content};
use super::draft::{Head, head};
use super::log::{ShownFile, record};
use super::*;
use tidemill_base::value::pool::Pool;
use tidemill_base::value::{Lookup, Segment, SegmentType, Variables};

/// Variables for the tests: some values and one secret.
struct Values(Pool, Segment);

impl Variables for Values {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        match (node, name) {
            ("env", "TOKEN") => Lookup::Found(std::borrow::Cow::Borrowed(&self.1)),
            _ => self.0.variable(node, name),
        }
    }
    fn names(&self) -> Vec<(String, String)> {
        self.0.names()
    }
}

fn values() -> Values {
    let file = json!({
        "dify_model_identity": "__dify__file__", "type": "document", "remote_url": "http://x/a.txt",
        "filename": "a.txt", "mime_type": "text/plain",
    });
    let pool = Pool::new(json!({"n": {
        "name": "Ann & Bob", "obj": {"k": [1, null]}, "lines": "a\nb: c", "yes": true, "file": file, "files": [file],
        "empty": {"dify_model_identity": "__dify__file__", "type": "image"},
    }}));
    Values(pool, Segment::new(SegmentType::Secret, json!("s3cr3t-token-value")))
}

fn parsed(changes: Json) -> HttpRequestData {
    let mut data = json!({
        "method": "post", "url": "http://h:81/p", "headers": "", "params": "", "authorization": {"type": "no-auth"},
    });
    for (key, value) in changes.as_object().expect("a mapping") {
        data[key] = value.clone();
    }
    let mut problems = Problems::new();
    let parsed = HttpRequestData::parse(data.as_object().expect("a mapping"), &mut problems);
    parsed.unwrap_or_else(|| panic!("{:?}", problems.into_vec()))
}

fn head_of(changes: Json) -> Result<Head, (String, String)> {
    head(&parsed(changes), &values()).map_err(|failure| (failure.error_type, failure.message))
}

fn content_of(kind: &str, data: Json) -> Result<Content, (String, String)> {
    let data = parsed(json!({"body": {"type": kind, "data": data}}));
    content(&data, &values()).map_err(|failure| (failure.error_type, failure.message))
}

fn text(key: &str, value: &str) -> Json {
    json!({"key": key, "type": "text", "value": value})
}

fn shown(changes: Json) -> String {
    let data = parsed(changes);
    let head = head(&data, &values()).expect("it can be built");
    record(&data, &values(), &head, &[], "b")["request"].as_str().expect("a text").to_owned()
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[test]
fn addresses_are_checked_as_they_are_and_after_the_key() {
    let key = json!({"type": "api-key", "config": {"type": "bearer", "api_key": " "}});
    for (changes, class, message) in [
        (json!({"url": ""}), "InvalidURLError", "url is required"),
        (json!({"url": "HTTP://x"}), "InvalidURLError", "url should start with http:// or https://"),
        (json!({"url": " http://x"}), "InvalidURLError", "url should start with http:// or https://"),
        (
            json!({"authorization": {"type": "api-key"}, "url": ""}),
            "AuthorizationConfigError",
            "authorization config is required",
        ),
        (
            json!({"authorization": key}),
            "AuthorizationConfigError",
            "API key is required for authorization but was empty. Please provide a valid API key.",
        ),
    ] {
        assert_eq!(head_of(changes), Err((class.into(), message.into())));
    }
}

#[test]
fn params_split_before_and_headers_after_they_are_filled_in() {
    let head = head_of(json!({"params": "p: {{#n.lines#}}\n: x\nflag", "headers": "H: {{#n.lines#}}\nH: 2"}));
    let head = head.expect("it can be built");
    assert_eq!(head.params, pairs(&[("p", "a\nb: c"), ("flag", "")]));
    assert_eq!(head.headers, pairs(&[("H", "2"), ("b", "c")]));
}

#[test]
fn keys_are_sent_in_three_ways_and_replace_a_header_of_the_same_spelling() {
    for (config, headers, sent) in [
        (json!({"type": "bearer", "api_key": "k"}), "", vec![("Authorization", "Bearer k")]),
        (json!({"type": "basic", "api_key": "u:p"}), "", vec![("Authorization", "Basic dTpw")]),
        (json!({"type": "basic", "api_key": "dTpw"}), "", vec![("Authorization", "Basic dTpw")]),
        (
            json!({"type": "custom", "api_key": "k", "header": "X-Key"}),
            "X-Key: old\nA: b",
            vec![("X-Key", "k"), ("A", "b")],
        ),
        (
            json!({"type": "bearer", "api_key": "k"}),
            "authorization: own",
            vec![("authorization", "own"), ("Authorization", "Bearer k")],
        ),
    ] {
        let head =
            head_of(json!({"headers": headers, "authorization": {"type": "api-key", "config": config}}));
        assert_eq!(head.expect("it can be built").headers, pairs(&sent));
    }
}

#[test]
fn a_body_brings_its_content_type_unless_there_is_one() {
    for (kind, headers, sent) in [
        ("json", "", vec![("Content-Type", "application/json")]),
        ("json", "content-type: x/y", vec![("content-type", "x/y")]),
        ("raw-text", "", vec![("Content-Type", "text/plain")]),
        ("x-www-form-urlencoded", "", vec![("Content-Type", "application/x-www-form-urlencoded")]),
        ("form-data", "Content-Type: x/y\nA: b", vec![("A", "b")]),
        ("binary", "", vec![]),
        ("none", "", vec![]),
    ] {
        let head = head_of(json!({"headers": headers, "body": {"type": kind, "data": []}}));
        assert_eq!(head.expect("it can be built").headers, pairs(&sent), "{kind}");
    }
}

#[test]
fn texts_are_sent_as_their_type_wants_them() {
    for (kind, data, sent) in [
        ("none", json!([]), Content::Empty),
        ("raw-text", json!("old {{#n.name#}}"), Content::Text("old Ann & Bob".into())),
        (
            "json",
            json!([text("", "{\"o\": {{#n.obj#}}, 'y': {{#n.yes#}}, n: 1.0}")]),
            Content::Text(r#"{"o":{"k":[1,null]},"y":true,"n":1.0}"#.into()),
        ),
        ("json", json!([text("", "null")]), Content::Empty),
        ("json", json!([text("", "\"é\"")]), Content::Text("\"é\"".into())),
        (
            "x-www-form-urlencoded",
            json!([text("a b", "1"), text("c", "{{#n.name#}}"), text("a b", "2"), {"key": "f", "type": "file", "file": ["n", "file"]}]),
            Content::Text("a+b=2&c=Ann+%26+Bob&f=".into()),
        ),
    ] {
        assert_eq!(content_of(kind, data), Ok(sent), "{kind}");
    }
}

#[test]
fn bodies_that_do_not_fit_their_type_are_refused() {
    let file = |name: &str| json!([{"key": "", "type": "file", "file": ["n", name]}]);
    for (kind, data, class, message) in [
        ("raw-text", json!([]), "RequestBodyError", "raw-text body type should have exactly one item"),
        (
            "json",
            json!([text("", "1"), text("", "2")]),
            "RequestBodyError",
            "json body type should have exactly one item",
        ),
        ("binary", json!([]), "RequestBodyError", "binary body type should have exactly one item"),
        (
            "json",
            json!([text("", "hello {{#n.name#}}")]),
            "RequestBodyError",
            "Failed to parse JSON: hello Ann & Bob",
        ),
        (
            "json",
            json!([text("", "NaN")]),
            "WorkflowNodeError",
            "Out of range float values are not JSON compliant",
        ),
        ("binary", file("name"), "FileFetchError", "cannot fetch file with selector ['n', 'name']"),
        ("binary", file("absent"), "FileFetchError", "cannot fetch file with selector ['n', 'absent']"),
    ] {
        assert_eq!(content_of(kind, data), Err((class.into(), message.into())), "{kind}");
    }
}

#[test]
fn a_form_takes_files_that_are_files_and_groups_them_by_field() {
    let file = |key: &str, name: &str| json!({"key": key, "type": "file", "file": ["n", name]});
    let data = json!([
        file("f", "files"),
        text("t", "1"),
        file("g", "file"),
        file("f", "file"),
        file("x", "name"),
        file("y", "empty")
    ]);
    let Ok(Content::Multipart { fields, files }) = content_of("form-data", data) else { panic!("a form") };
    assert_eq!(fields, pairs(&[("t", "1")]));
    assert_eq!(files.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["f", "f", "g"]);
}

#[test]
fn the_record_masks_secrets_and_keys() {
    let bearer = json!({"type": "api-key", "config": {"type": "bearer", "api_key": "{{#env.TOKEN#}}"}});
    for (changes, text) in [
        (
            json!({"authorization": bearer, "headers": "authorization: me"}),
            "POST /p HTTP/1.1\r\nHost: h:81\r\nauthorization: **\r\nAuthorization: *************************\r\n\r\n",
        ),
        (
            json!({"url": "http://h?k={{#env.TOKEN#}}", "headers": "X: {{#env.TOKEN#}}"}),
            "POST /?k=s3cr3t************ue HTTP/1.1\r\nHost: h\r\nX: s3cr3t************ue\r\n\r\n",
        ),
        (
            json!({"url": "http://h/a?old=1", "params": "b: x y\na: 1\nb: 2", "body": {"type": "json", "data": [{"key": "", "type": "text", "value": "{a: '{{#env.TOKEN#}}é'}"}]}}),
            "POST /a?b=x+y&a=1&b=2 HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 28\r\n\r\n{a: 's3cr3t************ueé'}",
        ),
        (
            json!({"body": {"type": "form-data", "data": [{"key": "k", "type": "text", "value": "v"}]}}),
            "POST /p HTTP/1.1\r\nHost: h:81\r\nContent-Type: multipart/form-data; boundary=----WebKitFormBoundaryb\r\nContent-Length: 103\r\n\r\n------WebKitFormBoundaryb\r\nContent-Disposition: form-data; name=\"k\"\r\n\r\nv\r\n------WebKitFormBoundaryb--\r\n",
        ),
    ] {
        assert_eq!(shown(changes), text);
    }
}

#[test]
fn the_record_shows_the_headers_in_difys_order() {
    let key = |kind: &str, header: &str| json!({"type": "api-key", "config": {"type": kind, "api_key": "abc", "header": header}});
    let json = json!({"type": "json", "data": [{"key": "", "type": "text", "value": "{}x"}]});
    for (headers, key, body, lines) in [
        (
            "A: 1\nB: 2",
            key("bearer", ""),
            &json,
            &["A: 1", "B: 2", "Authorization: **********", "Content-Type: application/json"][..],
        ),
        (
            "Authorization: me\nA: 1",
            key("custom", ""),
            &json,
            &["Authorization: ***", "A: 1", "Content-Type: application/json"],
        ),
        (
            "A: 1\nauthorization: me",
            key("custom", ""),
            &Json::Null,
            &["A: 1", "authorization: **", "Authorization: ***"],
        ),
        (
            "x-key: 1\nX-KEY: 22",
            key("custom", "X-Key"),
            &Json::Null,
            &["x-key: *", "X-KEY: **", "X-Key: ***"],
        ),
        ("content-type: a/b", key("custom", ""), &json, &["content-type: a/b", "Authorization: ***"]),
        ("A: 1", key("custom", "Content-Type"), &json, &["A: 1", "Content-Type: ****************"]),
        (
            "A: 1",
            key("custom", "content-type"),
            &json,
            &["A: 1", "content-type: ***", "Content-Type: ****************"],
        ),
    ] {
        let shown = shown(json!({"headers": headers, "authorization": key, "body": body}));
        let (head, _) = shown.split_once("\r\n\r\n").expect("a head");
        let have: Vec<&str> =
            head.split("\r\n").skip(2).filter(|line| !line.starts_with("Content-Length")).collect();
        assert_eq!(have, lines, "{headers} {key}");
    }
}

#[test]
fn files_are_named_and_the_texts_beside_them_are_not_shown() {
    let body = json!({"type": "form-data", "data": [text("secret", "{{#env.TOKEN#}}"), {"key": "f", "type": "file", "file": ["n", "file"]}]});
    let data = parsed(json!({"body": body}));
    let head = head(&data, &values()).expect("it can be built");
    let Ok(Content::Multipart { files, .. }) = content(&data, &values()) else { panic!("a form") };
    let files: Vec<ShownFile> = files.iter().map(|(key, file)| ShownFile::of(key, file, 5)).collect();
    let text = record(&data, &values(), &head, &files, "b")["request"].to_string();
    assert!(text.contains("<file_content_binary: 'a.txt', type='text/plain', size=5 bytes>"), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn everything_that_is_read_is_mentioned() {
    let data = parsed(json!({
        "url": "http://{{#a.url#}}", "params": "{{#a.pk#}}: {{#a.pv#}}", "headers": "H: {{#a.h#}}",
        "authorization": {"type": "api-key", "config": {"type": "custom", "api_key": "{{#a.key#}}"}},
        "body": {"type": "form-data", "data": [
            {"key": "{{#a.k#}}", "type": "text", "value": "{{#a.v#}}"}, {"key": "", "type": "file", "file": ["a", "f"]}]},
    }));
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    let names: Vec<&str> = mentions.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["key", "url", "pk", "pv", "h", "k", "v", "f"]);
}
