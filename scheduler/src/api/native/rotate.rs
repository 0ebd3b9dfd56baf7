//! Replaces an API key: a new one with the same rights, and an end for the old one.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::Value as Json;
use tidemill_common::clock::Timestamp;
use tidemill_common::store::{AppKey, KeyGrant, LimitOf, Revoked, StoreError};

use super::keys::{Made, created, unknown};
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, nothing_left, take_count};
use crate::api::roles::Role;

/// How long the old key stays valid, unless the request says otherwise.
const OVERLAP_SECONDS: u64 = 24 * 3600;
/// The longest overlap: a year.
const OVERLAP_SECONDS_MAX: u64 = 366 * 24 * 3600;

/// `POST /api/v1/keys/{id}/rotate`: makes a new key that opens the same, and shows it once. The old one stays valid for
/// `overlap_seconds` (a day), and not longer than it would have; with 0 it is revoked. If the old key was made to expire, the
/// new one lives as long as the old one was meant to. It has the budget and the limits of the old one, and has spent nothing.
///
/// # Errors
/// 404 for an unknown key, 400 for an invalid overlap, 409 for one that was revoked or has expired, or whose hash is not known.
pub async fn rotate(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    replace(&state, &id, &body, false).await
}

/// `POST /api/v1/admin-keys/{id}/rotate`: the same for an admin key.
///
/// # Errors
/// As [`rotate`].
pub async fn rotate_admin(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    replace(&state, &id, &body, true).await
}

async fn replace(
    state: &ApiState,
    id: &str,
    body: &Body,
    is_admin_key: bool,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let mut map = if body.0.is_empty() { Default::default() } else { body.object()? };
    let overlap = take_count(&mut map, "overlap_seconds")?.unwrap_or(OVERLAP_SECONDS);
    nothing_left(&map)?;
    if overlap > OVERLAP_SECONDS_MAX {
        return Err(ApiError::invalid_param(format!(
            "overlap_seconds must be at most {OVERLAP_SECONDS_MAX}"
        )));
    }
    let is_meant = |key: &AppKey| key.id == id && Role::of(&key.app).is_some() == is_admin_key;
    let old = state.store.keys().await?.into_iter().find(is_meant);
    let old = old.ok_or_else(|| unknown(id))?;
    let now = state.store.time().await?;
    if old.revoked_at.is_some() || old.expires_at.is_some_and(|at| at <= now) {
        return Err(conflict(format!("the key {id} was revoked or has expired; make a new one")));
    }
    let grant = KeyGrant {
        app: old.app,
        scopes: old.scopes,
        expires_at: old.lifetime_ms.map(|ms| Timestamp::from_millis(now.millis().saturating_add(ms))),
    };
    let made = Made::now(grant, old.label, now);
    let ends = Timestamp::from_millis(now.millis().saturating_add_unsigned(overlap * 1000));
    // Before the key, so that it is never open without its budget and its limits.
    let budgets = state.store.key_budgets().await?;
    let budget = budgets.iter().find(|(key, _)| *key == id).map(|(_, budget)| budget.as_str());
    if budget.is_some() {
        state.store.put_key_budget(&made.id(), budget).await?;
    }
    let (limiter, of) = (&state.submitter.limiter, LimitOf::Key(made.id()));
    if let Some(own) = limiter.set_for_key(id).await? {
        limiter.set(&of, &made.new.grant.app, Some(own)).await?;
    }
    // The new key comes before the end of the old one: if the process dies in between, the old one is still valid.
    state.store.add_key(&made.new).await?;
    let ended = end(state, id, overlap, ends).await;
    if !matches!(ended, Ok(true)) {
        // No client has received the new key.
        state.store.revoke_key(&made.id()).await?;
        state.store.put_key_budget(&made.id(), None).await?;
        limiter.set(&of, &made.new.grant.app, None).await?;
        ended?;
        return Err(conflict(format!(
            "the key {id} was made by an older version, which did not note its hash, or was changed meanwhile; make a \
             new one, and revoke this one when no client uses it"
        )));
    }
    tracing::info!(key = id, new = made.id(), overlap_seconds = overlap, "API key rotated");
    created(state, &made).await
}

/// Ends the old key after the overlap. Returns false when that is not possible.
async fn end(state: &ApiState, id: &str, overlap: u64, at: Timestamp) -> Result<bool, StoreError> {
    if overlap == 0 {
        return Ok(state.store.revoke_key(id).await? == Revoked::Now);
    }
    state.store.expire_key(id, at).await
}

fn conflict(message: String) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, "conflict", message)
}
