//! `POST /v1/completion-messages`, blocking and streaming, and its stop: one answer of an app of mode `completion`. The app
//! runs as a workflow. Its message is the only one of a conversation that no route shows, so that it can be rated.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use axum::{Extension, Json as JsonBody};
use serde_json::Value as Json;
use tidemill_common::graph::Graph;
use tidemill_common::value::JsonMap;

use super::answer::{Mode, StartOutcome, begin};
use super::{chat, check_completion, stop, take_files, user_of};
use crate::api::ApiState;
use crate::api::auth::{CallingApp, CallingKey};
use crate::api::durability;
use crate::api::error::ApiError;
use crate::api::native::submit::idempotency;
use crate::api::request::{Body, IdInPath, take_object, take_text};
use crate::submit::{Submission, SystemValues, WorkflowSource};

/// The field of the request, and of the form that takes it.
const QUERY: &str = "query";

/// Answers a form. The run continues when the client leaves.
///
/// # Errors
/// Dify's 400s, the errors of [`crate::submit::SubmitError`], and for a blocking request the failure of its run.
pub async fn send(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let mut map = body.dify_object()?;
    let user = user_of(&map)?;
    check_completion(&app)?;
    let inputs = take_object(&mut map, "inputs")?;
    let query = take_text(&mut map, QUERY)?.unwrap_or_default();
    let mode = Mode::of(take_text(&mut map, "response_mode")?.as_deref())?;
    let inputs = inputs.ok_or_else(|| ApiError::invalid_param("inputs is required"))?;
    let workflow = state.workflows.of_document(&app.version, &app.document)?;
    let submission = Submission {
        files: take_files(&mut map)?,
        conversation_id: Some(String::new()),
        is_nameless: true,
        key: Some(key),
        user,
        durability: durability::of_header(&headers)?,
        idempotency: idempotency(&headers, &format!("app {}", app.id), &body)?,
        ..Submission::of(
            WorkflowSource::App(app.clone()),
            SystemValues::Standard,
            with_query(&workflow.graph, inputs, &query)?,
        )
    };
    match begin(&state, &app, mode, submission).await? {
        StartOutcome::Answered(response) => Ok(response),
        // A converted app has no node that waits for a person, so a pause is one by command.
        StartOutcome::Paused(record, _) | StartOutcome::Waited(record) => {
            chat::result(&state, &app, record).await
        }
    }
}

/// `POST /v1/completion-messages/{id}/stop`: only the user who asked can stop a run. Others get the same answer, as on Dify.
///
/// # Errors
/// 400 without a user, and for an app of another mode.
pub async fn stop(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
    headers: HeaderMap,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let user = user_of(&body.dify_object()?)?;
    check_completion(&app)?;
    stop::message(&state, &app, &id, &user, &headers).await
}

/// The inputs with the query of the request, for the field or the prompt that takes it.
///
/// # Errors
/// The app has no place for it: without it the answer would be another one.
fn with_query(graph: &Graph, mut inputs: JsonMap, query: &str) -> Result<JsonMap, ApiError> {
    if query.is_empty() || inputs.contains_key(QUERY) {
        return Ok(inputs);
    }
    let has_field = graph.node(graph.root).data.form_fields().iter().any(|field| &*field.variable == QUERY);
    let in_prompt = graph.nodes.iter().any(|node| {
        node.mentions.iter().any(|(of, name)| (of == "sys" && name == QUERY) || name == "sys.query")
    });
    if !has_field && !in_prompt {
        let message =
            "this app takes no `query`: its form has no field of this name; send the text in `inputs`";
        return Err(ApiError::not_supported(message));
    }
    inputs.insert(QUERY.into(), query.replace('\0', "").into());
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidemill_common::graph::import;

    fn graph(prompt: &str, form: &str) -> Graph {
        let text = format!(
            "kind: app\nversion: 0.1.5\napp: {{mode: completion, name: x}}\nmodel_config:\n  model: {{provider: p, name: m, mode: chat, completion_params: {{}}}}\n  pre_prompt: '{prompt}'\n  user_input_form: [{form}]\n"
        );
        import(text.as_bytes()).graph.expect("a completion app")
    }

    #[test]
    fn a_query_goes_to_the_field_or_the_prompt_that_takes_it_and_is_refused_without_one() {
        let field = "{paragraph: {variable: query, label: Query, required: true}}";
        for (graph, inputs, query, expected) in [
            (graph("Say {{query}}", field), json!({}), "hi", Some(json!({"query": "hi"}))),
            (graph("Say {{query}}", field), json!({"query": "mine"}), "hi", Some(json!({"query": "mine"}))),
            (graph("Say {{#query#}}", ""), json!({}), "hi", Some(json!({"query": "hi"}))),
            (graph("Say so", ""), json!({"a": 1}), "", Some(json!({"a": 1}))),
            (graph("Say so", ""), json!({}), "hi", None),
        ] {
            let given = inputs.as_object().cloned().expect("inputs");
            let found = with_query(&graph, given, query).map(Json::Object).ok();
            assert_eq!(found, expected, "{query:?} {inputs}");
        }
    }
}
