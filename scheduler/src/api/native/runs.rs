//! `GET /api/v1/runs/{id}`, and the fields that it shares with lists of runs.

use axum::Json as JsonBody;
use axum::extract::State;
use serde_json::{Value as Json, json};
use tidemill_common::clock::{Clock, SystemClock, Timestamp};
use tidemill_common::graph::GraphHash;
use tidemill_common::ids::{Delivery, FramePath, RunId};
use tidemill_common::machine::state::cost::Cost;
use tidemill_common::machine::state::run::{NodeState, NodeStatus, RunState};
use tidemill_common::machine::state::warnings::Noted;
use tidemill_common::value::JsonMap;
use tidemill_common::wire;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::native::{messages, pauses, row_values, spending};
use crate::api::request::{IdInPath, Params};
use crate::runs::record::{RunRecord, seconds};
use crate::runs::render::Renderer;
use crate::runs::waiting::{self, Waits};

/// Shows a run with its nodes; with `values=true` the rows of nodes have inputs and outputs.
///
/// # Errors
/// 404 for an unknown run.
pub async fn show(
    State(state): State<ApiState>,
    id: IdInPath,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    let (id, with_values) = (id.run()?, params.truth("values", false)?);
    Box::pin(shown(&state, id, with_values)).await.map(JsonBody)
}

/// A run as [`show`] shows it.
pub(super) async fn shown(state: &ApiState, id: RunId, with_values: bool) -> Result<Json, ApiError> {
    let gone = || ApiError::not_found("Workflow run not found.");
    let at_rest = state.store.run_at_rest(id).await?.ok_or_else(gone)?;
    let mut record = RunRecord::read(id, &at_rest.run)?;
    let hash = GraphHash(record.version.as_str().into());
    let workflow = state.workflows.of_run(&*state.store, id.shard(), &hash).await?;
    let run = wire::state::load(id, workflow.graph.clone(), at_rest)?;
    let render = Renderer::new(state.store.clone(), id.shard(), workflow.graph.clone(), &state.config.compat);
    render.named(&mut record.inputs).await?;
    render.outputs(&mut record.outputs).await?;

    let mut shown = summary(&record);
    if !record.status.is_over() {
        shown.insert("total_steps".into(), run.root_steps().into());
        shown.insert("total_tokens".into(), run.tokens().into());
        shown.insert("exceptions_count".into(), run.exceptions().into());
    }
    shown.insert("working_time".into(), working_seconds(&run, SystemClock.now()).into());
    let (price, currency) = price(&run.cost());
    shown.insert("total_price".into(), price);
    shown.insert("currency".into(), currency);
    let wasted = run.wasted();
    let (wasted_price, wasted_currency) = crate::api::native::runs::price(&wasted);
    shown.insert("wasted_tokens".into(), wasted.tokens.into());
    shown.insert("wasted_price".into(), wasted_price);
    shown.insert("wasted_currency".into(), wasted_currency);
    shown.insert("inputs".into(), record.inputs.into());
    shown.insert("outputs".into(), record.outputs.into());
    shown.insert("conversation".into(), conversation(&run, &render).await?.into());
    shown.insert("pauses".into(), pauses::list_json(state, id).await?.into());
    let (waits, now) = (waiting::waits(&*state.store, &run).await?, SystemClock.now());
    let all_warnings = warnings(&run, &waits, now, &render).await?;
    shown.insert("warnings_count".into(), all_warnings.as_array().map_or(0, Vec::len).into());
    shown.insert("warnings".into(), all_warnings);
    let mut rows = nodes(&run, &waits, now);
    if with_values {
        let is_whole = row_values::add(&*state.store, &render, id, &mut rows).await?;
        shown.insert("values_complete".into(), is_whole.into());
    }
    shown.insert("nodes".into(), rows.into());
    if let Some(lists) = messages::lists(&run) {
        shown.insert("lists".into(), lists);
    }
    shown.insert("models".into(), spending::by_model(&state.store.ledger(id).await?));
    let (calls, count) = calls(state, id).await?;
    shown.insert("calls".into(), calls.into());
    shown.insert("calls_count".into(), count.into());
    Ok(Json::Object(shown))
}

/// The working time of the run in seconds. A running job counts up to now, as if its worker were alive.
fn working_seconds(run: &RunState, now: Timestamp) -> f64 {
    run.worked_micros_with(now, |_| Some(now)) as f64 / 1e6
}

/// The warnings so far, and those of waits that no worker ends. A handle may come from a variable, so secrets are
/// masked.
async fn warnings(
    run: &RunState,
    waits: &Waits,
    now: Timestamp,
    render: &Renderer,
) -> Result<Json, ApiError> {
    const KEY: &str = "warnings";
    let mut shown = wire::warnings::shown(&run.control.warnings, &run.graph);
    shown.extend(waits.iter().filter_map(|((_, ix), wait)| {
        let noted = Noted { node: Some(run.graph.node(*ix).id.clone()), warning: wait.warning(now)? };
        Some(Json::Object(wire::warnings::shown_one(&noted, &run.graph)))
    }));
    let mut values = JsonMap::from_iter([(KEY.to_owned(), Json::from(shown))]);
    render.named(&mut values).await?;
    Ok(values.remove(KEY).unwrap_or_default())
}

/// The first sub-workflow runs of this run, and the number of all of them.
async fn calls(state: &ApiState, caller: RunId) -> Result<(Vec<Json>, u64), ApiError> {
    let (calls, count) = state.store.calls_of(caller).await?;
    let shown = calls.into_iter().map(|(run, order)| {
        let order: JsonMap = serde_json::from_str(&order).unwrap_or_default();
        let part = |key: &str| order.get(key).cloned().unwrap_or_default();
        json!({
            "run": run,
            "app": part("app"),
            "node": part("node"),
            "frame": order.get("frame").cloned().unwrap_or_else(|| "".into()),
            // The reason why the run was not created.
            "error": part("error"),
        })
    });
    Ok((shown.collect(), count))
}

/// Fields that list and detail share. Counts are null before the run has ended.
pub(super) fn summary(run: &RunRecord) -> JsonMap {
    let shown = json!({
        "id": run.id.to_string(),
        "workflow": run.workflow,
        "mode": run.mode,
        "app": run.app,
        "version": run.version,
        "status": run.status.name(),
        "user": run.user,
        "error": run.error,
        "created_at": run.created_at.seconds_f64(),
        "started_at": seconds(run.started_at),
        "finished_at": seconds(run.finished_at),
        "elapsed_time": run.elapsed(SystemClock.now()),
        "total_steps": run.steps,
        "total_tokens": run.tokens,
        "total_price": run.price.as_ref().map(|(price, _)| price),
        "currency": run.price.as_ref().map(|(_, currency)| currency),
        "exceptions_count": run.exceptions,
        "warnings_count": run.warnings.unwrap_or(0),
        "key": run.key,
        "labels": run.labels,
        "caller": run.caller.as_ref().map(|caller| {
            json!({"run": caller.run, "node": caller.node, "frame": caller.frame})
        }),
        "shard": run.id.shard().0,
    });
    shown.as_object().cloned().unwrap_or_default()
}

/// The current conversation variables.
async fn conversation(run: &RunState, render: &Renderer) -> Result<JsonMap, ApiError> {
    let root = FramePath::root();
    let pool = run.pool(&root);
    let mut names: Vec<&str> = run.graph.conversation.iter().map(|variable| &*variable.name).collect();
    for (name, _) in &run.head.conversation {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let mut values = JsonMap::new();
    for name in names {
        if let Some(stored) = pool.stored("conversation", name) {
            values.insert(name.into(), render.stored(&stored).await?);
        }
    }
    Ok(values)
}

/// Nodes in the order of the file: all of the root frame, and those of other frames once they are reached.
fn nodes(run: &RunState, waits: &Waits, now: Timestamp) -> Vec<Json> {
    let mut shown = Vec::new();
    for (path, frame) in &run.frames {
        for (node, state) in run.graph.nodes.iter().zip(&frame.nodes) {
            let is_root = path.is_root() && node.parent.is_none();
            if is_root || state.status != NodeStatus::Unknown {
                let mut one = shown_node(path, node, state);
                let ix = run.graph.find(node.id.as_str());
                let wait = ix.and_then(|ix| waits.get(&(path.clone(), ix)));
                one["waits"] = wait.map_or(Json::Null, |wait| wait.to_json(now));
                if let Some(child) = &node.child {
                    one["parent_node_id"] = json!(run.graph.node(child.of).id);
                }
                shown.push(one);
            }
        }
    }
    shown
}

/// A price in plain notation and its currency; null when no price is known.
fn price(spent: &Cost) -> (Json, Json) {
    match &spent.price {
        Some(price) => (price.amount.fixed().into(), (*price.currency).into()),
        None => (Json::Null, Json::Null),
    }
}

fn shown_node(frame: &FramePath, node: &tidemill_common::graph::Node, state: &NodeState) -> Json {
    let (price, currency) = price(&state.cost);
    json!({
        "id": node.id,
        "frame": frame,
        "title": node.title,
        "type": node.kind.wire(),
        "status": state.status.name(),
        "attempt": state.attempt,
        "started_at": seconds(state.started_at),
        "finished_at": seconds(state.finished_at),
        "job": state.job,
        "delivery": Delivery::counted_of(state.delivery),
        "error": state.error,
        "worker": state.worker.as_deref(),
        "failures": state.failures,
        "parked": state.parked.as_deref(),
        "tokens": state.cost.tokens,
        "price": price,
        "currency": currency,
        "handle": state.handle,
    })
}
