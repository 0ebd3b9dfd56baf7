//! The first version of the MCP transport: an open event stream delivers all answers. Its first event names a second
//! URL, to which messages are posted.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value as Json;
use tidemill_common::sse::Decoder;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use crate::outside::http::Answer;
use crate::outside::tools::mcp::Transport;
use crate::outside::tools::mcp::http::Address;
use crate::outside::tools::mcp::protocol::{McpError, chosen_version, introduction, notification};
use crate::outside::tools::mcp::waiting::Waiting;
use crate::outside::tools::operator_client::Request;

/// The message when the stream has ended.
const ENDED: &str = "the server has closed its stream of events";

/// An MCP server with two URLs; see the module.
pub(super) struct TwoUrls {
    at: Arc<Address>,
    /// Longest silence of the stream; after that the next request opens another.
    stream_silence: Duration,
    open: Mutex<Option<Arc<Open>>>,
}

/// An open stream.
struct Open {
    at: Arc<Address>,
    /// The URL for messages.
    messages: Url,
    waiting: Arc<Waiting>,
    listening: JoinHandle<()>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl TwoUrls {
    pub(super) fn new(at: Address, stream_silence: Duration) -> Self {
        Self { at: Arc::new(at), stream_silence, open: Mutex::new(None) }
    }

    /// Returns the open stream, opened again if it has ended.
    async fn open(&self) -> Result<Arc<Open>, McpError> {
        let mut open = self.open.lock().await;
        if let Some(known) = &*open
            && known.waiting.is_open()
        {
            return Ok(known.clone());
        }
        *open = None;
        let new = Arc::new(self.connect().await?);
        let result = new.ask("initialize", &introduction(), self.at.silence).await?;
        chosen_version(&result)?;
        post(&self.at, &new.messages, &notification("notifications/initialized")).await?;
        *open = Some(new.clone());
        Ok(new)
    }

    async fn connect(&self) -> Result<Open, McpError> {
        let mut headers = self.at.headers.clone();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let silence = self.stream_silence;
        let url = &self.at.url;
        let request = Request { method: Method::GET, url, headers, body: Bytes::new(), silence };
        let mut answer = send(&self.at, request).await?;
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        let first = async {
            while events.is_empty() {
                let piece = answer.piece().await.map_err(|error| McpError::Unreachable(error.to_string()))?;
                let piece = piece.ok_or_else(|| McpError::Unreachable(ENDED.into()))?;
                decoder.push(&piece, &mut events).map_err(|error| McpError::Broken(error.to_string()))?;
            }
            Ok(events.remove(0))
        };
        let first = tokio::time::timeout(self.at.silence, first).await;
        let first =
            first.map_err(|_| McpError::Unreachable("the server sent no URL for messages".into()))??;
        let messages =
            url.join(&first).map_err(|error| McpError::Broken(format!("{first:?} is not a URL: {error}")))?;
        // The credentials in the headers must not reach another server.
        if messages.origin() != url.origin() {
            return Err(McpError::Broken(format!("the server wants messages at another address, {first:?}")));
        }
        let waiting = Arc::new(Waiting::new(ENDED));
        let listening = listen(self.at.clone(), messages.clone(), waiting.clone(), answer, decoder, events);
        Ok(Open { at: self.at.clone(), messages, waiting, listening: tokio::spawn(listening) })
    }
}

impl Open {
    async fn ask(&self, method: &str, params: &Json, silence: Duration) -> Result<Json, McpError> {
        let send = |message| async move { post(&self.at, &self.messages, &message).await };
        self.waiting.ask(method, params, silence, send).await
    }
}

/// Reads the stream until it ends.
async fn listen(
    at: Arc<Address>,
    messages: Url,
    waiting: Arc<Waiting>,
    mut answer: Answer,
    mut decoder: Decoder,
    mut events: Vec<String>,
) {
    loop {
        for event in events.drain(..) {
            let Ok(body) = serde_json::from_str::<Json>(&event) else { continue };
            for answer in waiting.take_in(&body) {
                if let Err(error) = post(&at, &messages, &answer).await {
                    tracing::debug!(error = error.kind(), "an MCP server refuses an answer");
                }
            }
        }
        let piece = answer.piece().await.ok().flatten();
        let is_read = piece.is_some_and(|piece| decoder.push(&piece, &mut events).is_ok());
        if !is_read {
            return waiting.close();
        }
    }
}

async fn post(at: &Address, to: &Url, message: &Json) -> Result<(), McpError> {
    let mut headers: HeaderMap = at.headers.clone();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = Bytes::from(message.to_string());
    let request = Request { method: Method::POST, url: to, headers, body, silence: at.silence };
    send(at, request).await.map(drop)
}

async fn send(at: &Address, request: Request<'_>) -> Result<Answer, McpError> {
    let answer =
        at.operator_client.send(request).await.map_err(|error| McpError::Unreachable(error.to_string()))?;
    let status = answer.response.status();
    if status.is_success() {
        return Ok(answer);
    }
    let message = format!("the server answered with status {}", status.as_u16());
    Err(if status.is_server_error() { McpError::Unreachable(message) } else { McpError::Broken(message) })
}

#[async_trait::async_trait]
impl Transport for TwoUrls {
    async fn request(&self, method: &str, params: Json, silence: Duration) -> Result<Json, McpError> {
        let answered = async { self.open().await?.ask(method, &params, silence).await };
        answered.await.map_err(|error| self.at.hidden(error))
    }
}
