//! Calls a service that runs tools. All tools without another source go to `POST {endpoint}/{provider}/{tool}` with
//! `{"parameters": {…}}`, and the answer contains messages; see docs/tools.md. The service may describe a tool's
//! parameters at `GET {endpoint}/{provider}/{tool}/parameters`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Value as Json, json};
use tidemill_common::config::{ToolsConfig, masked_url};
use tidemill_common::nodes::llm::usage::reported;
use tidemill_common::nodes::tool::{Declaration, Message, Parameter};
use tidemill_common::sse::Decoder;

use crate::outside::hide::Hide;
use crate::outside::http::{Answer, CallError};
use crate::outside::providers::retry::Hints;
use crate::outside::tools::operator_client::{
    OperatorClient, Request, address, bearer, content_type, excerpt, headers, whole,
};
use crate::outside::tools::{
    MessageSink, Stage, ToolCall, ToolError, ToolName, ToolRuntime, ToolSettingError,
};

/// Longest wait for the description of a tool.
const DESCRIBE: Duration = Duration::from_secs(10);
/// Most cached descriptions; beyond that the cache is emptied, because no fleet uses so many.
const REMEMBERED_MAX: usize = 1000;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The client of the tool service; see the module.
pub struct Bridge {
    operator_client: OperatorClient,
    endpoint: Url,
    headers: HeaderMap,
    silence: Duration,
    believed: Duration,
    answer_bytes_max: u64,
    described: Mutex<HashMap<String, (Instant, Option<Declaration>)>>,
}

impl Bridge {
    pub(super) fn new(
        config: &ToolsConfig,
        operator_client: OperatorClient,
    ) -> Result<Self, ToolSettingError> {
        let given = config.headers.iter().map(|(name, value)| (name, value.clone()));
        let mut headers = headers("headers", given)?;
        bearer(&mut headers, "api_key", &config.api_key.0)?;
        Ok(Self {
            operator_client,
            endpoint: address("endpoint", &config.endpoint)?,
            headers,
            silence: Duration::from_secs(config.read_seconds),
            believed: Duration::from_secs(config.describe_seconds),
            answer_bytes_max: config.answer_bytes_max,
            described: Mutex::default(),
        })
    }

    fn url(&self, tool: &ToolName<'_>, more: Option<&str>) -> Url {
        let mut url = self.endpoint.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty();
            path.extend(tool.provider_id.split('/')).push(tool.tool).extend(more);
        }
        url
    }

    /// Hides the secrets of the settings.
    fn hide(&self) -> Hide {
        Hide::of_request(&self.headers, &self.endpoint)
    }

    fn silent(&self, error: &CallError) -> String {
        let endpoint = masked_url(self.endpoint.as_str());
        format!("the tool service {endpoint} (tools.endpoint) does not answer: {error}")
    }

    async fn described(&self, tool: &ToolName<'_>) -> Result<Option<Declaration>, ToolError> {
        let url = self.url(tool, Some("parameters"));
        let request = Request {
            method: Method::GET,
            url: &url,
            headers: self.headers.clone(),
            body: Bytes::new(),
            silence: DESCRIBE,
        };
        let unavailable = |message: String| ToolError::unavailable(message).passing();
        let mut answer =
            self.operator_client.send(request).await.map_err(|error| unavailable(self.silent(&error)))?;
        let status = answer.response.status();
        // A service without this path describes no tools. A wrong request will fail again at the call.
        if status.is_client_error() {
            return Ok(None);
        }
        let body = whole(&mut answer, self.answer_bytes_max).await.map_err(unavailable)?;
        if !status.is_success() {
            return Err(unavailable(self.hide().text(&said(status.as_u16(), &body))));
        }
        let body: Json = serde_json::from_slice(&body).unwrap_or_default();
        Ok(body.get("parameters").and_then(Json::as_array).map(|list| Declaration {
            name: tool.tool.to_owned(),
            description: body.get("description").and_then(Json::as_str).unwrap_or_default().to_owned(),
            parameters: list.iter().filter_map(Parameter::from_json).collect(),
            takes_more: body.get("takes_more").and_then(Json::as_bool).unwrap_or(false),
            has_output_schema: false,
        }))
    }
}

#[async_trait::async_trait]
impl ToolRuntime for Bridge {
    async fn parameters(&self, tool: &ToolName<'_>) -> Result<Option<Declaration>, ToolError> {
        let key = format!("{}/{}", tool.provider_id, tool.tool);
        let lock = || self.described.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, known)) = lock().get(&key)
            && at.elapsed() < self.believed
        {
            return Ok(known.clone());
        }
        let told = self.described(tool).await?;
        let mut described = lock();
        if described.len() >= REMEMBERED_MAX {
            described.clear();
        }
        described.insert(key, (Instant::now(), told.clone()));
        Ok(told)
    }

    async fn list(&self, _: &str) -> Result<Vec<Declaration>, ToolError> {
        // A service describes one tool at a time; agents name their tools.
        Ok(Vec::new())
    }

    async fn invoke(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError> {
        self.call(tool, call, sink)
            .await
            .map_err(|error| ToolError { message: self.hide().text(&error.message), ..error })
    }
}

impl Bridge {
    async fn call(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError> {
        let url = self.url(tool, None);
        let mut headers = self.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        if let Ok(key) = HeaderValue::from_str(call.idempotency_key) {
            headers.insert(IDEMPOTENCY_KEY, key);
        }
        let body = json!({"parameters": call.arguments}).to_string().into();
        let request = Request { method: Method::POST, url: &url, headers, body, silence: self.silence };
        let sent = self.operator_client.send(request).await;
        let mut answer =
            sent.map_err(|error| ToolError::new(Stage::Invoke, self.silent(&error)).passing())?;
        let status = answer.response.status().as_u16();
        let read = |message: String| ToolError::new(Stage::Read, message);
        if answer.response.status().is_success() && content_type(&answer) == "text/event-stream" {
            return self.streamed(answer, sink).await;
        }
        let after = Hints::of(answer.response.headers(), chrono::Utc::now().timestamp_millis()).after;
        let body = whole(&mut answer, self.answer_bytes_max).await.map_err(read)?;
        if status == 404 && self.parameters(tool).await?.is_none() {
            let name = format!("{}/{}", tool.provider_id, tool.tool);
            return Err(ToolError::unavailable(format!("tool {name} is not available")));
        }
        if !(200..300).contains(&status) {
            let error = ToolError::new(Stage::Invoke, said(status, &body)).by_status(status);
            let retry_after_ms = after.and_then(|after| u64::try_from(after.as_millis()).ok());
            return Err(ToolError { retry_after_ms, ..error });
        }
        let body: Json = serde_json::from_slice(&body).map_err(|error| {
            read(format!("the tool service answered with something that is not JSON: {error}"))
        })?;
        let Some(messages) = body.get("messages").and_then(Json::as_array) else {
            return Err(read("the tool service answered without `messages`".into()));
        };
        for message in messages {
            sink(Message::from_json(message).map_err(invalid)?);
        }
        if let Some(said) = body.get("usage").and_then(Json::as_object) {
            sink(Message::Spent { run: None, usage: Box::new(reported(said)) });
        }
        Ok(())
    }

    /// Reads a streamed answer: each event is a message.
    async fn streamed(&self, mut answer: Answer, sink: MessageSink<'_>) -> Result<(), ToolError> {
        let read = |message: String| ToolError::new(Stage::Read, message);
        let (mut decoder, mut events, mut total) = (Decoder::default(), Vec::new(), 0);
        loop {
            let piece = answer.piece().await.map_err(|error| read(error.to_string()).passing())?;
            match &piece {
                Some(bytes) => decoder.push(bytes, &mut events),
                None => decoder.finish(&mut events),
            }
            .map_err(|error| read(error.to_string()))?;
            total += piece.as_ref().map_or(0, |bytes| bytes.len() as u64);
            if total > self.answer_bytes_max {
                let max = self.answer_bytes_max;
                return Err(read(format!("the answer has more than {max} bytes (tools.answer_bytes_max)")));
            }
            for event in events.drain(..) {
                if event.trim() == "[DONE]" {
                    return Ok(());
                }
                let event: Json = serde_json::from_str(&event).map_err(|error| {
                    read(format!("the tool service sent an event that is not JSON: {error}"))
                })?;
                if let Some(error) = event.get("error") {
                    return Err(read(error.as_str().map_or_else(|| error.to_string(), str::to_owned)));
                }
                sink(Message::from_json(&event).map_err(invalid)?);
            }
            if piece.is_none() {
                return Ok(());
            }
        }
    }
}

fn invalid(reason: String) -> ToolError {
    ToolError::new(Stage::Message, reason)
}

/// The message of a failed answer.
fn said(status: u16, body: &[u8]) -> String {
    let told: Json = serde_json::from_slice(body).unwrap_or_default();
    let text = ["error", "message"].into_iter().find_map(|key| told.get(key).and_then(Json::as_str));
    match text {
        Some(text) => text.to_owned(),
        None => format!("the tool service answered with status {status}: {}", excerpt(body)),
    }
}
