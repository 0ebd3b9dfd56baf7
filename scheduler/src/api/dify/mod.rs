//! Dify's service API, `/v1`: one file per resource. A key gives access to one app; runs of other apps are not found.

pub mod annotations;
mod answer;
pub mod audio;
pub mod chat;
pub mod conversations;
pub mod detail;
pub mod events;
pub mod feedback;
pub mod form;
pub mod info;
pub mod messages;
pub mod run;
mod snapshot;
mod spoken;
pub mod stop;
mod stream;
pub mod suggested;
mod user_conversation;
pub mod variables;

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::Value as Json;
use tidemill_common::graph::{AppMode, Graph, GraphHash};
use tidemill_common::ids::RunId;
use tidemill_common::store::App;
use tidemill_common::value::JsonMap;
use tidemill_common::wire;

use super::ApiState;
use super::error::ApiError;
use super::request::Params;
use crate::runs::projection::{ChatFacts, FormsOfRun, RunFacts, Totals};
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;

const NO_USER: &str = "Arg user must be provided.";
/// The default number of items in a page, as on Dify.
const PAGE: usize = 20;
/// The most items in a page, as on Dify.
const PAGE_MAX: usize = 100;

/// The `user` in a body.
fn user_of(body: &JsonMap) -> Result<String, ApiError> {
    match body.get("user") {
        Some(Json::String(user)) if !user.is_empty() => Ok(user.clone()),
        _ => Err(ApiError::invalid_param(NO_USER)),
    }
}

/// A parameter, or `None` when it is empty.
fn given<'a>(params: &'a Params, name: &str) -> Option<&'a str> {
    params.get(name).filter(|text| !text.is_empty())
}

/// The `user` in a query.
fn user_in(params: &Params) -> Result<&str, ApiError> {
    given(params, "user").ok_or_else(|| ApiError::invalid_param(NO_USER))
}

/// The number of items in a page, within Dify's limits.
fn limit_in(params: &Params) -> Result<usize, ApiError> {
    match given(params, "limit").map(str::parse::<usize>) {
        None => Ok(PAGE),
        Some(Ok(limit @ 1..=PAGE_MAX)) => Ok(limit),
        Some(_) => Err(ApiError::invalid_param(format!("limit must be from 1 to {PAGE_MAX}"))),
    }
}

/// Takes a Boolean out of a body.
fn truth(body: &mut JsonMap, key: &str, default: bool) -> Result<bool, ApiError> {
    match body.remove(key) {
        None | Some(Json::Null) => Ok(default),
        Some(Json::Bool(given)) => Ok(given),
        Some(_) => Err(ApiError::invalid_param(format!("{key} must be true or false"))),
    }
}

/// Refuses apps that are not workflows: chats have their own routes.
fn check_mode(app: &App) -> Result<(), ApiError> {
    if app.mode == AppMode::Workflow.name() {
        return Ok(());
    }
    let message = "Please check if your app mode matches the right API route.";
    Err(ApiError::new(StatusCode::BAD_REQUEST, "not_workflow_app", message))
}

/// Refuses apps that are not chats.
fn check_chat(app: &App) -> Result<(), ApiError> {
    if app.mode == AppMode::Chat.name() {
        return Ok(());
    }
    let message = "Please check if your app mode matches the right API route.";
    Err(ApiError::new(StatusCode::BAD_REQUEST, "not_chat_app", message))
}

/// A run, or `None` when it does not exist or belongs to another app.
async fn find(state: &ApiState, app: &App, id: RunId) -> Result<Option<RunRecord>, ApiError> {
    let Some(fields) = state.store.run_fields(id).await? else { return Ok(None) };
    let record = RunRecord::read(id, &fields)?;
    Ok(Some(record).filter(|record| record.app.as_ref() == Some(&app.id)))
}

/// Returns the renderer for the run's values, and its graph.
async fn renderer(state: &ApiState, record: &RunRecord) -> Result<(Renderer, Arc<Graph>), ApiError> {
    let hash = GraphHash(record.version.as_str().into());
    let workflow = state.workflows.of_run(&*state.store, record.id.shard(), &hash).await?;
    let render =
        Renderer::new(state.store.clone(), record.id.shard(), workflow.graph.clone(), &state.config.compat);
    Ok((render, workflow.graph.clone()))
}

/// The facts about a run that a projection needs.
async fn facts(state: &ApiState, record: &RunRecord, render: &Renderer) -> Result<RunFacts, ApiError> {
    let mut inputs = record.inputs_with_sys();
    render.named(&mut inputs).await?;
    let chat = record.conversation_id.clone().filter(|_| record.mode == AppMode::Chat.name());
    Ok(RunFacts {
        chat: chat.map(|conversation_id| ChatFacts { conversation_id }),
        id: record.id.to_string(),
        workflow_id: record.version.clone(),
        user: record.user.clone(),
        answered_by: record.answered_by,
        inputs,
        created_at: record.created_at.seconds(),
        forms: Some(FormsOfRun { run: record.id, tokens: state.forms.tokens(&*state.store).await? }),
    })
}

/// The counts of a waiting run, from its state: its record has none before its end.
async fn totals_so_far(state: &ApiState, id: RunId, graph: &Arc<Graph>) -> Result<Totals, ApiError> {
    let Some(at_rest) = state.store.run_at_rest(id).await? else { return Ok(Totals::default()) };
    Ok(Totals::of_state(&wire::state::load(id, graph.clone(), at_rest)?))
}
