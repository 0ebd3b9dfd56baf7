//! A Call over HTTP: `POST {url}` with the operation as JSON.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value as Json;
use tidemill_common::nodes::step::CallError;
use tidemill_common::registry::Secret;

use crate::outside::calls::catalog::VALUE_ERROR;
use crate::outside::calls::custom::lines::raised;
use crate::outside::calls::custom::{OperationRequest, Take};
use crate::outside::tools::operator_client::{Request, secret};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

pub(super) async fn ask(
    request: OperationRequest<'_>,
    url: &str,
    (headers, headers_env): (&BTreeMap<String, Secret>, &BTreeMap<String, String>),
    take: Take<'_>,
) -> Result<(), CallError> {
    let OperationRequest { id, body, calls, key, .. } = request;
    let wrong =
        |reason: String| CallError::of(VALUE_ERROR, format!("the Call {id} cannot be used: {reason}"));
    let url = Url::parse(url).map_err(|error| wrong(format!("its url: {error}")))?;
    let mut given = HeaderMap::new();
    given.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let put = |given: &mut HeaderMap, name: &str, value: &str| {
        let parsed: Option<HeaderName> = name.parse().ok();
        let (name, value) =
            parsed.zip(secret(value)).ok_or_else(|| wrong(format!("the header {name} cannot be sent")))?;
        given.insert(name, value);
        Ok::<(), CallError>(())
    };
    for (name, value) in headers {
        put(&mut given, name, &value.0)?;
    }
    for (name, variable) in headers_env {
        put(&mut given, name, &calls.variable(variable, &format!("the Call {id}"))?)?;
    }
    put(&mut given, IDEMPOTENCY_KEY.as_str(), &key)?;
    let silence = Duration::from_secs(calls.config.seconds_max);
    let body = Bytes::from(body.to_string());
    let request = Request { method: Method::POST, url: &url, headers: given, body, silence };
    let away = |reason: String| CallError::new(format!("the Call {id} does not answer: {reason}")).passing();
    let mut answer = calls.operator_client()?.send(request).await.map_err(|error| away(error.to_string()))?;
    let status = answer.response.status();
    let (most, mut bytes, mut said) = (calls.config.answer_bytes_max, 0, Vec::new());
    while let Some(piece) = answer.piece().await.map_err(|error| away(error.to_string()))? {
        bytes += piece.len() as u64;
        if bytes > most {
            let message =
                format!("the Call {id} answers with more than {most} bytes (calls.answer_bytes_max)");
            return Err(CallError::of("CallLimitExceeded", message));
        }
        if status.is_success() {
            take(&piece)?;
        } else {
            said.extend_from_slice(&piece);
        }
    }
    if status.is_success() {
        return Ok(());
    }
    let told: Json = serde_json::from_slice(&said).unwrap_or_default();
    let error = match told.get("err_msg") {
        Some(_) => raised(id, &told),
        None => CallError::new(format!("the Call {id} answers with status {}", status.as_u16())),
    };
    Err(if matches!(status.as_u16(), 429 | 502..=504) { error.passing() } else { error })
}
