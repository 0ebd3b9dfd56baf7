//! Links to files in texts over Dify's API: they open the file, wherever a client reads the text.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::messages::{again, message, names, of, streamed};

use super::System;
use super::service_files::{TIDE, fleet, node, opened, register, run, uploaded};

/// The address of the only link in a text.
fn address(text: &Json) -> Json {
    let text = text.as_str().unwrap_or_else(|| panic!("no text: {text}"));
    let (_, rest) = text.split_once("[tide.txt](").unwrap_or_else(|| panic!("no link: {text}"));
    rest.split_once(')').map(|(address, _)| address).expect("the link ends").into()
}

/// The link in this text opens the file, without a key.
async fn opens(client: &Client, text: &Json) {
    let address = address(text);
    assert!(address.as_str().is_some_and(|address| address.starts_with("/files/runs/")), "{text}");
    let answer = opened(client, &address).await;
    assert_eq!((answer.status, answer.text.as_bytes()), (200, TIDE), "{text}");
    assert_eq!(answer.headers["content-type"], "text/plain", "{text}");
}

/// A chat that shows the files of the message.
async fn chat(system: &System) -> Client {
    let nodes = json!([
        node("start", json!({"type": "start", "title": "Start", "variables": []})),
        node("answer", json!({"type": "answer", "title": "Answer", "answer": "See {{#sys.files#}} now."})),
    ]);
    let files = json!({"enabled": true, "allowed_file_types": ["document"], "number_limits": 3,
        "allowed_file_extensions": [], "allowed_file_upload_methods": ["local_file"]});
    register(system, "advanced-chat", nodes, json!({"file_upload": files})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_in_an_answer_is_opened_by_its_link_in_every_shape_of_the_answer() {
    let system = &fleet(&[]).await;
    let app = chat(system).await;
    let mut body = message("Show it", "", "streaming");
    body["files"] = json!([uploaded(&app, "u1", "tide.txt").await]);
    let events = streamed(&app, "/v1/chat-messages", &body).await;
    assert!(names(&events).contains(&"message_end"), "{events:#?}");
    let text = |events: &[Json]| -> Json {
        let pieces = events.iter().filter(|event| event["event"] == "message");
        pieces.filter_map(|event| event["answer"].as_str()).collect::<String>().into()
    };
    opens(&system.client, &text(&events)).await;
    let finished = of(&events, "workflow_finished");
    opens(&system.client, &finished["data"]["outputs"]["answer"]).await;
    let run = finished["task_id"].as_str().expect("an id");
    opens(&system.client, &text(&again(&app, run).await)).await;

    let id = finished["conversation_id"].as_str().expect("an id");
    let listed = app.get(&format!("/v1/messages?user=u1&conversation_id={id}")).await;
    opens(&system.client, &listed.body["data"][0]["answer"]).await;
    let detail = app.get(&format!("/v1/workflows/run/{run}")).await;
    opens(&system.client, &detail.body["outputs"]["answer"]).await;
    body["response_mode"] = "blocking".into();
    let blocking = app.post("/v1/chat-messages", &body).await;
    opens(&system.client, &blocking.body["answer"]).await;

    // The stored text has the path, and the operator's API shows it.
    let raw = system.client.get(&format!("/api/v1/runs/{run}")).await;
    let raw = raw.body["outputs"]["answer"].clone();
    assert!(address(&raw).as_str().is_some_and(|address| address.starts_with("runs/")), "{raw}");
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_workflows_and_forms_have_links_and_those_to_files_of_others_open_nothing() {
    let system = &fleet(&[]).await;
    let field = json!({"variable": "f", "label": "f", "type": "file", "required": true});
    let shown = json!({"variable": "shown", "label": "shown", "type": "paragraph", "required": false, "max_length": 900});
    let ask = json!({
        "type": "human-input", "title": "Ask", "delivery_methods": [], "form_content": "Is {{#start.f#}} right?",
        "inputs": [], "user_actions": [{"id": "ok", "title": "OK"}], "timeout": 1, "timeout_unit": "day",
    });
    let outputs = json!([
        {"variable": "asked", "value_selector": ["ask", "__rendered_content"]},
        {"variable": "shown", "value_selector": ["start", "shown"]},
    ]);
    let nodes = json!([
        node("start", json!({"type": "start", "title": "Start", "variables": [field, shown]})),
        node("ask", ask),
        node("end", json!({"type": "end", "title": "End", "outputs": outputs})),
    ]);
    let app = register(system, "workflow", nodes, json!({})).await;
    let theirs = run(&app, "bob", json!({"f": uploaded(&app, "bob", "tide.txt").await})).await;
    let theirs = &theirs.body["data"]["reasons"][0]["form_content"];
    opens(&system.client, theirs).await;
    let path = address(theirs).as_str().and_then(|url| Some(url.split_once('?')?.0.replace("/files/", "")));
    let forged = format!("[tide.txt]({})", path.expect("a URL with a query"));

    let inputs = json!({"f": uploaded(&app, "ann", "tide.txt").await, "shown": forged});
    let paused = run(&app, "ann", inputs).await;
    let reason = &paused.body["data"]["reasons"][0];
    opens(&system.client, &reason["form_content"]).await;
    let token = reason["form_token"].as_str().unwrap_or_else(|| panic!("{}", paused.text));
    let path = format!("/v1/form/human_input/{token}");
    opens(&system.client, &app.get(&path).await.body["form_content"]).await;
    let answered = app.post(&path, &json!({"inputs": {}, "action": "ok", "user": "ann"})).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    let id = paused.body["workflow_run_id"].as_str().expect("an id");
    system.client.ended(id).await;
    let ended = app.get(&format!("/v1/workflows/run/{id}")).await;
    opens(&system.client, &ended.body["outputs"]["asked"]).await;
    let url = address(&ended.body["outputs"]["shown"]);
    assert_eq!(
        opened(&system.client, &url).await.status,
        404,
        "a client wrote the path of another user's file"
    );
}
