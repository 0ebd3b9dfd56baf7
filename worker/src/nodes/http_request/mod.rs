//! The `http-request` node: request, call, answer. `tidemill-common` builds the request and the record; [`crate::outside::http`]
//! makes the call.

mod address;
mod charset;
pub(crate) mod files;
mod headers;
pub(crate) mod send;
pub(crate) mod text;

use serde_json::{Value as Json, json};
use tidemill_common::config::CompatConfig;
use tidemill_common::failure::NodeFailure;
use tidemill_common::files::Files;
use tidemill_common::graph::Node;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::http_request::response::{self, Class};
use tidemill_common::nodes::http_request::{ErrorType, HttpRequestData, body, draft, log};
use tidemill_common::value::file_name::FileFacts;
use tidemill_common::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, Variables};
use uuid::Uuid;

use crate::outside::http::read;
use crate::outside::http::read::{Largest, ReadError, header_text};
use crate::outside::http::{Answer, Http};
use crate::outside::providers::retry::Hints;

/// The choices of `[compat]` for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerRules {
    /// Files have the name that their server gives.
    pub named_files: bool,
    /// The charset of a text that declares none is guessed if it is not UTF-8.
    pub guesses_charset: bool,
}

impl Default for AnswerRules {
    fn default() -> Self {
        Self::of(&CompatConfig::default())
    }
}

impl AnswerRules {
    /// The choices in the settings.
    pub fn of(compat: &CompatConfig) -> Self {
        Self { named_files: compat.fetched_file_names, guesses_charset: compat.guess_charset }
    }
}

/// The node's access to the worker.
#[derive(Clone, Copy)]
pub struct Means<'a> {
    /// The client.
    pub http: &'a Http,
    pub files: &'a dyn Files,
    /// The run that owns the files.
    pub run: &'a RunId,
    /// The attempt's idempotency key, if its calls should carry one.
    pub idempotency_key: Option<&'a str>,
    pub rules: AnswerRules,
}

/// Runs the node. A failure is part of the result, with the request if it was built. All variables the node mentions
/// must be loaded. Dropping the future stops the call.
pub async fn run(
    data: &HttpRequestData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> NodeResult {
    let (prepared, process_data) = match prepare(data, variables, means).await {
        Ok(prepared) => prepared,
        Err(failure) => return NodeResult::failed(failure),
    };
    tracing::debug!(node = %node.id, method = %data.method, "calling out");
    let fails_by_status = node.error_strategy.is_some() || node.retry.enabled;
    let ended = async {
        let sent = send::send(data, &prepared, means).await?;
        answered(sent, &prepared.head.url, fails_by_status, means).await
    };
    match ended.await {
        Ok(result) => NodeResult { process_data, ..result },
        // A failure that escapes a node in Dify has no record.
        Err(failure) if failure.error_type == ESCAPED => NodeResult::failed(failure),
        Err(failure) => NodeResult { process_data, failure: Some(failure), ..NodeResult::default() },
    }
}

/// The error type of [`NodeFailure::escaped`].
const ESCAPED: &str = "WorkflowNodeError";

/// A request, ready to be sent.
struct Prepared {
    head: draft::Head,
    body: files::Assembled,
}

async fn prepare(
    data: &HttpRequestData,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> Result<(Prepared, tidemill_common::value::JsonMap), NodeFailure> {
    let head = draft::head(data, variables)?;
    let content = body::content(data, variables)?;
    let body = files::assemble(content, means).await?;
    let shown = log::record(data, variables, &head, &body.shown, &letters());
    Ok((Prepared { head, body }, shown))
}

/// Sixteen random lower-case letters.
fn letters() -> String {
    Uuid::new_v4().as_bytes().iter().map(|byte| char::from(b'a' + byte % 26)).collect()
}

async fn answered(
    mut answer: Answer,
    url: &str,
    fails_by_status: bool,
    means: Means<'_>,
) -> Result<NodeResult, NodeFailure> {
    let status = answer.response.status();
    let headers: Vec<(String, String)> = answer
        .response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().to_owned(), header_text(value.as_bytes())))
        .collect();
    let after = Hints::of(answer.response.headers(), chrono::Utc::now().timestamp_millis()).after;
    let kind = read::kind_of(answer.response.headers());
    let bounds = &means.http.bounds;
    let largest = Largest { text: bounds.text_bytes_max, file: bounds.file_bytes_max };
    let (class, bytes) = read::read(&mut answer, largest).await.map_err(|error| unread(error, url))?;
    let (body, files) = match class {
        Class::Text => {
            let text = text::decoded(bytes, kind.charset().as_deref(), means.rules.guesses_charset);
            (text.map_err(NodeFailure::escaped)?, Vec::new())
        }
        Class::File => {
            let last_url = answer.response.url().as_str();
            let facts = kind.facts(url, Some(last_url));
            (String::new(), vec![kept(bytes, kind.file_type(url), facts, means).await?])
        }
    };
    let result = NodeResult::outputs(response::outputs(status.as_u16(), body, &headers, files));
    if status.is_success() || !fails_by_status {
        return Ok(result);
    }
    let message = format!("Request failed with status code {}", status.as_u16());
    let mut failure = NodeFailure::passing(ErrorType::Status.name(), message);
    failure.retryable = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
    failure.retry_after_ms = after.and_then(|after| u64::try_from(after.as_millis()).ok());
    Ok(NodeResult { failure: Some(failure), ..result })
}

fn unread(error: ReadError, url: &str) -> NodeFailure {
    match error {
        ReadError::TooLarge { class, max, size } => {
            let setting = match class {
                Class::File => "http.file_bytes_max",
                Class::Text => "http.text_bytes_max",
            };
            // Dify's message does not name the setting, so it is logged.
            tracing::info!(setting, max, size, "an answer is over its limit");
            response::too_large(class, max, size)
        }
        ReadError::Call(error) => send::failed(error, url),
    }
}

/// Stores an answer as a file and returns its file object.
async fn kept(
    bytes: Vec<u8>,
    mime_type: String,
    facts: FileFacts,
    means: Means<'_>,
) -> Result<Json, NodeFailure> {
    let size = bytes.len();
    let reference = means.files.keep(means.run, bytes.into()).await;
    let reference = reference
        .map_err(|error| NodeFailure::escaped(format!("the answer cannot be kept as a file: {error}")))?;
    let kind = facts.kind.filter(|kind| *kind != "custom").unwrap_or("document");
    let (name, extension) = match means.rules.named_files {
        // Dify makes a name that nothing else has for a file without one.
        true => {
            let made = || format!("{}{}", Uuid::new_v4().simple(), facts.extension);
            (Some(facts.name.unwrap_or_else(made)), Some(facts.extension.as_str()))
        }
        false => (None, None),
    };
    Ok(json!({
        FILE_IDENTITY_KEY: FILE_IDENTITY,
        "id": null,
        "type": kind,
        "transfer_method": "tool_file",
        "remote_url": null,
        "reference": reference,
        "related_id": null,
        "filename": name,
        "extension": extension,
        "mime_type": mime_type,
        "size": size,
        "url": null,
    }))
}

#[cfg(test)]
mod tests;
