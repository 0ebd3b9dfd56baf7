//! `/v1/apps/annotation-reply`: switches the annotation reply of an app, as a job whose state can be asked for. The setting
//! holds at once; the job is over when runs have made the vectors of all questions.

use axum::extract::{Path, State};
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::annotations::{JobRecord, ReplySetting, named};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::value::JsonMap;
use tidemill_common::wire;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::auth::{CallingApp, CallingKey};
use crate::api::error::ApiError;
use crate::api::request::{Body, take_text};

const ENABLE: &str = "enable";
const DISABLE: &str = "disable";
/// The error of a job without a model.
const NO_MODEL: &str = "embedding_provider_name or embedding_model_name is empty: only questions that match exactly are answered";

/// `POST /v1/apps/annotation-reply/{action}`.
///
/// # Errors
/// 400 for another action than `enable` and `disable`, and for missing fields; as on Dify also of `disable`.
pub async fn switch(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    Path(action): Path<String>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let action = action_of(&action)?;
    let setting = setting(body.dify_object()?, action == ENABLE)?;
    let mut job = JobRecord { action: action.into(), ..JobRecord::default() };
    state.store.annotations().set_annotation_reply(&app.id, &wire::annotations::text(&setting)).await?;
    match setting.embedding.filter(|_| setting.enabled) {
        Some(embedding) => match state.submitter.index_annotations(&app.id, &embedding, Some(key)).await {
            Ok(runs) => job.runs = runs.iter().map(ToString::to_string).collect(),
            Err(error) => job.error = error.to_string(),
        },
        None => {
            state.submitter.drop_annotation_index(&app.id).await?;
            if setting.enabled {
                job.error = NO_MODEL.into();
            }
        }
    }
    tracing::info!(app = app.id, action, "annotation reply switched");
    let id = Uuid::new_v4().to_string();
    state.store.annotations().put_annotation_job(&app.id, &id, &job).await?;
    Ok(JsonBody(json!({"job_id": id, "job_status": "waiting"})))
}

/// `GET /v1/apps/annotation-reply/{action}/status/{job_id}`.
///
/// # Errors
/// 400 for an unknown job.
pub async fn status(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Path((action, job)): Path<(String, String)>,
) -> Result<JsonBody<Json>, ApiError> {
    let action = action_of(&action)?;
    let unknown = || ApiError::invalid_param("The job does not exist.");
    let id = Uuid::try_parse(&job).map_err(|_| unknown())?.to_string();
    let job = state.store.annotations().annotation_job(&app.id, &id).await?;
    let job = job.filter(|job| job.action == action).ok_or_else(unknown)?;
    let mut runs = Vec::with_capacity(job.runs.len());
    for run in job.runs.iter().filter_map(|run| run.parse().ok()) {
        let fields = state.store.run_fields(run).await?;
        runs.push(fields.map(|fields| {
            let text = |key: &str| fields.get(key).map_or("", String::as_str);
            (RunStatus::from_name(text("status")), text("error").to_owned())
        }));
    }
    let (status, error) = state_of(&job, runs);
    Ok(JsonBody(json!({"job_id": id, "job_status": status, "error_msg": error})))
}

/// The state of a job, in Dify's words, and its error. `runs` are the status and the error of its runs; `None` of one that
/// is gone.
fn state_of(job: &JobRecord, runs: Vec<Option<(Option<RunStatus>, String)>>) -> (&'static str, String) {
    let mut error = job.error.clone();
    let (mut has_begun, mut goes_on) = (false, false);
    for run in runs {
        let failed = match run {
            // One that is gone ended long ago.
            None | Some((Some(RunStatus::Succeeded | RunStatus::PartialSucceeded), _)) => None,
            Some((Some(RunStatus::Scheduled) | None, _)) => {
                goes_on = true;
                continue;
            }
            Some((Some(RunStatus::Running | RunStatus::Paused), _)) => {
                goes_on = true;
                None
            }
            Some((Some(RunStatus::Failed), error)) => Some(error),
            Some((Some(RunStatus::Stopped), _)) => Some("its run was stopped".to_owned()),
        };
        has_begun = true;
        if let Some(failed) = failed.filter(|_| error.is_empty()) {
            error = failed;
        }
    }
    match (error.is_empty(), goes_on, has_begun) {
        (false, ..) => ("error", error),
        (true, false, _) => ("completed", error),
        (true, true, true) => ("processing", error),
        (true, true, false) => ("waiting", error),
    }
}

fn action_of(action: &str) -> Result<&'static str, ApiError> {
    match action {
        ENABLE => Ok(ENABLE),
        DISABLE => Ok(DISABLE),
        _ => Err(ApiError::invalid_param("action must be enable or disable")),
    }
}

fn setting(mut body: JsonMap, enabled: bool) -> Result<ReplySetting, ApiError> {
    let required = |key: &str| ApiError::invalid_param(format!("{key} is required"));
    let score_threshold = match body.remove("score_threshold") {
        None | Some(Json::Null) => return Err(required("score_threshold")),
        Some(Json::Number(number)) => number.as_f64(),
        // As on Dify.
        Some(Json::String(text)) => text.trim().parse().ok(),
        Some(Json::Bool(_) | Json::Array(_) | Json::Object(_)) => None,
    };
    let score_threshold = score_threshold.filter(|it: &f64| it.is_finite());
    let score_threshold =
        score_threshold.ok_or_else(|| ApiError::invalid_param("score_threshold must be a number"))?;
    let mut text = |key: &str| take_text(&mut body, key)?.ok_or_else(|| required(key));
    let (provider, model) = (text("embedding_provider_name")?, text("embedding_model_name")?);
    Ok(ReplySetting { enabled, score_threshold, embedding: named(&provider, &model) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_over_when_all_of_its_runs_are() {
        let run = |status| Some((Some(status), String::new()));
        let failed = || Some((Some(RunStatus::Failed), "no model".to_owned()));
        let none = JobRecord::default();
        let without_model = JobRecord { error: NO_MODEL.into(), ..JobRecord::default() };
        for (job, runs, status, error) in [
            (&none, vec![], "completed", ""),
            (&without_model, vec![], "error", NO_MODEL),
            (&none, vec![run(RunStatus::Scheduled), run(RunStatus::Scheduled)], "waiting", ""),
            (&none, vec![run(RunStatus::Scheduled), run(RunStatus::Running)], "processing", ""),
            (&none, vec![run(RunStatus::Succeeded), run(RunStatus::Scheduled)], "processing", ""),
            (&none, vec![run(RunStatus::Succeeded), None], "completed", ""),
            (&none, vec![run(RunStatus::Running), failed(), failed()], "error", "no model"),
            (&none, vec![run(RunStatus::Stopped)], "error", "its run was stopped"),
        ] {
            assert_eq!(state_of(job, runs.clone()), (status, error.to_owned()), "{job:?} {runs:?}");
        }
    }

    #[test]
    fn a_setting_has_a_threshold_and_a_model() {
        let read = |body: Json| {
            let Json::Object(body) = body else { panic!("no object") };
            setting(body, true).map(|it| (it.score_threshold, it.embedding.is_some()))
        };
        let body = |threshold: Json, provider: &str| json!({"score_threshold": threshold, "embedding_provider_name": provider, "embedding_model_name": "e"});
        for (given, expected) in [
            (body(json!(0.9), "openai"), Ok((0.9, true))),
            (body(json!("0.9"), "openai"), Ok((0.9, true))),
            (body(json!(1), ""), Ok((1.0, false))),
            (body(json!("NaN"), "openai"), Err("score_threshold must be a number")),
            (body(json!(true), "openai"), Err("score_threshold must be a number")),
            (json!({}), Err("score_threshold is required")),
            (json!({"score_threshold": 1}), Err("embedding_provider_name is required")),
        ] {
            let found = read(given.clone()).map_err(|error| error.message().to_owned());
            assert_eq!(found, expected.map_err(str::to_owned), "{given}");
        }
    }
}
