//! `/triggers/webhook/{id}`: a request that starts a run. Knowing the id gives access; a workflow may also require a
//! secret ([`secret`]). The node decides which requests it accepts ([`tidemill_common::nodes::trigger_webhook`]); this
//! module reads the request ([`body`]) and submits it.

mod body;
mod secret;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use tidemill_common::clock::Timestamp;
use tidemill_common::crash::{self, CrashPoint};
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

/// The user of these runs. Not the id, because that gives access.
const USER: &str = "webhook";
/// More files than one request can contain.
const FILES_MAX: usize = 10_000;
const BYTES_MAX: &str = "scheduler.webhook_bytes_max";

/// The path of a webhook.
pub fn path(id: &str) -> String {
    format!("/triggers/webhook/{id}")
}

/// Starts a run and answers as the workflow file says. Then the run is accepted and will be executed.
///
/// # Errors
/// 404 for an unknown webhook, 401 without its secret, 400 for a request that the node does not accept, 413 for one
/// that is too large, 429 above a limit of the app, 503 when no run can be accepted now.
pub async fn receive(
    State(state): State<ApiState>,
    IdInPath(id): IdInPath,
    request: Request,
) -> Result<Response, ApiError> {
    let hook = Hook::find(&state, &id).await?;
    let (parts, sent) = request.into_parts();
    let shown = secret::check(hook.data(), &hook.workflow.graph, &parts.headers)?;
    // A stranger without the secret uses up nothing of the app's.
    state.submitter.limiter.admit(&hook.app.id, None).await?;
    let content_type = text_of(&parts.headers, header::CONTENT_TYPE.as_str());
    hook.data().check_head(parts.method.as_str(), content_type.as_deref()).map_err(refused)?;
    let sent = super::request::read(sent, state.config.scheduler.webhook_bytes_max, BYTES_MAX).await?;
    let query = parts.uri.query().unwrap_or_default();
    let hashed =
        Body(Bytes::from([parts.method.as_str().as_bytes(), b" ", query.as_bytes(), b"\n", &sent].concat()));
    let idempotency = idempotency(&parts.headers, &format!("webhook {id}"), &hashed)?;

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
    // Only information for people: the run exists, so a failure here must not fail the request.
    if let Err(error) = state.store.note_fired(&id, &fired).await {
        tracing::warn!(%error, "the result of a webhook could not be stored");
    }
    outcome?;
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::OK);
    Ok((status, axum::Json(reply.body)).into_response())
}

/// A registered webhook.
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

/// The error in Dify's form, inside our body.
fn refused(refused: Refused) -> ApiError {
    ApiError::bad_request(refused.0).with("error", "Bad Request".into())
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// True when a run may refer to the files of this request. False when it was refused permanently, or repeats a request
/// whose run has its own files.
fn may_have_them(outcome: &Result<Submitted, SubmitError>) -> bool {
    match outcome {
        Ok(done) => done.is_new,
        // The run may have been created although the store failed.
        Err(error) => matches!(error, SubmitError::Store(_) | SubmitError::Unconfirmed { .. }),
    }
}

/// Removes the files of a run that will not exist.
async fn forget(state: &ApiState, run: &RunId) {
    let removed = match files::open(&state.config.files) {
        Ok(place) => place.remove(run, FILES_MAX).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        tracing::warn!(%error, "files of a refused request are left behind");
    }
}

/// Stores the uploads under the id of the run.
async fn keep(
    state: &ApiState,
    run: &RunId,
    uploads: Vec<Upload>,
) -> Result<Vec<(String, serde_json::Value)>, ApiError> {
    if uploads.is_empty() {
        return Ok(Vec::new());
    }
    let away = |error: tidemill_common::files::FilesError| {
        tracing::error!(%error, "an uploaded file cannot be stored");
        ApiError::unavailable("the file cannot be stored now; try again in a moment")
    };
    let place = files::open(&state.config.files).map_err(away)?;
    state.submitter.note_early_files(*run).await?;
    let mut kept = Vec::with_capacity(uploads.len());
    for upload in uploads {
        let reference = place.keep(run, upload.bytes.clone()).await.map_err(away)?;
        kept.push((upload.name.clone(), upload.file(&reference)));
    }
    crash::pass(CrashPoint::EarlyFilesKept);
    Ok(kept)
}
