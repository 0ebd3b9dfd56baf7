//! A client of the OpenAI-compatible chat API, `POST {base}/chat/completions`, always streaming.
//!
//! `body` writes the request, `reply` reads the stream; here is the conversation between the two: time-outs, tries,
//! and the classes of what goes wrong on the way.

mod body;
mod reply;

use std::error::Error as StdError;
use std::fmt;
use std::time::{Duration, Instant};

use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use tidemill_common::limits::VALUE_BYTES_MAX;

use super::retry::{self, Hints};
use super::sse::Decoder;
use super::{ChatRequest, DeltaSink, ErrorClass, ModelError, ModelProvider, ModelReply};
use reply::Assembly;

/// Most bytes that are read of an answer that says why it failed.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// How to reach an API.
#[derive(Clone)]
pub struct Settings {
    /// Without a slash at the end; usually ends in `/v1`.
    pub base_url: String,
    /// Sent as bearer token; none: not sent.
    pub api_key: Option<String>,
    /// Sent with every request.
    pub headers: HeaderMap,
    /// Longest time until the answer begins, and from each piece of the reply to the next.
    pub read_timeout: Duration,
    /// Tries after the first.
    pub retries_max: u32,
    /// Whether to ask for token counts (`stream_options`); some servers refuse the field.
    pub stream_usage: bool,
}

/// Never shows a key; of the headers only the names.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("base_url", &self.base_url)
            .field("api_key", &self.api_key.as_ref().map(|_| "***"))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("read_timeout", &self.read_timeout)
            .field("retries_max", &self.retries_max)
            .field("stream_usage", &self.stream_usage)
            .finish()
    }
}

/// The client.
#[derive(Debug, Clone)]
pub struct OpenAi {
    client: reqwest::Client,
    settings: Settings,
}

#[async_trait::async_trait]
impl ModelProvider for OpenAi {
    async fn stream_chat(
        &self,
        request: &ChatRequest,
        on_delta: DeltaSink<'_>,
    ) -> Result<ModelReply, ModelError> {
        let body = body::write(request, self.settings.stream_usage)?;
        let (mut tries, mut silences) = (0, 0);
        loop {
            tries += 1;
            let mut handed_on = false;
            let mut sink = |piece: &str| {
                handed_on = true;
                on_delta(piece);
            };
            let failed = match self.attempt(&request.label, &body, &mut sink).await {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            silences += u32::from(failed.silent);
            let over = handed_on || silences > 1;
            let wait = retry::wait(tries, self.settings.retries_max, failed.error.retryable, failed.hints);
            let Some(wait) = wait.filter(|_| !over) else { return Err(self.report(failed)) };
            tracing::warn!(error = %failed.error, wait_ms = wait.as_millis(), "model call failed, trying again");
            tokio::time::sleep(wait).await;
        }
    }
}

/// One try that failed.
struct Failed {
    error: ModelError,
    hints: Hints,
    /// Nothing at all came in time; that is worth one more try, not several.
    silent: bool,
}

impl From<ModelError> for Failed {
    fn from(error: ModelError) -> Self {
        Self { error, hints: Hints::default(), silent: false }
    }
}

impl OpenAi {
    /// A client over a connection pool.
    pub const fn new(client: reqwest::Client, settings: Settings) -> Self {
        Self { client, settings }
    }

    async fn attempt(&self, label: &str, body: &str, on_delta: DeltaSink<'_>) -> Result<ModelReply, Failed> {
        let mut assembly = Assembly::new(label, Instant::now());
        let response = self.send(label, body).await?;
        if is_whole_reply(&response) {
            let bytes = self.read_all(label, response, VALUE_BYTES_MAX).await?;
            assembly.take(&String::from_utf8_lossy(&bytes), on_delta)?;
            return Ok(assembly.finish()?);
        }
        self.follow(label, response, &mut assembly, on_delta).await?;
        Ok(assembly.finish()?)
    }

    /// Sends the request and brings the answer's head, if it says success.
    async fn send(&self, label: &str, body: &str) -> Result<Response, Failed> {
        let mut request = self
            .client
            .post(format!("{}/chat/completions", self.settings.base_url))
            .headers(self.settings.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .body(body.to_owned());
        if let Some(key) = &self.settings.api_key {
            request = request.bearer_auth(key);
        }
        let response = match tokio::time::timeout(self.settings.read_timeout, request.send()).await {
            Ok(sent) => sent.map_err(|error| self.connection(label, error))?,
            Err(_) => return Err(Failed { silent: true, ..self.late(label, "answer").into() }),
        };
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let hints = Hints::of(response.headers(), chrono::Utc::now().timestamp_millis());
        // The status alone says enough when its body cannot be read.
        let body = self.read_all(label, response, ERROR_BYTES_MAX).await.unwrap_or_default();
        let error = ModelError::of_status(label, status.as_u16(), &String::from_utf8_lossy(&body));
        Err(Failed { error, hints, silent: false })
    }

    /// Reads the stream until it says that it is done, or ends.
    async fn follow(
        &self,
        label: &str,
        mut response: Response,
        assembly: &mut Assembly<'_>,
        on_delta: DeltaSink<'_>,
    ) -> Result<(), ModelError> {
        let unreadable = |error| ModelError::new(label, ErrorClass::Connection, &format!("{error}"));
        let (mut decoder, mut events) = (Decoder::default(), Vec::new());
        loop {
            let piece = self.next(label, &mut response).await?;
            match &piece {
                Some(bytes) => decoder.feed(bytes, &mut events).map_err(unreadable)?,
                None => decoder.finish(&mut events).map_err(unreadable)?,
            }
            for event in events.drain(..) {
                if event.trim() == "[DONE]" {
                    assembly.done();
                    return Ok(());
                }
                assembly.take(&event, on_delta)?;
            }
            if piece.is_none() {
                return Ok(());
            }
        }
    }

    async fn read_all(
        &self,
        label: &str,
        mut response: Response,
        bytes_max: usize,
    ) -> Result<Vec<u8>, ModelError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next(label, &mut response).await? {
            let room = bytes_max - bytes.len();
            bytes.extend_from_slice(&piece[..piece.len().min(room)]);
            if bytes.len() == bytes_max {
                break;
            }
        }
        Ok(bytes)
    }

    async fn next(&self, label: &str, response: &mut Response) -> Result<Option<bytes::Bytes>, ModelError> {
        match tokio::time::timeout(self.settings.read_timeout, response.chunk()).await {
            Ok(piece) => piece.map_err(|error| self.connection(label, error)),
            Err(_) => Err(self.late(label, "further piece of the reply")),
        }
    }

    fn connection(&self, label: &str, error: reqwest::Error) -> ModelError {
        let cause = format!("{}: {}", self.host(), causes(&error.without_url()));
        ModelError::new(label, ErrorClass::Connection, &cause).passing()
    }

    fn late(&self, label: &str, what: &str) -> ModelError {
        let ms = self.settings.read_timeout.as_millis();
        let cause = format!("{}: no {what} within {ms} ms (read_timeout_ms)", self.host());
        ModelError::new(label, ErrorClass::Connection, &cause).passing()
    }

    /// Host and port, for errors.
    fn host(&self) -> &str {
        let rest = self.settings.base_url.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }

    fn report(&self, failed: Failed) -> ModelError {
        let after = failed.hints.after.and_then(|after| u64::try_from(after.as_millis()).ok());
        let error = ModelError { retry_after_ms: after, ..failed.error };
        match &self.settings.api_key {
            Some(key) => error.without(key),
            None => error,
        }
    }
}

/// True for a server that answers in one piece although a stream was asked for.
fn is_whole_reply(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    kind.trim_start().to_ascii_lowercase().starts_with("application/json")
}

/// An error with what lies behind it: reqwest keeps "connection refused" some layers down.
fn causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        at = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
