use std::borrow::Cow;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use serde_json::json;
use tidemill_common::config::HttpConfig;
use tidemill_common::dsl::Problems;
use tidemill_common::files::Folder;
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::value::{Lookup, Segment};
use tokio::net::TcpListener;

use super::*;

struct Given(Segment);
impl Variables for Given {
    fn variable(&self, _: &str, name: &str) -> Lookup<'_> {
        if name == "file" { Lookup::Found(Cow::Borrowed(&self.0)) } else { Lookup::Missing }
    }
    fn names(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// A server with a file, and an Unstructured service that returns what it received.
async fn server() -> String {
    let service = |headers: HeaderMap, body: Bytes| async move {
        let key = headers.get("unstructured-api-key").and_then(|key| key.to_str().ok()).unwrap_or_default();
        let body = String::from_utf8_lossy(&body).into_owned();
        let name =
            body.split("filename=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        match body.contains("broken") {
            true => (StatusCode::UNPROCESSABLE_ENTITY, String::new()),
            false => (
                StatusCode::OK,
                json!([{"text": format!("key {key}")}, {"text": name, "type": "Title"}]).to_string(),
            ),
        }
    };
    let named = || async {
        let headers =
            [("content-type", "application/octet-stream"), ("content-disposition", "inline; filename=a.csv")];
        (headers, "a,b")
    };
    let router = Router::new()
        .route("/a.txt", get(|| async { "hello" }))
        .route("/plain", get(|| async { "hello" }))
        .route("/named", get(named))
        .route("/general/v0/general", post(service));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

async fn run(config: &Config, file: Json) -> NodeResult {
    let mut problems = Problems::new();
    let data = json!({"variable_selector": ["start", "file"]});
    let data = DocumentExtractorData::parse(data.as_object().unwrap(), &mut problems).unwrap();
    let http = Http::new(&HttpConfig { allow: vec!["127.0.0.1".into()], ..HttpConfig::default() }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
    let mut file = file;
    if let Some(kept) = file.get("kept").and_then(Json::as_str).map(str::to_owned) {
        let reference = files.keep(&RunId::generate(ShardId(0)), kept.into()).await.unwrap();
        file["reference"] = reference.into();
    }
    file["dify_model_identity"] = "__dify__file__".into();
    let means = Means { http: &http, files: &files, owner: Owner::default() };
    DocumentNodes::hosted(config, None).run(&data, &Given(Segment::restore_files(file)), means).await
}

fn told(result: &NodeResult) -> String {
    match (&result.failure, result.outputs.first()) {
        (Some(failure), _) => format!("{}|{}", failure.error_type, failure.message),
        (None, Some((_, text))) => text.value.as_str().unwrap_or_default().to_owned(),
        (None, None) => "nothing".into(),
    }
}

#[tokio::test]
async fn files_come_from_their_url_or_from_where_files_are_kept() {
    let base = server().await;
    let mut config = Config::default();
    config.documents.file_bytes_max = 10;
    let remote = |path: &str| json!({"transfer_method": "remote_url", "remote_url": format!("{base}{path}"), "extension": ".txt"});
    for (file, expected) in [
        (remote("/a.txt"), "hello".to_owned()),
        (
            json!({"transfer_method": "tool_file", "kept": "a,b", "extension": ".csv"}),
            "| a | b |\n| - | - |\n".into(),
        ),
        (
            remote("/none"),
            format!("|Error downloading file: HTTP request failed with status code 404 for {base}/none"),
        ),
        (
            json!({"transfer_method": "remote_url", "extension": ".txt"}),
            "|Missing URL for remote file".into(),
        ),
        (
            json!({"transfer_method": "local_file", "extension": ".txt"}),
            "|Error downloading file: it has neither a URL nor a reference".into(),
        ),
        (
            json!({"transfer_method": "tool_file", "kept": "more than ten", "extension": ".txt"}),
            "|Error downloading file: the file has 13 bytes, and 10 are allowed".into(),
        ),
        (
            json!({"transfer_method": "tool_file", "extension": ".xyz"}),
            "|Unsupported Extension Type: .xyz".into(),
        ),
    ] {
        let result = run(&config, file.clone()).await;
        assert_eq!(told(&result), expected, "{file}");
        assert_eq!(result.process_data["documents"].as_array().map(Vec::len), Some(1));
    }
}

#[tokio::test]
async fn the_server_knows_the_format_of_a_file_that_its_object_does_not_know() {
    let base = server().await;
    let remote = |path: &str, extension: Json| json!({"transfer_method": "remote_url", "remote_url": format!("{base}{path}"), "extension": extension, "mime_type": "application/octet-stream"});
    let table = "| a | b |\n| - | - |\n";
    for (file, expected) in [
        (remote("/plain", json!(".bin")), "hello".to_owned()),
        (remote("/named", json!(".bin")), table.into()),
        (remote("/named", json!(null)), table.into()),
        (
            remote("/none", json!(".bin")),
            format!("|Error downloading file: HTTP request failed with status code 404 for {base}/none"),
        ),
        (
            json!({"transfer_method": "tool_file", "kept": "a,b", "extension": ".bin", "mime_type": "text/csv"}),
            table.into(),
        ),
        (
            json!({"transfer_method": "tool_file", "kept": "a,b", "extension": ".bin"}),
            "|Unsupported Extension Type: .bin".into(),
        ),
    ] {
        assert_eq!(told(&run(&Config::default(), file.clone()).await), expected, "{file}");
    }
}

#[tokio::test]
async fn what_nothing_here_reads_goes_to_the_service_or_says_what_to_set() {
    let base = server().await;
    let kept = |content: &str, extension: &str| json!({"transfer_method": "tool_file", "kept": content, "extension": extension, "filename": format!("a{extension}")});
    let none = Config::default();
    for (extension, expected) in [
        (".doc", "|Unstructured API URL is not configured for DOC file processing."),
        (".pptx", "|Failed to extract text from PPTX: documents of this type are not read here"),
    ] {
        assert!(told(&run(&none, kept("x", extension)).await).starts_with(expected), "{extension}");
    }
    let mut config = Config::default();
    config.documents.unstructured_url = format!("{base}/general/v0/general").into();
    config.documents.unstructured_key = "k".into();
    for extension in [".doc", ".ppt", ".pptx", ".msg"] {
        assert_eq!(told(&run(&config, kept("x", extension)).await), format!("key k\na{extension}"));
    }
    let failed = told(&run(&config, kept("broken", ".msg")).await);
    assert!(
        failed.starts_with("|Failed to extract text from MSG: the service at ")
            && failed.ends_with("status 422"),
        "{failed}"
    );
}
