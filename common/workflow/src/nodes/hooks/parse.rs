//! Parses the `hooks` field of a node. Other spellings were rewritten before ([`crate::dsl::normal_form`]).

use serde_json::Value as Json;

use super::expression::{Condition, Payload};
use super::{Hook, HookType, Hooks};
use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use tidemill_base::value::JsonMap;

/// The field of `data`.
const FIELD: &str = "hooks";

impl Hooks {
    /// Reads the hooks of a node and reports problems. Disabled hooks are left out.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Self {
        let items = match data.get(FIELD) {
            None | Some(Json::Null) => return Self::default(),
            Some(Json::Array(items)) => items,
            Some(_) => {
                Fields::new(data, BUILD_FAILED).wrong(FIELD, "a list of hooks", problems);
                return Self::default();
            }
        };
        problems.within(FIELD, |problems| {
            let read = |(place, item): (usize, &Json)| {
                problems.within(format!("[{place}]"), |problems| hook(place, item, problems))
            };
            Self(items.iter().enumerate().filter_map(read).collect())
        })
    }
}

fn hook(place: usize, item: &Json, problems: &mut Problems) -> Option<Hook> {
    let Some(map) = item.as_object() else {
        problems.error(BUILD_FAILED, "a hook must be a mapping");
        return None;
    };
    let fields = Fields::new(map, BUILD_FAILED);
    let hook_type = fields.one_of("hook_type", &["before_execute", "after_execute"], problems);
    let event_name = fields.text("event_name", problems);
    let enabled = fields.boolean("enabled", true, problems);
    let create_checkpoint = fields.boolean("create_checkpoint", false, problems);
    let continue_on_error = fields.boolean("continue_on_error", false, problems);
    let weight = fields.integer("weight", 0, i64::MIN, problems);
    let condition = condition(map, problems);
    let payload = Payload::parse(map.get("event_payload").unwrap_or(&Json::Null));
    let payload = payload.map_err(|error| {
        problems.within("event_payload", |problems| problems.error(BUILD_FAILED, error));
    });
    let hook = Hook {
        hook_type: if hook_type? == HookType::Before.name() { HookType::Before } else { HookType::After },
        place,
        condition: condition?,
        event_name: event_name?.to_string(),
        payload: payload.ok()?,
        weight: weight?,
        create_checkpoint: create_checkpoint?,
        continue_on_error: continue_on_error?,
    };
    enabled?.then_some(hook)
}

/// Reads a text, or `{expression: text}`. Returns `None` after reporting a problem.
fn condition(map: &JsonMap, problems: &mut Problems) -> Option<Option<Condition>> {
    let given = match map.get("condition") {
        None | Some(Json::Null) => return Some(None),
        Some(Json::Bool(value)) => {
            if *value {
                "true"
            } else {
                "false"
            }
        }
        Some(Json::String(text)) => text.as_str(),
        Some(Json::Object(object)) => object.get("expression").and_then(Json::as_str).unwrap_or_default(),
        Some(_) => "",
    };
    let parsed = if given.trim().is_empty() {
        Err("`condition` must be an expression, or a mapping with one".to_string())
    } else {
        Condition::parse(given).map_err(|error| format!("`condition` cannot be read: {error}"))
    };
    parsed
        .map(Some)
        .map_err(|error| problems.within("condition", |problems| problems.error(BUILD_FAILED, error)))
        .ok()
}
