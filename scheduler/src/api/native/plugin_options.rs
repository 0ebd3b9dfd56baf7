//! `POST /api/v1/plugins/{id}/options`: the options of a parameter, as an installed plugin lists them now. Only workers have the
//! plugin, its credentials and the network, so this is a run of one node.

use std::time::Duration;

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::registry::plugins::{InstalledPlugin, OPTIONS};
use tidemill_common::registry::trial;
use tidemill_common::store::{CatalogKind, RunCommand};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::fact::{self, kind};

use crate::api::ApiState;
use crate::api::ends::wait_for_end;
use crate::api::error::ApiError;
use crate::api::native::{catalog, runs};
use crate::api::request::{Body, IdInPath, nothing_left, take_text};
use crate::stopping::Stage;
use crate::submit::{Submission, SystemValues, WorkflowSource};
use crate::workflows::Seals;

const KIND: CatalogKind = CatalogKind::Plugin;
/// The longest wait for the answer; `scheduler.wait_seconds_max` may be shorter.
const WAIT_SECONDS: u64 = 60;
/// The reason of the stop of a run that has not ended by then.
const NOT_ANSWERED: &str = "the options were not listed in time";

/// Asks the plugin: `provider`, `tool`, `parameter`, and `app` for the credentials of an app.
///
/// # Errors
/// 400 for a request without these, 404 for a plugin that is not installed, 422 with the reason if it lists no options, 503 if this
/// process stops, 504 if no worker answers in time: then the run is stopped.
pub async fn list(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let mut map = body.object()?;
    let mut needed = |name: &str| {
        let text = take_text(&mut map, name)?.filter(|text| !text.is_empty());
        text.ok_or_else(|| ApiError::invalid_param(format!("{name} is required")))
    };
    let (provider, tool, parameter) = (needed("provider")?, needed("tool")?, needed("parameter")?);
    let app = take_text(&mut map, "app")?;
    nothing_left(&map)?;
    let catalog = state.store.catalog().await?;
    let entry = catalog.find(KIND, &id).ok_or_else(|| catalog::unknown(KIND, &id))?;
    let plugin = InstalledPlugin::of(entry).ok_or_else(|| catalog::unknown(KIND, &id))?;
    let mut params = JsonMap::new();
    for (name, value) in [("tool", Some(tool)), ("parameter", Some(parameter)), ("app", app)] {
        if let Some(value) = value {
            params.insert(name.into(), value.into());
        }
    }
    let provider = format!("{}/{}/{provider}", plugin.author, plugin.name);
    let workflow = trial::workflow(&provider, Some(&plugin.version), OPTIONS, &params);
    let workflow = workflow.map_err(ApiError::invalid_param)?.to_string();
    let submission = Submission {
        user: "tidemill".into(),
        is_of_operator: true,
        seals: Seals::Refused,
        ..Submission::of(WorkflowSource::Text(workflow), SystemValues::Standard, JsonMap::new())
    };
    let run = state.submitter.submit(submission).await?.run;
    let wait = Duration::from_secs(WAIT_SECONDS.min(state.config.scheduler.wait_seconds_max));
    drop(tokio::time::timeout(wait, wait_for_end(&state, run)).await);
    let shown = Box::pin(runs::shown(&state, run, false)).await?;
    let status = shown["status"].as_str().and_then(RunStatus::from_name);
    if !status.is_some_and(RunStatus::is_over) {
        // No client would read its answer.
        let stop = RunCommand::new(kind::STOP, fact::stop_body(NOT_ANSWERED));
        if let Err(error) = state.store.send_command(run, &stop).await {
            tracing::warn!(%run, %error, "a run that asks for options cannot be stopped");
        }
        if *state.shutdown.borrow() >= Stage::Closing {
            return Err(ApiError::unavailable("this scheduler stops; ask for the options again"));
        }
        let message = format!(
            "no worker has answered within {} s, and the run {run} was stopped (is the plugin ready on a worker?)",
            wait.as_secs()
        );
        return Err(ApiError::new(StatusCode::GATEWAY_TIMEOUT, "not_answered", message));
    }
    let options = &shown["outputs"]["json"][0]["options"];
    if status == Some(RunStatus::Succeeded) && options.is_array() {
        return Ok(JsonBody(json!({"options": options})));
    }
    let reason = shown["error"].as_str().unwrap_or("the plugin has listed no options");
    let message = format!("{reason} (run {run})");
    Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "no_options", message))
}
