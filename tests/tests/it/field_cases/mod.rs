//! Workflows of the kinds that users of Dify ran into trouble with, each with its right result. They are published and
//! run over `/v1`, as an application does it.
//!
//! Files are by topic; the cases of a test share one fleet and run side by side.

mod branches;
mod calls;
mod chats;
mod containers;
mod control;
mod forms;
mod server;
mod streams;
mod values;
mod workflow;

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::wait::{LONG, until};

use self::server::Server;
use self::workflow::Sketch;
use super::{System, system};

/// A fleet, a model, and a server for calls.
struct Desk {
    system: System,
    model: tidemill_mock_llm::Running,
    server: Server,
}

impl Desk {
    /// Starts them; the model answers by these rules.
    async fn open(rules: Json) -> Self {
        let model = tidemill_tests::llm::rules(rules).await;
        let system = system(&[("http.allow", "127.0.0.1")], &model).await;
        Self { system, model, server: Server::start().await }
    }

    /// A fleet for workflows that call no model.
    async fn without_model() -> Self {
        Self::open(json!([{"match": {}, "reply": "unused"}])).await
    }

    fn admin(&self) -> &Client {
        &self.system.client
    }

    /// Publishes a workflow; returns the answer and a client with the app's key.
    async fn publish(&self, sketch: &Sketch) -> (Json, Client) {
        let answer = self.admin().post("/api/v1/apps", &json!({"workflow": sketch.text()})).await;
        assert_eq!(answer.status, 201, "{}\n{}", answer.text, sketch.text());
        let app = self.admin().with_key(answer.body["key"].as_str());
        (answer.body, app)
    }

    /// Runs a workflow to its end or its next pause: `data` of Dify's answer.
    async fn run(&self, sketch: &Sketch, inputs: Json) -> Json {
        let (_, app) = self.publish(sketch).await;
        run(&app, inputs).await
    }

    /// Runs all cases side by side, and compares status and outputs.
    async fn all_hold(&self, cases: &[Case]) {
        let results = join_all(cases.iter().map(|case| self.run(&case.sketch, case.inputs.clone()))).await;
        for (case, result) in cases.iter().zip(results) {
            let found = (&result["status"], &result["outputs"]);
            assert_eq!(found, (&json!(case.status), &case.outputs), "{}: {result:#}", case.says);
        }
    }
}

/// One run of a workflow and its right result.
struct Case {
    /// The case in words.
    says: &'static str,
    sketch: Sketch,
    inputs: Json,
    status: &'static str,
    outputs: Json,
}

impl Case {
    /// A run that succeeds.
    fn new(says: &'static str, sketch: &Sketch, inputs: Json, outputs: Json) -> Self {
        Self { says, sketch: sketch.clone(), inputs, status: "succeeded", outputs }
    }

    /// The same with another status.
    fn ends(self, status: &'static str) -> Self {
        Self { status, ..self }
    }
}

/// Runs a published workflow to its end or its next pause.
async fn run(app: &Client, inputs: Json) -> Json {
    let body = json!({"inputs": inputs, "user": "field", "response_mode": "blocking"});
    let answer = app.post("/v1/workflows/run", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let mut data = answer.body["data"].clone();
    data["run"] = answer.body["workflow_run_id"].clone();
    data
}

/// Sends a chat message: Dify's answer.
async fn say(app: &Client, query: &str, conversation: &str, inputs: Json) -> Json {
    let body = json!({"query": query, "inputs": inputs, "user": "field", "conversation_id": conversation,
        "response_mode": "blocking"});
    let answer = app.post("/v1/chat-messages", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// Sends a request whose answer is an event stream, and reads all events.
async fn streamed(app: &Client, path: &str, body: Json) -> Vec<Json> {
    let request = app.request(Method::POST, path).header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let mut events = Vec::new();
    while let Some(message) = stream.next().await {
        events.extend(message.data.map(|data| serde_json::from_str::<Json>(&data).expect("events are JSON")));
    }
    events
}

/// The texts of all `message` events, one by one.
fn pieces(events: &[Json]) -> Vec<&str> {
    let messages = events.iter().filter(|event| event["event"] == "message");
    messages.filter_map(|event| event["answer"].as_str()).filter(|piece| !piece.is_empty()).collect()
}

/// Begins a run without waiting for it; returns its id.
async fn begin(app: &Client, path: &str, body: Json) -> (String, Json) {
    let request = app.request(Method::POST, path).header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    loop {
        let message = stream.next().await.expect("the run begins");
        let Some(data) = message.data else { continue };
        let event: Json = serde_json::from_str(&data).expect("events are JSON");
        if let Some(id) = event["workflow_run_id"].as_str() {
            return (id.to_owned(), event);
        }
    }
}

/// Waits until a run has this status, and returns it.
async fn status_is(client: &Client, run: &str, status: &str) -> Json {
    until(&format!("run {run} to be {status}"), LONG, async || {
        let shown = client.run(run).await;
        if shown["status"] == status { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}
