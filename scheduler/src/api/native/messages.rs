//! Other stored data of a run: `GET /api/v1/runs/{id}/messages/{list}`, `/rt` and `/history`.

use axum::Json as JsonBody;
use axum::extract::{Path, State};
use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::machine::state::run::RunState;
use tidemill_common::messages::{Index, View, view};
use tidemill_common::store::Page;
use tidemill_common::value::JsonMap;
use tidemill_common::wire::state::messages::{read_index, read_message};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::request::{IdInPath, Params};

const LIST_DEFAULT: usize = 100;
const LIST_MAX: usize = 1000;

/// Shows a list of messages: its index, and a page of all its messages, hidden ones included. `next` is the `from` of
/// the next page.
///
/// # Errors
/// 404 for an unknown run or list, 400 for invalid parameters.
pub async fn messages(
    State(state): State<ApiState>,
    Path((run, list)): Path<(String, String)>,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    let run = IdInPath(run).run()?;
    let page = page(&params)?;
    let index = match state.store.list_index(run, &list).await? {
        Some(text) => read_index(&text)?,
        None => {
            check_exists(&state, run).await?;
            return Err(ApiError::not_found(format!("The run has no list of messages {list}.")));
        }
    };
    // Messages added since the index was read are left out.
    let count = page.count.min((index.count as usize).saturating_sub(page.from));
    let texts = state.store.list_messages(run, &list, Page { count, ..page }).await?;
    let mut shown = Vec::with_capacity(texts.len());
    for (idx, text) in (page.from..).zip(&texts) {
        let kept = read_message(text)?;
        let mut message = JsonMap::from_iter([("idx".to_string(), json!(idx))]);
        message.extend(kept.message.to_map());
        let place = index.visible.iter().position(|visible| *visible as usize == idx);
        message.insert("visible".into(), place.is_some().into());
        message.insert("by".into(), (*kept.by).into());
        shown.push(Json::Object(message));
    }
    let end = page.from + shown.len();
    let mut whole = summary(&list, &index);
    let next = (end < index.count as usize && !shown.is_empty()).then_some(end);
    whole.insert("visible".into(), json!(index.visible));
    whole.insert("mark_map".into(), index.mark_map().to_json());
    whole.insert("batches".into(), index.shown_batches());
    let applied = index.applied.iter().map(|(execution, version)| (execution.to_string(), json!(version)));
    whole.insert("applied_ops".into(), Json::Object(applied.collect()));
    whole.insert("data".into(), shown.into());
    whole.insert("next".into(), json!(next));
    Ok(JsonBody(Json::Object(whole)))
}

/// Shows the stored runtime values of a run's steps.
///
/// # Errors
/// 404 for an unknown run.
pub async fn runtime(State(state): State<ApiState>, id: IdInPath) -> Result<JsonBody<Json>, ApiError> {
    let run = id.run()?;
    check_exists(&state, run).await?;
    let fields = state.store.runtime(run).await?;
    let value = |text: &String| serde_json::from_str(text).unwrap_or(Json::Null);
    Ok(JsonBody(Json::Object(fields.iter().map(|(key, text)| (key.clone(), value(text))).collect())))
}

/// Shows the history of a run, complete or in one of its views: `view` is `lp`, `cx` or `se`. The view `se` leaves out
/// failed steps unless `errors` is true.
///
/// # Errors
/// 404 for an unknown run, 400 for invalid parameters.
pub async fn history(
    State(state): State<ApiState>,
    id: IdInPath,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    let run = id.run()?;
    let page = page(&params)?;
    let wanted = match params.get("view") {
        None => None,
        Some(name) => Some(
            View::from_name(name).ok_or_else(|| ApiError::invalid_param("view must be one of lp, cx, se"))?,
        ),
    };
    let errors = params.truth("errors", false)?;
    check_exists(&state, run).await?;
    let texts = state.store.history(run, page).await?;
    let is_full = texts.len() == page.count;
    let records = texts.iter().filter_map(|text| serde_json::from_str::<JsonMap>(text).ok());
    let data: Vec<Json> = match wanted {
        None => records.map(Json::Object).collect(),
        Some(wanted) => records.filter_map(|record| record_to_json(record, wanted, errors)).collect(),
    };
    let next = is_full.then_some(page.from + page.count);
    Ok(JsonBody(json!({"data": data, "next": next})))
}

fn record_to_json(mut record: JsonMap, wanted: View, errors: bool) -> Option<Json> {
    let failed = record.get("step_status").cloned();
    if let Some(shown) = view(&record, wanted) {
        return Some(shown);
    }
    if !errors {
        return None;
    }
    // Shown like a step that succeeded, but with its own status.
    record.insert("step_status".into(), "success".into());
    let mut shown = view(&record, wanted)?;
    shown["stepStatus"] = failed.unwrap_or_default();
    Some(shown)
}

/// The lists of a run, for its summary; `None` when it has none.
pub(super) fn lists(run: &RunState) -> Option<Json> {
    let lists = &run.messages.as_ref()?.lists;
    let one = |(name, list): (&String, &tidemill_common::messages::MessageList)| {
        (name.clone(), Json::Object(summary(name, &list.index)))
    };
    (!lists.is_empty()).then(|| Json::Object(lists.iter().map(one).collect()))
}

fn summary(list: &str, index: &Index) -> JsonMap {
    let shown = json!({
        "conversation_id": list,
        "version": index.version,
        "current_batch": index.batches.len().saturating_sub(1),
        "message_count": index.visible.len(),
        "stored_count": index.count,
        "token_usage": {"current": index.current.to_json(), "lifetime": index.lifetime.to_json()},
    });
    shown.as_object().cloned().unwrap_or_default()
}

async fn check_exists(state: &ApiState, run: RunId) -> Result<(), ApiError> {
    match state.store.run_fields(run).await? {
        Some(_) => Ok(()),
        None => Err(ApiError::not_found("Workflow run not found.")),
    }
}

fn page(params: &Params) -> Result<Page, ApiError> {
    let number = |name: &str, default: usize, least: usize, most: usize| match params.get(name) {
        None => Ok(default),
        Some(text) => {
            let number = text.parse().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| ApiError::invalid_param(format!("{name} must be {least} to {most}")))
        }
    };
    let from = number("from", 0, 0, u32::MAX as usize)?;
    Ok(Page { from, count: number("limit", LIST_DEFAULT, 1, LIST_MAX)? })
}
