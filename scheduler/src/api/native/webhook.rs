//! `/api/v1/apps/{id}/webhook`: the server that is notified about the runs of an app ([`crate::background::webhooks`]). Its
//! secret is shown once, when it is made.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::http::post::is_address;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::notices::EVENTS;

use super::apps;
use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, nothing_left, take_text};
use crate::background::webhooks::{OUTPUTS, Webhook};

/// The longest address, in bytes.
const URL_BYTES_MAX: usize = 2048;
/// The most notices in each list of deliveries.
const SHOWN_MAX: usize = 100;

/// `PUT /api/v1/apps/{id}/webhook`: sets the webhook of an app. The body has `url`, and if the client wants `events` (all
/// without it), `include` (`["outputs"]`), and a `secret`. Without one the earlier secret stays, or a new one is made, which is
/// in this response and never shown again; `"secret": "new"` makes one, too.
///
/// # Errors
/// 404 for an unknown app, 409 for one that is being removed, 400 for an invalid body, and when there is no key to seal secrets.
pub async fn set(
    State(state): State<ApiState>,
    IdInPath(app): IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let mut map = body.object()?;
    apps::find_kept(&state, &app).await?;
    let url = take_text(&mut map, "url")?.unwrap_or_default();
    if !is_address(&url) || url.len() > URL_BYTES_MAX {
        let message = format!(
            "url must be an address that begins with http:// or https://, without user and password, and with at most \
             {URL_BYTES_MAX} bytes"
        );
        return Err(ApiError::invalid_param(message));
    }
    let events = take_names(&mut map, "events", &EVENTS)?.unwrap_or_else(|| EVENTS.to_vec());
    let with_outputs = take_names(&mut map, "include", &[OUTPUTS])?.is_some_and(|names| !names.is_empty());
    let given = take_text(&mut map, "secret")?;
    nothing_left(&map)?;
    if events.is_empty() {
        return Err(ApiError::invalid_param(format!(
            "events must have one or more of {}",
            EVENTS.join(", ")
        )));
    }
    // One that does not open is replaced.
    let stored = state.store.webhook(&app).await?;
    let open = |text: &String| Webhook::open(&app, text, state.webhooks.key()).ok();
    let before = stored.as_ref().and_then(open);
    let (secret, is_new) = match (given, &before) {
        (Some(given), _) if given != "new" => {
            if Webhook::secret_bytes(&given).is_none() {
                let message = "secret must be whsec_ and 24 to 64 bytes in base64, or new";
                return Err(ApiError::invalid_param(message));
            }
            (given, false)
        }
        (None, Some(before)) => (before.secret.clone(), false),
        (Some(_), _) | (None, None) => (Webhook::new_secret(), true),
    };
    let now = state.store.time().await?;
    let created_at = stored.as_deref().map_or(now, Webhook::created_in);
    let webhook = Webhook { url, secret, events, with_outputs, created_at, updated_at: now };
    let sealed = webhook.seal(&app, state.webhooks.key());
    let sealed = sealed.map_err(|error| ApiError::invalid_param(error.to_string()))?;
    state.store.put_webhook(&app, Some(&sealed)).await?;
    know(&state).await;
    tracing::info!(app, events = ?webhook.events, "webhook set");
    let mut answer = shown(&app, &webhook);
    if is_new {
        answer["secret"] = webhook.secret.into();
    }
    Ok(JsonBody(answer))
}

/// `GET /api/v1/apps/{id}/webhook`: the webhook of an app without its secret.
///
/// # Errors
/// 404 for an unknown app, and for one without a webhook.
pub async fn show(
    State(state): State<ApiState>,
    IdInPath(app): IdInPath,
) -> Result<JsonBody<Json>, ApiError> {
    Ok(JsonBody(shown(&app, &find(&state, &app).await?)))
}

/// `DELETE /api/v1/apps/{id}/webhook`: removes the webhook of an app, with the notices that wait and those that were given up.
///
/// # Errors
/// 404 for an unknown app.
pub async fn remove(State(state): State<ApiState>, IdInPath(app): IdInPath) -> Result<StatusCode, ApiError> {
    apps::find(&state, &app).await?;
    state.store.put_webhook(&app, None).await?;
    state.store.drop_notices(&app).await?;
    know(&state).await;
    tracing::info!(app, "webhook removed");
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /api/v1/apps/{id}/webhook/deliveries`: the notices that wait, and the newest ones that were given up.
///
/// # Errors
/// 404 for an unknown app.
pub async fn deliveries(
    State(state): State<ApiState>,
    IdInPath(app): IdInPath,
) -> Result<JsonBody<Json>, ApiError> {
    apps::find(&state, &app).await?;
    Ok(JsonBody(state.webhooks.shown(&app, SHOWN_MAX).await?))
}

/// `POST /api/v1/apps/{id}/webhook/test`: sends a test, once, and says whether the receiver took it.
///
/// # Errors
/// 404 for an unknown app, and for one without a webhook.
pub async fn test(
    State(state): State<ApiState>,
    IdInPath(app): IdInPath,
) -> Result<JsonBody<Json>, ApiError> {
    let webhook = find(&state, &app).await?;
    let answer = match state.webhooks.test(&app, &webhook).await? {
        Ok(status) => json!({"delivered": true, "status": status, "error": null}),
        Err(untaken) => json!({"delivered": false, "status": untaken.status, "error": untaken.error}),
    };
    Ok(JsonBody(answer))
}

/// Reads what was changed. The change stands if that fails, so its answer, which may have a new secret, is sent.
async fn know(state: &ApiState) {
    if let Err(error) = state.submitter.webhooks.refresh().await {
        tracing::warn!(%error, "a change of a webhook is known here a few seconds later");
    }
}

async fn find(state: &ApiState, app: &str) -> Result<Webhook, ApiError> {
    apps::find(state, app).await?;
    let found = state.webhooks.webhook(app).await?;
    let found = found.ok_or_else(|| ApiError::not_found(format!("the app {app} has no webhook")))?;
    found.map_err(|error| ApiError::new(StatusCode::CONFLICT, "conflict", error.to_string()))
}

fn shown(app: &str, webhook: &Webhook) -> Json {
    let include: &[&str] = if webhook.with_outputs { &[OUTPUTS] } else { &[] };
    json!({
        "app": app,
        "url": webhook.url,
        "events": webhook.events,
        "include": include,
        "created_at": webhook.created_at.seconds_f64(),
        "updated_at": webhook.updated_at.seconds_f64(),
    })
}

/// Takes a list of names out of an object, in the order of `known`.
fn take_names(
    map: &mut JsonMap,
    key: &str,
    known: &[&'static str],
) -> Result<Option<Vec<&'static str>>, ApiError> {
    let wrong = || ApiError::invalid_param(format!("{key} must be a list of {}", known.join(", ")));
    match map.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Array(names)) => {
            if names.iter().any(|name| !known.iter().any(|known| name == known)) {
                return Err(wrong());
            }
            let is_named = |known: &&&str| names.iter().any(|name| name == *known);
            Ok(Some(known.iter().filter(is_named).copied().collect()))
        }
        Some(_) => Err(wrong()),
    }
}
