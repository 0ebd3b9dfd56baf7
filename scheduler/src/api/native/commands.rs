//! `POST /api/v1/runs/{id}/commands`: stop, pause, resume, update variables.

use axum::Json as JsonBody;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::crash;
use tidemill_common::graph::{Graph, GraphHash};
use tidemill_common::ids::RunId;
use tidemill_common::store::{CommandKey, Durability, RunCommand, Sent, Written};
use tidemill_common::value::JsonMap;
use tidemill_common::wire;
use tidemill_common::wire::fact::kind;
use uuid::Uuid;

use crate::api::ApiState;
use crate::api::auth::sha256_hex;
use crate::api::durability;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, nothing_left, take_key};
use crate::submit::blobs::BlobWriter;
use crate::submit::commands::{self, Order};

/// Sends a command. 202: it will take effect, unless the run ends first. Repeating a command under its key changes
/// nothing.
///
/// # Errors
/// 404; 409 `run_over` when the run has ended, `key_taken` when another command used the key; 400 for an invalid
/// command.
pub async fn send(
    State(state): State<ApiState>,
    id: IdInPath,
    body: Body,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let run = id.run()?;
    let mut map = body.object()?;
    let key = take_key(&mut map)?;
    let level = state.submitter.durability(durability::take(&mut map)?);
    state.submitter.gives(level).await?;
    // Before values get names of blobs, which are new each time.
    let sha = sha256_hex(Json::Object(map.clone()).to_string());
    let key = key.map(|key| CommandKey { key, sha });
    let fields = state.store.run_fields(run).await?.ok_or_else(gone)?;
    let hash = GraphHash(fields.get("version").map_or("", String::as_str).into());
    let workflow = state.workflows.of_run(&*state.store, run.shard(), &hash).await?;
    let order = order(&mut map, &workflow.graph)?;
    let options = fields.get("options").and_then(|text| serde_json::from_str(text).ok());
    let options = wire::state::options_from_json(&options.unwrap_or_default());
    let mut command = command(&state, run, options.inline_bytes_max, order, key).await?;
    let written = findable(run, &mut command, level);
    match state.store.send_command(run, &command).await? {
        Sent::Accepted | Sent::Repeated => {
            crash::pass(crash::CrashPoint::CommandKept);
            tracing::info!(%run, kind = command.kind, "command accepted");
            if let Some(written) = written {
                state.submitter.confirm(written, level).await?;
            }
            Ok((StatusCode::ACCEPTED, JsonBody(json!({"accepted": true}))))
        }
        Sent::NotFound => Err(gone()),
        Sent::Over(status) => Err(ApiError::run_over(status)),
        Sent::KeyTaken => {
            let message = "this key was used before, for another command to this run";
            Err(ApiError::new(StatusCode::CONFLICT, "key_taken", message))
        }
        Sent::BlobMissing => Err(ApiError::unavailable("the store lost a value of this command; try again")),
    }
}

/// What to wait for, if the command is to be durable. A command without a key gets one, by which it is found in the store.
pub(in crate::api) fn findable(run: RunId, command: &mut RunCommand, level: Durability) -> Option<Written> {
    if level == Durability::Memory {
        return None;
    }
    let fresh = || CommandKey { key: format!("durable-{}", Uuid::new_v4()), sha: String::new() };
    let key = command.key.get_or_insert_with(fresh).key.clone();
    Some(Written::Command { run, key })
}

fn gone() -> ApiError {
    ApiError::not_found("Workflow run not found.")
}

fn order(map: &mut JsonMap, graph: &Graph) -> Result<Order, ApiError> {
    let order = commands::take(map, "", graph)?;
    nothing_left(map)?;
    Ok(order)
}

/// The command in the form of the store.
async fn command(
    state: &ApiState,
    run: RunId,
    inline_bytes_max: usize,
    order: Order,
    key: Option<CommandKey>,
) -> Result<RunCommand, ApiError> {
    let value_bytes_max = state.config.run.value_bytes_max;
    let mut blobs = BlobWriter::new(state.store.clone(), run.shard(), inline_bytes_max, value_bytes_max);
    let (kind, mut body) = match order {
        Order::Stop { reason } => (kind::STOP, json!({"reason": reason})),
        Order::Pause { reason } => (kind::PAUSE, json!({"reason": reason})),
        Order::Resume => (kind::RESUME, json!({})),
        Order::Update(updates) => {
            let updates = commands::stored(updates, &mut blobs).await?;
            (kind::UPDATE, json!({"updates": wire::state::breakpoint::updates_json(&updates)}))
        }
    };
    if let Some(key) = &key {
        body["key"] = key.key.as_str().into();
    }
    Ok(RunCommand { key, blobs: blobs.into_blobs(), ..RunCommand::new(kind, body.to_string()) })
}
