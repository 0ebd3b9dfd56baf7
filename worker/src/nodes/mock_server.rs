//! A scripted local model and tool for tests of nodes.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{StatusCode, Uri};
use axum::routing::{any, post};
use serde_json::{Value as Json, json};
use tidemill_common::value::{Lookup, Segment, Variables};
use tokio::net::TcpListener;

use crate::outside::providers::{Providers, ProvidersConfig};

/// Tokens per reply.
pub(super) const TOKENS: u64 = 12;

/// Variables by node.
pub(super) struct Values(pub(super) Json);

impl Variables for Values {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        match self.0.get(node).and_then(|names| names.get(name)) {
            Some(value) => Lookup::Found(Cow::Owned(Segment::restore_files(value.clone()))),
            None => Lookup::Missing,
        }
    }
    fn names(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// A reply of the model.
#[derive(Clone)]
pub(super) enum Reply {
    Says {
        thought: &'static str,
        text: String,
        calls: Vec<(String, String)>,
        images: Vec<&'static str>,
    },
    /// Answers in one piece although a stream was requested.
    Whole(Box<Reply>),
    Refuses(u16, &'static str),
}

pub(super) fn says(text: &str) -> Reply {
    Reply::Says { thought: "", text: text.into(), calls: Vec::new(), images: Vec::new() }
}

impl Reply {
    /// The same reply from a server that does not stream.
    pub(super) fn whole(self) -> Self {
        Self::Whole(Box::new(self))
    }

    fn written(&self, streams: bool) -> (StatusCode, [(&'static str, &'static str); 1], String) {
        let (thought, text, calls, images) = match self {
            Self::Says { thought, text, calls, images } => (thought, text, calls, images),
            Self::Whole(reply) => return reply.written(false),
            Self::Refuses(status, message) => {
                let body = json!({"error": {"message": message}}).to_string();
                let status = StatusCode::from_u16(*status).unwrap();
                return (status, [("content-type", "application/json")], body);
            }
        };
        let call = |(index, (name, arguments)): (usize, &(String, String))| {
            json!({"index": index, "id": format!("call_{index}"), "type": "function",
                "function": {"name": name, "arguments": arguments}})
        };
        let calls: Vec<Json> = calls.iter().enumerate().map(call).collect();
        let images: Vec<Json> =
            images.iter().map(|url| json!({"type": "image_url", "image_url": {"url": url}})).collect();
        let finish = if calls.is_empty() { "stop" } else { "tool_calls" };
        let usage = json!({"prompt_tokens": TOKENS - 2, "completion_tokens": 2});
        if !streams {
            let message = json!({
                "role": "assistant", "reasoning_content": thought, "content": text, "tool_calls": calls, "images": images
            });
            let choice = json!({"index": 0, "message": message, "finish_reason": finish});
            let body = json!({"choices": [choice], "usage": usage}).to_string();
            return (StatusCode::OK, [("content-type", "application/json")], body);
        }
        let (first, second) = text.split_at(text.len() / 2);
        let delta = |delta: Json, finish: Json| {
            format!(
                "data: {}\n\n",
                json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
            )
        };
        let events = [
            delta(json!({"role": "assistant", "reasoning_content": thought}), Json::Null),
            delta(json!({"content": first}), Json::Null),
            delta(json!({"content": second}), Json::Null),
            delta(json!({"tool_calls": calls, "images": images}), json!(finish)),
            format!("data: {}\n\ndata: [DONE]\n\n", json!({"choices": [], "usage": usage})),
        ];
        (StatusCode::OK, [("content-type", "text/event-stream")], events.concat())
    }
}

/// The model and the tools of a test, with their received requests.
pub(super) struct MockServer {
    pub(super) base: String,
    model_requests: Arc<Mutex<Vec<Json>>>,
    tool_inputs: Arc<Mutex<Vec<Json>>>,
}

impl MockServer {
    /// Providers with the model `m` of this server and these known features.
    pub(super) fn providers(&self, provider: &str, features: &[&str]) -> Providers {
        let table = json!({
            "kind": "openai_compatible", "base_url": format!("{}/v1", self.base), "api_key": "k", "max_retries": 0,
            "multimodal_send": "url", "models": {"m": {"features": features}},
        });
        let config: ProvidersConfig = serde_json::from_value(json!({provider: table})).unwrap();
        Providers::new(&config, &|_| None).unwrap()
    }

    pub(super) fn model_requests(&self) -> Vec<Json> {
        self.model_requests.lock().unwrap().clone()
    }
    /// The inputs of the tools.
    pub(super) fn tool_inputs(&self) -> Vec<Json> {
        self.tool_inputs.lock().unwrap().clone()
    }
    /// The last message of request number `at`, from 0.
    pub(super) fn last_message(&self, at: usize) -> String {
        let asked = self.model_requests();
        let messages = asked[at]["messages"].as_array().unwrap();
        // ReAct ends with a message to go on.
        let last = messages.iter().rev().find(|message| message["content"] != "Go on from there.").unwrap();
        last["content"].as_str().unwrap().to_owned()
    }
}

/// Starts a server with scripted answers: the model with replies, the tool `find` of `acme` with messages, or with a
/// failure for a text.
pub(super) async fn mock_server(replies: Vec<Reply>, answers: Vec<Json>) -> MockServer {
    let [model_requests, tool_inputs]: [Arc<Mutex<Vec<Json>>>; 2] = Default::default();
    let (replies, answers) = (Mutex::new(VecDeque::from(replies)), Mutex::new(VecDeque::from(answers)));
    let (replies, answers) = (Arc::new(replies), Arc::new(answers));
    let (noted, noted_calls) = (model_requests.clone(), tool_inputs.clone());
    let model = move |body: Bytes| async move {
        let body: Json = serde_json::from_slice(&body).unwrap();
        let reply = replies.lock().unwrap().pop_front().expect("another reply");
        let written = reply.written(body["stream"] == true);
        noted.lock().unwrap().push(body);
        written
    };
    let tools = move |uri: Uri, body: Bytes| async move {
        if uri.path().ends_with("/parameters") {
            let query = json!({"name": "q", "type": "string", "form": "llm", "required": true});
            return (StatusCode::OK, json!({"parameters": [query]}).to_string());
        }
        noted_calls.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
        match answers.lock().unwrap().pop_front().expect("another answer") {
            Json::String(error) => (StatusCode::BAD_REQUEST, json!({"error": error}).to_string()),
            messages => (StatusCode::OK, json!({"messages": messages}).to_string()),
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/chat/completions", post(model)).fallback(any(tools));
    tokio::spawn(async move { axum::serve(listener, router).await });
    MockServer { base, model_requests, tool_inputs }
}
