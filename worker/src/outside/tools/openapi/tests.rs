//! Tests of documents as tools, and of calls to a local server.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::IntoResponse;
use axum::routing::any;
use serde_json::{Value as Json, json};
use tidemill_common::config::HttpConfig;
use tidemill_common::files::{Files, Folder};
use tidemill_common::hidden::Hidden;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::nodes::tool::config::KeyPrefix;
use tidemill_common::nodes::tool::{Message, ParameterType, ProviderKind};
use tidemill_common::value::JsonMap;
use tokio::net::TcpListener;

use tidemill_common::nodes::tool::KnownParameters;

use crate::outside::http::Http;
use crate::outside::tools::openapi::*;

const DOCUMENT: &str = r##"
openapi: 3.0.0
info: {title: Pets, version: "1"}
servers:
  - url: ${BASE}
paths:
  /pets/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: string}}
    get:
      operationId: getPet
      summary: short
      description: One pet
      parameters:
        - {name: verbose, in: query, schema: {type: boolean, default: false}}
        - {name: tag, in: query, schema: {type: array, items: {type: string}}}
        - {name: X-Trace, in: header, schema: {type: string}}
        - {name: seen, in: cookie, schema: {type: string}}
    post:
      operationId: setPet
      requestBody:
        content:
          application/json: {schema: {$ref: "#/components/schemas/Pet"}}
  /form:
    post:
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: {properties: {a: {type: string}, b: {type: integer}}, required: [a]}
  /upload:
    post:
      operationId: upload
      requestBody:
        content:
          multipart/form-data:
            schema:
              properties:
                file: {type: string, format: binary}
                note: {type: string}
  /:
    get: {summary: Root}
  /text: {get: {operationId: text}}
  /list: {get: {operationId: list}}
  /empty: {get: {operationId: empty}}
  /png: {get: {operationId: png}}
  /bad: {get: {operationId: bad}}
components:
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: {type: string}
        age: {type: integer}
        good: {type: boolean}
        tags: {type: array, items: {type: string}, default: []}
        kind: {type: string, default: dog}
        size: {anyOf: [{type: integer}, {type: string}]}
        more: {allOf: [{type: object}]}
"##;

type Seen = Arc<Mutex<Vec<(String, HeaderMap, String)>>>;

async fn server() -> (String, Seen) {
    let seen: Seen = Arc::default();
    let noted = seen.clone();
    let take = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let text = String::from_utf8_lossy(&body).into_owned();
        noted.lock().unwrap().push((format!("{method} {uri}"), headers, text));
        match uri.path() {
            "/text" => "plain words".into_response(),
            "/list" => ([("content-type", "application/json")], "[1, 2]").into_response(),
            "/empty" => StatusCode::OK.into_response(),
            "/png" => (
                [("content-type", "image/png"), ("content-disposition", "attachment; filename=\"a.png\"")],
                vec![0u8, 159, 1],
            )
                .into_response(),
            "/bad" => (StatusCode::SERVICE_UNAVAILABLE, "key s3cret is wrong").into_response(),
            _ => ([("content-type", "application/json")], r#"{"ok": true}"#).into_response(),
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(any(take))).await });
    (base, seen)
}

fn api(base: &str, config: ApiConfig) -> Result<OpenApi, ToolSettingError> {
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("pets.yml");
    std::fs::write(&spec, DOCUMENT.replace("${BASE}", base)).unwrap();
    let config = ApiConfig { spec: spec.to_str().unwrap().into(), ..config };
    let http = allowing("127.0.0.1");
    OpenApi::new("pets", &config, &|name| (name == "PETS_KEY").then(|| "s3cret".into()), (&http, 100_000))
}

fn allowing(host: &str) -> HttpConfig {
    HttpConfig { allow: vec![host.into()], ..HttpConfig::default() }
}

fn tool(name: &str) -> ToolName<'_> {
    ToolName { kind: ProviderKind::Api, provider_id: "pets", provider_name: "pets", tool: name, plugin: None }
}

struct Outside {
    http: Http,
    files: Folder,
    _folder: tempfile::TempDir,
}

fn outside() -> Outside {
    let config = allowing("127.0.0.1");
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
    Outside { http: Http::new(&config).unwrap(), files, _folder: folder }
}

async fn invoke(
    api: &OpenApi,
    name: &str,
    arguments: Json,
    outside: &Outside,
) -> Result<Vec<Message>, ToolError> {
    let arguments: JsonMap = arguments.as_object().unwrap().clone();
    let run = RunId::generate(ShardId(0));
    let call = ToolCall {
        arguments: &arguments,
        run: &run,
        http: &outside.http,
        files: &outside.files,
        idempotency_key: "k1",
        sends_key: true,
        nested: 0,
        auto_approved: None,
        step: None,
        known: KnownParameters::NOTHING,
    };
    let mut messages = Vec::new();
    api.invoke(&tool(name), call, &mut |message| messages.push(message)).await?;
    Ok(messages)
}

#[tokio::test]
async fn operations_are_tools() {
    let api = api("http://x", ApiConfig::default()).unwrap();
    let tools = api.list("pets").await.unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    for name in ["getPet", "setPet", "form_post", "upload", "<root>_get"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let pet = api.operation(&tool("getPet")).await.unwrap();
    assert_eq!(pet.declaration.description, "One pet");
    let types = |operation: &Operation| -> Vec<(String, ParameterType, bool)> {
        let all = &operation.declaration.parameters;
        let mut all: Vec<_> = all.iter().map(|one| (one.name.clone(), one.ty, one.required)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    let expected = |all: &[(&str, ParameterType, bool)]| -> Vec<(String, ParameterType, bool)> {
        all.iter().map(|(name, ty, required)| ((*name).to_owned(), *ty, *required)).collect()
    };
    use ParameterType as T;
    let outer = [
        ("X-Trace", T::String, false),
        ("id", T::String, true),
        ("seen", T::String, false),
        ("tag", T::Array, false),
        ("verbose", T::Boolean, false),
    ];
    assert_eq!(types(pet), expected(&outer));
    let body = [
        ("age", T::Number, false),
        ("good", T::Boolean, false),
        ("id", T::String, true),
        ("kind", T::String, false),
        ("more", T::String, false),
        ("name", T::String, true),
        ("size", T::String, false),
        ("tags", T::Array, false),
    ];
    assert_eq!(types(api.operation(&tool("setPet")).await.unwrap()), expected(&body));
    let upload = types(api.operation(&tool("upload")).await.unwrap());
    assert_eq!(upload, expected(&[("file", T::File, false), ("note", T::String, false)]));
    let missing = api.parameters(&tool("fly")).await.unwrap_err();
    assert_eq!(missing.message, "the document of provider pets has no operation fly");
}

#[tokio::test]
async fn requests_are_put_together_as_dify_does() {
    let (base, seen) = server().await;
    let config = ApiConfig {
        auth_type: AuthType::ApiKeyHeader,
        api_key_header: "X-Key".into(),
        api_key_header_prefix: KeyPrefix::Custom,
        api_key_env: "PETS_KEY".into(),
        ..ApiConfig::default()
    };
    let (api, outside) = (api(&base, config).unwrap(), outside());
    let reference = outside.files.keep(&RunId::generate(ShardId(0)), Bytes::from("abc")).await.unwrap();
    let file = json!({"filename": "a.txt", "mime_type": "text/plain", "transfer_method": "tool_file", "reference": reference});
    let get = json!({"id": "a b/c", "tag": ["x", "y"], "X-Trace": "t1", "seen": "yes", "unknown": null});
    for (name, arguments) in [
        ("getPet", get),
        ("setPet", json!({"id": 7, "name": "Rex", "age": "3", "good": "false", "size": "big"})),
        ("form_post", json!({"a": "1 & 2", "b": 5})),
        ("upload", json!({"file": file, "note": "n"})),
    ] {
        let messages = invoke(&api, name, arguments, &outside).await.unwrap();
        let raw = Message::Text(r#"{"ok": true}"#.into());
        assert_eq!(messages, [Message::Json(json!({"ok": true})), raw], "{name}");
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0].0, "GET /pets/a%20b%2Fc?verbose=false&tag=x&tag=y");
    let header = |at: usize, name: &str| seen[at].1.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(header(0, "x-trace").as_deref(), Some("t1"));
    assert_eq!(header(0, "cookie").as_deref(), Some("seen=yes"));
    assert_eq!(header(0, "x-key").as_deref(), Some("s3cret"));
    assert_eq!(header(0, "idempotency-key").as_deref(), Some("k1"));
    let body: Json = serde_json::from_str(&seen[1].2).unwrap();
    let expected = json!({"name": "Rex", "age": 3, "good": true, "tags": [], "kind": "dog", "size": "big"});
    assert_eq!((seen[1].0.as_str(), body), ("POST /pets/7", expected));
    assert_eq!(seen[2].2, "a=1+%26+2&b=5");
    let multipart = header(3, "content-type").unwrap();
    assert!(multipart.starts_with("multipart/form-data; boundary="), "{multipart}");
    assert!(seen[3].2.contains("filename=\"a.txt\"") && seen[3].2.contains("abc"), "{}", seen[3].2);
}

#[tokio::test]
async fn answers_become_messages() {
    let (base, seen) = server().await;
    let config = ApiConfig {
        auth_type: AuthType::ApiKeyQuery,
        api_key_value: Hidden("s3cret".into()),
        ..ApiConfig::default()
    };
    let (api, outside) = (api(&base, config).unwrap(), outside());
    let text = |said: &str| vec![Message::Text(said.into())];
    let png = Message::Blob {
        bytes: vec![0, 159, 1],
        tool_file_id: None,
        mime_type: Some("image/png".into()),
        filename: Some("a.png".into()),
    };
    for (name, expected) in [
        ("text", text("plain words")),
        ("list", text("[1, 2]")),
        ("empty", text("Empty response from the tool, please check your parameters and try again.")),
        ("png", vec![png]),
    ] {
        assert_eq!(invoke(&api, name, json!({}), &outside).await, Ok(expected), "{name}");
    }
    assert_eq!(seen.lock().unwrap()[0].0, "GET /text?key=s3cret");
    let error = invoke(&api, "bad", json!({}), &outside).await.unwrap_err();
    assert_eq!(error.message, "Request failed with status code 503 and key *** is wrong");
    assert!(error.retryable);
    for (name, arguments, message) in [
        ("getPet", json!({}), "Missing required parameter id"),
        ("getPet", json!({"id": ".."}), "parameter id of the path cannot be \"..\""),
        ("form_post", json!({}), "Missing required parameter a in operation form_post"),
    ] {
        let error = invoke(&api, name, arguments, &outside).await.unwrap_err();
        assert_eq!((error.stage, error.message.as_str()), (Stage::Tool, message));
    }
}

#[tokio::test]
async fn the_guard_stands_before_addresses_of_documents() {
    let (base, _) = server().await;
    let api = api(&base, ApiConfig::default()).unwrap();
    let guarded = Outside { http: Http::new(&HttpConfig::default()).unwrap(), ..outside() };
    let error = invoke(&api, "text", json!({}), &guarded).await.unwrap_err();
    assert!(!error.retryable && error.message.contains("127.0.0.1"), "{error}");
}

/// Loads the document of a manifest whose server has it from the second request on.
async fn of_manifest(
    kind: &str,
    http: &HttpConfig,
    bytes_max: u64,
) -> (Result<OpenApi, ToolSettingError>, Seen) {
    let seen: Seen = Arc::default();
    let noted = seen.clone();
    let take = move |method: Method, uri: Uri, headers: HeaderMap| async move {
        let mut seen = noted.lock().unwrap();
        seen.push((format!("{method} {uri}"), headers, String::new()));
        let status = if seen.len() == 1 { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        (status, DOCUMENT.replace("${BASE}", "http://pets.example"))
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/openapi.yml", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(any(take))).await });
    let folder = tempfile::tempdir().unwrap();
    let spec = folder.path().join("ai-plugin.json");
    let manifest = json!({
        "schema_version": "v1", "name_for_model": "pets", "auth": {"type": "none"}, "api": {"type": kind, "url": url},
    });
    std::fs::write(&spec, manifest.to_string()).unwrap();
    let config = ApiConfig { spec: spec.to_str().unwrap().into(), ..ApiConfig::default() };
    (OpenApi::new("pets", &config, &|_| None, (http, bytes_max)), seen)
}

#[tokio::test]
async fn the_document_that_a_manifest_names_is_fetched_when_it_is_needed_and_once() {
    let (api, seen) = of_manifest("openapi", &allowing("127.0.0.1"), 100_000).await;
    let api = api.unwrap();
    assert_eq!(seen.lock().unwrap().len(), 0, "a worker starts without it");
    let error = api.parameters(&tool("getPet")).await.unwrap_err();
    assert!(error.retryable && error.message.contains("status 503"), "{error}");
    let declared = api.parameters(&tool("getPet")).await.unwrap().unwrap();
    assert_eq!(declared.description, "One pet");
    assert_eq!(api.operation(&tool("getPet")).await.unwrap().url, "http://pets.example/pets/{id}");
    assert!(api.list("pets").await.unwrap().len() > 5);
    let told: Vec<String> = seen.lock().unwrap().iter().map(|(line, ..)| line.clone()).collect();
    assert_eq!(told, ["GET /openapi.yml", "GET /openapi.yml"]);
}

#[tokio::test]
async fn what_a_manifest_names_is_bounded_like_all_that_is_fetched() {
    let (api, seen) = of_manifest("openapi", &HttpConfig::default(), 100_000).await;
    let error = api.unwrap().list("pets").await.unwrap_err();
    assert!(error.message.contains("127.0.0.1") && error.message.contains("manifest"), "{error}");
    assert_eq!(seen.lock().unwrap().len(), 0, "the guard stands before it");
    let (api, _) = of_manifest("openapi", &allowing("127.0.0.1"), 100).await;
    let api = api.unwrap();
    drop(api.list("pets").await);
    let error = api.list("pets").await.unwrap_err();
    assert!(error.message.contains("100 bytes (tools.answer_bytes_max)"), "{error}");
    let (api, _) = of_manifest("graphql", &HttpConfig::default(), 100).await;
    let error = api.err().unwrap().to_string();
    assert!(error.ends_with("Only openapi is supported now."), "{error}");
}

#[test]
fn what_cannot_be_used_names_the_setting() {
    for (document, reason) in [
        ("swagger: '1.2'", "Only openapi is supported now."),
        ("swagger: '2.0'", "No server found in the openapi yaml."),
        (
            "schema_version: v1\napi: {type: openapi, url: 'http://x/api.yml'}",
            "Only openapi is supported now. This is a plugin's manifest: give the document of http://x/api.yml",
        ),
        ("openapi: 3.1", "No server found in the openapi yaml."),
        ("openapi: 3.0.0", "No server found in the openapi yaml."),
        ("openapi: 3.0.0\nservers: [{url: 'http://x'}]", "No paths found in the openapi yaml."),
        ("openapi: 3.0.0\nservers: [{url: /v1}]", "the server \"/v1\" is not a URL"),
    ] {
        let error = document::read(document.as_bytes(), None).unwrap_err();
        assert!(error.starts_with(reason), "{error}");
    }
    let missing = ApiConfig { auth_type: AuthType::ApiKeyHeader, ..ApiConfig::default() };
    let unset = ApiConfig { api_key_env: "NOBODY".into(), ..ApiConfig::default() };
    for (config, expected) in [
        (missing, "setting tools.api.\"pets\".api_key_value: Missing api_key_value"),
        (unset, "setting tools.api.\"pets\".api_key_env: the environment variable NOBODY is not set"),
    ] {
        let error = api("http://x", config).map(drop).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
