//! A client that behaves as clients should: it asks another scheduler when one does not answer, tries again when
//! asked to, repeats a request under the same key, and follows a run from the id of the last event that it received.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value as Json, json};

use crate::check::{Event, Transcript};
use crate::cluster::ADMIN_KEY;
use crate::fleet::reqwest_client;
use crate::sse::Messages;

/// The longest time for which it repeats a request.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);
/// The longest time for one answer: a frozen scheduler accepts a request and never answers.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// The longest silence of a stream before the client asks another scheduler; servers ping every ten seconds.
const SILENCE_MAX: Duration = Duration::from_secs(12);
/// Types of events that end a run.
use tidemill_common::wire::event::kind::TERMINAL;

/// A client that tries again.
#[derive(Debug)]
pub struct Patient {
    http: reqwest::Client,
    addresses: Vec<String>,
    next: AtomicUsize,
}

/// The reason why the client gave up.
#[derive(Debug, Clone)]
pub enum Trouble {
    /// The run does not exist.
    Gone,
    /// Anything else, in words.
    Other(String),
}

/// The result of following a run.
#[derive(Debug, Default)]
pub struct Followed {
    /// The events that it received since the last reset.
    pub transcript: Transcript,
    /// The number of resets that it received.
    pub resets: usize,
    /// The number of connections that it used.
    pub connections: usize,
}

impl Patient {
    /// Makes a client that uses these schedulers in turn.
    pub fn new(addresses: Vec<String>) -> Self {
        Self { http: reqwest_client(), addresses, next: AtomicUsize::new(0) }
    }

    /// Submits a run. Repeated requests with the same key create only one run.
    ///
    /// # Errors
    /// The run was refused, or no scheduler answered for a long time.
    pub async fn submit(&self, body: &Json, key: &str) -> Result<String, Trouble> {
        let text = body.to_string();
        let fill = |request: RequestBuilder| {
            let request = request.header("content-type", "application/json");
            request.header("idempotency-key", key).body(text.clone())
        };
        let (status, answer) = self.ask(Method::POST, "/api/v1/runs", fill).await?;
        match (status, answer["id"].as_str()) {
            (200 | 201, Some(id)) => Ok(id.to_string()),
            _ => Err(Trouble::Other(format!("submit was answered {status} {answer}"))),
        }
    }

    /// Reads the current state of a run.
    ///
    /// # Errors
    /// The run does not exist, or no scheduler answered for a long time.
    pub async fn run(&self, run: &str) -> Result<Json, Trouble> {
        let (status, answer) = self.ask(Method::GET, &format!("/api/v1/runs/{run}"), |r| r).await?;
        match status {
            200 => Ok(answer),
            404 => Err(Trouble::Gone),
            _ => Err(Trouble::Other(format!("the run was answered {status} {answer}"))),
        }
    }

    /// Answers all pauses of a run and never returns: a form with its first action and with a text in every field,
    /// any other pause with a value that its schema allows.
    pub async fn answer_pauses(&self, run: &str, text: &str) -> std::convert::Infallible {
        loop {
            tokio::time::sleep(PAUSE * 2).await;
            let asked = self.ask(Method::GET, &format!("/api/v1/runs/{run}/pauses"), |r| r).await;
            let Ok((200, pauses)) = asked else { continue };
            let pending =
                pauses["data"].as_array().into_iter().flatten().filter(|p| p["status"] == "pending");
            for pause in pending {
                let id = pause["pause_id"].as_str().unwrap_or_default();
                let mut body = answer_of(pause, text);
                body["key"] = json!(format!("{run} {id}"));
                let body = body.to_string();
                let path = format!("/api/v1/runs/{run}/pauses/{id}/answer");
                let fill =
                    |r: RequestBuilder| r.header("content-type", "application/json").body(body.clone());
                // The response does not matter: a pause that is still pending is answered again in the next round.
                let _ = self.ask(Method::POST, &path, fill).await;
            }
        }
    }

    /// Sets a variable of a run under a key, so that repeated requests take effect once.
    pub async fn update(&self, run: &str, node: &str, value: &str, key: &str) {
        let updates = json!([{"selector": [node, "value"], "value": value}]);
        let body = json!({"command": "update_variables", "updates": updates, "key": key}).to_string();
        let fill = |r: RequestBuilder| r.header("content-type", "application/json").body(body.clone());
        // A run that has ended refuses it, which is fine.
        let _ = self.ask(Method::POST, &format!("/api/v1/runs/{run}/commands"), fill).await;
    }

    /// Follows a run to its end, over as many connections as necessary.
    ///
    /// # Errors
    /// The run does not exist, or does not end within `at_most`.
    pub async fn follow(&self, run: &str, at_most: Duration) -> Result<Followed, (Followed, Trouble)> {
        let mut seen = Followed::default();
        let began = Instant::now();
        let is_over = |transcript: &Transcript| {
            transcript.events.last().is_some_and(|e| TERMINAL.contains(&e.kind.as_str()))
        };
        while !is_over(&seen.transcript) {
            if began.elapsed() > at_most {
                let last =
                    seen.transcript.events.last().map(|event| format!("{} {}", event.kind, event.data));
                let shown = self.run(run).await;
                let what = format!("no end within {at_most:?}; last was {last:?}; the run is {shown:?}");
                return Err((seen, Trouble::Other(what)));
            }
            match self.follow_once(run, &mut seen).await {
                Ok(()) => {}
                Err(Trouble::Gone) => return Err((seen, Trouble::Gone)),
                Err(Trouble::Other(_)) => tokio::time::sleep(PAUSE).await,
            }
        }
        Ok(seen)
    }

    async fn follow_once(&self, run: &str, seen: &mut Followed) -> Result<(), Trouble> {
        let other = |error: &dyn std::fmt::Display| Trouble::Other(error.to_string());
        seen.transcript.forget_unfinished();
        let mut request = self.request(Method::GET, &format!("/api/v1/runs/{run}/events"));
        if let Some(id) = seen.transcript.last_id() {
            request = request.header("last-event-id", id);
        }
        let sent = tokio::time::timeout(ANSWER_MAX, request.send()).await.map_err(|e| other(&e))?;
        let response = sent.map_err(|e| other(&e))?;
        match response.status().as_u16() {
            200 => {}
            404 => return Err(Trouble::Gone),
            status => return Err(Trouble::Other(format!("the stream was answered {status}"))),
        }
        seen.connections += 1;
        let mut messages = Messages::of(response);
        loop {
            let next = tokio::time::timeout(SILENCE_MAX, messages.next()).await.map_err(|e| other(&e))?;
            let Some(message) = next else { return Ok(()) };
            let Some(event) = Event::of(&message) else { continue };
            if event.kind == "reset" {
                seen.resets += 1;
                seen.transcript = Transcript::default();
            } else {
                seen.transcript.add(event);
            }
        }
    }

    /// Repeats a request until a scheduler answers with another status than 503.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        fill: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<(u16, Json), Trouble> {
        let began = Instant::now();
        loop {
            let request = fill(self.request(method.clone(), path)).timeout(ANSWER_MAX);
            let answer = async {
                let response = request.send().await.map_err(|e| e.to_string())?;
                let status = response.status().as_u16();
                let text = response.text().await.map_err(|e| e.to_string())?;
                if status == 503 {
                    Err(text)
                } else {
                    Ok((status, serde_json::from_str(&text).unwrap_or_default()))
                }
            };
            match answer.await {
                Ok(answer) => return Ok(answer),
                Err(error) if began.elapsed() > PATIENCE => {
                    return Err(Trouble::Other(format!("{method} {path}: {error}")));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.addresses.len().max(1);
        let url = format!("http://{}{path}", self.addresses[at]);
        self.http.request(method, url).bearer_auth(ADMIN_KEY)
    }
}

/// The answer of a person who agrees to everything.
fn answer_of(pause: &Json, text: &str) -> Json {
    if pause["kind"] != "human_input" {
        return json!({"input": made_up(&pause["schema"], text)});
    }
    let names = pause["inputs"].as_array().into_iter().flatten();
    let names = names.filter_map(|input| input["output_variable_name"].as_str());
    let inputs: Map<_, _> = names.map(|name| (name.to_string(), json!(text))).collect();
    json!({"action": pause["actions"][0]["id"], "inputs": inputs})
}

/// A value that a schema allows.
fn made_up(schema: &Json, text: &str) -> Json {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    // Of several types it takes the first.
    match schema["type"].as_str().or(schema["type"][0].as_str()) {
        Some("boolean") => json!(true),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(7)),
        Some("array") => json!([made_up(&schema["items"], text)]),
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            properties
                .map(|(name, schema)| (name.clone(), made_up(schema, text)))
                .collect::<Map<_, _>>()
                .into()
        }
        _ => json!(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_each_kind_of_pause_matches_its_schema() {
        let form = json!({"kind": "human_input", "actions": [{"id": "ok"}], "inputs": [{"output_variable_name": "note"}]});
        assert_eq!(answer_of(&form, "t"), json!({"action": "ok", "inputs": {"note": "t"}}));
        let asks =
            |schema: Json| answer_of(&json!({"kind": "params", "schema": schema}), "t")["input"].clone();
        let trip = json!({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}});
        assert_eq!(asks(trip), json!({"city": "t", "days": 1}));
        assert_eq!(asks(json!({"enum": ["red", "blue"]})), "red");
        assert_eq!(asks(json!({"type": ["boolean", "object"]})), true);
        assert_eq!(asks(json!({"type": "array", "items": {"type": "number"}})), json!([7]));
        assert_eq!(asks(Json::Null), "t");
    }
}
