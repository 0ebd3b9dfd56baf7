//! What front ends and browsers need of `/v1` before a first message: facts about the app, cross-origin requests, compressed
//! bodies and tags.

use reqwest::Method;
use reqwest::header::HeaderMap;
use serde_json::json;
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;

use super::{System, system};

async fn plain(settings: &[(&str, &str)]) -> System {
    system(settings, &llm::rules(json!([{"match": {}, "reply": "x"}])).await).await
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

async fn asked(client: &Client, method: Method, path: &str, headers: &[(&str, &str)]) -> HttpResponse {
    let mut request = client.request(method, path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    client.send(request).await
}

const PAGE: (&str, &str) = ("origin", "https://chat.example.com");

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_any_origin_may_call_the_service_api_and_none_the_native_one() {
    let system = plain(&[]).await;
    let (_, app) = system.client.register(&Flow::new("start -> end")).await;
    let stranger = app.with_key(None);
    let before = [
        PAGE,
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization"),
    ];
    let preflight = asked(&stranger, Method::OPTIONS, "/v1/workflows/run", &before).await;
    assert_eq!(preflight.status, 200, "{}", preflight.text);
    let said = |name: &str| header(&preflight.headers, name).unwrap_or_default().to_lowercase();
    assert_eq!(said("access-control-allow-origin"), "*");
    for method in ["get", "put", "post", "delete", "options", "patch"] {
        assert!(said("access-control-allow-methods").contains(method), "{method}");
    }
    for name in ["content-type", "x-app-code", "x-app-passport", "authorization", "last-event-id"] {
        assert!(said("access-control-allow-headers").contains(name), "{name}");
    }
    let unknown = asked(&stranger, Method::GET, "/v1/nothing", &[PAGE]).await;
    assert_eq!((unknown.status, header(&unknown.headers, "access-control-allow-origin")), (404, Some("*")));
    let without_origin = asked(&stranger, Method::OPTIONS, "/v1/info", &[]).await;
    assert_eq!(without_origin.status, 200, "{}", without_origin.text);

    let body = json!({"inputs": {}, "user": "u", "response_mode": "streaming"}).to_string();
    let request = app.request(Method::POST, "/v1/workflows/run").header("content-type", "application/json");
    let stream = app.send(request.header(PAGE.0, PAGE.1).header("accept-encoding", "gzip").body(body)).await;
    assert!(stream.text.contains("workflow_finished"), "{}", stream.text);
    let refused = asked(&stranger, Method::GET, "/v1/info", &[PAGE]).await;
    assert_eq!(refused.status, 401);
    for answer in [&stream, &refused] {
        assert_eq!(header(&answer.headers, "access-control-allow-origin"), Some("*"));
        let exposed =
            header(&answer.headers, "access-control-expose-headers").unwrap_or_default().to_lowercase();
        assert!(["x-version", "x-env", "x-trace-id"].iter().all(|name| exposed.contains(name)), "{exposed}");
    }
    assert_eq!(header(&stream.headers, "content-encoding"), None, "event streams are never compressed");
    let program = app.get("/v1/info").await;
    assert_eq!(header(&program.headers, "access-control-allow-origin"), None, "the program sends no Origin");

    let closed = asked(&stranger, Method::OPTIONS, "/api/v1/apps", &before).await;
    assert_eq!(header(&closed.headers, "access-control-allow-origin"), None, "{}", closed.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_name_the_origins_that_may_call() {
    let settings =
        [("cors.origins", "https://chat.example.com"), ("cors.native_origins", "https://admin.example.com")];
    let system = plain(&settings).await;
    let (_, app) = system.client.register(&Flow::new("start -> end")).await;
    let allowed = async |client: &Client, path: &str, origin: &str| {
        let answer = asked(client, Method::GET, path, &[("origin", origin)]).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        header(&answer.headers, "access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(allowed(&app, "/v1/info", PAGE.1).await.as_deref(), Some(PAGE.1));
    assert_eq!(allowed(&app, "/v1/info", "https://else.example.com").await, None);
    let admin = "https://admin.example.com";
    assert_eq!(allowed(&system.client, "/api/v1/apps", admin).await.as_deref(), Some(admin));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_json_body_is_compressed_for_a_client_that_accepts_it() {
    let system = plain(&[]).await;
    for _ in 0..12 {
        system.client.register(&Flow::new("start -> end")).await;
    }
    let packed =
        asked(&system.client, Method::GET, "/api/v1/apps", &[("accept-encoding", "gzip, deflate")]).await;
    assert_eq!(header(&packed.headers, "content-encoding"), Some("gzip"));
    assert!(!packed.text.contains("data"), "it is compressed");
    let whole = system.client.get("/api/v1/apps").await;
    assert_eq!(header(&whole.headers, "content-encoding"), None);
    assert!(packed.text.len() < whole.text.len());
    let small = asked(&system.client, Method::GET, "/api/v1/dead", &[("accept-encoding", "gzip")]).await;
    assert_eq!((header(&small.headers, "content-encoding"), small.status), (None, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_about_an_app_have_a_tag_until_it_is_published_again() {
    let system = plain(&[]).await;
    let (id, app) = system.client.register(&Flow::new("start -> end").inputs(&["name"])).await;
    for path in ["/v1/parameters", "/v1/info", "/v1/meta", "/v1/site"] {
        let first = app.get(path).await;
        let tag = header(&first.headers, "etag").unwrap_or_else(|| panic!("{path}")).to_owned();
        let again = asked(&app, Method::GET, path, &[("if-none-match", &tag)]).await;
        assert_eq!((again.status, again.text.as_str()), (304, ""), "{path}");
    }
    let tag = header(&app.get("/v1/parameters").await.headers, "etag").expect("a tag").to_owned();
    let next = json!({"id": id, "workflow": Flow::new("start -> end").inputs(&["name", "more"]).text()});
    let published = system.client.post("/api/v1/apps", &next).await;
    assert!([200, 201].contains(&published.status), "{}", published.text);
    let changed = asked(&app, Method::GET, "/v1/parameters", &[("if-none-match", &tag)]).await;
    assert_eq!((changed.status, changed.body["user_input_form"].as_array().map(Vec::len)), (200, Some(2)));
    let path = format!("/api/v1/apps/{id}");
    let tag = header(&system.client.get(&path).await.headers, "etag").expect("a tag").to_owned();
    assert_eq!(asked(&system.client, Method::GET, &path, &[("if-none-match", &tag)]).await.status, 304);
}

#[tokio::test(flavor = "multi_thread")]
async fn front_ends_read_the_form_the_page_and_the_limits_in_difys_shapes() {
    let system = plain(&[]).await;
    let field = json!({
        "variable": "size", "label": "Size", "type": "select", "required": true, "options": ["s", "m"], "hint": "pick",
        "placeholder": "…", "hide": false,
    });
    let file = json!({
        "kind": "app", "version": "0.6.0",
        "app": {"mode": "workflow", "name": "Front", "description": "d", "icon": "🌊", "icon_type": "emoji", "icon_background": "#E4FBCC", "tags": ["sea"]},
        "workflow": {
            "features": {"opening_statement": "Hi", "speech_to_text": {"enabled": false}},
            "graph": {
                "nodes": [
                    {"id": "s", "data": {"type": "start", "title": "S", "variables": [field]}},
                    {"id": "e", "data": {"type": "end", "title": "E", "outputs": []}},
                ],
                "edges": [{"id": "a", "source": "s", "target": "e", "sourceHandle": "source"}],
            },
        },
    });
    let made = system.client.post("/api/v1/apps", &json!({"workflow": file.to_string()})).await;
    let app = system.client.with_key(made.body["key"].as_str());
    let parameters = app.get("/v1/parameters").await;
    let keys: Vec<&str> = parameters.body.as_object().expect("fields").keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "opening_statement",
            "suggested_questions",
            "suggested_questions_after_answer",
            "speech_to_text",
            "text_to_speech",
            "retriever_resource",
            "annotation_reply",
            "more_like_this",
            "user_input_form",
            "sensitive_word_avoidance",
            "file_upload",
            "system_parameters",
        ]
    );
    assert_eq!(parameters.body["user_input_form"], json!([{"select": field}]), "the whole variable");
    let off = json!({"image": {"enabled": false, "number_limits": 3, "detail": "high", "transfer_methods": ["remote_url", "local_file"]}});
    assert_eq!(parameters.body["file_upload"], off);
    assert_eq!(parameters.body["system_parameters"]["file_size_limit"], 15, "{}", parameters.text);
    assert_eq!(app.get("/v1/meta").await.body, json!({"tool_icons": {}}));
    let site = app.get("/v1/site").await.body;
    let shown = (&site["title"], &site["icon"], &site["icon_background"], &site["default_language"]);
    assert_eq!(shown, (&json!("Front"), &json!("🌊"), &json!("#E4FBCC"), &json!("en-US")));
    let info = app.get("/v1/info").await.body;
    assert_eq!(
        info,
        json!({"name": "Front", "description": "d", "tags": ["sea"], "mode": "workflow", "author_name": null})
    );

    for path in ["/v1", "/v1/"] {
        let index = app.with_key(None).get(path).await;
        assert_eq!(
            (index.status, &index.body["welcome"]),
            (200, &json!("Dify OpenAPI")),
            "{path} {}",
            index.text
        );
        assert_eq!(index.body["api_version"], json!("v1"));
        assert!(
            index.body["server_version"].as_str().is_some_and(|version| version.contains('.')),
            "{}",
            index.text
        );
    }
}
