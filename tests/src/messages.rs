//! Messages over Dify's API, and the events of their streams as lists.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value as Json, json};

use crate::client::Client;

/// The body of a message of the user `u1`; an empty conversation is a new one.
pub fn message(query: &str, conversation: &str, mode: &str) -> Json {
    json!({"query": query, "inputs": {}, "user": "u1", "conversation_id": conversation, "response_mode": mode})
}

/// Sends a body and returns all events of the stream that answers it.
///
/// # Panics
/// When there is no stream of JSON.
pub async fn streamed(app: &Client, path: &str, body: &Json) -> Vec<Json> {
    let request = app.request(Method::POST, path).header("content-type", "application/json");
    events(app, request.body(body.to_string())).await
}

/// The events of a run of the user `u1` from its beginning, for a client that comes later.
///
/// # Panics
/// When there is no stream of JSON.
pub async fn again(app: &Client, run: &str) -> Vec<Json> {
    let path = format!("/v1/workflow/{run}/events?user=u1");
    events(app, app.request(Method::GET, &path).header("last-event-id", "0")).await
}

async fn events(app: &Client, request: RequestBuilder) -> Vec<Json> {
    let mut stream = app.open(request).await;
    let mut events = Vec::new();
    while let Some(message) = stream.next().await {
        events.extend(message.data.map(|data| serde_json::from_str::<Json>(&data).expect("events are JSON")));
    }
    events
}

/// The names of events; of several in a row only one.
pub fn names(events: &[Json]) -> Vec<&str> {
    let mut names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
    names.dedup();
    names
}

/// The first event of this name.
///
/// # Panics
/// When there is none.
pub fn of<'a>(events: &'a [Json], name: &str) -> &'a Json {
    events.iter().find(|event| event["event"] == name).unwrap_or_else(|| panic!("no {name}: {events:#?}"))
}
