//! `API`: calls an HTTP API; its JSON answer is the output.
//!
//! [`operation`] reads the service's document, [`request`] builds the request, [`credentials`] adds the service's
//! credentials, and [`response`] reads the answer. Credentials go only to the server they belong to, and are hidden in
//! all its answers.

mod credentials;
mod documents;
mod operation;
mod request;
mod response;

use std::time::Duration;

use reqwest::Url;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::http_request::response::Class;
use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::registry::calls::{ServiceConfig, Standard, standard};
use tidemill_common::value::JsonMap;

use crate::nodes::http_request::text::decoded;
use crate::outside::calls::api::credentials::Credentials;
pub(super) use crate::outside::calls::api::credentials::Token;
pub(super) use crate::outside::calls::api::documents::Document;
use crate::outside::calls::api::request::Draft;
use crate::outside::calls::{Call, CallContext, Calls, ChunkSink, Versioned};
use crate::outside::http::read;
use crate::outside::http::read::Largest;
use crate::outside::http::watch::Waits;
use crate::outside::http::{CallError as HttpError, Http};

/// The error type of a service that does not exist or cannot be used.
const SERVICE_METADATA: &str = "ServiceMetadataError";
/// The error type of a failed connection.
const CONNECTION: &str = "ApiConnectionError";
/// The error type of a timeout.
const TIMEOUT: &str = "ApiTimeoutError";

pub(super) struct Api;

#[async_trait::async_trait]
impl Call for Api {
    fn standard(&self) -> Option<Standard> {
        standard("API")
    }
    async fn init(&self, cx: CallContext<'_>, mut params: JsonMap) -> Result<JsonMap, CallError> {
        let given = params.get("operation").and_then(Json::as_str).filter(|name| !name.is_empty());
        if let Some(name) = given {
            let of_library = cx.library.and_then(|library| library.service_id.as_deref());
            let Some(id) = params.get("service_id").and_then(Json::as_str).or(of_library) else {
                let message = format!("the operation {name:?} needs a service: set service_id");
                return Err(CallError::of(SERVICE_METADATA, message));
            };
            let document = documents::document(cx.calls, id, &service(cx.calls, id).await?).await?;
            let operation = operation::find(&document, id, name)?;
            operation.complete(&mut params);
            cx.takes(operation.schema(self.input_schema()));
        }
        request::check(&params)?;
        Ok(params)
    }
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        let service = cx.library.and_then(|library| library.service_id.as_deref());
        let key = cx.node.settings.idempotency_key.then(|| cx.key.to_owned());
        let means = Means { calls: cx.calls, http: cx.http, service, key };
        out(Chunk::Data(perform(means, &input).await?));
        Ok(())
    }
}

/// The environment of a call.
#[derive(Clone)]
struct Means<'a> {
    calls: &'a Calls,
    http: &'a Http,
    /// The service of the library node.
    service: Option<&'a str>,
    /// The `Idempotency-Key` of the call, if any.
    key: Option<String>,
}

/// Makes the call and returns the status and the answer.
async fn perform(means: Means<'_>, input: &JsonMap) -> Result<JsonMap, CallError> {
    let draft = Draft::read(input)?;
    let id = input.get("service_id").and_then(Json::as_str).or(means.service);
    let service = match id {
        Some(id) => Some((id, service(means.calls, id).await?.of)),
        None => None,
    };
    let server = service.as_ref().map(|(id, service)| (*id, service.server.as_str()));
    let url = request::address(&draft, server)?;
    let mut credentials = Credentials::default();
    if let Some((id, service)) = &service {
        credentials = Credentials::of(means.calls, id, service).await?;
    }
    let sent = send(means, &draft, url, &credentials).await;
    let hide = credentials.hide();
    let (code, result) = sent.map_err(|error| CallError {
        message: hide.text(&error.message),
        data: hide.map(&error.data),
        ..error
    })?;
    let result = hide.value(&result);
    Ok(JsonMap::from_iter([("http_code".to_owned(), json!(code)), ("result".to_owned(), result)]))
}

async fn service(calls: &Calls, id: &str) -> Result<Versioned<ServiceConfig>, CallError> {
    let found = calls.service(id).await;
    found.map_err(|error| match error.retryable {
        true => error,
        false => CallError { error_type: SERVICE_METADATA.into(), ..error },
    })
}

/// Sends the request and reads the answer.
async fn send(
    means: Means<'_>,
    draft: &Draft,
    url: Url,
    credentials: &Credentials,
) -> Result<(u16, Json), CallError> {
    let Means { calls, http, key, .. } = means;
    let bounds = &http.bounds;
    let waits = Waits { connect: bounds.connect, write: bounds.write, read: draft.timeout };
    let call = request::call(draft, url, credentials, key, waits, bounds.ssl_verify)?;
    let may_repeat = draft.may_repeat();
    let work = async {
        let mut answer = http.send(call).await.map_err(|error| away(&error, may_repeat))?;
        let code = answer.response.status().as_u16();
        if code == 401 {
            credentials.forget(calls);
        }
        let after = response::retry_after(answer.response.headers());
        let charset = read::kind_of(answer.response.headers()).charset();
        let largest = Largest { text: bounds.text_bytes_max, file: bounds.text_bytes_max };
        let read = read::read(&mut answer, largest).await;
        let (class, bytes) = read.map_err(|error| match error {
            read::ReadError::Call(error) => away(&error, may_repeat),
            too_large @ read::ReadError::TooLarge { .. } => {
                CallError::of("ApiResponseTooLarge", format!("{too_large} (http.text_bytes_max)"))
            }
        })?;
        let body = match class {
            Class::Text => decoded(bytes, charset.as_deref(), true)
                .map_err(|reason| CallError::of("ApiResponseUnreadable", reason))?,
            Class::File => String::from_utf8_lossy(&bytes).into_owned(),
        };
        response::read(code, &body, draft.accept_text).map_err(|error| match (code, may_repeat) {
            (500.., true) => CallError { retry_after_ms: after, ..error.passing() },
            _ => error,
        })
    };
    let late = |_| {
        let error = CallError::of(
            TIMEOUT,
            format!("the API has not answered within {} s (timeout)", seconds(draft.timeout)),
        );
        if may_repeat { error.passing() } else { error }
    };
    tokio::time::timeout(draft.timeout, work).await.map_err(late)?
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

/// The error of a call without an answer.
fn away(error: &HttpError, may_repeat: bool) -> CallError {
    let message = format!("the API does not answer: {error}");
    let error = match error {
        HttpError::Blocked(_) | HttpError::Redirects(_) | HttpError::Location(_) => {
            return CallError::of(CONNECTION, message);
        }
        HttpError::TimedOut(..) => CallError::of(TIMEOUT, message),
        HttpError::Transport(_) => CallError::of(CONNECTION, message),
    };
    if may_repeat { error.passing() } else { error }
}

#[cfg(test)]
mod tests;
