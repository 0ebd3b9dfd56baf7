//! Ids of other apps and of other users: each operation of `/v1` that names a thing refuses the key of another app, and where
//! things belong to users, the name of another user. The table has each such operation; its owner may use it.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;

use super::service_api_table::{is_of_datasets, rows};
use super::service_files::upload;
use super::{System, system};

const OWNER: &str = "ann";
const STRANGER: &str = "bob";

/// Who may use a thing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Each client of the app.
    App,
    /// Its user alone.
    User,
}

/// An operation, its request but for the user, and whose the thing is. `{…}` in the path is the name of a thing.
struct Operation {
    method: Method,
    path: &'static str,
    body: Json,
    of: Of,
    /// What the owner gets.
    owner: &'static [u16],
}

fn operation(method: Method, path: &'static str, body: Json, of: Of, owner: &'static [u16]) -> Operation {
    Operation { method, path, body, of, owner }
}

/// Those of chats, in an order in which the things live long enough.
fn of_chats() -> Vec<Operation> {
    let (get, post, put, delete) = (|| Method::GET, || Method::POST, || Method::PUT, || Method::DELETE);
    vec![
        operation(get(), "/messages/{message_id}/suggested", json!({}), Of::User, &[200, 400]),
        operation(post(), "/messages/{message_id}/feedbacks", json!({"rating": "like"}), Of::User, &[200]),
        operation(get(), "/conversations/{conversation_id}/variables", json!({}), Of::User, &[200]),
        // The conversation has no variables, so its owner gets 404.
        operation(
            put(),
            "/conversations/{conversation_id}/variables/{variable_id}",
            json!({"value": "x"}),
            Of::User,
            &[404],
        ),
        operation(post(), "/conversations/{conversation_id}/name", json!({"name": "Sea"}), Of::User, &[200]),
        operation(get(), "/files/{file_id}/preview", json!({}), Of::User, &[200]),
        operation(get(), "/end-users/{end_user_id}", json!({}), Of::App, &[200]),
        operation(
            put(),
            "/apps/annotations/{annotation_id}",
            json!({"question": "q", "answer": "b"}),
            Of::App,
            &[200],
        ),
        operation(delete(), "/apps/annotations/{annotation_id}", json!({}), Of::App, &[200, 204]),
        operation(get(), "/apps/annotation-reply/{action}/status/{job_id}", json!({}), Of::App, &[200]),
        operation(delete(), "/conversations/{conversation_id}", json!({}), Of::User, &[200, 204]),
    ]
}

/// Those of workflows.
fn of_workflows() -> Vec<Operation> {
    let body = json!({"inputs": {}, "response_mode": "blocking"});
    vec![
        operation(Method::POST, "/workflows/{workflow_id}/run", body, Of::App, &[200]),
        operation(Method::GET, "/workflows/run/{workflow_run_id}", json!({}), Of::App, &[200]),
        operation(Method::GET, "/workflow/{workflow_run_id}/events", json!({}), Of::User, &[200]),
    ]
}

/// Operations that are tried elsewhere: those that stop a run (below, since Dify never says that it is unknown), those whose
/// last part is no id, and forms, whose token is all that a person has.
const ELSEWHERE: [&str; 5] = [
    "/chat-messages/{task_id}/stop",
    "/completion-messages/{task_id}/stop",
    "/workflows/tasks/{task_id}/stop",
    "/apps/annotation-reply/{action}",
    "/form/human_input/{form_token}",
];

/// The names in a path, replaced by the ids of things.
fn filled(path: &str, things: &Json) -> String {
    let mut filled = format!("/v1{path}");
    for (name, id) in things.as_object().into_iter().flatten() {
        filled = filled.replace(&format!("{{{name}}}"), id.as_str().unwrap_or_default());
    }
    assert!(!filled.contains('{'), "{filled}");
    filled
}

async fn tried(client: &Client, tried: &Operation, user: &str, things: &Json) -> HttpResponse {
    let path = filled(tried.path, things);
    if tried.method == Method::GET {
        return client.get(&format!("{path}?user={user}")).await;
    }
    let mut body = tried.body.clone();
    body["user"] = user.into();
    let request = client.request(tried.method.clone(), &path).header("content-type", "application/json");
    client.send(request.body(body.to_string())).await
}

fn refused(what: &str, tried: &Operation, answer: &HttpResponse) {
    let (method, path) = (&tried.method, tried.path);
    assert!(
        (400..=404).contains(&answer.status),
        "{what}: {method} {path}: {} {}",
        answer.status,
        answer.text
    );
    assert!(answer.body["code"].is_string(), "{what}: {method} {path}: {}", answer.text);
}

/// Tries each operation with the key of another app, as another user, and then as the owner.
async fn try_all(operations: &[Operation], owner: &Client, foreign: &Client, things: &Json) {
    for one in operations {
        refused("another app", one, &tried(foreign, one, OWNER, things).await);
        if one.of == Of::User {
            refused("another user", one, &tried(owner, one, STRANGER, things).await);
        }
        let own = tried(owner, one, OWNER, things).await;
        assert!(one.owner.contains(&own.status), "{} {}: {} {}", one.method, one.path, own.status, own.text);
    }
}

fn text(value: &Json) -> Json {
    assert!(value.is_string(), "{value}");
    value.clone()
}

/// A message of a chat, a file, an annotation and its job.
async fn things_of(chat: &Client) -> Json {
    let said = json!({"inputs": {}, "query": "How deep?", "user": OWNER, "response_mode": "blocking"});
    let said = chat.post("/v1/chat-messages", &said).await.body;
    let annotation = chat.post("/v1/apps/annotations", &json!({"question": "q", "answer": "a"})).await.body;
    let off =
        json!({"score_threshold": 0.9, "embedding_provider_name": "openai", "embedding_model_name": "embed"});
    let off = chat.post("/v1/apps/annotation-reply/disable", &off).await.body;
    let file = upload(chat, OWNER, "a.txt").await;
    let user = file["created_by"].clone();
    json!({
        "message_id": text(&said["message_id"]),
        "conversation_id": text(&said["conversation_id"]),
        "variable_id": "5f6d7a4e-0e5c-4b53-8f06-6a6c5d0e9b11",
        "annotation_id": text(&annotation["id"]),
        "action": "disable",
        "job_id": text(&off["job_id"]),
        "file_id": text(&file["id"]),
        "end_user_id": text(&user),
    })
}

async fn started(system: &System, flow: &str) -> (Client, Client) {
    let (_, owner) = system.client.register(&Flow::new(flow)).await;
    let (_, foreign) = system.client.register(&Flow::new(&format!("{flow}; start -> other"))).await;
    (owner, foreign)
}

#[test]
fn each_operation_that_names_a_thing_is_tried() {
    let named = |path: &str| path.contains('{') && !is_of_datasets(path);
    let all: BTreeSet<(String, String)> = rows()
        .into_iter()
        .filter(|(_, path, verdict)| verdict != "absent" && named(path))
        .map(|(method, path, _)| (method.to_string(), path))
        .collect();
    let tried: BTreeSet<(String, String)> = of_chats()
        .iter()
        .chain(&of_workflows())
        .map(|one| (one.method.to_string(), one.path.to_owned()))
        .collect();
    let missing: Vec<_> =
        all.difference(&tried).filter(|(_, path)| !ELSEWHERE.contains(&path.as_str())).collect();
    assert!(missing.is_empty() && tried.is_subset(&all), "{missing:?} are not tried; {tried:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn things_of_chats_are_refused_to_other_apps_and_users() {
    let model = llm::slow(&["deep"], 0).await;
    let system = system(&[("files.url", "place")], &model).await;
    let (owner, foreign) = started(&system, "start -> llm -> answer").await;
    let things = things_of(&owner).await;
    try_all(&of_chats(), &owner, &foreign, &things).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn things_of_workflows_are_refused_to_other_apps_and_users() {
    let model = llm::slow(&["deep"], 0).await;
    let system = system(&[], &model).await;
    let (owner, foreign) = started(&system, "start -> end").await;
    let body = json!({"inputs": {}, "user": OWNER, "response_mode": "blocking"});
    let ran = owner.post("/v1/workflows/run", &body).await.body;
    let things = json!({
        "workflow_id": text(&ran["data"]["workflow_id"]),
        "workflow_run_id": text(&ran["workflow_run_id"]),
    });
    try_all(&of_workflows(), &owner, &foreign, &things).await;
}

/// Dify answers `success` to each request to stop, whatever the id. Each user of its app may stop the run of a workflow, as on
/// Dify; a chat is stopped for the user who asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_stopped_by_its_own_app_alone_and_a_chat_by_its_user() {
    let pieces = llm::many_pieces(2_000);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 50).await;
    let system = system(&[], &model).await;
    for (flow, stop, begin, of) in [
        ("start -> llm -> answer", "/v1/chat-messages/{}/stop", "/v1/chat-messages", Of::User),
        ("start -> llm -> end", "/v1/workflows/tasks/{}/stop", "/v1/workflows/run", Of::App),
    ] {
        let (owner, foreign) = started(&system, flow).await;
        let body = json!({"inputs": {}, "query": "q", "user": OWNER, "response_mode": "streaming"});
        let request = owner.request(Method::POST, begin).header("content-type", "application/json");
        let mut events = owner.open(request.body(body.to_string())).await;
        let first: Json = loop {
            let message = events.next().await.expect("the run begins");
            let event: Json = serde_json::from_str(&message.data.unwrap_or_default()).unwrap_or_default();
            if event["task_id"].is_string() && event["workflow_run_id"].is_string() {
                break event;
            }
        };
        let stop = stop.replace("{}", first["task_id"].as_str().unwrap_or_default());
        let run = first["workflow_run_id"].as_str().unwrap_or_default();
        foreign.post(&stop, &json!({"user": OWNER})).await;
        if of == Of::User {
            owner.post(&stop, &json!({"user": STRANGER})).await;
        }
        // A stop that was accepted would come before this text.
        system.client.follow(run, None).await.until_text("<60>").await;
        let stopped = owner.post(&stop, &json!({"user": OWNER})).await;
        assert_eq!(stopped.status, 200, "{}", stopped.text);
        assert_eq!(system.client.ended(run).await["status"], "stopped");
    }
}
