//! `GET /v1/conversations/{id}/variables` and `PUT …/variables/{variable}`: the conversation variables that the app's
//! workflow defines, with their stored values.
//!
//! When a client sets a variable during a run, that run keeps the values it got at its start. If it writes the variable
//! later, its value wins. Other runs see the value that was set.

use std::collections::HashMap;

use axum::extract::{Path, State};
use axum::{Extension, Json as JsonBody};
use serde_json::{Value as Json, json};
use tidemill_common::graph::DocumentVariable;
use tidemill_common::store::ConversationChange;
use tidemill_common::value::secrets::Secrets;
use tidemill_common::value::{Segment, SegmentType, infer_type, pyrepr};
use tidemill_common::wire::conversation::{conversation_field, conversation_value};

use super::user_conversation::{UserConversation, gone};
use super::{check_chat, given, limit_in, user_in_or_default, user_or_default};
use crate::api::ApiState;
use crate::api::auth::CallingApp;
use crate::api::error::ApiError;
use crate::api::request::{Body, IdInPath, Params};
use crate::submit::conversation::{fitting, kept_value};
use crate::submit::files;
use crate::submit::uploads::Owner;

/// The longest name in the filter, in characters, as on Dify.
const NAME_CHARS_MAX: usize = 255;
/// What a name in the filter may not contain, in lower case, as on Dify.
const NOT_IN_NAMES: [&str; 3] = ["--", "sp_", "xp_"];

/// Lists the variables of a conversation, in the order of the workflow.
///
/// # Errors
/// 400 for missing or invalid parameters, also for a `last_id` that is not one of its variables; 404 for a conversation that
/// does not exist or belongs to another user.
pub async fn list(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    id: IdInPath,
    params: Params,
) -> Result<JsonBody<Json>, ApiError> {
    check_chat(&app)?;
    let (user, limit) = (user_in_or_default(&params), limit_in(&params)?);
    let name = params.get("variable_name");
    name.map_or(Ok(()), check_name)?;
    let user_conversation = UserConversation::get(&state, &app, user, &id.0).await?;
    let defined = user_conversation.workflow.graph.conversation.iter();
    let defined: Vec<&DocumentVariable> =
        defined.filter(|variable| name.is_none_or(|name| *variable.name == *name)).collect();
    let begin = match given(&params, "last_id") {
        None => 0,
        Some(last) => {
            let place = defined.iter().position(|variable| id_of(variable).eq_ignore_ascii_case(last));
            1 + place
                .ok_or_else(|| ApiError::invalid_param("last_id is not a variable of this conversation"))?
        }
    };
    let mut data = Vec::new();
    for variable in defined.iter().skip(begin).take(limit) {
        let of = &user_conversation.of;
        let kept = kept_value(&*state.store, of.shard, &of.id, variable, &user_conversation.fields).await?;
        let (value, hidden) =
            (kept.as_ref().unwrap_or(&variable.value), &user_conversation.workflow.graph.hidden);
        data.push(to_json(variable, value, hidden, &user_conversation.fields));
    }
    let has_more = defined.len() > begin + limit;
    Ok(JsonBody(json!({"limit": limit, "has_more": has_more, "data": data})))
}

/// Sets a variable of a conversation.
///
/// # Errors
/// 400 for an invalid value, 404 for a conversation that does not exist or belongs to another user, or lacks the
/// variable.
pub async fn set(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    path: Result<Path<(String, String)>, axum::extract::rejection::PathRejection>,
    body: Body,
) -> Result<JsonBody<Json>, ApiError> {
    let Ok(Path((id, variable_id))) = path else { return Err(gone()) };
    let mut map = body.dify_object()?;
    let user = user_or_default(&map);
    check_chat(&app)?;
    let value = map.remove("value").ok_or_else(|| ApiError::invalid_param("value is required"))?;
    let mut user_conversation = UserConversation::get(&state, &app, &user, &id).await?;
    let workflow = user_conversation.workflow.clone();
    let mut defined = workflow.graph.conversation.iter();
    let variable = defined.find(|variable| id_of(variable).eq_ignore_ascii_case(&variable_id));
    let variable = variable.ok_or_else(no_variable)?;
    let owner = Owner { app: Some(&app.id), user: &user };
    state.submitter.check_files(files::runs_of([&value]), owner).await?;
    let segment = fitting(variable, &value).ok_or_else(|| mismatch(variable, &value))?;
    let (size, max) = (value.to_string().len(), state.config.run.variable_bytes_max);
    if size > max {
        let message = format!("variable size {size} exceeds limit {max} (run.variable_bytes_max)");
        return Err(ApiError::invalid_param(message));
    }
    let now = state.store.time().await?;
    let inline_bytes_max = state.config.run.inline_bytes_max;
    let (text, copy) =
        conversation_value(&user_conversation.of.id, &variable.name, segment.clone(), inline_bytes_max);
    let fields =
        vec![(conversation_field(&variable.name), text), (set_field(variable), now.millis().to_string())];
    user_conversation.fields.extend(fields.iter().cloned());
    let conversation = user_conversation.of.clone();
    let change = ConversationChange { conversation, fields, copy: Some(copy), used_at: None };
    if !state.store.change_conversation(&change).await? {
        return Err(gone());
    }
    Ok(JsonBody(to_json(variable, &segment, &workflow.graph.hidden, &user_conversation.fields)))
}

/// The field with the time (ms) when a client set the variable.
fn set_field(variable: &DocumentVariable) -> String {
    format!("t:{}", variable.name)
}

/// The id of a variable in the file, or an id that follows from its name.
fn id_of(variable: &DocumentVariable) -> String {
    if !variable.id.is_empty() {
        return variable.id.clone();
    }
    let name = format!("conversation variable {}", variable.name);
    uuid::Uuid::new_v5(&uuid::Uuid::NAMESPACE_OID, name.as_bytes()).to_string()
}

fn to_json(
    variable: &DocumentVariable,
    value: &Segment,
    hidden: &Secrets,
    fields: &HashMap<String, String>,
) -> Json {
    let ms = |name: &str| fields.get(name).and_then(|at| at.parse::<i64>().ok());
    let began = ms("created_at");
    // The time of a run's write is not stored: it is the time of the last message or earlier.
    let is_kept = fields.contains_key(&conversation_field(&variable.name));
    let written = if is_kept { ms("updated_at").max(ms(&set_field(variable))) } else { began };
    json!({
        "id": id_of(variable),
        "name": variable.name,
        "value_type": variable.value.ty.exposed_name(),
        // As text, in Python's notation, as on Dify.
        "value": hidden.masked(pyrepr::str_of(&value.value).into_owned()),
        "description": variable.description,
        "created_at": began.map(|ms| ms / 1000),
        "updated_at": written.map(|ms| ms / 1000),
    })
}

fn no_variable() -> ApiError {
    ApiError::not_found("Conversation Variable Not Exists.")
}

fn mismatch(variable: &DocumentVariable, value: &Json) -> ApiError {
    let expected = match variable.value.ty {
        SegmentType::Integer => "number",
        other => other.name(),
    };
    let (name, got) = (&variable.name, infer_type(value));
    ApiError::bad_request(format!("Type mismatch: variable '{name}' expects {expected}, but got {got} type"))
}

/// Checks a name to filter by, as Dify does.
fn check_name(name: &str) -> Result<(), ApiError> {
    let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !name.chars().all(fits) {
        let message = format!(
            "variable_name must have 1 to {NAME_CHARS_MAX} letters, numbers, hyphens (-), underscores (_) and periods (.)"
        );
        return Err(ApiError::invalid_param(message));
    }
    let lower = name.to_lowercase();
    match NOT_IN_NAMES.iter().find(|part| lower.contains(**part)) {
        Some(part) => Err(ApiError::invalid_param(format!("variable_name may not contain {part}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_filter_are_refused_as_on_dify() {
        for (name, is_taken) in [
            ("mood", true),
            ("a-b_c.1", true),
            ("Größe", true),
            ("", false),
            ("a'b", false),
            ("a--b", false),
            ("sp_who", false),
            ("wasp_xp", false),
            ("XP_cmd", false),
            (&"x".repeat(NAME_CHARS_MAX + 1), false),
        ] {
            assert_eq!(check_name(name).is_ok(), is_taken, "{name}");
        }
    }
}
