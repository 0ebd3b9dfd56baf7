//! API keys of apps and of datasets: creates and revokes them, shows what each may do, when it was used and what it has
//! spent on models, and sets budgets. A key is named by its id. The key itself is shown once, when it is created.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::store::{
    AppKey, AppState, KeyCost, KeyGrant, KeyScope, NewKey, Revoked, day_of, key_id,
};
use tidemill_common::value::JsonMap;

use crate::api::ApiState;
use crate::api::admin::{ADMIN_KEY_BEGINS, new_admin_key};
use crate::api::auth::{DATASET_KEY_BEGINS, DATASETS, KEY_BEGINS, new_app_key, new_dataset_key, sha256_hex};
use crate::api::error::ApiError;
use crate::api::native::{admin_keys, apps};
use crate::api::request::{Body, IdInPath, nothing_left, take_count, take_text};
use crate::api::roles::Role;
use crate::background::budgets::KeyBudget;

/// The longest label, in characters.
const LABEL_CHARS_MAX: usize = 100;
/// The longest life of a key that expires: ten years.
const LIFETIME_SECONDS_MAX: u64 = 10 * 366 * 24 * 3600;

/// `GET /api/v1/keys`: all keys with their spending in total and today (UTC), and their budgets
/// and limits. Includes revoked keys.
///
/// # Errors
/// Errors of the store.
pub async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let mut keys = state.store.keys().await?;
    keys.retain(|key| Role::of(&key.app).is_none());
    listed(&state, keys).await
}

/// `GET /api/v1/apps/{id}/keys`: the keys of an app.
///
/// # Errors
/// 404 for an unknown app.
pub async fn of_app(
    State(state): State<ApiState>,
    IdInPath(app): IdInPath,
) -> Result<JsonBody<Json>, ApiError> {
    apps::find(&state, &app).await?;
    let mut keys = state.store.keys().await?;
    keys.retain(|key| key.app == app);
    listed(&state, keys).await
}

/// `POST /api/v1/apps/{id}/keys`: creates another key of an app. It is in this response and never shown again. The body may
/// have a `label`, `scopes` (without them the key may do everything) and `expires_in_seconds`.
///
/// # Errors
/// 404 for an unknown app, 400 for an invalid body.
pub async fn add(
    State(state): State<ApiState>,
    IdInPath(app): IdInPath,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let mut map = if body.0.is_empty() { JsonMap::new() } else { body.object()? };
    let app = apps::find(&state, &app).await?;
    if app.state == AppState::Removing {
        return Err(apps::being_removed(&app.id));
    }
    let now = state.store.time().await?;
    let label = take_label(&mut map)?;
    let scopes = take_scopes(&mut map)?;
    let expires_at = take_end(&mut map, now)?;
    nothing_left(&map)?;
    let made = Made::now(KeyGrant { app: app.id.clone(), scopes, expires_at }, label, now);
    state.store.add_key(&made.new).await?;
    tracing::info!(app = made.new.grant.app, key = made.id(), "API key created");
    created(&state, &made).await
}

/// A key that is being made.
pub(super) struct Made {
    pub(super) key: String,
    pub(super) new: NewKey,
}

impl Made {
    /// A new key that opens this.
    pub(super) fn now(grant: KeyGrant, label: Option<String>, created_at: Timestamp) -> Self {
        let key = match Role::of(&grant.app) {
            Some(_) => new_admin_key(),
            None if grant.app == DATASETS => new_dataset_key(),
            None => new_app_key(),
        };
        let new = NewKey { hash: sha256_hex(&key), grant, label, created_at };
        Self { key, new }
    }

    pub(super) fn id(&self) -> String {
        key_id(&self.new.hash)
    }
}

/// The answer with a new key.
pub(super) async fn created(state: &ApiState, made: &Made) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let grant = &made.new.grant;
    if let Some(role) = Role::of(&grant.app) {
        return Ok((StatusCode::CREATED, JsonBody(admin_keys::made(made, role))));
    }
    let opens_datasets = grant.app == DATASETS;
    let of_app = if opens_datasets { None } else { state.store.app(&grant.app).await? };
    let body = json!({
        "id": made.id(),
        "app": (!opens_datasets).then_some(&grant.app),
        "name": of_app.map(|app| app.name),
        "scope": if opens_datasets { "datasets" } else { "app" },
        "label": made.new.label,
        "scopes": shown_scopes(opens_datasets, grant.scopes.as_ref()),
        "key": made.key,
        "created_at": seconds(made.new.created_at),
        "expires_at": grant.expires_at.map(seconds),
        "first": false,
    });
    Ok((StatusCode::CREATED, JsonBody(body)))
}

/// The scopes of a key of an app; null for a key of datasets.
fn shown_scopes(opens_datasets: bool, scopes: Option<&BTreeSet<KeyScope>>) -> Option<Vec<&'static str>> {
    let all = BTreeSet::from(KeyScope::ALL);
    (!opens_datasets).then(|| scopes.unwrap_or(&all).iter().map(|scope| scope.name()).collect())
}

pub(super) fn take_label(map: &mut JsonMap) -> Result<Option<String>, ApiError> {
    let label = take_text(map, "label")?;
    if label.as_ref().is_some_and(|label| label.chars().count() > LABEL_CHARS_MAX) {
        return Err(ApiError::invalid_param(format!("label must have at most {LABEL_CHARS_MAX} characters")));
    }
    Ok(label)
}

fn take_scopes(map: &mut JsonMap) -> Result<Option<BTreeSet<KeyScope>>, ApiError> {
    let wrong = || {
        let names = KeyScope::ALL.map(KeyScope::name).join(", ");
        ApiError::invalid_param(format!("scopes must be a list with one or more of {names}"))
    };
    match map.remove("scopes") {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Array(names)) if !names.is_empty() => {
            let scope = |name: &Json| name.as_str().and_then(KeyScope::named).ok_or_else(wrong);
            names.iter().map(scope).collect::<Result<_, _>>().map(Some)
        }
        Some(_) => Err(wrong()),
    }
}

pub(super) fn take_end(map: &mut JsonMap, now: Timestamp) -> Result<Option<Timestamp>, ApiError> {
    let Some(seconds) = take_count(map, "expires_in_seconds")? else { return Ok(None) };
    if seconds == 0 || seconds > LIFETIME_SECONDS_MAX {
        let message = format!("expires_in_seconds must be 1 to {LIFETIME_SECONDS_MAX}");
        return Err(ApiError::invalid_param(message));
    }
    Ok(Some(Timestamp::from_millis(now.millis().saturating_add_unsigned(seconds * 1000))))
}

/// `POST /api/v1/keys`: creates a key with a `scope`; the only scope is `datasets`. The key is in this response and never
/// shown again. The body may also have a `label` and `expires_in_seconds`.
///
/// # Errors
/// 400 for another scope, or an invalid body.
pub async fn add_scoped(
    State(state): State<ApiState>,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let mut map = body.object()?;
    let scope = take_text(&mut map, "scope")?;
    let now = state.store.time().await?;
    let label = take_label(&mut map)?;
    let expires_at = take_end(&mut map, now)?;
    nothing_left(&map)?;
    if scope.as_deref() != Some("datasets") {
        let message = "scope must be datasets; keys of an app are made by POST /api/v1/apps/{id}/keys";
        return Err(ApiError::invalid_param(message));
    }
    let made = Made::now(KeyGrant { app: DATASETS.into(), scopes: None, expires_at }, label, now);
    state.store.add_key(&made.new).await?;
    tracing::info!(key = made.id(), "API key of datasets created");
    created(&state, &made).await
}

/// `DELETE /api/v1/keys/{id}`: revokes a key, and ends its open requests. Runs continue. Revoking it again is no error,
/// so a client that got no response can repeat the request.
///
/// # Errors
/// 404 for an unknown key.
pub async fn revoke(State(state): State<ApiState>, IdInPath(id): IdInPath) -> Result<StatusCode, ApiError> {
    if admin_keys::is_one(&state, &id).await == Some(true) {
        return Err(unknown(&id));
    }
    revoked(&state, &id).await
}

/// Revokes a key of any kind.
pub(super) async fn revoked(state: &ApiState, id: &str) -> Result<StatusCode, ApiError> {
    match state.store.revoke_key(id).await? {
        Revoked::Now => tracing::info!(key = id, "API key revoked"),
        Revoked::Before => {}
        Revoked::Unknown => return Err(unknown(id)),
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn listed(state: &ApiState, keys: Vec<AppKey>) -> Result<JsonBody<Json>, ApiError> {
    let budgets: BTreeMap<_, _> = state.store.key_budgets().await?.into_iter().collect();
    let today = day_of(state.store.time().await?);
    let mut data = Vec::with_capacity(keys.len());
    for key in keys {
        let AppKey { id, app, created_at, is_first, revoked_at, label, scopes, expires_at, used_at, .. } =
            key;
        let opens_datasets = app == DATASETS;
        let of_app = if opens_datasets { None } else { state.store.app(&app).await? };
        // Old keys have no time. The first one was created with its app.
        let with_app = || of_app.as_ref().map(|app| Timestamp::from_millis(app.created_at_ms));
        let created_at = created_at.or_else(with_app);
        let limits = state.submitter.limiter.shown(&app, Some(&id)).await?;
        let budget = budgets.get(&id).and_then(|text| KeyBudget::read(text).ok());
        data.push(json!({
            "id": id,
            "app": (!opens_datasets).then_some(app),
            "name": of_app.map(|app| app.name),
            "scope": if opens_datasets { "datasets" } else { "app" },
            "label": label,
            "scopes": shown_scopes(opens_datasets, scopes.as_ref()),
            "created_at": created_at.map(seconds),
            "expires_at": expires_at.map(seconds),
            "last_used_at": used_at.map(seconds),
            "first": is_first,
            "revoked_at": revoked_at.map(seconds),
            "spent": to_json(&state.store.key_cost(&id, None).await?),
            "today": to_json(&state.store.key_cost(&id, Some(&today)).await?),
            "budget": budget.map(|budget| budget.to_json()),
            "limits": limits,
            "exceeded": state.submitter.budgets.exceeded(&id),
        }));
    }
    Ok(JsonBody(json!({"data": data})))
}

pub(super) fn seconds(at: Timestamp) -> f64 {
    at.millis() as f64 / 1000.0
}

/// `PUT /api/v1/keys/{id}/budget`: `tokens`, `tokens_per_day`, `price`, `price_per_day`; absent fields have no limit. A
/// revoked key can have a budget too: its runs continue, and the key pays for them.
///
/// # Errors
/// 404 for an unknown key, 400 for an invalid budget.
pub async fn set_budget(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    check_exists(&state, &id).await?;
    let budget = KeyBudget::of(&body.object()?).map_err(ApiError::invalid_param)?;
    let stored = budget.to_json();
    state.store.put_key_budget(&id, Some(&stored.to_string())).await?;
    tracing::info!(key = id, budget = %stored, "budget set");
    Ok(JsonBody(stored))
}

/// `DELETE /api/v1/keys/{id}/budget`: removes all limits of the key.
///
/// # Errors
/// 404 for an unknown key.
pub async fn drop_budget(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
) -> Result<StatusCode, ApiError> {
    check_exists(&state, &id).await?;
    state.store.put_key_budget(&id, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn check_exists(state: &ApiState, id: &str) -> Result<(), ApiError> {
    let is_known = state.store.keys().await?.iter().any(|key| key.id == id && Role::of(&key.app).is_none());
    if is_known { Ok(()) } else { Err(unknown(id)) }
}

pub(super) fn unknown(id: &str) -> ApiError {
    // In a hurry people give the leaked key itself. It must not be repeated, because messages are logged and shown.
    let begins = [KEY_BEGINS, DATASET_KEY_BEGINS, ADMIN_KEY_BEGINS];
    let message = if begins.iter().any(|begin| id.starts_with(begin)) {
        let id = key_id(&sha256_hex(id));
        format!("this is a key, or looks like one, and not the id of a key; the id of this key is {id}")
    } else {
        format!(
            "there is no such key with the id {id:?}; GET /api/v1/keys lists the ids (tidemill keys ls), and GET \
             /api/v1/admin-keys those of admin keys (tidemill admin-keys ls)"
        )
    };
    ApiError::not_found(message)
}

fn to_json(spent: &KeyCost) -> Json {
    let prices: JsonMap =
        spent.prices().map(|(currency, price)| (currency.to_string(), price.into())).collect();
    let [calls, prompt, completion, tokens] =
        ["calls", "prompt_tokens", "completion_tokens", "tokens"].map(|name| spent.get(name));
    json!({"calls": calls, "prompt_tokens": prompt, "completion_tokens": completion, "tokens": tokens, "price": prices})
}
