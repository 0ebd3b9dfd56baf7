//! Checks the keys of `/api/v1`: the key of the settings, which may do all, and admin keys with a role
//! ([`super::roles`]), which `/api/v1/admin-keys` makes. Admin keys are stored like keys of apps, so they expire, are
//! revoked and end open streams in the same way. A refused request is noted in the audit log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{Extensions, HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use serde_json::json;
use tidemill_common::clock::{Clock, SystemClock};
use tidemill_common::store::key_id;

use super::auth::{ENDED, EXPIRED, bearer, sha256_hex, until_ended};
use super::error::ApiError;
use super::key_watch::KeyInUse;
use super::roles::{Role, needs};
use super::{ApiState, audit, sse};

/// The beginning of every admin key that `/api/v1/admin-keys` makes.
pub(super) const ADMIN_KEY_BEGINS: &str = "admin-";

/// Creates an admin key: `admin-` and 32 random characters.
pub(super) fn new_admin_key() -> String {
    format!("{ADMIN_KEY_BEGINS}{}", uuid::Uuid::new_v4().simple())
}

/// Whose key a request of `/api/v1` has; [`admin`] puts it into the request.
#[derive(Debug, Clone)]
pub(crate) struct AdminCaller {
    /// The id of the key; `None`: the key of the settings.
    pub(crate) key: Option<String>,
    pub(crate) role: Role,
}

/// The route of a request, below `/api/v1`.
pub(super) fn route_of(request: &Request) -> &str {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    route.strip_prefix("/api/v1").unwrap_or(route)
}

/// Passes on requests with the key of the settings, or with an admin key whose role is enough.
///
/// # Errors
/// 401 without a valid key, or with one that is revoked or expires meanwhile; 429 after too many wrong ones; 403 when the
/// role is not enough, and for wrong keys when the settings have none.
pub(super) async fn admin(
    State(state): State<ApiState>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let (caller, in_use) = caller(&state, request.headers(), request.extensions()).await?;
    let needed = needs(request.method(), route_of(&request));
    if caller.role < needed {
        let refused = audit::Draft::of(&state, &caller, &mut request).await;
        state.audit.refused(refused).await;
        let (role, needed) = (caller.role.name(), needed.name());
        let message = format!("this admin key has the role `{role}`; this needs the role `{needed}`");
        return Err(ApiError::new(StatusCode::FORBIDDEN, "forbidden", message));
    }
    request.extensions_mut().insert(caller);
    match in_use {
        None => Ok(next.run(request).await),
        Some(in_use) => {
            let request = request.map(|body| while_valid(body, &in_use));
            until_ended(request, next, in_use, last_frame).await
        }
    }
}

/// A body that breaks off when the key has ended: a change that has begun is completed without its client, but not with a body
/// that comes later.
fn while_valid(body: Body, in_use: &KeyInUse) -> Body {
    let (ended, has_ended) = (in_use.ended(), Arc::new(AtomicBool::new(false)));
    let seen = has_ended.clone();
    let pieces = body.into_data_stream().take_until(Box::pin(async move {
        ended.await;
        has_ended.store(true, Ordering::Relaxed);
    }));
    let broken = async move { seen.load(Ordering::Relaxed).then(|| Err(axum::Error::new(ENDED))) };
    Body::from_stream(pieces.chain(stream::once(broken).filter_map(std::future::ready)))
}

/// Finds out whose key a request has. The key of the settings cannot end.
async fn caller(
    state: &ApiState,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<(AdminCaller, Option<KeyInUse>), ApiError> {
    let is_closed = state.admin_key_hash.is_none();
    let closed = || {
        let message = "this API is closed: set scheduler.admin_key (TIDEMILL_ADMIN_KEY) to open it";
        ApiError::new(StatusCode::FORBIDDEN, "forbidden", message)
    };
    let key = match bearer(headers) {
        Ok(key) => key,
        Err(_) if is_closed => return Err(closed()),
        Err(error) => return Err(error),
    };
    let hash = sha256_hex(key);
    // Hashes are compared, so the time of the comparison reveals nothing about the key.
    if state.admin_key_hash.as_deref() == Some(hash.as_str()) {
        return Ok((AdminCaller { key: None, role: Role::Admin }, None));
    }
    if key.starts_with(ADMIN_KEY_BEGINS)
        && let Some(known) = known(state, &hash).await?
    {
        return Ok(known);
    }
    let wrong = state.callers.refuse(headers, extensions);
    Err(if is_closed && wrong.status() == StatusCode::UNAUTHORIZED { closed() } else { wrong })
}

/// The admin key with this hash, if there is one.
async fn known(state: &ApiState, hash: &str) -> Result<Option<(AdminCaller, Option<KeyInUse>)>, ApiError> {
    let id = key_id(hash);
    // Before the look-up: a key that is revoked between the two ends the request.
    let in_use = state.keys_used.uses(&id);
    let Some(grant) = state.store.grant_of_key(hash).await? else { return Ok(None) };
    let Some(role) = Role::of(&grant.app) else { return Ok(None) };
    if grant.has_expired(SystemClock.now()) {
        return Err(ApiError::unauthorized(EXPIRED));
    }
    state.last_uses.note(&id);
    Ok(Some((AdminCaller { key: Some(id), role }, Some(in_use))))
}

/// The frame that ends the stream of a key that is no longer valid.
fn last_frame() -> Bytes {
    let status = StatusCode::UNAUTHORIZED.as_u16();
    sse::native(None, "error", &json!({"code": "unauthorized", "message": ENDED, "status": status}))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http_body_util::BodyExt;
    use tidemill_common::clock::SystemClock;
    use tidemill_common::store::memory::MemoryStore;
    use tidemill_common::store::{App, Runs, TriggerChanges};

    use super::super::key_watch::KeyWatch;
    use super::*;

    const HASH: &str = "0000000000000001…";

    #[tokio::test(start_paused = true)]
    async fn the_body_of_a_key_that_is_revoked_breaks_off_and_any_other_body_is_whole() {
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
        let app = App { id: "a".into(), ..App::default() };
        store.put_app(&app, Some(HASH), &TriggerChanges::default()).await.unwrap();
        let in_use = Arc::new(KeyWatch::new(store.clone())).uses(&key_id(HASH));
        let whole = while_valid(Body::from("all"), &in_use).collect().await.unwrap();
        assert_eq!(whole.to_bytes(), "all");

        let begun = stream::iter([Ok::<_, axum::Error>(Bytes::from("a half"))]);
        let late = while_valid(Body::from_stream(begun.chain(stream::pending())), &in_use);
        store.revoke_key(&key_id(HASH)).await.unwrap();
        let broken = tokio::time::timeout(Duration::from_secs(20), late.collect()).await.unwrap();
        assert!(broken.is_err_and(|error| error.to_string().contains(ENDED)));
    }
}
