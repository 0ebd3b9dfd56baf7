//! The request that `tidemill dev` prints for each app: it is run as it is printed, and succeeds.

use std::process::Command;

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::wait::{LONG, until};

fn simple(mode: &str) -> String {
    json!({
        "kind": "app", "version": "0.1.5", "app": {"mode": mode, "name": mode},
        "model_config": {
            "model": {"provider": "langgenius/openai/openai", "name": "gpt-4o", "mode": "chat", "completion_params": {}},
            "pre_prompt": "Write about {{topic}}.",
            "user_input_form": [{"select": {"variable": "topic", "label": "T", "required": true, "options": ["sea", "air"]}}],
        },
    })
    .to_string()
}

/// A workflow whose form has a required field of each kind, and which reads the file.
fn with_form() -> String {
    let field = |name: &str, kind: &str, more: Json| {
        let mut field = json!({"variable": name, "label": name, "type": kind, "required": true});
        field.as_object_mut().expect("a field").extend(more.as_object().cloned().expect("fields"));
        field
    };
    let schema = json!({"type": "object", "required": ["items"], "properties": {
        "items": {"type": "array", "minItems": 1, "items": {"type": "string"}},
    }});
    let methods = json!(["local_file", "remote_url"]);
    let variables = json!([
        field("short", "text-input", json!({"max_length": 3})),
        field("count", "number", json!({})),
        field("kind", "select", json!({"options": ["b", "a"]})),
        field("data", "json_object", json!({"json_schema": schema})),
        field(
            "doc",
            "file",
            json!({"allowed_file_types": ["document"], "allowed_file_upload_methods": methods})
        ),
        field(
            "pictures",
            "file-list",
            json!({"allowed_file_types": ["image"], "allowed_file_upload_methods": methods, "max_length": 2})
        ),
    ]);
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Form"},
        "workflow": {"graph": {
            "nodes": [
                {"id": "s", "data": {"type": "start", "title": "S", "variables": variables}},
                {"id": "x", "data": {"type": "document-extractor", "title": "X", "variable_selector": ["s", "doc"], "is_array_file": false}},
                {"id": "e", "data": {"type": "end", "title": "E", "outputs": [{"variable": "text", "value_selector": ["x", "text"]}]}},
            ],
            "edges": [
                {"id": "a", "source": "s", "target": "x", "sourceHandle": "source"},
                {"id": "b", "source": "x", "target": "e", "sourceHandle": "source"},
            ],
        }},
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_printed_request_of_each_app_succeeds() {
    let cluster = Cluster::start(&[], None).await;
    let files = [
        ("form.json", with_form()),
        ("completion.json", simple("completion")),
        ("chat.json", simple("chat")),
        ("agent-chat.json", simple("agent-chat")),
    ];
    for (name, text) in &files {
        std::fs::write(cluster.logs().join(name), text).expect("it can be written");
    }
    let mut command = cluster.command("tidemill");
    command.arg("dev").args(files.iter().map(|(name, _)| name)).args([
        "--listen",
        "127.0.0.1:0",
        "--data",
        "dev",
    ]);
    command.args(["--redis", &cluster.redis.url(), "--mock-llm"]);
    let mut process = cluster.spawn("dev", command);
    until("the greeting", LONG, async || {
        let said = process.log_text();
        assert_eq!(process.end(), None, "{said}");
        if said.contains("Ctrl-C stops it") { Ok(()) } else { Err(said) }
    })
    .await;
    let said = process.log_text();
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| line.starts_with("curl ")).collect();
    assert_eq!(lines.len(), files.len(), "{said}");
    let run = |line: &str| {
        let output =
            Command::new("sh").args(["-c", &format!("{line} -sS --max-time 60")]).output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{line}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
        text
    };
    let form: Json = serde_json::from_str(&run(lines[0])).expect("JSON");
    assert_eq!(form["data"]["status"], "succeeded", "{}\n{form:#}", lines[0]);
    assert!(
        form["data"]["outputs"]["text"].as_str().is_some_and(|text| text.contains("An example.")),
        "{form:#}"
    );
    let completion: Json = serde_json::from_str(&run(lines[1])).expect("JSON");
    assert!(
        completion["answer"].as_str().is_some_and(|text| !text.is_empty()),
        "{}\n{completion:#}",
        lines[1]
    );
    for line in &lines[2..] {
        let text = run(line);
        assert!(
            text.contains("\"event\":\"message_end\"") && !text.contains("\"event\":\"error\""),
            "{line}\n{text}"
        );
    }
}
