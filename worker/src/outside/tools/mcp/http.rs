//! MCP over one URL: each message is a POST, answered by JSON or an event stream, within a session if the server uses
//! one. A broken stream is resumed after its last event, if its events have ids; the request is not sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value as Json;
use tidemill_common::hidden::Hidden;
use tidemill_common::limits::MCP_RESUMES_MAX;
use tidemill_common::mistakes::variable_shown;
use tidemill_common::nodes::tool::config::McpConfig;
use tidemill_common::sse::Decoder;
use tokio::sync::Mutex;

use crate::outside::hide::Hide;
use crate::outside::http::{Answer, CallError};
use crate::outside::tools::ToolSettingError;
use crate::outside::tools::mcp::Transport;
use crate::outside::tools::mcp::protocol::{
    Incoming, McpError, chosen_version, incoming, introduction, notification, request,
};
use crate::outside::tools::operator_client::{
    OperatorClient, Request, address, content_type, excerpt, headers, whole,
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
/// Most requests to resume a stream without new events.
const RESUMES_MAX: u32 = 5;
/// Wait before resuming, if the server sets none.
const RESUME_WAIT: Duration = Duration::from_secs(1);

/// The address of a server, and the common parts of all requests.
#[derive(Debug, Clone)]
pub(super) struct Address {
    pub(super) operator_client: OperatorClient,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// Longest silence, except for tool calls.
    pub(super) silence: Duration,
    pub(super) answer_bytes_max: u64,
}

/// An MCP server with one URL; see the module.
pub(super) struct StreamableHttp {
    at: Address,
    session: Mutex<Option<Arc<Session>>>,
    last_id: AtomicU64,
}

/// The result of reading a stream.
enum Read {
    Result(Result<Json, McpError>),
    /// The stream ended without a result, for this reason.
    Over(String),
}

/// The negotiated session.
#[derive(Debug)]
struct Session {
    id: Option<HeaderValue>,
    version: String,
}

impl Address {
    /// Builds the address from `[tools.mcp.ID]`, or from what a workflow says of a server.
    pub(super) fn new(
        id: &str,
        config: &McpConfig,
        operator_client: OperatorClient,
        answer_bytes_max: u64,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ToolSettingError> {
        let key = |key: &str| format!("mcp.\"{id}\".{key}");
        let given = config.headers.iter().map(|(name, value)| (name, value.clone()));
        let mut all = headers(&key("headers"), given)?;
        for (name, of) in &config.headers_env {
            let value = variable(of).ok_or_else(|| {
                let reason = format!("the environment variable {} is not set", variable_shown(of));
                ToolSettingError::new(key("headers_env"), reason)
            })?;
            all.extend(headers(&key("headers_env"), std::iter::once((name, Hidden(value))))?);
        }
        Ok(Self {
            operator_client,
            url: address(&key("url"), &config.url)?,
            headers: all,
            silence: Duration::from_secs(config.timeout_seconds),
            answer_bytes_max,
        })
    }

    /// Removes the settings' secrets from an error.
    pub(super) fn hidden(&self, error: McpError) -> McpError {
        let hide = Hide::of_request(&self.headers, &self.url);
        error.worded(|text| hide.text(&text))
    }
}

impl StreamableHttp {
    pub(super) fn new(at: Address) -> Self {
        Self { at, session: Mutex::new(None), last_id: AtomicU64::new(0) }
    }

    /// Returns the session, creating one if there is none.
    async fn session(&self) -> Result<Arc<Session>, McpError> {
        let mut session = self.session.lock().await;
        if let Some(known) = &*session {
            return Ok(known.clone());
        }
        let id = self.next_id();
        let body = request(id, "initialize", &introduction());
        let mut answer = self.post(None, &body, self.at.silence).await?;
        let issued = answer.response.headers().get(SESSION).cloned();
        let result = self.result(None, &mut answer, id, self.at.silence).await?;
        let new = Arc::new(Session { id: issued, version: chosen_version(&result)? });
        drop(self.post(Some(&new), &notification("notifications/initialized"), self.at.silence).await?);
        *session = Some(new.clone());
        Ok(new)
    }

    /// Drops a session the server no longer knows, unless another task has done so.
    async fn forget(&self, old: &Arc<Session>) {
        let mut session = self.session.lock().await;
        if session.as_ref().is_some_and(|known| Arc::ptr_eq(known, old)) {
            *session = None;
        }
    }

    fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The headers of every request in a session.
    fn headers(&self, session: Option<&Session>) -> HeaderMap {
        let mut headers = self.at.headers.clone();
        if let Some(session) = session {
            if let Some(id) = &session.id {
                headers.insert(SESSION, id.clone());
            }
            if let Ok(version) = HeaderValue::from_str(&session.version) {
                headers.insert(PROTOCOL, version);
            }
        }
        headers
    }

    async fn post(
        &self,
        session: Option<&Session>,
        body: &Json,
        silence: Duration,
    ) -> Result<Answer, McpError> {
        let mut headers = self.headers(session);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let body = Bytes::from(body.to_string());
        let request = Request { method: Method::POST, url: &self.at.url, headers, body, silence };
        let mut answer = self
            .at
            .operator_client
            .send(request)
            .await
            .map_err(|error| McpError::Unreachable(error.to_string()))?;
        let status = answer.response.status();
        if status.is_success() {
            return Ok(answer);
        }
        if status.as_u16() == 404 && session.is_some_and(|session| session.id.is_some()) {
            return Err(McpError::Expired);
        }
        if status.as_u16() == 401 {
            return Err(McpError::Broken(
                "the server requires credentials (401); set headers_env or headers".into(),
            ));
        }
        let body = whole(&mut answer, self.at.answer_bytes_max).await.unwrap_or_default();
        // Some servers refuse with a JSON-RPC error.
        let parsed = serde_json::from_slice::<Json>(&body).map(|body| incoming(&body)).unwrap_or_default();
        for one in parsed {
            if let Incoming::Answer { result: Err(error), .. } = one {
                return Err(error);
            }
        }
        let message = format!("the server answered with status {}: {}", status.as_u16(), excerpt(&body));
        Err(match session {
            _ if status.is_server_error() => McpError::Unreachable(message),
            None if status.is_client_error() => McpError::NotSpoken(message),
            _ => McpError::Broken(message),
        })
    }

    /// Reads the result of a request from any kind of answer.
    async fn result(
        &self,
        session: Option<&Session>,
        answer: &mut Answer,
        id: u64,
        silence: Duration,
    ) -> Result<Json, McpError> {
        let broken = |message: String| McpError::Broken(message);
        if content_type(answer) != "text/event-stream" {
            let body = whole(answer, self.at.answer_bytes_max).await.map_err(broken)?;
            let body = serde_json::from_slice(&body)
                .map_err(|error| broken(format!("the server's answer is not JSON: {error}")))?;
            return match self.look(session, &body, id, silence).await? {
                Some(result) => result,
                None => Err(broken("the server answered another request".into())),
            };
        }
        let (mut total, mut resumed, mut all_resumed) = (0, 0, 0);
        let mut last_id: Option<String> = None;
        loop {
            let mut decoder = Decoder::default();
            let read = self.read(session, answer, (&mut decoder, &mut total), (id, silence)).await;
            let why = match read? {
                Read::Result(result) => return result,
                Read::Over(why) => why,
            };
            // A stream whose events have ids is resumed after the last received event.
            if let Some(id) = decoder.last_id() {
                (last_id, resumed) = (Some(id.to_owned()), 0);
            }
            let Some(last) = last_id.as_deref().filter(|_| resumed < RESUMES_MAX) else {
                return Err(broken(why));
            };
            if all_resumed == MCP_RESUMES_MAX {
                let message = format!("{why}, and was resumed {MCP_RESUMES_MAX} times (MCP_RESUMES_MAX)");
                return Err(broken(message));
            }
            (resumed, all_resumed) = (resumed + 1, all_resumed + 1);
            let wait = decoder.retry_ms().map_or(RESUME_WAIT, Duration::from_millis).min(silence);
            tracing::debug!(why, last, resumed, "resuming the stream of an MCP server");
            tokio::time::sleep(wait).await;
            *answer = match self.resume(session, last, silence).await? {
                Some(answer) => answer,
                None => return Err(broken(why)),
            };
        }
    }

    /// Reads a stream up to the result or its end.
    async fn read(
        &self,
        session: Option<&Session>,
        answer: &mut Answer,
        (decoder, total): (&mut Decoder, &mut u64),
        (id, silence): (u64, Duration),
    ) -> Result<Read, McpError> {
        let broken = |message: String| McpError::Broken(message);
        let mut events = Vec::new();
        loop {
            let piece = match answer.piece().await {
                Ok(piece) => piece,
                // A server that is silent for too long is not asked again.
                Err(error @ CallError::TimedOut(..)) => return Err(broken(error.to_string())),
                Err(error) => return Ok(Read::Over(error.to_string())),
            };
            match &piece {
                Some(bytes) => decoder.push(bytes, &mut events),
                None => decoder.finish(&mut events),
            }
            .map_err(|error| broken(error.to_string()))?;
            *total += piece.as_ref().map_or(0, |bytes| bytes.len() as u64);
            if *total > self.at.answer_bytes_max {
                let max = self.at.answer_bytes_max;
                return Err(broken(format!("the answer has more than {max} bytes (tools.answer_bytes_max)")));
            }
            for event in events.drain(..) {
                // Servers send events without content to keep a stream alive.
                let Ok(body) = serde_json::from_str::<Json>(&event) else { continue };
                if let Some(result) = self.look(session, &body, id, silence).await? {
                    return Ok(Read::Result(result));
                }
            }
            if piece.is_none() {
                return Ok(Read::Over("the server's stream ended without an answer".into()));
            }
        }
    }

    /// Requests the rest of a stream. This has no side effect, so it may be repeated. `None` if the server cannot
    /// resume.
    async fn resume(
        &self,
        session: Option<&Session>,
        last_id: &str,
        silence: Duration,
    ) -> Result<Option<Answer>, McpError> {
        let Ok(last_id) = HeaderValue::from_str(last_id) else { return Ok(None) };
        let mut headers = self.headers(session);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(LAST_EVENT, last_id);
        let request =
            Request { method: Method::GET, url: &self.at.url, headers, body: Bytes::new(), silence };
        let answer = self.at.operator_client.send(request).await;
        let answer = answer.map_err(|error| McpError::Unreachable(error.to_string()))?;
        let streams = answer.response.status().is_success() && content_type(&answer) == "text/event-stream";
        Ok(streams.then_some(answer))
    }

    /// Handles a message; requests of the server are answered at once.
    async fn look(
        &self,
        session: Option<&Session>,
        body: &Json,
        wanted: u64,
        silence: Duration,
    ) -> Result<Option<Result<Json, McpError>>, McpError> {
        let mut found = None;
        for one in incoming(body) {
            match one {
                Incoming::Answer { id, result } if id == wanted => found = Some(result),
                Incoming::Answer { .. } | Incoming::Other => {}
                Incoming::Request { answer } => drop(self.post(session, &answer, silence).await?),
            }
        }
        Ok(found)
    }
}

#[async_trait::async_trait]
impl Transport for StreamableHttp {
    async fn request(&self, method: &str, params: Json, silence: Duration) -> Result<Json, McpError> {
        self.ask(method, &params, silence).await.map_err(|error| self.at.hidden(error))
    }
}

impl StreamableHttp {
    async fn ask(&self, method: &str, params: &Json, silence: Duration) -> Result<Json, McpError> {
        let mut is_second = false;
        loop {
            let session = self.session().await?;
            let id = self.next_id();
            let body = request(id, method, params);
            let mut answer = match self.post(Some(&session), &body, silence).await {
                // The server has not processed it, so repeating is safe.
                Err(McpError::Expired) if !is_second => {
                    is_second = true;
                    self.forget(&session).await;
                    continue;
                }
                answer => answer?,
            };
            return self.result(Some(&session), &mut answer, id, silence).await;
        }
    }
}
