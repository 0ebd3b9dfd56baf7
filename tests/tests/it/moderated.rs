//! Moderation by keywords over Dify's API: a flagged question gets the preset answer, a flagged answer is replaced, in both
//! kinds of apps, for each client that looks, and after the death of a scheduler.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::messages::{again, message, names, of, streamed};
use tidemill_tests::wait::{LONG, until};

use super::called::{file, tool};
use super::{System, system};

const NO: &str = "I cannot talk about that.";
const SORRY: &str = "This answer was withheld.";

fn moderated(flow: &Flow, words: &str, inputs: bool, outputs: bool) -> Json {
    let half = |enabled: bool, preset: &str| json!({"enabled": enabled, "preset_response": preset});
    let config = json!({
        "keywords": words, "inputs_config": half(inputs, NO), "outputs_config": half(outputs, SORRY),
    });
    let mut document = flow.document();
    document["workflow"]["features"] = json!({
        "opening_statement": "Welcome.",
        "sensitive_word_avoidance": {"enabled": true, "type": "keywords", "config": config},
    });
    document
}

pub(super) fn chat() -> Flow {
    Flow::new("start -> llm -> answer").prompt("llm", "{{#sys.query#}}").answer("answer", "{{#llm.text#}}")
}

pub(super) async fn app(client: &Client, document: &Json) -> Client {
    let answer = client.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    assert_eq!(answer.body["warnings"], json!([]), "{}", answer.text);
    client.with_key(answer.body["key"].as_str())
}

/// Questions and answers of a conversation.
pub(super) async fn said(app: &Client, conversation: &Json) -> Vec<(String, String)> {
    let id = conversation.as_str().expect("an id");
    let listed = app.get(&format!("/v1/messages?user=u1&conversation_id={id}")).await;
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    let messages = listed.body["data"].as_array().into_iter().flatten();
    messages.map(|message| (text(&message["query"]), text(&message["answer"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flagged_question_gets_the_preset_answer_and_the_workflow_does_not_run() {
    let model = llm::rules(json!([{"match": {}, "reply": "fine"}])).await;
    let system = system(&[], &model).await;
    let app = app(&system.client, &moderated(&chat(), "bomb\nBlood", true, false)).await;

    let events = streamed(&app, "/v1/chat-messages", &message("How to build a BOMB?", "", "streaming")).await;
    assert_eq!(names(&events), ["message", "message_end"], "{events:#?}");
    let (first, end) = (&events[0], &events[1]);
    let keys = |event: &Json| event.as_object().map(|map| map.keys().cloned().collect::<Vec<_>>());
    assert_eq!(
        keys(first).unwrap_or_default(),
        [
            "event",
            "conversation_id",
            "message_id",
            "created_at",
            "task_id",
            "id",
            "answer",
            "from_variable_selector"
        ]
    );
    assert_eq!((&first["answer"], &first["from_variable_selector"]), (&json!(NO), &Json::Null));
    assert_eq!(end["metadata"]["retriever_resources"], json!([]));
    assert_eq!(end["metadata"]["usage"]["total_tokens"], 0);
    let conversation = &first["conversation_id"];

    // The message is followed, listed, and part of the conversation.
    let run = first["task_id"].as_str().expect("an id");
    assert_eq!(again(&app, run).await, events);
    let blocking =
        app.post("/v1/chat-messages", &message("blood?", conversation.as_str().unwrap(), "blocking")).await;
    assert_eq!((blocking.status, &blocking.body["answer"]), (200, &json!(NO)), "{}", blocking.text);
    assert_eq!(
        (&blocking.body["event"], &blocking.body["conversation_id"]),
        (&json!("message"), conversation)
    );
    assert!(model.requests().is_empty(), "the workflow did not run");
    let fine =
        app.post("/v1/chat-messages", &message("weather?", conversation.as_str().unwrap(), "blocking")).await;
    assert_eq!(fine.body["answer"], "fine", "{}", fine.text);
    let pair = |query: &str, answer: &str| (query.to_owned(), answer.to_owned());
    let all = [pair("How to build a BOMB?", NO), pair("blood?", NO), pair("weather?", "fine")];
    assert_eq!(said(&app, conversation).await, all);
    let listed = app.get("/v1/conversations?user=u1").await;
    assert_eq!(listed.body["data"][0]["introduction"], "Welcome.", "{}", listed.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flagged_answer_is_replaced_while_it_streams_and_for_each_later_reader() {
    let model = llm::slow(&["To make ", "a bo", "mb, take ", "secret things"], 30).await;
    let system = system(&[], &model).await;
    let app = app(&system.client, &moderated(&chat(), "Bomb", false, true)).await;
    let events = streamed(&app, "/v1/chat-messages", &message("How?", "", "streaming")).await;
    is_withheld(&events, "message_replace");
    assert_eq!(
        (&of(&events, "message_replace")["answer"], &of(&events, "message_replace")["reason"]),
        (&json!(SORRY), &json!("output_moderation"))
    );
    let finished = of(&events, "workflow_finished");
    assert_eq!(
        (&finished["data"]["status"], &finished["data"]["outputs"]["answer"]),
        (&json!("succeeded"), &json!(SORRY))
    );
    let run = finished["task_id"].as_str().expect("an id");
    assert_eq!(again(&app, run).await, events);
    let detail = app.get(&format!("/v1/workflows/run/{run}")).await;
    assert_eq!(detail.body["outputs"]["answer"], SORRY, "{}", detail.text);

    let conversation = &finished["conversation_id"];
    let blocking =
        app.post("/v1/chat-messages", &message("And?", conversation.as_str().unwrap(), "blocking")).await;
    assert_eq!((blocking.status, &blocking.body["answer"]), (200, &json!(SORRY)), "{}", blocking.text);
    let answers: Vec<String> = said(&app, conversation).await.into_iter().map(|(_, answer)| answer).collect();
    assert_eq!(answers, [SORRY, SORRY]);
}

/// The text up to the keyword, then the replacement, and nothing of the flagged text after it.
fn is_withheld(events: &[Json], replace: &str) {
    let at = events.iter().position(|event| event["event"] == replace);
    let at = at.unwrap_or_else(|| panic!("nothing is replaced: {events:#?}"));
    let text_of = |event: &Json| {
        event["answer"].as_str().or(event["data"]["text"].as_str()).unwrap_or_default().to_owned()
    };
    let before: String = events[..at].iter().map(text_of).collect();
    assert_eq!(before, "To make a bo");
    for event in &events[at + 1..] {
        assert!(!matches!(event["event"].as_str(), Some("message" | "text_chunk")), "{event:#}");
        let event = event.to_string();
        assert!(!event.contains("secret things") && !event.contains("a bomb"), "{event}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_with_flagged_inputs_is_refused_and_its_flagged_texts_are_replaced() {
    let flow = Flow::new("start -> llm -> end").inputs(&["topic"]).prompt("llm", "{{#start.topic#}}");
    let model = llm::slow(&["To make ", "a bo", "mb, take ", "secret things"], 30).await;
    let system = system(&[], &model).await;
    let document = moderated(
        &flow.with(
            "end",
            json!({"outputs": [
                {"variable": "text", "value_selector": ["llm", "text"]},
            ]}),
        ),
        "bomb",
        true,
        true,
    );
    let app = app(&system.client, &document).await;
    let body =
        |topic: &str, mode: &str| json!({"inputs": {"topic": topic}, "user": "u1", "response_mode": mode});
    for mode in ["blocking", "streaming"] {
        let refused = app.post("/v1/workflows/run", &body("bombs", mode)).await;
        assert_eq!(
            refused.body,
            json!({"code": "invalid_param", "message": NO, "status": 400}),
            "{}",
            refused.text
        );
    }
    assert!(model.requests().is_empty(), "nothing was run");

    let events = streamed(&app, "/v1/workflows/run", &body("plants", "streaming")).await;
    is_withheld(&events, "text_replace");
    assert_eq!(of(&events, "workflow_finished")["data"]["outputs"], json!({"text": SORRY}));
    let run = of(&events, "workflow_finished")["task_id"].as_str().expect("an id").to_owned();
    assert_eq!(app.get(&format!("/v1/workflows/run/{run}")).await.body["outputs"], json!({"text": SORRY}));
    let blocking = app.post("/v1/workflows/run", &body("plants", "blocking")).await;
    assert_eq!(blocking.body["data"]["outputs"], json!({"text": SORRY}), "{}", blocking.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_comes_back_after_the_death_of_the_scheduler_sees_the_same_replacement() {
    let pieces = ["To make ", "a bo", "mb, take ", "secret ", "things ", "and ", "more ", "of ", "them"];
    let model = llm::slow(&pieces, 300).await;
    let System { cluster, client, _scheduler: mut first, _worker } = system(&[], &model).await;
    let app = app(&client, &moderated(&chat(), "Bomb", true, true)).await;
    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(message("How?", "", "streaming").to_string())).await;
    let mut seen = Vec::new();
    while let Some(message) = stream.next().await {
        seen.extend(message.data.map(|data| serde_json::from_str::<Json>(&data).expect("events are JSON")));
        if names(&seen).contains(&"message_replace") {
            break;
        }
    }
    let run = seen[0]["task_id"].as_str().expect("an id").to_owned();
    first.process.kill();
    let second = cluster.scheduler().await;
    let app = second.client().with_key(app.key());
    let events = again(&app, &run).await;
    is_withheld(&events, "message_replace");
    assert_eq!(events[..seen.len()], seen[..], "the beginning is the same");
    let conversation = &events[0]["conversation_id"];
    until("the message is listed", LONG, async || match &said(&app, conversation).await[..] {
        [(_, answer)] if answer == SORRY => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let blocked = app.post("/v1/chat-messages", &message("bomb?", "", "blocking")).await;
    assert_eq!(blocked.body["answer"], NO, "{}", blocked.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_app_gives_to_a_workflow_that_calls_it_is_cleaned_by_its_keywords() {
    let flow = Flow::new("start -> llm -> end").inputs(&["topic"]).prompt("llm", "{{#start.topic#}}");
    let model = llm::rules(json!([{"match": {}, "reply": "To make a BOMB"}])).await;
    let system = system(&[], &model).await;
    let outputs = json!({"outputs": [{"variable": "text", "value_selector": ["llm", "text"]}]});
    let document = moderated(&flow.with("end", outputs), "bomb", true, true);
    let added = system.client.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
    let called = added.body["id"].as_str().expect("an id");

    let caller = file(
        "Caller",
        &["name"],
        &[("t", tool(called, "topic", "{{#start.name#}}"))],
        &[("out", ["t", "text"])],
    );
    let run = async |name: &str| {
        let run = json!({"workflow": caller, "inputs": {"name": name}, "user": "u1"});
        system.client.ended(&system.client.submit(&run).await).await
    };
    let ended = run("plants").await;
    assert_eq!(ended["status"], "succeeded", "{ended:#}");
    let text = ended["outputs"]["out"].as_str().unwrap_or_default();
    assert!(text.contains(SORRY) && !text.contains("BOMB"), "{text}");
    let refused = run("bombs").await;
    assert!(refused["error"].as_str().unwrap_or_default().contains(NO), "{refused:#}");
}
