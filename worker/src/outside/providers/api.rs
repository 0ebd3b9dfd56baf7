//! Sends requests to model APIs, the same for all of them: timeouts, retries, error bodies, streams.
//!
//! A provider writes a [`Post`]; the objects of the answer go to its [`Reader`].

use std::error::Error as StdError;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use serde_json::Value as Json;

use crate::outside::hide::Hide;
use crate::outside::providers::errors::{Detail, ErrorClass, ModelError};
use crate::outside::providers::frames::Framing;
use crate::outside::providers::reading::{Intake, ObjectReader, Reader, object};
use crate::outside::providers::retry;
use crate::outside::providers::retry::Hints;
use crate::outside::providers::{RateFacts, rate};

/// The content type of most requests and answers.
pub(super) const JSON: &str = "application/json";
/// Most bytes read from an error answer.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// The connection settings of an API.
#[derive(Clone)]
pub struct Settings {
    /// Without a final slash.
    pub base_url: String,
    /// Secrets that errors must not show: the key, and other header values.
    pub secrets: Vec<String>,
    /// Sent with every request.
    pub headers: HeaderMap,
    /// Longest wait for the start of the answer, and between two pieces of it.
    pub read_timeout: Duration,
    /// Retries after the first try.
    pub retries_max: u32,
    /// Largest answer in one piece, in bytes.
    pub answer_bytes_max: usize,
}

/// Never shows a key; shows only the names of headers.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("base_url", &self.base_url)
            .field("secrets", &self.secrets.len())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("read_timeout", &self.read_timeout)
            .field("retries_max", &self.retries_max)
            .field("answer_bytes_max", &self.answer_bytes_max)
            .finish()
    }
}

/// An API with its connection pool.
#[derive(Debug, Clone)]
pub struct Api {
    client: reqwest::Client,
    settings: Settings,
    /// True when the caller counts and waits itself.
    reports_failures: bool,
}

/// A request.
#[derive(Debug)]
pub struct Post<'a> {
    /// The provider's name, for errors.
    pub label: &'a str,
    pub url: String,
    /// The body: JSON, unless `content_type` says otherwise.
    pub body: Bytes,
    /// The format of a streamed answer.
    pub framing: Framing,
    /// True when a stream is requested.
    pub stream: bool,
}

/// The tries of a request so far.
#[derive(Debug, Default)]
struct Tries {
    made: u32,
    /// Those in which no byte came in time.
    silent: u32,
}

/// A failed try.
struct Failed {
    error: ModelError,
    hints: Hints,
    /// True when no byte came in time. That is worth one retry, not several.
    silent: bool,
}

impl From<ModelError> for Failed {
    fn from(error: ModelError) -> Self {
        Self { error, hints: Hints::default(), silent: false }
    }
}

impl Api {
    /// Creates an API with a connection pool.
    pub const fn new(client: reqwest::Client, settings: Settings) -> Self {
        Self { client, settings, reports_failures: false }
    }

    /// Reports each failure at once, without retries or waits.
    #[must_use]
    pub fn reporting_failures(self) -> Self {
        Self { reports_failures: true, ..self }
    }

    /// The base URL of every path.
    pub fn base_url(&self) -> &str {
        &self.settings.base_url
    }

    /// Sends a request and retries until an answer is complete or a retry makes no sense.
    ///
    /// # Errors
    /// The error of the last try.
    pub async fn converse(&self, post: &Post<'_>, reader: &mut dyn Reader) -> Result<(), ModelError> {
        let mut tries = Tries::default();
        loop {
            reader.begin();
            let Err(failed) = self.attempt(post, reader).await else { return Ok(()) };
            self.rest(post.label, &mut tries, failed, reader.handed_on()).await?;
        }
    }

    /// Sends a request with this content type and returns the bytes of the answer, at most `max`.
    ///
    /// # Errors
    /// As [`Api::converse`].
    pub async fn fetch(&self, post: &Post<'_>, content_type: &str, max: usize) -> Result<Bytes, ModelError> {
        let mut tries = Tries::default();
        loop {
            match self.bytes(post, content_type, max).await {
                Ok(bytes) => return Ok(bytes.into()),
                Err(failed) => self.rest(post.label, &mut tries, failed, false).await?,
            }
        }
    }

    /// Waits before the next try.
    ///
    /// # Errors
    /// The failure, if there is no next try.
    async fn rest(
        &self,
        label: &str,
        tries: &mut Tries,
        failed: Failed,
        handed_on: bool,
    ) -> Result<(), ModelError> {
        tries.made += 1;
        tries.silent += u32::from(failed.silent);
        let over = self.reports_failures || handed_on || tries.silent > 1;
        let wait = retry::wait(tries.made, self.settings.retries_max, failed.error.retryable, failed.hints);
        let Some(wait) = wait.filter(|_| !over) else { return Err(self.report(failed)) };
        let why = failed.error.brief();
        tracing::warn!(label, error = why, wait_ms = wait.as_millis(), "model call failed, trying again");
        tokio::time::sleep(wait).await;
        Ok(())
    }

    async fn bytes(&self, post: &Post<'_>, content_type: &str, max: usize) -> Result<Vec<u8>, Failed> {
        let (response, _) = self.send(post, (content_type, "*/*")).await?;
        self.whole(post.label, response, max, "features.audio_bytes_max").await
    }

    /// Reads an answer that may have at most `max` bytes.
    async fn whole(
        &self,
        label: &str,
        response: Response,
        max: usize,
        setting: &str,
    ) -> Result<Vec<u8>, Failed> {
        let bytes = self.read_up_to(label, response, max.saturating_add(1)).await?;
        if bytes.len() > max {
            let cause = format!("{}: the answer is larger than {max} bytes ({setting})", self.host());
            return Err(ModelError::new(label, ErrorClass::BadRequest, &cause).into());
        }
        Ok(bytes)
    }

    /// Sends an object and returns the object that answers it.
    ///
    /// # Errors
    /// As [`Api::converse`].
    pub async fn ask(&self, label: &str, url: String, body: &Json) -> Result<Json, ModelError> {
        let body = body.to_string().into();
        let post = Post { label, url, body, framing: Framing::Sse, stream: false };
        let mut reader = ObjectReader::default();
        self.converse(&post, &mut reader).await?;
        Ok(reader.0)
    }

    async fn attempt(&self, post: &Post<'_>, reader: &mut dyn Reader) -> Result<(), Failed> {
        let accept = if post.stream { post.framing.media_type() } else { JSON };
        let (response, facts) = self.send(post, (JSON, accept)).await?;
        let answered = Instant::now();
        if is_whole(post, &response) {
            reader.whole();
            let max = self.settings.answer_bytes_max;
            let bytes = self.whole(post.label, response, max, "answer_bytes_max").await?;
            reader.take(&object(post.label, &String::from_utf8_lossy(&bytes))?)?;
        } else {
            self.follow(post, response, reader).await?;
        }
        Ok(reader.end(rate::aged(facts, answered.elapsed()))?)
    }

    /// Sends the request and returns the answer if its status is a success.
    async fn send(
        &self,
        post: &Post<'_>,
        (content_type, accept): (&str, &str),
    ) -> Result<(Response, RateFacts), Failed> {
        let request = self
            .client
            .post(&post.url)
            .headers(self.settings.headers.clone())
            .header(CONTENT_TYPE, content_type)
            .header(ACCEPT, accept)
            .body(post.body.clone());
        let response = match tokio::time::timeout(self.settings.read_timeout, request.send()).await {
            Ok(sent) => sent.map_err(|error| self.connection(post.label, error))?,
            Err(_) => return Err(self.late(post.label, "answer")),
        };
        let now_unix_ms = chrono::Utc::now().timestamp_millis();
        let facts = rate::facts(response.headers(), now_unix_ms);
        let status = response.status();
        if status.is_success() {
            return Ok((response, facts));
        }
        let mut hints = Hints::of(response.headers(), now_unix_ms);
        if status.as_u16() == 429 {
            hints.after = hints.after.or_else(|| rate::until_reset(facts));
        }
        // If the body cannot be read, the status alone is enough.
        let body = self.read_up_to(post.label, response, ERROR_BYTES_MAX).await.unwrap_or_default();
        let error = ModelError::of_status(post.label, status.as_u16(), &String::from_utf8_lossy(&body));
        Err(Failed { error, hints, silent: false })
    }

    /// Reads the stream until its end marker or its end.
    async fn follow(
        &self,
        post: &Post<'_>,
        mut response: Response,
        reader: &mut dyn Reader,
    ) -> Result<(), Failed> {
        let mut intake = Intake::new(post.label, post.framing);
        loop {
            let piece = self.next(post.label, &mut response).await?;
            if intake.take(piece.as_deref(), reader)? {
                return Ok(());
            }
        }
    }

    /// Reads at most `bytes_max` bytes of an answer.
    async fn read_up_to(
        &self,
        label: &str,
        mut response: Response,
        bytes_max: usize,
    ) -> Result<Vec<u8>, Failed> {
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

    async fn next(&self, label: &str, response: &mut Response) -> Result<Option<Bytes>, Failed> {
        match tokio::time::timeout(self.settings.read_timeout, response.chunk()).await {
            Ok(piece) => Ok(piece.map_err(|error| self.connection(label, error))?),
            Err(_) => Err(self.late(label, "further piece of the reply")),
        }
    }

    fn connection(&self, label: &str, error: reqwest::Error) -> ModelError {
        let cause = format!("{}: {}", self.host(), causes(&error.without_url()));
        ModelError::new(label, ErrorClass::Connection, &cause).passing()
    }

    fn late(&self, label: &str, what: &str) -> Failed {
        let ms = self.settings.read_timeout.as_millis();
        let cause = format!("{}: no {what} within {ms} ms (read_timeout_ms)", self.host());
        let error = ModelError::new(label, ErrorClass::Connection, &cause).passing();
        let error = ModelError { detail: Detail::Late, ..error };
        Failed { silent: true, ..error.into() }
    }

    /// Host and port, for errors.
    fn host(&self) -> &str {
        let rest = self.settings.base_url.split_once("://").map_or("", |(_, rest)| rest);
        rest.split('/').next().unwrap_or(rest)
    }

    fn report(&self, failed: Failed) -> ModelError {
        let after = failed.hints.after.and_then(|after| u64::try_from(after.as_millis()).ok());
        self.masked(ModelError { retry_after_ms: after, hint: failed.hints.retry, ..failed.error })
    }

    fn masked(&self, error: ModelError) -> ModelError {
        Hide::of(self.settings.secrets.iter().cloned()).in_error(error)
    }
}

/// Returns true for an answer in one piece, which some servers send instead of a stream.
fn is_whole(post: &Post<'_>, response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let kind = kind.trim_start().to_ascii_lowercase();
    match post.framing {
        Framing::Sse if post.stream => kind.starts_with("application/json"),
        Framing::Sse => !kind.starts_with(post.framing.media_type()),
        // One object on one line is also a stream.
        Framing::Ndjson => !post.stream,
    }
}

/// An error with its causes: reqwest hides "connection refused" several layers down.
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
