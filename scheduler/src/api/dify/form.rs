//! `GET` and `POST /v1/form/human_input/{form_token}`: a run's form, and the answer to it. The token comes with the
//! run's events, or with its pauses.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::machine::fact::AnswerContent;
use tidemill_common::store::App;
use tidemill_common::value::JsonMap;

use super::{find, links, owner_of, user_of};
use crate::api::ApiState;
use crate::api::answers::{Answer, Refused, answer};
use crate::api::auth::CallingApp;
use crate::api::durability;
use crate::api::error::ApiError;
use crate::api::native::submit::idempotency;
use crate::api::request::{Body, take_object, take_text};
use crate::runs::forms;
use crate::runs::pauses;
use crate::runs::pauses::{Pause, PauseStatus};
use crate::runs::record::RunRecord;

/// Shows a form that waits for an answer.
///
/// # Errors
/// 404 for an unknown token or a run of another app, 412 when the form no longer waits.
pub async fn show(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Path(token): Path<String>,
) -> Result<JsonBody<Json>, ApiError> {
    let now = state.store.time().await?;
    let (run, pause) = waiting(&state, &app, &token, now).await?;
    let form = pause.dify(token);
    let part = |key: &str| form.get(key).cloned().unwrap_or_default();
    let mut shown = json!({
        "form_content": part("form_content"),
        "inputs": part("inputs"),
        "resolved_default_values": as_texts(part("resolved_default_values")),
        "user_actions": part("actions"),
        "expiration_time": part("expiration_time"),
    });
    links(&state).await?.shown_to(owner_of(&run)).fill_texts(&mut shown);
    Ok(JsonBody(shown))
}

/// Answers a form, once. After `Ok` the run will continue with the answer.
///
/// # Errors
/// As for [`show`], 400 `invalid_form_data` in Dify's words, and before all these 400 without `inputs` or `action`.
pub async fn submit(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Path(token): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let mut map = body.dify_object()?;
    let user = user_of(&map)?;
    let required = |name: &str| ApiError::invalid_param(format!("{name} is required"));
    let inputs = take_object(&mut map, "inputs")?.ok_or_else(|| required("inputs"))?;
    let action = take_text(&mut map, "action")?.ok_or_else(|| required("action"))?;
    let given = Answer {
        answered_by: Some(user),
        content: AnswerContent::Form { action, inputs },
        key: idempotency(&headers, &app.id, &body)?.map(|it| it.key_hash),
        app: Some(app.id.clone()),
        durability: state.submitter.durability(durability::of_header(&headers)?),
    };
    let now = state.store.time().await?;
    let (run, pause) = match given.key {
        None => waiting(&state, &app, &token, now).await?,
        // The store knows whether the first answer had the same key.
        Some(_) => named(&state, &app, &token).await?,
    };
    match answer(&state, run.id, &pause, given, now).await {
        Ok(()) => Ok(JsonBody(json!({}))),
        Err(refused) => Err(in_difys_words(refused, &pause.id)),
    }
}

/// The pending pause of this app for a token.
async fn waiting(
    state: &ApiState,
    app: &App,
    token: &str,
    now: Timestamp,
) -> Result<(RunRecord, Pause), ApiError> {
    let (record, pause) = named(state, app, token).await?;
    match pause.status(now) {
        PauseStatus::Pending => Ok((record, pause)),
        PauseStatus::Answered => Err(submitted(&pause.id)),
        PauseStatus::Expired | PauseStatus::Cancelled => Err(expired(&pause.id)),
    }
}

/// The pause of this app for a token.
async fn named(state: &ApiState, app: &App, token: &str) -> Result<(RunRecord, Pause), ApiError> {
    let run = forms::run_of(token).ok_or_else(not_found)?;
    let record = find(state, app, run).await?.ok_or_else(not_found)?;
    let tokens = state.forms.tokens(&*state.store).await?;
    let mut pauses = pauses::of_run(&*state.store, run).await?.into_iter();
    let pause = pauses.find(|pause| tokens.is_of(token, run, &pause.id)).ok_or_else(not_found)?;
    Ok((record, pause))
}

fn in_difys_words(refused: Refused, form: &str) -> ApiError {
    match refused {
        // Dify stops at the first problem.
        Refused::Invalid(error) => {
            let first = error.problems.first().map(ToString::to_string).unwrap_or_default();
            invalid(first)
        }
        Refused::File(error) => match ApiError::from(error) {
            error if error.status() == StatusCode::BAD_REQUEST => invalid(error.message()),
            other => other,
        },
        Refused::NotFound => not_found(),
        Refused::AlreadyAnswered => submitted(form),
        Refused::Expired | Refused::Cancelled | Refused::Over(_) => expired(form),
        other @ (Refused::Durability(_) | Refused::Wire(_) | Refused::Store(_)) => other.into(),
    }
}

fn not_found() -> ApiError {
    ApiError::not_found("Form not found")
}
fn submitted(form: &str) -> ApiError {
    let message = format!("This form has already been submitted by another user, form_id={form}");
    ApiError::new(StatusCode::PRECONDITION_FAILED, "human_input_form_submitted", message)
}
fn expired(form: &str) -> ApiError {
    let message = format!("This form has expired, form_id={form}");
    ApiError::new(StatusCode::PRECONDITION_FAILED, "human_input_form_expired", message)
}
fn invalid(message: impl Into<String>) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "invalid_form_data", message)
}

/// Converts every value to text, as Dify shows default values.
fn as_texts(values: Json) -> Json {
    let Json::Object(values) = values else { return json!({}) };
    let text = |value: Json| match value {
        Json::String(text) => text,
        Json::Null => String::new(),
        other @ (Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => other.to_string(),
    };
    Json::Object(values.into_iter().map(|(name, value)| (name, text(value).into())).collect::<JsonMap>())
}
