//! `GET /api/v1/runs/{id}/snapshot` and `POST /api/v1/runs/import`: exports a run as a document, and creates a run from
//! one.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::graph::GraphHash;
use tidemill_common::ids::{BlobId, RunId};
use tidemill_common::value::{Segment, SegmentType, Stored};
use tidemill_common::wire;
use tidemill_common::wire::snapshot::{PoolValue, PoolVariable};
use tidemill_common::wire::state::AtRest;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath};
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;

/// Exports an open run as one document with all that it needs to continue elsewhere. The run itself continues as well.
///
/// # Errors
/// 404 for an unknown run, 409 `run_over` when it has ended.
pub async fn export(State(state): State<ApiState>, id: IdInPath) -> Result<JsonBody<Json>, ApiError> {
    let id = id.run()?;
    let gone = || ApiError::not_found("Workflow run not found.");
    let rest = state.store.run_at_rest(id).await?.ok_or_else(gone)?;
    let record = RunRecord::read(id, &rest.run)?;
    if record.status.is_over() {
        return Err(ApiError::run_over(record.status));
    }
    Ok(JsonBody(document(&state, id, &record, &rest).await?))
}

/// Builds the document of a run in any state.
///
/// # Errors
/// The workflow or a value of the run cannot be loaded.
pub(crate) async fn document(
    state: &ApiState,
    id: RunId,
    record: &RunRecord,
    rest: &AtRest,
) -> Result<Json, ApiError> {
    let hash = GraphHash(record.version.as_str().into());
    let workflow = state.workflows.of_run(&*state.store, id.shard(), &hash).await?;
    let run = wire::state::load(id, workflow.graph.clone(), rest.clone())?;
    let render = Renderer::new(state.store.clone(), id.shard(), workflow.graph.clone(), &state.config.compat);
    let mut variables = Vec::new();
    for (frame, node, name, stored) in wire::snapshot::variables(&run) {
        let value = match stored {
            Stored::Secret(secret) => PoolValue::Secret(secret.to_string()),
            stored => PoolValue::Whole(whole(&render, &stored).await?),
        };
        variables.push(PoolVariable { frame, node, name, value });
    }
    let mut blobs = Vec::new();
    for name in wire::snapshot::blobs(&run, rest) {
        blobs.push((name.clone(), blob(state, id, &name).await?));
    }
    let now = state.store.time().await?;
    let snapshot = wire::snapshot::write(&run, rest, &workflow.document, &variables, blobs, now);
    Ok(wire::snapshot::sealed(snapshot, &workflow.graph.hidden))
}

/// Loads the whole value. A blob does not store its exact type, except for lists and files.
async fn whole(render: &Renderer, stored: &Stored) -> Result<Segment, ApiError> {
    if let Stored::Inline(segment) = stored {
        return Ok(segment.clone());
    }
    let value = render.whole(stored).await?;
    Ok(match stored.ty() {
        // The type of an item follows only from its content.
        SegmentType::None | SegmentType::Float => Segment::restore_files(value),
        ty => Segment::new(ty, value),
    })
}

async fn blob(state: &ApiState, run: RunId, name: &str) -> Result<Json, ApiError> {
    let text = state.store.blob(run.shard(), &BlobId::from(name)).await?;
    text.and_then(|text| serde_json::from_str(&text).ok())
        .ok_or_else(|| ApiError::unavailable("a value of the run went away while it was exported; try again"))
}

/// Creates a run from a snapshot.
///
/// # Errors
/// 400 `invalid_param` for an invalid snapshot.
pub async fn import(
    State(state): State<ApiState>,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let document = Json::Object(body.object()?);
    let submitted = state.submitter.import(&document.to_string()).await?;
    Ok((StatusCode::CREATED, JsonBody(json!({"id": submitted.run.to_string(), "status": "scheduled"}))))
}
