//! Files over Dify's API: uploaded by a form, used in messages, runs and answers to forms, shown in histories, opened by
//! their URLs; and refused to everybody else.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{System, system};

pub(super) const TIDE: &[u8] = b"High water at seven.";

/// A part of a form: its name, the name and the type of a file, and its bytes.
type Part<'a> = (&'a str, Option<(&'a str, Option<&'a str>)>, &'a [u8]);

fn form(parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (name, file, bytes) in parts {
        let filename = file.map(|(filename, _)| format!("; filename=\"{filename}\"")).unwrap_or_default();
        let kind = file.and_then(|(_, kind)| kind).map(|kind| format!("Content-Type: {kind}\r\n"));
        let head = format!(
            "--b\r\nContent-Disposition: form-data; name=\"{name}\"{filename}\r\n{}\r\n",
            kind.unwrap_or_default()
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--b--\r\n");
    body
}

async fn send(app: &Client, parts: &[Part<'_>]) -> HttpResponse {
    let request = app.request(Method::POST, "/v1/files/upload");
    let request = request.header("content-type", "multipart/form-data; boundary=b");
    app.send(request.body(form(parts))).await
}

/// Uploads a text for a user; returns the answer.
pub(super) async fn upload(app: &Client, user: &str, name: &str) -> Json {
    let sent =
        send(app, &[("file", Some((name, Some("text/plain"))), TIDE), ("user", None, user.as_bytes())]).await;
    assert_eq!(sent.status, 201, "{}", sent.text);
    sent.body
}

/// Uploads a text for a user; returns the file as requests name it.
pub(super) async fn uploaded(app: &Client, user: &str, name: &str) -> Json {
    let file = upload(app, user, name).await;
    json!({"type": "document", "transfer_method": "local_file", "upload_file_id": file["id"]})
}

pub(super) async fn fleet(more: &[(&str, &str)]) -> System {
    let model = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    system(&[&[("files.url", "place"), ("scheduler.upload_bytes_max", "40")], more].concat(), &model).await
}

pub(super) async fn register(system: &System, mode: &str, nodes: Json, features: Json) -> Client {
    let ids: Vec<&str> =
        nodes.as_array().into_iter().flatten().filter_map(|node| node["id"].as_str()).collect();
    let edges: Vec<Json> = ids
        .windows(2)
        .map(|pair| {
            let handle = if pair[0] == "ask" { "ok" } else { "source" };
            json!({"source": pair[0], "target": pair[1], "sourceHandle": handle, "targetHandle": "target"})
        })
        .collect();
    let mut document = json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": mode, "name": "Files"},
        "workflow": {"features": features, "graph": {"nodes": nodes, "edges": edges}},
    });
    if mode == "advanced-chat" {
        document["workflow"]["conversation_variables"] =
            json!([{"name": "note", "value_type": "object", "value": {}}]);
    }
    let answer = system.client.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    system.client.with_key(answer.body["key"].as_str())
}

pub(super) fn node(id: &str, data: Json) -> Json {
    json!({"id": id, "data": data})
}

pub(super) fn read(from: &str, variable: &str, is_array_file: bool) -> Json {
    let data = json!({"type": "document-extractor", "title": "Read", "variable_selector": [from, variable],
        "is_array_file": is_array_file});
    node("read", data)
}

/// A workflow whose form has a file and an object, and which gives out the file and its text.
pub(super) async fn reader(system: &System, field: Json) -> Client {
    reader_with(system, field, json!({})).await
}

async fn reader_with(system: &System, field: Json, features: Json) -> Client {
    let mut variable = json!({"variable": "f", "label": "f", "type": "file", "required": true});
    variable.as_object_mut().expect("an object").extend(field.as_object().expect("an object").clone());
    let more = json!({"variable": "more", "label": "more", "type": "json_object", "required": false});
    let output = |name: &str, from: &str| json!({"variable": name, "value_selector": [from, name]});
    let outputs = [output("f", "start"), output("text", "read"), output("more", "start")];
    let nodes = json!([
        node("start", json!({"type": "start", "title": "Start", "variables": [variable, more]})),
        read("start", "f", false),
        node("end", json!({"type": "end", "title": "End", "outputs": outputs})),
    ]);
    register(system, "workflow", nodes, features).await
}

pub(super) async fn run(app: &Client, user: &str, inputs: Json) -> HttpResponse {
    app.post("/v1/workflows/run", &json!({"inputs": inputs, "user": user, "response_mode": "blocking"})).await
}

/// Opens a URL of a file without a key.
pub(super) async fn opened(client: &Client, url: &Json) -> HttpResponse {
    client.with_key(None).get(url.as_str().unwrap_or_else(|| panic!("no URL: {url}"))).await
}

/// The files below a folder, as paths.
fn stored(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(stored(&path)),
            path => found.push(path.display().to_string()),
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_becomes_an_upload_or_is_refused_in_difys_words() {
    let limits = [
        ("uploads.image_bytes_max", "10"),
        ("uploads.refused_extensions", "exe"),
        ("uploads.user_bytes_max", "70"),
        ("uploads.app_bytes_max", "90"),
    ];
    let system = &fleet(&limits).await;
    let app = reader(system, json!({})).await;
    let text = Some("text/plain");
    // `user` may come before or after the file.
    let sent = send(&app, &[("user", None, b"ann"), ("file", Some(("Tide table.TXT", text)), TIDE)]).await;
    assert_eq!(sent.status, 201, "{}", sent.text);
    let body = &sent.body;
    let keys: Vec<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = [
        "id",
        "reference",
        "name",
        "size",
        "extension",
        "mime_type",
        "created_by",
        "created_at",
        "preview_url",
        "source_url",
        "original_url",
        "user_id",
        "tenant_id",
        "conversation_id",
        "file_key",
    ];
    assert_eq!(keys, expected);
    let shown = json!([body["name"], body["size"], body["extension"], body["mime_type"]]);
    assert_eq!(shown, json!(["Tide table.TXT", 20, "txt", "text/plain"]));
    assert_eq!(opened(&system.client, &body["source_url"]).await.text.as_bytes(), TIDE);

    let long = [b'x'; 41];
    for (parts, status, code, says) in [
        (vec![("user", None, &b"ann"[..])], 400, "no_file_uploaded", "Please upload your file."),
        (
            vec![("file", Some(("a.txt", text)), TIDE), ("other", Some(("b.txt", text)), TIDE)],
            400,
            "too_many_files",
            "Only one file is allowed.",
        ),
        (
            vec![("file", Some(("", text)), TIDE)],
            400,
            "filename_not_exists_error",
            "The specified filename does not exist.",
        ),
        (vec![("file", Some(("a.txt", None)), TIDE)], 415, "unsupported_file_type", "File type not allowed."),
        (
            vec![("file", Some(("a:b.txt", text)), TIDE)],
            400,
            "invalid_param",
            "Filename contains invalid characters",
        ),
        (
            vec![("file", Some(("a.EXE", text)), TIDE)],
            400,
            "invalid_param",
            "File extension '.exe' is not allowed for security reasons",
        ),
        (vec![("file", Some(("a.txt", text)), &long)], 413, "file_too_large", "more than 40 bytes"),
        (
            vec![("file", Some(("a.png", Some("image/png"))), TIDE)],
            413,
            "file_too_large",
            "more than 10 bytes",
        ),
    ] {
        let refused = send(&app, &parts).await;
        assert_eq!((refused.status, &refused.body["code"]), (status, &json!(code)), "{}", refused.text);
        assert!(refused.text.contains(says), "{says}: {}", refused.text);
        assert_eq!(refused.body["status"], status, "{}", refused.text);
    }
    let other_body = app.post("/v1/files/upload", &json!({})).await;
    assert_eq!(other_body.body["code"], "no_file_uploaded", "{}", other_body.text);

    for (user, status, says) in [
        ("ann", 201, ""),
        ("ann", 201, ""),
        ("ann", 403, "than the 70 that are kept"),
        ("bob", 201, ""),
        ("bob", 403, "than the 90 that are kept"),
    ] {
        let sent =
            send(&app, &[("file", Some(("a.txt", text)), TIDE), ("user", None, user.as_bytes())]).await;
        assert_eq!(sent.status, status, "{user}: {}", sent.text);
        assert!(sent.text.contains(says), "{user}: {}", sent.text);
        assert_eq!(sent.body["code"] == "upload_quota_exceeded", status == 403, "{}", sent.text);
    }
    // Four uploads are kept, each with its record. What was refused is removed.
    let place = system.cluster.logs().join("place");
    until("the refused files to go", LONG, async || {
        let files = stored(&place);
        if files.len() == 8 { Ok(()) } else { Err(format!("{files:#?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_previewed_by_its_app_and_never_as_a_page() {
    let system = &fleet(&[("uploads.url_seconds", "600")]).await;
    let (app, other) = (reader(system, json!({})).await, reader(system, json!({"label": "other"})).await);
    let page = b"<script>1</script>";
    let sent =
        send(&app, &[("file", Some(("a.html", Some("text/html"))), page), ("user", None, b"ann")]).await;
    let id = sent.body["id"].as_str().unwrap_or_else(|| panic!("{}", sent.text));
    let path = format!("/v1/files/{id}/preview");
    let header = |answer: &HttpResponse, name: &str| {
        answer.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let shown = [app.get(&path).await, opened(&system.client, &sent.body["source_url"]).await];
    for answer in &shown {
        assert_eq!((answer.status, answer.text.as_bytes()), (200, &page[..]));
        assert_eq!(header(answer, "content-type"), "application/octet-stream");
        assert_eq!(header(answer, "content-disposition"), "attachment; filename*=UTF-8''a.html");
        assert_eq!(header(answer, "x-content-type-options"), "nosniff");
        assert_eq!(header(answer, "content-length"), "18");
    }
    let text = uploaded(&app, "ann", "a b.txt").await;
    let text = format!("/v1/files/{}/preview", text["upload_file_id"].as_str().expect("an id"));
    assert_eq!(header(&app.get(&text).await, "content-type"), "text/plain");
    let stored = app.get(&format!("{text}?as_attachment=True&user=ann")).await;
    assert_eq!(header(&stored, "content-disposition"), "attachment; filename*=UTF-8''a%20b.txt");

    let unknown = "/v1/files/01900000-0000-7000-8000-000000000000/preview";
    for (client, path, status, code) in [
        (&other, path.as_str(), 403, "file_access_denied"),
        (&app, &format!("{path}?user=bob"), 403, "file_access_denied"),
        (&app, unknown, 404, "file_not_found"),
        (&app, "/v1/files/x/preview", 404, "file_not_found"),
        (&app.with_key(None), &path, 401, "unauthorized"),
    ] {
        let refused = client.get(path).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (status, &json!(code)),
            "{path}: {}",
            refused.text
        );
    }
    let url = sent.body["source_url"].as_str().expect("a URL");
    for wrong in [
        url.replace("sign=", "sign=0"),
        url.replace("timestamp=1", "timestamp=2"),
        url.replace(id, &id.replace('0', "1")),
    ] {
        assert_eq!(opened(&system.client, &wrong.clone().into()).await.status, 404, "{wrong}");
    }
    assert_eq!(opened(&system.client, &format!("/files/{id}/file-preview").into()).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_has_its_users_files_and_the_history_shows_them() {
    let system = &fleet(&[]).await;
    let upload = json!({"enabled": true, "allowed_file_types": ["document"], "allowed_file_extensions": [],
        "allowed_file_upload_methods": ["local_file"], "number_limits": 2});
    let nodes = json!([
        node("start", json!({"type": "start", "title": "Start", "variables": []})),
        read("sys", "files", true),
        node("answer", json!({"type": "answer", "title": "Answer", "answer": "{{#read.text#}}"})),
    ]);
    let app = register(system, "advanced-chat", nodes, json!({"file_upload": upload})).await;
    let file = uploaded(&app, "ann", "tide.txt").await;
    let ask = |user: &str, mode: &str, files: Json| json!({"query": "when?", "inputs": {}, "user": user, "response_mode": mode, "files": files});
    let said = app.post("/v1/chat-messages", &ask("ann", "blocking", json!([file]))).await;
    assert_eq!(said.status, 200, "{}", said.text);
    assert!(said.text.contains("High water at seven."), "{}", said.text);

    let conversation = said.body["conversation_id"].as_str().expect("an id");
    let history = app.get(&format!("/v1/messages?user=ann&conversation_id={conversation}")).await;
    let shown = &history.body["data"][0]["message_files"][0];
    let parts = ["filename", "type", "mime_type", "size", "transfer_method", "belongs_to", "upload_file_id"];
    let parts: Vec<&Json> = parts.iter().map(|key| &shown[*key]).collect();
    let expected =
        json!(["tide.txt", "document", "text/plain", 20, "local_file", "user", file["upload_file_id"]]);
    assert_eq!(json!(parts), expected, "{}", history.text);
    assert!(shown["id"].as_str().is_some_and(|id| id.len() == 36), "{shown:#}");
    assert_eq!(opened(&system.client, &shown["url"]).await.text.as_bytes(), TIDE);

    let other = reader(system, json!({})).await;
    let theirs = run(&other, "bob", json!({"f": uploaded(&other, "bob", "theirs.txt").await})).await;
    let variables = app.get(&format!("/v1/conversations/{conversation}/variables?user=ann")).await;
    let variable = variables.body["data"][0]["id"].as_str().unwrap_or_else(|| panic!("{}", variables.text));
    let put = async |value: &Json| {
        let path = format!("/v1/conversations/{conversation}/variables/{variable}");
        let request = app.request(Method::PUT, &path).header("content-type", "application/json");
        app.send(request.body(json!({"value": value, "user": "ann"}).to_string())).await
    };
    let forged = put(&json!({"deep": theirs.body["data"]["outputs"]["f"]})).await;
    assert_eq!(
        (forged.status, &forged.body["message"]),
        (400, &json!("Invalid upload file")),
        "{}",
        forged.text
    );
    assert_eq!(put(&json!({"deep": 1})).await.status, 200);

    let by_url = json!({"type": "document", "transfer_method": "remote_url", "url": "https://h/a.pdf"});
    let picture =
        send(&app, &[("file", Some(("a.png", Some("image/png"))), b"\x89PNG"), ("user", None, b"ann")]).await;
    let picture =
        json!({"type": "image", "transfer_method": "local_file", "upload_file_id": picture.body["id"]});
    let malformed = json!({"type": "document", "transfer_method": "local_file", "upload_file_id": "x"});
    for (user, files, says) in [
        ("bob", json!([file]), "Invalid upload file"),
        ("ann", json!([malformed]), "Invalid upload file id format"),
        ("ann", json!([by_url]), "File validation failed for file: a.pdf"),
        ("ann", json!([picture]), "File validation failed for file: a.png"),
        ("ann", json!([file, file, file]), "Number of files exceeds the maximum limit 2"),
    ] {
        let refused = app.post("/v1/chat-messages", &ask(user, "blocking", files.clone())).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (400, &json!("invalid_param")),
            "{}",
            refused.text
        );
        assert!(refused.text.contains(says), "{says}: {}", refused.text);
        let request =
            app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
        let request = request.body(ask(user, "streaming", files).to_string());
        let mut stream = tidemill_tests::sse::Messages::of(request.send().await.expect("it answers"));
        let mut told = String::new();
        while let Some(message) = stream.next().await {
            told.push_str(&message.data.unwrap_or_default());
            if told.contains("\"error\"") {
                break;
            }
        }
        assert!(told.contains(says), "{says}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_file_of_another_app_or_user_is_refused() {
    let system = &fleet(&[("uploads.request_files_max", "1")]).await;
    let rules = json!({"allowed_file_types": ["document"], "allowed_file_upload_methods": ["local_file"]});
    let (app, thief) = (reader(system, rules.clone()).await, reader(system, json!({"label": "thief"})).await);
    let file = uploaded(&app, "ann", "tide.txt").await;
    let done = run(&app, "ann", json!({"f": file})).await;
    assert_eq!(done.body["data"]["outputs"]["text"], "High water at seven.", "{}", done.text);
    let object = done.body["data"]["outputs"]["f"].clone();
    assert_eq!(opened(&system.client, &object["url"]).await.text.as_bytes(), TIDE);

    // The user's own file object may be given on, and then belongs to the next run as well.
    let again = run(&app, "ann", json!({"f": object})).await;
    assert_eq!(again.body["data"]["outputs"]["text"], "High water at seven.", "{}", again.text);
    assert_ne!(again.body["data"]["outputs"]["f"]["reference"], object["reference"]);

    let with = |key: &str, value: Json| {
        let mut forged = object.clone();
        forged[key] = value;
        forged
    };
    let tool = with("transfer_method", json!("tool_file"));
    let by_url = with("transfer_method", json!("remote_url"));
    let mut hidden = by_url.clone();
    hidden["related_id"] = object["reference"].clone();
    hidden["reference"] = Json::Null;
    for (who, client, user) in [("another app", &thief, "ann"), ("another user", &app, "bob")] {
        let own = uploaded(client, user, "own.txt").await;
        for forged in [&object, &tool, &by_url, &hidden] {
            for inputs in [json!({"f": forged}), json!({"f": own, "more": {"deep": [forged]}})] {
                let refused = run(client, user, inputs).await;
                assert_eq!(refused.status, 400, "{who}: {forged:#}: {}", refused.text);
                assert!(refused.text.contains("Invalid upload file"), "{who}: {}", refused.text);
                assert!(!refused.text.contains("High water"), "{who}: {}", refused.text);
            }
        }
    }
    // What names an upload leads nowhere, and is no file of a tool.
    let mut stolen = tool.clone();
    (stolen["related_id"], stolen["reference"]) = (file["upload_file_id"].clone(), Json::Null);
    stolen["url"] = Json::Null;
    let own = uploaded(&thief, "eve", "own.txt").await;
    let shown = run(&thief, "eve", json!({"f": own, "more": {"deep": [stolen]}})).await;
    let shown_file = &shown.body["data"]["outputs"]["more"]["deep"][0];
    assert_eq!(shown_file["filename"], "tide.txt", "{}", shown.text);
    assert_eq!(shown_file["url"], Json::Null, "{}", shown.text);
    let refused = run(&app, "ann", json!({"f": stolen})).await;
    assert!(refused.text.contains("File validation failed for file: tide.txt"), "{}", refused.text);

    let both = json!({"f": object, "more": again.body["data"]["outputs"]["f"]});
    let refused = run(&app, "ann", both).await;
    assert_eq!((refused.status, &refused.body["code"]), (400, &json!("invalid_param")), "{}", refused.text);
    assert!(refused.text.contains("may name 1 runs with files at most"), "{}", refused.text);

    // A type that is two types would be shown as the second.
    let mut page = with("mime_type", json!("image/png,text/html"));
    page["url"] = Json::Null;
    let shown = run(&app, "ann", json!({"f": page})).await;
    let url = &shown.body["data"]["outputs"]["f"]["url"];
    assert!(url.is_string(), "{}", shown.text);
    let shown = opened(&system.client, url).await;
    assert_eq!(shown.text.as_bytes(), TIDE);
    assert_eq!(shown.headers["content-type"], "text/plain");
    assert!(shown.headers.contains_key("content-security-policy"));

    // A file object is checked by the rules of its field, too.
    let remote = json!({
        "dify_model_identity": "__dify__file__", "type": "document", "transfer_method": "remote_url",
        "url": "https://h/a.pdf", "remote_url": "https://h/a.pdf", "filename": "a.pdf", "extension": ".pdf",
        "mime_type": "application/pdf", "size": 3,
    });
    let refused = run(&app, "ann", json!({"f": remote})).await;
    assert!(refused.text.contains("File validation failed for file: a.pdf"), "{}", refused.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_object_that_code_makes_opens_no_file_of_another_app() {
    let system = &fleet(&[]).await;
    let app = reader(system, json!({})).await;
    let done = run(&app, "ann", json!({"f": uploaded(&app, "ann", "tide.txt").await})).await;
    let mut object = done.body["data"]["outputs"]["f"].clone();
    object["url"] = Json::Null;
    let text =
        json!({"variable": "t", "label": "t", "type": "paragraph", "required": true, "max_length": 9000});
    let code = json!({
        "type": "code", "title": "Make", "code_language": "python3",
        "code": "import json\ndef main(t):\n    return {'o': json.loads(t)}\n",
        "variables": [{"variable": "t", "value_selector": ["start", "t"]}],
        "outputs": {"o": {"type": "object", "children": null}},
    });
    let outputs = json!([{"variable": "o", "value_selector": ["make", "o"]}]);
    let nodes = json!([
        node("start", json!({"type": "start", "title": "Start", "variables": [text]})),
        node("make", code),
        node("end", json!({"type": "end", "title": "End", "outputs": outputs})),
    ]);
    let thief = register(system, "workflow", nodes, json!({})).await;
    let made = run(&thief, "ann", json!({"t": object.to_string()})).await;
    let url = &made.body["data"]["outputs"]["o"]["url"];
    assert!(url.as_str().is_some_and(|url| url.contains("/files/runs/")), "{}", made.text);
    assert_eq!(opened(&system.client, url).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moderated_run_gets_a_file_of_the_users_earlier_run() {
    let model = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    let settings = [
        ("files.url", "place"),
        ("scheduler.upload_bytes_max", "40"),
        ("features.moderation_openai_model", "openai/omni-moderation-latest"),
    ];
    let system = &system(&settings, &model).await;
    let config = json!({"inputs_config": {"enabled": true, "preset_response": "No."},
        "outputs_config": {"enabled": false, "preset_response": ""}});
    let features =
        json!({"sensitive_word_avoidance": {"enabled": true, "type": "openai_moderation", "config": config}});
    let app = reader_with(system, json!({}), features).await;
    let done = run(&app, "ann", json!({"f": uploaded(&app, "ann", "tide.txt").await})).await;
    let mut object = done.body["data"]["outputs"]["f"].clone();
    object["transfer_method"] = "tool_file".into();
    let again = run(&app, "ann", json!({"f": object})).await;
    assert_eq!(again.body["data"]["outputs"]["text"], "High water at seven.", "{}", again.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_a_form_has_an_uploaded_file() {
    let system = &fleet(&[]).await;
    let ask = json!({
        "type": "human-input", "title": "Ask", "delivery_methods": [], "form_content": "Which? {{#$output.doc#}}",
        "inputs": [{"type": "file", "output_variable_name": "doc", "allowed_file_types": ["document"],
            "allowed_file_extensions": [], "allowed_file_upload_methods": ["local_file"]}],
        "user_actions": [{"id": "ok", "title": "OK"}], "timeout": 1, "timeout_unit": "day",
    });
    let outputs = json!([{"variable": "text", "value_selector": ["read", "text"]}]);
    let nodes = json!([
        node("start", json!({"type": "start", "title": "Start", "variables": []})),
        node("ask", ask),
        read("ask", "doc", false),
        node("end", json!({"type": "end", "title": "End", "outputs": outputs})),
    ]);
    let app = register(system, "workflow", nodes, json!({})).await;
    let other = reader(system, json!({})).await;
    let foreign = run(&other, "bob", json!({"f": uploaded(&other, "bob", "theirs.txt").await})).await;
    let forged = foreign.body["data"]["outputs"]["f"].clone();
    assert!(forged["reference"].is_string(), "{}", foreign.text);

    let paused = run(&app, "ann", json!({})).await;
    let token =
        paused.body["data"]["reasons"][0]["form_token"].as_str().unwrap_or_else(|| panic!("{}", paused.text));
    let path = format!("/v1/form/human_input/{token}");
    let answer = async |user: &str, file: &Json| {
        app.post(&path, &json!({"inputs": {"doc": file}, "action": "ok", "user": user})).await
    };
    let file = uploaded(&app, "bob", "tide.txt").await;
    let picture =
        send(&app, &[("file", Some(("a.png", Some("image/png"))), b"\x89PNG"), ("user", None, b"bob")]).await;
    let picture =
        json!({"type": "image", "transfer_method": "local_file", "upload_file_id": picture.body["id"]});
    for (user, file, says) in [
        ("ann", &file, "Invalid upload file"),
        ("bob", &forged, "Invalid upload file"),
        ("bob", &picture, "file is not allowed by config"),
    ] {
        let refused = answer(user, file).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (400, &json!("invalid_form_data")),
            "{}",
            refused.text
        );
        assert!(refused.text.contains(says), "{says}: {}", refused.text);
    }
    let place = system.cluster.logs().join("place/runs");
    assert_eq!(stored(&place).len(), 1, "only the other app's run has a file");
    let accepted = answer("bob", &file).await;
    assert_eq!(accepted.status, 200, "{}", accepted.text);
    let id = paused.body["workflow_run_id"].as_str().expect("an id");
    let ended = system.client.ended(id).await;
    assert_eq!(ended["outputs"]["text"], "High water at seven.", "{ended:#}");
    assert_eq!(answer("bob", &file).await.status, 412);
    let copies: Vec<String> = stored(&place).into_iter().filter(|path| path.contains(id)).collect();
    assert_eq!(copies.len(), 1, "a second answer leaves no copy: {copies:?}");
}
