//! `/triggers/webhook/{id}`: a request that begins a run. The id is the key; a workflow may ask for a secret as well
//! ([`secret`]). What the request must be is said by the node ([`tidemill_common::nodes::trigger_webhook`]); here it is read
//! ([`body`]) and submitted.

mod body;
mod secret;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tidemill_common::clock::Timestamp;
use tidemill_common::files;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::NodeData;
use tidemill_common::nodes::trigger_webhook::{self as webhook, Refused, TriggerWebhookData};
use tidemill_common::store::{App, Fired};

use self::body::Upload;
use super::ApiState;
use super::error::ApiError;
use super::request::{Body, IdInPath};
use crate::api::native::submit::idempotency;
use crate::submit::{Submission, SubmitError, Submitted, SystemValues, WorkflowSource};
use crate::workflows::Workflow;

/// Whose runs they are, for the record. Not the id, which opens the door.
const USER: &str = "webhook";
/// More files than one request brings.
const FILES_MAX: usize = 10_000;
const BYTES_MAX: &str = "scheduler.webhook_bytes_max";

/// Where a webhook is called.
pub fn path(id: &str) -> String {
    format!("/triggers/webhook/{id}")
}

/// Takes a request and answers as the file says. The run has been accepted then, and will be executed.
///
/// # Errors
/// 404 for an unknown webhook, 401 without its secret, 400 for a request that does not fit, 413 for one that is too
/// large, 503 when no run can be taken now.
pub async fn receive(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    request: Request,
) -> Result<Response, ApiError> {
    let hook = Hook::find(&state, &id).await?;
    let (parts, sent) = request.into_parts();
    let shown = secret::check(hook.data(), &hook.workflow.graph, &parts.headers)?;
    let content_type = text_of(&parts.headers, header::CONTENT_TYPE.as_str());
    hook.data().check_head(parts.method.as_str(), content_type.as_deref()).map_err(refused)?;
    let sent = super::request::read(sent, state.config.scheduler.webhook_bytes_max, BYTES_MAX).await?;
    let query = parts.uri.query().unwrap_or_default();
    let asked =
        Body(Bytes::from([parts.method.as_str().as_bytes(), b" ", query.as_bytes(), b"\n", &sent].concat()));
    let idempotency = idempotency(&parts.headers, &format!("webhook {id}"), &asked)?;

    let (read, uploads) = body::read(hook.data().content_type, content_type.as_deref(), sent).await?;
    let request = webhook::Request {
        headers: body::headers(&parts.headers, shown),
        query: body::pairs(query.as_bytes()),
        body: read,
    };
    let accepted = hook.data().accept(request).map_err(refused)?;
    let run = RunId::generate(state.submitter.some_shard().await?);
    let files = keep(&state, &run, uploads).await?;
    let reply = hook.data().reply();
    let submission = Submission {
        user: USER.into(),
        root: Some(hook.node.clone()),
        run: Some(run),
        has_files: !files.is_empty(),
        idempotency,
        ..Submission::of(WorkflowSource::App(hook.app), SystemValues::Standard, accepted.inputs(files))
    };
    let has_files = submission.has_files;
    let outcome = state.submitter.submit(submission).await;
    if has_files && !may_have_them(&outcome) {
        forget(&state, &run).await;
    }
    let fired = match &outcome {
        Ok(done) => Fired { at: Some(now()), run: Some(done.run), error: None },
        Err(error) => Fired { error: Some(error.to_string()), ..Fired::default() },
    };
    // For people only: that it cannot be noted is no reason to refuse a run that there is.
    if let Err(error) = state.store.note_fired(&id, &fired).await {
        tracing::warn!(%error, "what a webhook did could not be noted");
    }
    outcome?;
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    Ok((status, axum::Json(reply.body)).into_response())
}

/// A webhook that is there.
struct Hook {
    app: Arc<App>,
    workflow: Arc<Workflow>,
    node: String,
    data: Box<TriggerWebhookData>,
}

impl Hook {
    async fn find(state: &ApiState, id: &str) -> Result<Self, ApiError> {
        let unknown = || ApiError::not_found("there is no such webhook");
        let trigger = state.store.trigger(id).await?.ok_or_else(unknown)?.trigger;
        let app = Arc::new(state.store.app(&trigger.app).await?.ok_or_else(unknown)?);
        let workflow = state.workflows.of_document(&app.version, &app.document)?;
        let at = workflow.graph.find(&trigger.node).ok_or_else(unknown)?;
        match &workflow.graph.node(at).data {
            NodeData::TriggerWebhook(data) => {
                let data = data.clone();
                Ok(Self { app, workflow, node: trigger.node, data })
            }
            _ => Err(unknown()),
        }
    }
    fn data(&self) -> &TriggerWebhookData {
        &self.data
    }
}

fn now() -> Timestamp {
    use tidemill_common::clock::{Clock, SystemClock};
    SystemClock.now()
}

/// In Dify's form, within ours.
fn refused(refused: Refused) -> ApiError {
    ApiError::bad_request(refused.0).with("error", "Bad Request".into())
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Whether a run may refer to the files that were kept for this request: not when it was refused for good, or was a
/// repetition of one that has files of its own.
fn may_have_them(outcome: &Result<Submitted, SubmitError>) -> bool {
    match outcome {
        Ok(done) => done.is_new,
        // It may have been created all the same.
        Err(error) => matches!(error, SubmitError::Store(_)),
    }
}

/// Removes the files of a run that there will never be.
async fn forget(state: &ApiState, run: &RunId) {
    let removed = match files::open(&state.config.files) {
        Ok(place) => place.remove(run, FILES_MAX).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        tracing::warn!(%error, "files of a refused request are left behind");
    }
}

/// Keeps what was uploaded, below the run that it belongs to.
async fn keep(
    state: &ApiState,
    run: &RunId,
    uploads: Vec<Upload>,
) -> Result<Vec<(String, serde_json::Value)>, ApiError> {
    if uploads.is_empty() {
        return Ok(Vec::new());
    }
    let away = |error: tidemill_common::files::FilesError| {
        tracing::error!(%error, "an uploaded file cannot be kept");
        ApiError::unavailable("the file cannot be kept now; try again in a moment")
    };
    let place = files::open(&state.config.files).map_err(away)?;
    let mut kept = Vec::with_capacity(uploads.len());
    for upload in uploads {
        let reference = place.keep(run, upload.bytes.clone()).await.map_err(away)?;
        kept.push((upload.name.clone(), upload.file(&reference)));
    }
    Ok(kept)
}
