//! Dify's service API, `/v1`: one file per resource. A key gives access to one app; runs of other apps are not found.

pub mod annotations;
mod answer;
pub mod app_feedbacks;
pub mod audio;
pub mod chat;
pub mod completion;
pub mod conversations;
pub mod datasets;
pub mod detail;
pub mod end_users;
pub(super) mod event_ids;
pub mod events;
pub mod feedback;
pub mod files;
pub mod form;
pub mod index;
pub mod info;
mod judged;
pub mod logs;
mod message_fields;
mod message_files;
pub mod messages;
mod parameters;
mod replay;
pub mod run;
mod snapshot;
mod spoken;
pub mod stop;
mod stream;
pub mod suggested;
mod user_conversation;
pub mod variables;
mod versions;
pub(super) mod words;

use std::sync::Arc;

use axum::http::StatusCode;
use serde_json::Value as Json;
use tidemill_common::graph::{AppMode, Graph, GraphHash, SimpleMode};
use tidemill_common::ids::RunId;
use tidemill_common::store::App;
use tidemill_common::value::{JsonMap, pyrepr};
use tidemill_common::wire;

use super::ApiState;
use super::error::ApiError;
use super::request::{Params, take_list};
use crate::runs::file_links::{FileLinks, OwnerOfRun};
use crate::runs::projection::{ChatFacts, FormsOfRun, RunFacts, Totals};
use crate::runs::record::RunRecord;
use crate::runs::render::Renderer;

const NO_USER: &str = "Arg user must be provided.";
/// The default number of items in a page, as on Dify.
const PAGE: usize = 20;
/// The most items in a page, as on Dify.
const PAGE_MAX: usize = 100;

/// Dify's name for the user of a request that names none.
const DEFAULT_USER: &str = "DEFAULT-USER";

/// The `user` in a body, which must be there.
fn user_of(body: &JsonMap) -> Result<String, ApiError> {
    given_user(body).ok_or_else(|| ApiError::invalid_param(NO_USER))
}

/// The `user` in a body, or Dify's default.
fn user_or_default(body: &JsonMap) -> String {
    given_user(body).unwrap_or_else(|| DEFAULT_USER.to_string())
}

/// The `user` in a body as text, as Python writes it. Values that Python takes for false name no user.
fn given_user(body: &JsonMap) -> Option<String> {
    let user = body.get("user")?;
    let is_false = match user {
        Json::Null | Json::Bool(false) => true,
        Json::Bool(true) => false,
        Json::Number(number) => number.as_f64() == Some(0.0),
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
    };
    (!is_false).then(|| pyrepr::str_of(user).into_owned())
}

/// A parameter, or `None` when it is empty.
fn given<'a>(params: &'a Params, name: &str) -> Option<&'a str> {
    params.get(name).filter(|text| !text.is_empty())
}

/// The `user` in a query, or Dify's default.
fn user_in_or_default(params: &Params) -> &str {
    given(params, "user").unwrap_or(DEFAULT_USER)
}

/// The `user` in a query, which must be there.
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

/// A number of at least 1 in a query.
fn number_in(params: &Params, name: &str, default: usize, max: usize) -> Result<usize, ApiError> {
    match given(params, name).map(str::parse::<usize>) {
        None => Ok(default),
        Some(Ok(number)) if (1..=max).contains(&number) => Ok(number),
        Some(_) if max == usize::MAX => Err(ApiError::invalid_param(format!("{name} must be 1 or more"))),
        Some(_) => Err(ApiError::invalid_param(format!("{name} must be from 1 to {max}"))),
    }
}

/// True for a query's `true` in any case, as where Dify reads the parameter itself.
fn says_true(text: &str) -> bool {
    text.eq_ignore_ascii_case("true")
}

/// Takes a Boolean out of a body.
fn truth(body: &mut JsonMap, key: &str, default: bool) -> Result<bool, ApiError> {
    match body.remove(key) {
        None | Some(Json::Null) => Ok(default),
        Some(given) => {
            let wrong = || ApiError::invalid_param(format!("{key} must be true or false"));
            as_truth(&given).ok_or_else(wrong)
        }
    }
}

/// The Boolean that Dify's models of requests (pydantic) read from a value; `None` when they refuse it.
fn as_truth(value: &Json) -> Option<bool> {
    match value {
        Json::Bool(given) => Some(*given),
        Json::Number(number) if number.as_f64() == Some(1.0) => Some(true),
        Json::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Json::String(text) => match text.to_ascii_lowercase().as_str() {
            "1" | "on" | "t" | "true" | "y" | "yes" => Some(true),
            "0" | "off" | "f" | "false" | "n" | "no" => Some(false),
            _ => None,
        },
        Json::Null | Json::Number(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Takes the files of a request out of its body.
fn take_files(body: &mut JsonMap) -> Result<Vec<Json>, ApiError> {
    let files = take_list(body, "files")?;
    if files.iter().all(Json::is_object) {
        return Ok(files);
    }
    Err(ApiError::invalid_param("files must be a list of objects"))
}

/// The error for a parameter that should be a UUID.
fn check_uuid(name: &str, given: &str) -> Result<(), ApiError> {
    match uuid::Uuid::try_parse(given) {
        Ok(_) => Ok(()),
        Err(_) => Err(ApiError::invalid_param(format!("{name} must be a valid UUID"))),
    }
}

/// Refuses apps that are no completions.
fn check_completion(app: &App) -> Result<(), ApiError> {
    if app.mode == SimpleMode::Completion.name() {
        return Ok(());
    }
    Err(app_unavailable())
}

/// The error for an app that cannot answer, or accepts no runs.
fn app_unavailable() -> ApiError {
    let message = "App unavailable, please check your app configurations.";
    ApiError::new(StatusCode::BAD_REQUEST, "app_unavailable", message)
}

/// Refuses apps that are not workflows: chats and completions have their own routes.
fn check_mode(app: &App) -> Result<(), ApiError> {
    if app.mode == AppMode::Workflow.name() {
        return Ok(());
    }
    let message = "Please check if your app mode matches the right API route.";
    Err(ApiError::new(StatusCode::BAD_REQUEST, "not_workflow_app", message))
}

/// Refuses apps that had no workflow in Dify: their runs are messages.
fn check_has_workflow(app: &App) -> Result<(), ApiError> {
    if app.mode == AppMode::Chat.name() {
        return Ok(());
    }
    check_mode(app)
}

/// Refuses apps that are not chats.
fn check_chat(app: &App) -> Result<(), ApiError> {
    let chats = [AppMode::Chat.name(), SimpleMode::Chat.name(), SimpleMode::AgentChat.name()];
    if chats.contains(&app.mode.as_str()) {
        return Ok(());
    }
    let message = "Please check if your app mode matches the right API route.";
    Err(ApiError::new(StatusCode::BAD_REQUEST, "not_chat_app", message))
}

/// A run, or `None` when it does not exist, belongs to another app, or its conversation was removed.
async fn find(state: &ApiState, app: &App, id: RunId) -> Result<Option<RunRecord>, ApiError> {
    Ok(find_any(state, app, id).await?.filter(|record| !record.is_removed))
}

/// Like [`find`], also when its conversation was removed: for the request that started the run, and to stop it.
async fn find_any(state: &ApiState, app: &App, id: RunId) -> Result<Option<RunRecord>, ApiError> {
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
    let tokens = state.forms.tokens(&*state.store).await?;
    let simple = render.graph().front.mode;
    let is_message = record.mode == AppMode::Chat.name() || simple == Some(SimpleMode::Completion);
    let chat = record.conversation_id.clone().filter(|_| is_message);
    Ok(RunFacts {
        chat: chat.map(|conversation_id| ChatFacts { conversation_id, simple }),
        id: record.id.to_string(),
        workflow_id: record.workflow_id(),
        user: record.user.clone(),
        answered_by: record.answered_by,
        end_user_id: record.end_user_id(),
        inputs,
        created_at: record.created_at.seconds(),
        links: Some(FileLinks::new(tokens.clone(), &state.config.uploads).shown_to(owner_of(record))),
        forms: Some(FormsOfRun { run: record.id, tokens }),
    })
}

/// Whose the files of a run are.
fn owner_of(record: &RunRecord) -> OwnerOfRun<'_> {
    OwnerOfRun { app: record.app.as_deref().unwrap_or_default(), user: &record.user }
}

/// Signs URLs of uploads; with [`FileLinks::shown_to`] also of files of runs.
async fn links(state: &ApiState) -> Result<FileLinks, ApiError> {
    Ok(FileLinks::new(state.forms.tokens(&*state.store).await?, &state.config.uploads))
}

/// The counts of a waiting run, from its state: its record has none before its end.
async fn totals_so_far(state: &ApiState, id: RunId, graph: &Arc<Graph>) -> Result<Totals, ApiError> {
    let Some(at_rest) = state.store.run_at_rest(id).await? else { return Ok(Totals::default()) };
    Ok(Totals::of_state(&wire::state::load(id, graph.clone(), at_rest)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(value: Json) -> JsonMap {
        JsonMap::from_iter([("user".to_string(), value)])
    }

    #[test]
    fn a_user_is_the_text_that_python_writes() {
        for (value, user) in [
            (json!("ann"), Some("ann")),
            (json!(42), Some("42")),
            (json!(-1.5), Some("-1.5")),
            (json!(2.0), Some("2.0")),
            (json!(true), Some("True")),
            (json!(["a"]), Some("['a']")),
            (json!(""), None),
            (json!(0), None),
            (json!(0.0), None),
            (json!(false), None),
            (json!(null), None),
            (json!([]), None),
        ] {
            assert_eq!(user_of(&body(value.clone())).ok().as_deref(), user, "{value}");
            assert_eq!(user_or_default(&body(value.clone())), user.unwrap_or("DEFAULT-USER"), "{value}");
        }
        assert_eq!(user_or_default(&JsonMap::new()), "DEFAULT-USER");
    }

    #[test]
    fn files_are_a_list_of_objects() {
        for (files, count) in [
            (json!(null), Some(0)),
            (json!([]), Some(0)),
            (json!([{}, {"type": "image"}]), Some(2)),
            (json!([{}, "https://h/a.png"]), None),
            (json!([null]), None),
            (json!({}), None),
        ] {
            let mut body = JsonMap::from_iter([("files".to_string(), files.clone())]);
            assert_eq!(take_files(&mut body).ok().map(|files| files.len()), count, "{files}");
        }
    }

    #[test]
    fn booleans_are_read_as_difys_models_read_them() {
        for (values, read) in [
            (json!([true, 1, 1.0, "1", "true", "True", "TRUE", "on", "t", "y", "Yes"]), Some(true)),
            (json!([false, 0, 0.0, "0", "false", "False", "off", "f", "N", "no"]), Some(false)),
            (json!([2, -1, 0.5, "", "2", "truth", " true", [], {}]), None),
        ] {
            for value in values.as_array().into_iter().flatten() {
                assert_eq!(as_truth(value), read, "{value}");
            }
        }
        assert!(says_true("True") && says_true("true") && !says_true("1") && !says_true(""));
    }
}
