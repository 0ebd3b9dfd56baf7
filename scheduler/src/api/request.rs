//! Reads requests: bodies within their limit, query parameters, and ids. Each failure is an [`ApiError`].

use std::collections::HashMap;
use std::time::Duration;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::Value as Json;
use tidemill_common::ids::RunId;
use tidemill_common::value::JsonMap;

use super::ApiState;
use super::error::{ApiError, Cause};

/// The longest time for a body to arrive. A slower client only holds a connection.
const BODY_SECONDS_MAX: u64 = 60;

/// The longest key of a command or an answer, in characters.
const KEY_CHARS_MAX: usize = 255;

/// The complete body of a request.
pub struct Body(pub Bytes);

impl FromRequest<ApiState> for Body {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let max = state.config.scheduler.request_bytes_max;
        read(request.into_body(), max, "scheduler.request_bytes_max").await.map(Self)
    }
}

/// Reads a body of at most `max` bytes. `setting` is the name of that limit.
///
/// # Errors
/// 413 or 408, and 400 for a body that broke off.
pub async fn read(body: axum::body::Body, max: usize, setting: &'static str) -> Result<Bytes, ApiError> {
    let reading = Limited::new(body, max).collect();
    match tokio::time::timeout(Duration::from_secs(BODY_SECONDS_MAX), reading).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            let message = format!("the request body is larger than {setting} ({max} bytes)");
            let refused = ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "request_too_large", message);
            Err(refused.because(Cause::TooLarge))
        }
        Ok(Err(_)) => Err(ApiError::bad_request("the request body broke off")),
        Err(_) => Err(ApiError::new(
            StatusCode::REQUEST_TIMEOUT,
            "request_timeout",
            format!("the request body did not arrive within {BODY_SECONDS_MAX} seconds"),
        )),
    }
}

impl Body {
    /// Parses the body as a JSON object.
    ///
    /// # Errors
    /// 400 `bad_request`.
    pub fn object(&self) -> Result<JsonMap, ApiError> {
        if std::str::from_utf8(&self.0).is_err() {
            return Err(ApiError::bad_request("the request body is not UTF-8"));
        }
        match serde_json::from_slice(&self.0) {
            Ok(Json::Object(map)) => Ok(map),
            Ok(Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_)) => {
                Err(ApiError::bad_request("the request body must be a JSON object"))
            }
            Err(error) => Err(ApiError::bad_request(format!("the request body is not JSON: {error}"))),
        }
    }
    /// Parses the body as a JSON object. The error has Dify's words.
    ///
    /// # Errors
    /// 400 `bad_request`.
    pub fn dify_object(&self) -> Result<JsonMap, ApiError> {
        self.object()
            .map_err(|_| ApiError::bad_request("Invalid JSON payload received or JSON payload is empty."))
    }
}

/// The parameters of the query.
pub struct Params(HashMap<String, String>);

impl Params {
    /// A parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
    /// The names of all parameters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
    /// A Boolean parameter in any of Dify's spellings; anything else is false.
    pub fn lenient(&self, name: &str) -> bool {
        let spelled = self.get(name).unwrap_or_default().to_ascii_lowercase();
        matches!(spelled.as_str(), "true" | "1" | "yes" | "on" | "y" | "t")
    }
    /// A Boolean parameter, or `default` when it is absent.
    ///
    /// # Errors
    /// 400 `invalid_param` for anything but `true` and `false`.
    pub fn truth(&self, name: &str, default: bool) -> Result<bool, ApiError> {
        match self.get(name) {
            None => Ok(default),
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            Some(_) => Err(ApiError::invalid_param(format!("{name} must be true or false"))),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Params {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Query::from_request_parts(parts, state).await {
            Ok(Query(map)) => Ok(Self(map)),
            Err(rejection) => Err(ApiError::bad_request(rejection.body_text())),
        }
    }
}

/// The id in a path. An unreadable path is answered with 404.
pub struct IdInPath(pub String);

impl<S: Send + Sync> FromRequestParts<S> for IdInPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read: Result<Path<String>, _> = Path::from_request_parts(parts, state).await;
        read.map(|Path(id)| Self(id)).map_err(|_| ApiError::not_found("the path is not readable text"))
    }
}

/// The id of an app and the name of a user in a path, likewise.
pub struct UserInPath(pub String, pub String);

impl<S: Send + Sync> FromRequestParts<S> for UserInPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let read: Result<Path<(String, String)>, _> = Path::from_request_parts(parts, state).await;
        read.map(|Path((app, user))| Self(app, user))
            .map_err(|_| ApiError::not_found("the path is not readable text"))
    }
}

impl IdInPath {
    /// Parses it as the id of a run.
    ///
    /// # Errors
    /// 404, because no run has an id of another form.
    pub fn run(&self) -> Result<RunId, ApiError> {
        self.0.parse().map_err(|_| ApiError::not_found("Workflow run not found."))
    }
}

/// Takes a text out of an object.
///
/// # Errors
/// 400 `invalid_param` when it is not a text.
pub fn take_text(map: &mut JsonMap, key: &str) -> Result<Option<String>, ApiError> {
    match map.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::String(text)) => Ok(Some(text)),
        Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => {
            Err(ApiError::invalid_param(format!("{key} must be a string")))
        }
    }
}

/// Takes a whole number, 0 or more, out of an object.
///
/// # Errors
/// 400 `invalid_param` when it is not such a number.
pub fn take_count(map: &mut JsonMap, key: &str) -> Result<Option<u64>, ApiError> {
    match map.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => {
            let wrong = || ApiError::invalid_param(format!("{key} must be a whole number, 0 or more"));
            value.as_u64().map(Some).ok_or_else(wrong)
        }
    }
}

/// Takes the key of a command or an answer out of an object.
///
/// # Errors
/// 400 `invalid_param` when it is empty or too long.
pub fn take_key(map: &mut JsonMap) -> Result<Option<String>, ApiError> {
    let key = take_text(map, "key")?;
    if key.as_ref().is_some_and(|key| !(1..=KEY_CHARS_MAX).contains(&key.chars().count())) {
        return Err(ApiError::invalid_param(format!("key must have 1 to {KEY_CHARS_MAX} characters")));
    }
    Ok(key)
}

/// Refuses an object in which unknown keys are left.
///
/// # Errors
/// 400 `invalid_param` with the first of these keys.
pub fn nothing_left(map: &JsonMap) -> Result<(), ApiError> {
    match map.keys().next() {
        Some(unknown) => Err(ApiError::invalid_param(format!("unknown key {unknown} in the request"))),
        None => Ok(()),
    }
}

/// Takes an object out of an object.
///
/// # Errors
/// 400 `invalid_param` when it is not an object.
pub fn take_object(map: &mut JsonMap, key: &str) -> Result<Option<JsonMap>, ApiError> {
    match map.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Object(inner)) => Ok(Some(inner)),
        Some(Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::String(_)) => {
            Err(ApiError::invalid_param(format!("{key} must be an object")))
        }
    }
}

/// Takes a list out of an object.
///
/// # Errors
/// 400 `invalid_param` when it is not a list.
pub fn take_list(map: &mut JsonMap, key: &str) -> Result<Vec<Json>, ApiError> {
    match map.remove(key) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(items)) => Ok(items),
        Some(Json::Bool(_) | Json::Number(_) | Json::Object(_) | Json::String(_)) => {
            Err(ApiError::invalid_param(format!("{key} must be a list")))
        }
    }
}
