//! The text that `tidemill dev` prints when everything runs: the address, the keys, and a first request to try.

use serde_json::json;
use tidemill_common::graph::SimpleMode;

use super::example::{self, Upload};
use crate::data_folder::AppOfFile;
use crate::output::text::one_line;
use crate::target::Target;
use crate::workflow_file::Workflow;

/// The user of the printed requests.
const USER: &str = "me";

/// Returns the whole text.
pub(super) fn text(target: &Target, workflows: &[Workflow], apps: &[AppOfFile]) -> String {
    let mut text = format!("Tidemill runs at {}\nadmin key  {}\n", target.url, target.key);
    for (workflow, app) in workflows.iter().zip(apps) {
        let (name, file) = (one_line(&workflow.name()), workflow.path.display());
        let revoked = format!("revoked; `tidemill keys add {}` makes another", app.id);
        let key = if app.key.is_empty() { &revoked } else { &app.key };
        text.push_str(&format!("\n{name}  ({file})\n  app  {}\n  key  {key}\n", app.id));
        text.push_str(&format!("  {}\n", curl(target, workflow, app)));
    }
    text.push_str("\nCtrl-C stops it; `tidemill ps` in another terminal lists runs\n");
    text
}

/// Returns a shell command that runs the app. A file of its form is uploaded by a command inside it.
fn curl(target: &Target, workflow: &Workflow, app: &AppOfFile) -> String {
    let (inputs, uploads) = example::inputs(workflow.form());
    let (path, key, mut body) = if app.key.is_empty() {
        ("/api/v1/runs", &target.key, json!({"app": app.id, "inputs": inputs, "user": USER}))
    } else {
        (route(workflow), &app.key, json!({"inputs": inputs, "response_mode": mode(workflow), "user": USER}))
    };
    if workflow.is_chat() {
        body["query"] = "Hello".into();
    }
    let mut body = quoted(&body.to_string());
    for upload in &uploads {
        body = body.replace(&upload.mark, &format!("'\"$({})\"'", upload_command(target, app, upload)));
    }
    format!(
        "curl {}{path} -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d {body}",
        target.url
    )
}

/// The route of `/v1` that serves apps of this mode.
fn route(workflow: &Workflow) -> &'static str {
    match workflow.graph.front.mode {
        Some(SimpleMode::Completion) => "/v1/completion-messages",
        Some(SimpleMode::Chat | SimpleMode::AgentChat) => "/v1/chat-messages",
        None if workflow.is_chat() => "/v1/chat-messages",
        None => "/v1/workflows/run",
    }
}

/// A conversation is read as it is written; an agent app answers in no other way.
fn mode(workflow: &Workflow) -> &'static str {
    if workflow.is_chat() { "streaming" } else { "blocking" }
}

/// A shell command that stores an example file and prints its id.
fn upload_command(target: &Target, app: &AppOfFile, upload: &Upload) -> String {
    format!(
        "{} | curl -sS '{}/api/v1/files?name={}&app={}&user={USER}' -H 'Authorization: Bearer {}' -H 'Content-Type: {}' \
         --data-binary @- | sed 's/.*\"id\": *\"\\([^\"]*\\)\".*/\\1/'",
        upload.bytes, target.url, upload.name, app.id, target.key, upload.media_type
    )
}

/// Quotes text as one word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::graph::import;

    fn workflow(file: &str) -> Workflow {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(file);
        let text = std::fs::read_to_string(path).expect("an example");
        let graph = import(text.as_bytes()).graph.expect("usable");
        Workflow { path: format!("examples/{file}").into(), text, graph }
    }

    #[test]
    fn every_app_has_a_command_that_runs_it() {
        let target = Target { url: "http://127.0.0.1:8700".into(), key: "admin-1".into() };
        let app = |n: u8| AppOfFile { id: format!("a{n}"), key: format!("app-{n}") };
        let printed = text(&target, &[workflow("hello.yml"), workflow("chat.yml")], &[app(1), app(2)]);
        let expected = r#"Tidemill runs at http://127.0.0.1:8700
admin key  admin-1

Hello  (examples/hello.yml)
  app  a1
  key  app-1
  curl http://127.0.0.1:8700/v1/workflows/run -H 'Authorization: Bearer app-1' -H 'Content-Type: application/json' -d '{"inputs":{"name":"name"},"response_mode":"blocking","user":"me"}'

Chat  (examples/chat.yml)
  app  a2
  key  app-2
  curl http://127.0.0.1:8700/v1/chat-messages -H 'Authorization: Bearer app-2' -H 'Content-Type: application/json' -d '{"inputs":{},"response_mode":"streaming","user":"me","query":"Hello"}'

Ctrl-C stops it; `tidemill ps` in another terminal lists runs
"#;
        assert_eq!(printed, expected);
    }

    #[test]
    fn an_app_whose_key_was_revoked_is_run_with_the_admin_key() {
        let target = Target { url: "http://h".into(), key: "admin-1".into() };
        let app = AppOfFile { id: "a1".into(), key: String::new() };
        let printed = text(&target, &[workflow("hello.yml")], &[app]);
        assert!(printed.contains("  key  revoked; `tidemill keys add a1` makes another\n"), "{printed}");
        assert!(
            printed.contains("curl http://h/api/v1/runs -H 'Authorization: Bearer admin-1'"),
            "{printed}"
        );
    }

    #[test]
    fn each_mode_has_its_route_and_a_file_of_the_form_is_uploaded_first() {
        let file = |text: &str| {
            let graph = import(text.as_bytes()).graph.expect("usable");
            Workflow { path: "x.yml".into(), text: text.into(), graph }
        };
        let simple = |mode: &str| {
            file(&format!(
                "kind: app\nversion: 0.1.5\napp: {{mode: {mode}, name: x}}\nmodel_config: {{model: {{provider: p, name: m, \
                 mode: chat, completion_params: {{}}}}, pre_prompt: hi}}\n"
            ))
        };
        let target = Target { url: "http://h".into(), key: "admin-1".into() };
        let app = AppOfFile { id: "a1".into(), key: "app-1".into() };
        for (mode, route, reply) in [
            ("completion", "/v1/completion-messages", "blocking"),
            ("chat", "/v1/chat-messages", "streaming"),
            ("agent-chat", "/v1/chat-messages", "streaming"),
        ] {
            let line = curl(&target, &simple(mode), &app);
            assert!(line.contains(&format!("http://h{route} ")) && line.contains(reply), "{line}");
            assert_eq!(line.contains("\"query\":\"Hello\""), mode != "completion", "{line}");
        }
        let form = "app: {mode: workflow, name: x}\nkind: app\nversion: 0.6.0\nworkflow: {graph: {nodes: [{id: s, data: {type: start, \
                    title: s, variables: [{variable: doc, label: d, type: file, required: true, allowed_file_types: [document], \
                    allowed_file_upload_methods: [local_file, remote_url]}]}}, {id: e, data: {type: end, title: e, outputs: []}}], \
                    edges: [{id: a, source: s, target: e}]}}\n";
        let line = curl(&target, &file(form), &app);
        let expected = r#""upload_file_id":"'"$(printf 'An example.\n' | curl -sS 'http://h/api/v1/files?name=example.txt&app=a1&user=me'"#;
        assert!(line.contains(expected), "{line}");
    }

    #[test]
    fn text_is_quoted_for_the_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
