//! The text that `tidemill dev` prints when everything runs: the address, the keys, and a first request to try.

use serde_json::{Map, Value as Json, json};
use tidemill_common::nodes::start::{InputField, InputKind};

use crate::data_folder::AppOfFile;
use crate::output::text::one_line;
use crate::target::Target;
use crate::workflow_file::Workflow;

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

/// Returns a shell command that runs the app.
fn curl(target: &Target, workflow: &Workflow, app: &AppOfFile) -> String {
    let inputs = example_inputs(workflow);
    let (path, key, body) = if app.key.is_empty() {
        let mut body = json!({"app": app.id, "inputs": inputs, "user": "me"});
        if workflow.is_chat() {
            body["query"] = "Hello".into();
        }
        ("/api/v1/runs", &target.key, body)
    } else if workflow.is_chat() {
        let body = json!({"query": "Hello", "inputs": inputs, "response_mode": "streaming", "user": "me"});
        ("/v1/chat-messages", &app.key, body)
    } else {
        let body = json!({"inputs": inputs, "response_mode": "blocking", "user": "me"});
        ("/v1/workflows/run", &app.key, body)
    };
    format!(
        "curl {}{path} -H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d {}",
        target.url,
        quoted(&body.to_string())
    )
}

fn example_inputs(workflow: &Workflow) -> Map<String, Json> {
    let example = |field: &InputField| match field.kind {
        InputKind::Number => json!(1),
        InputKind::Checkbox => json!(true),
        InputKind::JsonObject => json!({}),
        InputKind::File => file_by_url(field),
        InputKind::FileList => json!([file_by_url(field)]),
        InputKind::Select => {
            field.options.first().map_or_else(|| json!(field.variable), |option| json!(option))
        }
        InputKind::TextInput | InputKind::Paragraph | InputKind::ExternalDataTool => json!(field.variable),
    };
    let fields = workflow.form().iter().filter(|field| field.required);
    fields.map(|field| (field.variable.to_string(), example(field))).collect()
}

/// A file that the field takes, as a request names it by its URL.
fn file_by_url(field: &InputField) -> Json {
    let url = format!(
        "https://example.com/file.{}",
        extension(&field.allowed_file_types, &field.allowed_file_extensions)
    );
    json!({"transfer_method": "remote_url", "url": url})
}

/// An extension that a field takes. The list of extensions counts for custom files only.
fn extension(types: &[String], extensions: &[String]) -> String {
    let takes = |kind: &str| types.is_empty() || types.iter().any(|one| one == kind);
    if let Some(first) = extensions.first().filter(|_| takes("custom")) {
        return first.trim_start_matches('.').to_lowercase();
    }
    let known = [("document", "pdf"), ("image", "png"), ("audio", "mp3"), ("video", "mp4")];
    let found = known.iter().find(|(kind, _)| takes(kind));
    found.map_or("pdf", |(_, extension)| *extension).to_owned()
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
  curl http://127.0.0.1:8700/v1/chat-messages -H 'Authorization: Bearer app-2' -H 'Content-Type: application/json' -d '{"query":"Hello","inputs":{},"response_mode":"streaming","user":"me"}'

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
    fn a_file_has_an_extension_that_the_form_takes() {
        for (types, extensions, expected) in [
            (&["custom"][..], &[".TXT", ".md"][..], "txt"),
            (&[], &[], "pdf"),
            (&["image"], &[], "png"),
            (&["video", "audio"], &[], "mp3"),
            (&[], &["txt"], "txt"),
            (&["document", "custom"], &[".txt"], "txt"),
            // The editor keeps a list that no longer counts.
            (&["image"], &[".txt"], "png"),
            (&["custom"], &[], "pdf"),
        ] {
            let owned = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
            assert_eq!(extension(&owned(types), &owned(extensions)), expected, "{types:?} {extensions:?}");
        }
    }

    #[test]
    fn text_is_quoted_for_the_shell() {
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
