//! `GET /api/v1/runs/{id}/pauses` and `POST /api/v1/runs/{id}/pauses/{pause_id}/answer`.

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::machine::fact::AnswerContent;
use tidemill_common::value::JsonMap;

use crate::api::ApiState;
use crate::api::answers::{Answer, Refused, answer};
use crate::api::durability;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, nothing_left, take_key, take_object, take_text};
use crate::runs::pauses;
use crate::runs::pauses::Pause;

/// Lists the pauses of a run, ended ones included.
///
/// # Errors
/// 404 for an unknown run.
pub async fn list(State(state): State<ApiState>, id: IdInPath) -> Result<JsonBody<Json>, ApiError> {
    let run = id.run()?;
    if state.store.run_fields(run).await?.is_none() {
        return Err(ApiError::not_found("Workflow run not found."));
    }
    Ok(JsonBody(json!({"data": list_json(&state, run).await?})))
}

/// The pauses of a run in the form of the API.
pub(super) async fn list_json(state: &ApiState, run: RunId) -> Result<Vec<Json>, ApiError> {
    let pauses = pauses::of_run(&*state.store, run).await?;
    if pauses.is_empty() {
        return Ok(Vec::new());
    }
    let (now, tokens) = (state.store.time().await?, state.forms.tokens(&*state.store).await?);
    Ok(pauses.iter().map(|pause| pause.to_json(now, tokens.token(run, &pause.id))).collect())
}

/// Answers a pause: a form with `action` and `inputs`, other pauses with `input`; `cancel` withdraws the pause. 202:
/// the answer is stored, and the run will continue with it. The same answer may be sent again under its key.
///
/// # Errors
/// 404 `pause_not_found`, 409 `pause_already_answered` or `run_over`, 410 `pause_expired` or `pause_cancelled`, 400
/// `pause_input_invalid` with all problems.
pub async fn send(
    State(state): State<ApiState>,
    Path((run, pause)): Path<(String, String)>,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let run = IdInPath(run).run()?;
    let mut map = body.object()?;
    let given = Answer {
        content: read_answer(&mut map)?,
        key: take_key(&mut map)?,
        answered_by: take_text(&mut map, "answered_by")?,
        app: None,
        durability: state.submitter.durability(durability::take(&mut map)?),
    };
    nothing_left(&map)?;
    let known: Option<Pause> =
        pauses::of_run(&*state.store, run).await?.into_iter().find(|known| known.id == pause);
    let known = known.ok_or(Refused::NotFound)?;
    let now = state.store.time().await?;
    answer(&state, run, &known, given, now).await?;
    Ok((StatusCode::ACCEPTED, JsonBody(json!({"accepted": true}))))
}

/// Reads one kind of answer: `input` with any value, `cancel: true`, or `action` and `inputs` of a form.
fn read_answer(map: &mut JsonMap) -> Result<AnswerContent, ApiError> {
    let wrong = |message: &str| ApiError::invalid_param(message);
    let form = map.contains_key("action") || map.contains_key("inputs");
    let (input, cancel) = (map.remove("input"), map.remove("cancel"));
    let cancel = match cancel {
        None | Some(Json::Null) => false,
        Some(value) => value.as_bool().ok_or_else(|| wrong("`cancel` must be true or false"))?,
    };
    if usize::from(form) + usize::from(input.is_some()) + usize::from(cancel) > 1 {
        return Err(wrong("answer in one way: `input`, or `action` with `inputs`, or `cancel`"));
    }
    match input {
        _ if cancel => Ok(AnswerContent::Cancel),
        Some(input) => Ok(AnswerContent::Input(input)),
        None => Ok(AnswerContent::Form {
            action: take_text(map, "action")?.unwrap_or_default(),
            inputs: take_object(map, "inputs")?.unwrap_or_default(),
        }),
    }
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        match refused {
            Refused::Invalid(error) => {
                let errors: Vec<Json> = error.problems.iter().map(|p| p.to_string().into()).collect();
                Self::new(StatusCode::BAD_REQUEST, "pause_input_invalid", message)
                    .with("errors", errors.into())
            }
            Refused::File(error) => match Self::from(error) {
                invalid if invalid.status() == StatusCode::BAD_REQUEST => {
                    let errors = json!([message]);
                    Self::new(StatusCode::BAD_REQUEST, "pause_input_invalid", message).with("errors", errors)
                }
                other => other,
            },
            Refused::NotFound => Self::new(StatusCode::NOT_FOUND, "pause_not_found", message),
            Refused::AlreadyAnswered => Self::new(StatusCode::CONFLICT, "pause_already_answered", message),
            Refused::Expired => Self::new(StatusCode::GONE, "pause_expired", message),
            Refused::Cancelled => Self::new(StatusCode::GONE, "pause_cancelled", message),
            Refused::Over(status) => Self::run_over(status),
            Refused::Durability(error) => error.into(),
            Refused::Wire(error) => error.into(),
            Refused::Store(error) => error.into(),
        }
    }
}
