//! `tidemill run` goes through the start form like every client, with files of this machine: they are uploaded, and the run
//! has its own copy.

use std::path::Path;
use std::process::Output;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;

use super::{System, system};

const TIDE: &[u8] = b"High water at seven.";

fn edge(from: &str, to: &str) -> Json {
    json!({"id": format!("{from}{to}"), "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"})
}

/// A chatflow whose form has a choice, a number and a file.
fn chat() -> String {
    let code = "def main(count, tone):\n    return {'kind': type(count).__name__ + ' ' + str(tone)}\n";
    let input = |name: &str| json!({"variable": name, "value_selector": ["start", name]});
    let nodes = json!([
        {"id": "start", "data": {"type": "start", "title": "Start", "variables": [
            {"variable": "tone", "label": "Tone", "type": "select", "required": true, "options": ["dry", "kind"], "default": "dry"},
            {"variable": "count", "label": "Count", "type": "number", "required": true},
            {"variable": "doc", "label": "Doc", "type": "file", "required": true, "allowed_file_types": ["document"], "allowed_file_upload_methods": ["local_file"]},
        ]}},
        {"id": "calc", "data": {"type": "code", "title": "Calc", "code_language": "python3", "code": code,
            "variables": [input("count"), input("tone")], "outputs": {"kind": {"type": "string", "children": null}}}},
        {"id": "read", "data": {"type": "document-extractor", "title": "Read", "variable_selector": ["start", "doc"], "is_array_file": false}},
        {"id": "answer", "data": {"type": "answer", "title": "Answer", "answer": "{{#calc.kind#}}: {{#read.text#}} {{#sys.query#}}"}},
    ]);
    let edges = json!([edge("start", "calc"), edge("calc", "read"), edge("read", "answer")]);
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "advanced-chat", "name": "Form"},
        "workflow": {"graph": {"nodes": nodes, "edges": edges}},
    })
    .to_string()
}

/// A workflow that gives out the files of its form.
fn with_file(field: Json) -> String {
    let mut variable = json!({"variable": "f", "label": "f", "type": "file", "required": true});
    variable.as_object_mut().expect("an object").extend(field.as_object().expect("an object").clone());
    let nodes = json!([
        {"id": "start", "data": {"type": "start", "title": "Start", "variables": [variable]}},
        {"id": "end", "data": {"type": "end", "title": "End", "outputs": [{"variable": "f", "value_selector": ["start", "f"]}]}},
    ]);
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "File"},
        "workflow": {"graph": {"nodes": nodes, "edges": [edge("start", "end")]}},
    })
    .to_string()
}

async fn fleet() -> System {
    let model = llm::rules(json!([{"match": {}, "reply": "x"}])).await;
    system(&[("files.url", "place"), ("scheduler.upload_bytes_max", "40")], &model).await
}

/// The output of `tidemill` with these arguments, in the cluster's folder.
async fn tidemill(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command = cluster.command("tidemill");
    command.args(arguments).stdin(std::process::Stdio::null());
    tokio::task::spawn_blocking(move || command.output().expect("it starts")).await.expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn upload(client: &Client, query: &str, bytes: &'static [u8]) -> HttpResponse {
    let request = client.request(Method::POST, &format!("/api/v1/files?{query}"));
    client.send(request.body(bytes)).await
}

async fn submitted(client: &Client, workflow: &str, user: &str, file: Json) -> HttpResponse {
    let body = json!({"workflow": workflow, "inputs": {"f": file}, "user": user});
    client.post("/api/v1/runs", &body).await
}

/// The files of runs in a folder.
fn files_of_runs(place: &Path) -> Vec<Vec<u8>> {
    let folders = std::fs::read_dir(place.join("runs")).into_iter().flatten().flatten();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.path()).expect("a folder").flatten());
    files.map(|file| std::fs::read(file.path()).expect("a file")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chatflow_at_the_command_line_has_the_types_and_files_of_its_form() {
    let system = &fleet().await;
    let (cluster, url) = (&system.cluster, format!("http://{}", system._scheduler.address));
    let folder = cluster.logs();
    std::fs::write(folder.join("flow.yml"), chat()).expect("writes");
    std::fs::write(folder.join("tide.txt"), TIDE).expect("writes");
    let at = ["run", "flow.yml", "--url", &url, "--key", tidemill_tests::cluster::ADMIN_KEY];
    let run = async |more: &[&str]| tidemill(cluster, &[&at, more].concat()).await;

    let done = run(&["--query", "Thanks?", "-i", "tone=kind", "-i", "count=3", "-f", "doc=@tide.txt"]).await;
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(done.status.success(), "{out}{err}");
    assert!(out.contains("int kind: High water at seven. Thanks?"), "{out}{err}");
    assert_eq!(files_of_runs(&folder.join("place")), [TIDE.to_vec()]);

    let missing = run(&["-i", "tone=kind"]).await;
    let err = text(&missing.stderr);
    assert_eq!(missing.status.code(), Some(2), "{err}");
    for line in [
        "count    number",
        "-i count=VALUE",
        "doc      file: document",
        "-f doc=PATH|URL",
        "--query TEXT",
        "needs inputs that are missing",
    ] {
        assert!(err.contains(line), "{line}: {err}");
    }
    for (argument, said) in [
        ("tone=rude", "tone in input form must be one of the following: ['dry', 'kind']"),
        ("count=many", "count in input form must be a valid number"),
    ] {
        let wrong =
            ["--query", "q", "-i", "tone=kind", "-i", "count=3", "-f", "doc=tide.txt", "-i", argument];
        let refused = text(&run(&wrong).await.stderr);
        assert!(refused.contains(said), "{argument}: {refused}");
    }
    let by_url =
        run(&["--query", "q", "-i", "tone=kind", "-i", "count=3", "-f", "doc=https://h/a.pdf"]).await;
    let err = text(&by_url.stderr);
    let rule = "a.pdf: doc takes files by local_file, not by remote_url (allowed_file_upload_methods)";
    assert!(err.contains(rule), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_scheduler_takes_files_of_this_machine_too() {
    let cluster = Cluster::start(&[], None).await;
    std::fs::write(cluster.logs().join("flow.yml"), chat()).expect("writes");
    std::fs::write(cluster.logs().join("tide.txt"), TIDE).expect("writes");
    let arguments = ["--query", "Thanks?", "-i", "tone=dry", "-i", "count=0.5", "-f", "doc=tide.txt"];
    let done = tidemill(&cluster, &[&["run", "flow.yml", "--mock-llm"], &arguments[..]].concat()).await;
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert!(out.contains("float dry: High water at seven. Thanks?"), "{out}{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_used_by_its_user_and_each_run_has_its_own_copy() {
    let System { client, cluster, .. } = &fleet().await;
    let done = upload(client, "name=../x/%E6%BD%AE.txt&user=ann", TIDE).await;
    assert_eq!(done.status, 201, "{}", done.text);
    let answer = &done.body;
    assert_eq!(
        json!([answer["name"], answer["size"], answer["extension"], answer["mime_type"]]),
        json!(["潮.txt", 20, "txt", "text/plain"])
    );
    let file = json!({"type": "document", "transfer_method": "local_file", "upload_file_id": answer["id"]});
    let workflow = with_file(json!({"allowed_file_types": ["document"]}));
    let mut references = Vec::new();
    for _ in 0..2 {
        let accepted = submitted(client, &workflow, "ann", file.clone()).await;
        assert_eq!(accepted.status, 201, "{}", accepted.text);
        let ended = client.ended(accepted.body["id"].as_str().expect("an id")).await;
        let shown = &ended["outputs"]["f"];
        assert_eq!((&shown["related_id"], &shown["transfer_method"]), (&answer["id"], &json!("local_file")));
        let reference = shown["reference"].as_str().expect("a reference").to_owned();
        assert!(
            reference.starts_with(&format!("runs/{}/", ended["id"].as_str().expect("an id"))),
            "{reference}"
        );
        references.push(reference);
    }
    assert_ne!(references[0], references[1]);
    assert_eq!(files_of_runs(&cluster.logs().join("place")).len(), 2);

    let forged =
        json!({"transfer_method": "local_file", "upload_file_id": "00000000-0000-4000-8000-000000000000"});
    for (user, file, said) in [
        ("bob", file.clone(), "Invalid upload file"),
        ("ann", forged, "Invalid upload file"),
        (
            "ann",
            json!({"type": "image", "transfer_method": "local_file", "upload_file_id": answer["id"]}),
            "Detected file type does not match",
        ),
    ] {
        let refused = submitted(client, &workflow, user, file).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains(said), "{said}: {}", refused.text);
    }
    // A refused request leaves no copy.
    assert_eq!(files_of_runs(&cluster.logs().join("place")).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_an_app_is_for_that_app_only() {
    let System { client, .. } = &fleet().await;
    let workflow = with_file(json!({}));
    let published = client.post("/api/v1/apps", &json!({"workflow": workflow})).await.body;
    let app = published["id"].as_str().expect("an id");
    let done = upload(client, &format!("name=a.txt&user=ann&app={app}"), TIDE).await;
    let file =
        json!({"type": "document", "transfer_method": "local_file", "upload_file_id": done.body["id"]});
    let as_text = submitted(client, &workflow, "ann", file.clone()).await;
    assert!(as_text.text.contains("Invalid upload file"), "{}", as_text.text);
    // Clients of the app use it under `/v1`.
    let of_app = client.with_key(published["key"].as_str());
    let body = json!({"inputs": {"f": file}, "user": "ann", "response_mode": "blocking"});
    let done = of_app.post("/v1/workflows/run", &body).await;
    assert_eq!(done.body["data"]["outputs"]["f"]["filename"], "a.txt", "{}", done.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_too_large_or_has_no_name_leaves_nothing() {
    let System { client, cluster, .. } = &fleet().await;
    let large = upload(client, "name=a.txt", &[b'x'; 41]).await;
    assert_eq!((large.status, &large.body["code"]), (413, &json!("file_too_large")), "{}", large.text);
    assert!(large.text.contains("more than 40 bytes (scheduler.upload_bytes_max)"), "{}", large.text);
    let whole = upload(client, "name=a.txt", &[b'x'; 40]).await;
    assert_eq!(whole.status, 201, "{}", whole.text);
    for (query, status, said) in [
        ("user=u", 400, "name is required"),
        ("name=a.txt&app=none", 404, "app"),
        ("nam=a.txt", 400, "did you mean name?"),
    ] {
        let refused = upload(client, query, TIDE).await;
        assert!(refused.status == status && refused.text.contains(said), "{query}: {}", refused.text);
    }
    let days = std::fs::read_dir(cluster.logs().join("place/uploads")).expect("a folder").flatten();
    let files = days.flat_map(|day| std::fs::read_dir(day.path()).expect("a folder").flatten());
    assert_eq!(files.count(), 2, "the whole one and its record");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_taken_by_url_whatever_upload_methods_its_field_lists() {
    let System { client, .. } = &fleet().await;
    let workflow =
        with_file(json!({"allowed_file_types": ["image"], "allowed_file_upload_methods": ["local_file"]}));
    let file = json!({"type": "image", "transfer_method": "remote_url", "url": "https://h.invalid/a.png"});
    let accepted = submitted(client, &workflow, "u", file).await;
    assert_eq!(accepted.status, 201, "{}", accepted.text);
}
