//! Checks keys: an app's key gives access to `/v1` for its app, and a key of datasets to the datasets in `/v1`. Only their
//! SHA-256 is known and compared. Keys of `/api/v1` are in [`super::admin`].
//!
//! Each request looks an app's key up in the store, so a revoked key opens nothing new. Open requests of a revoked key
//! end too ([`super::key_watch`]), and those of a key that expires: with 401, or in a stream with an `error` event that
//! says the same. Runs continue. A key that is limited to scopes gets 403 for the rest ([`super::key_scopes`]).

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::json;
use sha2::{Digest, Sha256};
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::store::{App, KeyGrant, key_id};

use super::ApiState;
use super::error::ApiError;
use super::key_scopes::{Needs, needs};
use super::key_watch::KeyInUse;
use super::sse;

/// The message to clients whose key is revoked or expires during a request.
pub(super) const ENDED: &str = "this API key was revoked or has expired";
/// The message to clients whose key has expired.
pub(super) const EXPIRED: &str = "this API key has expired";

/// The app of the request's key; [`app`] puts it into the request.
#[derive(Debug, Clone)]
pub struct CallingApp(pub Arc<App>);

/// The id of the request's key; [`app`] puts it into the request.
#[derive(Debug, Clone)]
pub struct CallingKey(pub String);

/// The beginning of every key of an app.
pub const KEY_BEGINS: &str = "app-";

/// The beginning of every key of datasets.
pub const DATASET_KEY_BEGINS: &str = "dataset-";

/// What a key of datasets opens, in the place of an app's id. No app has this id.
pub const DATASETS: &str = ":datasets";

/// The SHA-256 of a text, in hex.
pub fn sha256_hex(text: impl AsRef<[u8]>) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half & 15)]);
    Sha256::digest(text).iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// Creates a key for an app: `app-` and 32 random characters.
pub fn new_app_key() -> String {
    format!("{KEY_BEGINS}{}", uuid::Uuid::new_v4().simple())
}

/// The key of an app that was made under an idempotency key. `end` is derived from the app, so that a repeated request
/// gets the same key.
pub fn app_key_ending(end: &str) -> String {
    format!("{KEY_BEGINS}{end}")
}

/// Creates a key for datasets: `dataset-` and 32 random characters, as on Dify.
pub fn new_dataset_key() -> String {
    format!("{DATASET_KEY_BEGINS}{}", uuid::Uuid::new_v4().simple())
}

/// Passes on requests with the key of an app, and puts the app into the request.
///
/// # Errors
/// 401 for an unknown key, or one that has expired or is revoked meanwhile; 429 after too many wrong ones, and above a limit of
/// requests; 403 when the key
/// lacks the scope, or its app was removed.
pub async fn app(
    State(state): State<ApiState>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let key = presented(&state, request.headers()).await?;
    // What a key of datasets or an admin key opens is no app.
    let Some(grant) = key.grant.as_ref().filter(|grant| !grant.app.starts_with(':')) else {
        return Err(state.callers.refuse(request.headers(), request.extensions()));
    };
    check_scope(grant, &request)?;
    state.submitter.limiter.admit(&grant.app, Some(&key.id)).await?;
    let Some(app) = state.store.app(&grant.app).await? else {
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", "The app no longer exists."));
    };
    request.extensions_mut().insert(CallingApp(Arc::new(app)));
    pass_on(&state, request, next, key).await
}

/// Passes on requests with a key of datasets. Keys of apps are refused, as on Dify.
///
/// # Errors
/// 401 for another key, or one that is revoked meanwhile; 429 after too many wrong ones, and above a limit of requests.
pub async fn datasets(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let key = presented(&state, request.headers()).await?;
    if key.grant.as_ref().is_none_or(|grant| grant.app != DATASETS) {
        return Err(state.callers.refuse(request.headers(), request.extensions()));
    }
    state.submitter.limiter.admit(DATASETS, Some(&key.id)).await?;
    pass_on(&state, request, next, key).await
}

/// The key of a request.
struct Presented {
    id: String,
    in_use: KeyInUse,
    /// What it opens: an app, or [`DATASETS`]. `None`: no such key.
    grant: Option<KeyGrant>,
}

async fn presented(state: &ApiState, headers: &HeaderMap) -> Result<Presented, ApiError> {
    let hash = sha256_hex(bearer(headers)?);
    let id = key_id(&hash);
    // Before the look-up: a key that is revoked between the two ends the request.
    let in_use = state.keys_used.uses(&id);
    let grant = state.store.grant_of_key(&hash).await?;
    let now = SystemClock.now();
    if grant.as_ref().is_some_and(|grant| grant.has_expired(now)) {
        return Err(ApiError::unauthorized(EXPIRED));
    }
    Ok(Presented { id, in_use, grant })
}

fn check_scope(grant: &KeyGrant, request: &Request) -> Result<(), ApiError> {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    match needs(request.method(), route) {
        Needs::Scope(scope) if !grant.allows(scope) => {
            let name = scope.name();
            let message = format!("this API key may not do this: it needs the scope `{name}`");
            Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message))
        }
        Needs::Scope(_) | Needs::Key => Ok(()),
    }
}

/// Passes on a request, with the id of its key, until the key is revoked or expires.
async fn pass_on(
    state: &ApiState,
    mut request: Request,
    next: Next,
    key: Presented,
) -> Result<Response, ApiError> {
    let Presented { id, in_use, .. } = key;
    state.last_uses.note(&id);
    request.extensions_mut().insert(CallingKey(id));
    until_ended(request, next, in_use, last_frame).await
}

/// Passes on a request until its key is revoked or expires. `last` is then the last frame of its stream.
pub(super) async fn until_ended(
    request: Request,
    next: Next,
    in_use: KeyInUse,
    last: fn() -> Bytes,
) -> Result<Response, ApiError> {
    // Dropping the handler is as if the client had left: a run that it has started continues.
    tokio::select! {
        response = next.run(request) => Ok(while_valid(response, in_use, last)),
        () = in_use.ended() => Err(ApiError::unauthorized(ENDED)),
    }
}

/// Ends a stream when its key is revoked or expires; other answers stay as they are.
fn while_valid(response: Response, in_use: KeyInUse, last: fn() -> Bytes) -> Response {
    if !sse::is_stream(response.headers()) {
        return response;
    }
    let (head, body) = response.into_parts();
    let frames = body.into_data_stream().take_until(Box::pin(in_use.ended()));
    // Dropping `in_use` also ends the use of the key.
    let last = async move { in_use.has_ended().then(|| Ok(last())) };
    let last = futures_util::stream::once(last).filter_map(std::future::ready);
    Response::from_parts(head, Body::from_stream(frames.chain(last)))
}

/// The frame that ends the stream of a key that is no longer valid.
fn last_frame() -> Bytes {
    let status = StatusCode::UNAUTHORIZED.as_u16();
    let event = json!({"event": "error", "code": "unauthorized", "message": ENDED, "status": status});
    sse::dify(None, &event)
}

/// The key in an `Authorization` header. The errors have Dify's words.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, ApiError> {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let (scheme, key) = given.and_then(|value| value.trim().split_once(' ')).ok_or_else(|| {
        ApiError::unauthorized("Authorization header must be provided and start with 'Bearer'")
    })?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(ApiError::unauthorized("Authorization scheme must be 'Bearer'"));
    }
    Ok(key.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_key_is_accepted() {
        let key_in = |value: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            }
            bearer(&headers).map(str::to_string).map_err(|e| e.message().to_string())
        };
        let missing = "Authorization header must be provided and start with 'Bearer'";
        for (header, answer) in [
            (None, Err(missing)),
            (Some("Bearer"), Err(missing)),
            (Some("Basic eDp5"), Err("Authorization scheme must be 'Bearer'")),
            (Some("Bearer app-1"), Ok("app-1")),
            (Some("bearer  app-1 "), Ok("app-1")),
        ] {
            let answer = answer.map(str::to_string).map_err(str::to_string);
            assert_eq!(key_in(header), answer, "{header:?}");
        }
    }

    #[test]
    fn new_keys_are_long_and_differ() {
        let (one, two) = (new_app_key(), new_app_key());
        assert!(one.starts_with("app-") && one.len() >= 28 && one != two);
    }
}
