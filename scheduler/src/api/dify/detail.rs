//! `GET /v1/workflows/run/{id}`.

use axum::extract::State;
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock};

use super::{check_has_workflow, facts, find, renderer};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::IdInPath;
use crate::runs::end_user;
use crate::runs::projection::clean_outputs;
use crate::runs::record::whole_seconds;
use crate::submit::gate::AnswerVerdict;

/// Shows a run. `inputs` is a JSON text, as on Dify.
///
/// # Errors
/// 404 for a run that is not of this app, 400 for an app without a workflow.
pub async fn show(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
) -> Result<JsonBody<Json>, ApiError> {
    check_has_workflow(&app)?;
    let record = find(&state, &app, id.run()?).await?;
    let record = record.ok_or_else(|| ApiError::not_found("Workflow run not found."))?;
    let (render, _) = renderer(&state, &record).await?;
    let (record, withheld) = match state.submitter.verdict(&record, &render).await? {
        AnswerVerdict::Decided(withheld) => (record, withheld),
        AnswerVerdict::Awaited => (record.before_its_end(), None),
    };
    let facts = facts(&state, &record, &render).await?;
    let inputs = Json::Object(facts.inputs).to_string();
    let mut outputs = record.outputs.clone();
    render.outputs(&mut outputs).await?;
    clean_outputs(render.features(), withheld.as_deref(), &mut outputs);
    if let Some(links) = &facts.links {
        links.fill(outputs.values_mut());
        outputs.values_mut().for_each(|value| links.fill_texts(value));
    }
    Ok(JsonBody(json!({
        "id": record.id.to_string(),
        "workflow_id": record.workflow_id(),
        "status": record.status.name(),
        "inputs": inputs,
        "outputs": outputs,
        "error": end_user::error(record.error.clone().into()),
        "total_steps": record.steps.unwrap_or(0),
        "total_tokens": record.tokens.unwrap_or(0),
        "created_at": record.created_at.seconds(),
        "finished_at": whole_seconds(record.finished_at),
        "elapsed_time": record.elapsed_since_pause(SystemClock.now()),
    })))
}
