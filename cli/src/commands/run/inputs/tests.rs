//! Requests that start runs: values of each kind, and what is asked for.

use super::*;
use crate::client::tests::FakeScheduler;
use crate::console::tests::{captured, captured_with};
use crate::target::Target;
use tidemill_common::graph::import;

const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

fn with_form(mode: &str, fields: Json) -> Workflow {
    let text = json!({
        "app": {"mode": mode, "name": "T"}, "kind": "app", "version": "0.3.0",
        "workflow": {"graph": {"edges": [
            {"id": "e", "source": "s", "target": "e", "sourceHandle": "source", "targetHandle": "target"},
        ], "nodes": [
            {"id": "s", "data": {"type": "start", "title": "S", "variables": fields}},
            if mode == "workflow" {
                json!({"id": "e", "data": {"type": "end", "title": "E", "outputs": []}})
            } else {
                json!({"id": "e", "data": {"type": "answer", "title": "E", "answer": "x"}})
            },
        ]}},
    })
    .to_string();
    let imported = import(text.as_bytes());
    let graph = imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics));
    Workflow { path: "t.yml".into(), text, graph }
}

fn workflow(mode: &str) -> Workflow {
    with_form(
        mode,
        json!([
            {"variable": "name", "label": "name", "type": "text-input"},
            {"variable": "n", "label": "n", "type": "number"},
            {"variable": "o", "label": "o", "type": "json_object"},
            {"variable": "doc", "label": "doc", "type": "file"},
            {"variable": "docs", "label": "docs", "type": "file-list"},
        ]),
    )
}

fn args(input: &[&str], inputs: Option<&str>, query: Option<&str>) -> InputArgs {
    let input = input.iter().map(|text| pair(text).expect("a pair")).collect();
    let (inputs, query) = (inputs.map(Into::into), query.map(Into::into));
    InputArgs { input, inputs, query, user: "u".into(), ..InputArgs::default() }
}

fn with_files(files: &[&str]) -> InputArgs {
    let given_files = files.iter().map(|text| files::split(text).expect("a file")).collect();
    InputArgs { given_files, ..args(&[], None, None) }
}

async fn client() -> (FakeScheduler, Client) {
    let scheduler = FakeScheduler::start().await;
    let target = Target { url: scheduler.url.clone(), key: "key".into() };
    (scheduler, Client::new(&target).expect("a client"))
}

/// The request, without a terminal.
async fn sent(args: &InputArgs, workflow: &Workflow) -> Json {
    let (_scheduler, client) = client().await;
    let request = args.request(workflow, true, &mut captured().0).await.expect("fits");
    request.body(&client).await.expect("is sent")
}

async fn refused(args: InputArgs, workflow: &Workflow) -> String {
    args.request(workflow, true, &mut captured().0).await.expect_err("wrong").to_string()
}

#[tokio::test]
async fn inputs_are_text_except_mappings() {
    let args = args(&["name=a=b", "n=3", "o={\"k\":1}", "more=x"], Some("{\"n\":2,\"z\":null}"), None);
    let request = sent(&args, &workflow("workflow")).await;
    let expected = json!({"n": "3", "z": null, "name": "a=b", "o": {"k": 1}, "more": "x"});
    assert_eq!(request["inputs"], expected);
    assert_eq!((&request["user"], request.get("sys"), request.get("query")), (&json!("u"), None, None));
}

#[tokio::test]
async fn options_are_parsed_as_json_or_else_sent_as_text() {
    let option = ["deadline_ms=1500", "language=en"].map(|text| pair(text).expect("a pair")).to_vec();
    let request = sent(&InputArgs { option, ..args(&[], None, None) }, &workflow("workflow")).await;
    assert_eq!(request["options"], json!({"deadline_ms": 1500, "language": "en"}));
    let plain = sent(&args(&[], None, None), &workflow("workflow")).await;
    assert_eq!(plain.get("options"), None);
}

#[tokio::test]
async fn the_question_goes_through_the_form_as_with_any_client() {
    let request = sent(&args(&[], None, Some("why?")), &workflow("advanced-chat")).await;
    assert_eq!((&request["query"], request.get("sys")), (&json!("why?"), None));
    let refused = |args, mode: &'static str| async move { refused(args, &workflow(mode)).await };
    assert!(refused(args(&[], None, Some("x")), "workflow").await.contains("not a chatflow"));
    assert!(refused(args(&["o=x"], None, None), "workflow").await.contains("the input o must be JSON"));
    assert!(refused(args(&[], Some("[]"), None), "workflow").await.contains("must be a JSON object"));
    assert!(refused(args(&[], Some("{"), None), "workflow").await.contains("not JSON"));
    assert!(refused(args(&[], Some("@/nowhere"), None), "workflow").await.contains("cannot read /nowhere"));
    assert!(pair("=x").is_err() && pair("x").is_err());
}

#[tokio::test]
async fn a_text_can_come_from_a_file() {
    let at = format!("name=@{HERE}");
    let request = sent(&args(&[&at, "more=@@me"], None, None), &workflow("workflow")).await;
    let text = request["inputs"]["name"].as_str().expect("a text");
    assert!(text.starts_with("[package]"), "{text}");
    assert_eq!(request["inputs"]["more"], "@me");
    let error = refused(args(&["name=@/nowhere"], None, None), &workflow("workflow")).await;
    assert!(error.contains("cannot read /nowhere: ") && error.contains("write @@"), "{error}");
}

#[tokio::test]
async fn files_are_uploaded_or_named_by_their_url() {
    let local = json!({"transfer_method": "local_file", "upload_file_id": "up-Cargo.toml"});
    let remote = json!({"transfer_method": "remote_url", "url": "https://h/a?b=c"});
    let (path, at) = (format!("docs={HERE}"), format!("doc=@{HERE}"));
    let args = with_files(&[&at, &path, "docs=https://h/a?b=c"]);
    let request = sent(&args, &workflow("workflow")).await;
    assert_eq!(request["inputs"], json!({"doc": local, "docs": [local, remote]}));
    let by_input = [at.as_str(), "docs=[{\"x\":1}]"];
    let request = sent(&self::args(&by_input, None, None), &workflow("workflow")).await;
    assert_eq!(request["inputs"], json!({"doc": local, "docs": [{"x": 1}]}));
    for (files, said) in [
        (vec![at.as_str(), at.as_str()], "the input doc takes one file, and -f gives 2"),
        (vec!["name=https://h/a"], "the input name is a text-input, not a file"),
        (vec!["dog=https://h/a"], "no input dog; its inputs for files are: doc, docs"),
        (vec!["doc=/nowhere"], "cannot read /nowhere"),
        (
            vec!["https://h/a"],
            "takes no files with a message (features.file_upload); its inputs for files are doc",
        ),
    ] {
        let error = refused(with_files(&files), &workflow("workflow")).await;
        assert!(error.contains(said), "{files:?}: {error}");
    }
}

fn required() -> Workflow {
    with_form(
        "advanced-chat",
        json!([
            {"variable": "tone", "label": "Tone", "type": "select", "required": true, "options": ["short", "long"], "default": "short"},
            {"variable": "count", "label": "count", "type": "number", "required": true},
            {"variable": "sure", "label": "sure", "type": "checkbox", "required": true},
            {"variable": "name", "label": "name", "type": "text-input", "required": true, "max_length": 3},
            {"variable": "doc", "label": "doc", "type": "file", "required": true, "allowed_file_types": ["document"]},
            {"variable": "docs", "label": "docs", "type": "file-list", "required": true},
            {"variable": "o", "label": "o", "type": "json_object", "required": true,
             "json_schema": {"type": "object", "properties": {"k": {"type": "number"}}}},
            {"variable": "more", "label": "more", "type": "text-input"},
        ]),
    )
}

#[tokio::test]
async fn without_a_terminal_one_error_lists_all_that_is_missing_and_how_to_give_it() {
    let (mut console, out, err) = captured();
    let request =
        args(&["count=3"], Some("{\"sure\":null}"), None).request(&required(), true, &mut console).await;
    let error = request.expect_err("missing").to_string();
    assert!(error.starts_with("t.yml needs inputs that are missing: give them with these flags"), "{error}");
    let expected = "\
MISSING  TYPE                                FLAG
tone     one of: short, long                 -i tone=VALUE
sure     true or false                       -i sure=VALUE
name     text, at most 3 characters          -i name=TEXT|@FILE
doc      file: document                      -f doc=PATH|URL
docs     files                               -f docs=PATH|URL (once for each file)
o        JSON object                         -i o=JSON|@FILE
query    the question, since this is a chatflow  --query TEXT
";
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!((words(&err.text()), out.text()), (words(expected), String::new()));
}

#[tokio::test]
async fn at_a_terminal_each_missing_input_is_asked_for_until_the_form_takes_it() {
    let lines = [
        "3",
        "2",
        "many",
        "4",
        "perhaps",
        "y",
        "",
        "long",
        "abc",
        "/nowhere",
        HERE,
        "",
        "https://h/1",
        HERE,
        "",
        "{",
        "[]",
        "{\"k\":\"x\"}",
        "{\"k\":1}",
        " ",
        "why?",
    ];
    let (mut console, _, err) = captured_with(&lines);
    let request = args(&[], None, None).request(&required(), true, &mut console).await.expect("complete");
    let (_scheduler, client) = client().await;
    let body = request.body(&client).await.expect("is sent");
    let local = json!({"transfer_method": "local_file", "upload_file_id": "up-Cargo.toml"});
    let remote = json!({"transfer_method": "remote_url", "url": "https://h/1"});
    let expected = json!({
        "tone": "long", "count": "4", "sure": true, "name": "abc", "doc": local, "docs": [remote, local], "o": {"k": 1},
    });
    assert_eq!((&body["inputs"], &body["query"]), (&expected, &json!("why?")), "{}", err.text());
    for said in [
        "Tone\n  1  short\n  2  long\ntone (number or option) [short]: choose by number or name",
        "count in input form must be a valid number",
        "answer yes or no",
        "a value is required",
        "name in input form must be less than 3 characters",
        "doc (file: document; path or URL): cannot read /nowhere",
        "docs 1 (files; path or URL): a file is required",
        "docs 2 (files; path or URL; Enter ends the list): ",
        "this is not JSON",
        "JSON object for 'o' must be an object",
        "JSON object for 'o' does not match schema: ",
        "a question is required",
    ] {
        assert!(err.text().contains(said), "{said}: {}", err.text());
    }
}

#[tokio::test]
async fn enter_takes_a_default_and_the_end_of_the_input_ends_the_command() {
    let tone = with_form(
        "workflow",
        json!([{"variable": "tone", "label": "tone", "type": "select", "required": true, "options": ["a", "b"], "default": "b"}]),
    );
    let request =
        args(&[], None, None).request(&tone, true, &mut captured_with(&[""]).0).await.expect("complete");
    assert_eq!(request.inputs, [("tone".to_owned(), Value::Plain("b".into()))]);
    let ended = args(&[], None, None).request(&tone, true, &mut captured_with(&[]).0).await;
    assert!(ended.expect_err("ended").to_string().contains("before tone was given"));
    // Nothing is asked for a program.
    let refused = args(&[], None, None).request(&tone, false, &mut captured_with(&["a"]).0).await;
    assert!(refused.is_err());
}
