//! `GET /api/v1/triggers`: the triggers of all apps, with their next time and their last result.

use axum::Json as JsonBody;
use axum::extract::State;
use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::store::{TriggerKind, TriggerState};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::hooks;

/// Lists the triggers of all apps.
///
/// # Errors
/// Errors of the store.
pub async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let mut triggers = state.store.triggers().await?;
    let order = |state: &TriggerState| (state.trigger.name.clone(), state.trigger.node.clone());
    triggers.sort_by_cached_key(order);
    let data: Vec<Json> = triggers.iter().map(to_json).collect();
    Ok(JsonBody(json!({"data": data})))
}

fn to_json(state: &TriggerState) -> Json {
    let seconds = |time: Option<Timestamp>| time.map(Timestamp::seconds_f64);
    let trigger = &state.trigger;
    let mut shown = json!({
        "id": trigger.id,
        "kind": trigger.kind.name(),
        "app": trigger.app,
        "workflow": trigger.name,
        "node_id": trigger.node,
        "fired_at": seconds(state.fired.at),
        "run": state.fired.run.map(|run| run.to_string()),
        "error": state.fired.error,
    });
    match trigger.kind {
        TriggerKind::Webhook => shown["path"] = hooks::path(&trigger.id).into(),
        TriggerKind::Schedule => {
            shown["cron"] = trigger.cron.as_str().into();
            shown["timezone"] = trigger.zone.as_str().into();
            shown["next_at"] = json!(seconds(state.due));
        }
        TriggerKind::Plugin => {}
    }
    shown
}
