//! Parses `data` of an `llm` node in its profile form into [`ProfileData`], or reports all its problems.

use serde_json::Value as Json;

use super::super::blocks::{INVALID, present};
use super::super::{ReasoningFormat, Role};
use super::{Calling, Conversation, INCOMPLETE, ProfileData, tools};
use crate::dsl::Problems;
use crate::dsl::fields::Fields;
use crate::messages::{LIST_NAME_BYTES_MAX, MAIN, is_list_name};
use tidemill_base::limits::{PROMPT_LEVELS_MAX, TOOL_CALLS_MAX};
use tidemill_base::value::names::{NamedText, Names};
use tidemill_base::value::{JsonMap, Selector, merged};

/// True when an `llm` node uses this form: it names a profile, or has the prompt of this form and no key of another
/// form.
pub fn is_form_of(data: &JsonMap) -> bool {
    let others = ["model", "prompt_template", "system_prompt", "user_prompt"];
    present(data, "profile_id").is_some()
        || present(data, "prompt").is_some() && others.iter().all(|key| present(data, key).is_none())
}

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<ProfileData> {
    let fields = Fields::new(data, INVALID);
    let text = |key: &str| match fields.given(key) {
        Some(Json::String(text)) => Some(text.as_str()),
        Some(_) | None => None,
    };
    let named = text("profile_id").map(str::trim).filter(|id| !id.is_empty());
    let said = text("prompt").filter(|prompt| !prompt.trim().is_empty());
    let (Some(profile_id), Some(prompt)) = (named, said) else {
        problems.error(INVALID, INCOMPLETE);
        return None;
    };
    // All parts are read before any `?`, so that all mistakes are reported at once.
    let prompt = prompt_of(prompt, &fields, problems);
    let own = own_names(&fields, problems);
    let (model, under) = model(&fields, problems);
    let parameters = object(&fields, "parameters", problems);
    let stream = flag(&fields, "stream", false, problems);
    let reasoning = fields
        .given("reasoning_format")
        .map_or(Some("tagged"), |_| fields.one_of("reasoning_format", &["tagged", "separated"], problems));
    let tools = problems.within("tools", |problems| tools::parse(fields.given("tools"), problems));
    let calling = calling(&fields, problems);
    let conversation = conversation(&fields, problems);
    let emits_context = flag(&fields, "emit_context", false, problems);
    Some(ProfileData {
        profile_id: profile_id.to_owned(),
        prompt: prompt?,
        names: Names { own: own?, ..Names::default() },
        model: model?,
        parameters: merged(&under?, &parameters?),
        stream: stream?,
        reasoning: match reasoning? {
            "separated" => ReasoningFormat::Separated,
            _ => ReasoningFormat::Tagged,
        },
        tools: tools?,
        calling: calling?,
        conversation: conversation?,
        emits_context: emits_context?,
    })
}

fn prompt_of(prompt: &str, fields: &Fields<'_>, problems: &mut Problems) -> Option<NamedText> {
    let levels = whole(fields, "prompt_levels_max", PROMPT_LEVELS_MAX as u32, problems)?;
    let parsed = NamedText::parse(prompt, levels as usize);
    let parsed = parsed.map_err(|error| {
        let message = format!("PromptNestingTooDeep: {error} (prompt_levels_max)");
        problems.within("prompt", |problems| problems.error("llm.prompt_nesting", message));
    });
    parsed.ok()
}

/// `inputs`: a mapping of names to selectors, or a list of `{name, value_selector}`.
fn own_names(fields: &Fields<'_>, problems: &mut Problems) -> Option<Vec<(String, Selector)>> {
    let selector = |value: &Json| -> Option<Selector> {
        let parts = value.as_array()?.iter().map(|part| part.as_str().map(str::to_owned));
        parts.collect::<Option<Selector>>().filter(|parts| parts.len() > 1)
    };
    let text = |map: &JsonMap, keys: [&str; 2]| {
        keys.iter().find_map(|key| map.get(*key)?.as_str()).map(str::to_owned)
    };
    let read = match fields.given("inputs") {
        None => Some(Vec::new()),
        Some(Json::Object(map)) => {
            map.iter().map(|(name, value)| Some((name.clone(), selector(value)?))).collect()
        }
        Some(Json::Array(items)) => items
            .iter()
            .map(|item| {
                let map = item.as_object()?;
                let value = map.get("value_selector").or_else(|| map.get("value"))?;
                Some((text(map, ["name", "variable"])?, selector(value)?))
            })
            .collect(),
        Some(_) => None,
    };
    if read.is_none() {
        fields.wrong("inputs", "a mapping of names to selectors such as [start, name]", problems);
    }
    read
}

/// Another model and its parameters; they override the profile's.
fn model(fields: &Fields<'_>, problems: &mut Problems) -> (Option<Option<String>>, Option<JsonMap>) {
    match fields.given("model") {
        None => (Some(None), Some(JsonMap::new())),
        Some(Json::Object(map)) => problems.within("model", |problems| {
            let inner = Fields::new(map, INVALID);
            let name = match inner.given("name") {
                Some(_) => inner.text("name", problems).map(|name| Some(name.to_owned())),
                None => Some(None),
            };
            (
                name.map(|name| name.filter(|name| !name.is_empty())),
                object(&inner, "completion_params", problems),
            )
        }),
        Some(_) => {
            fields.wrong("model", "a mapping with name and completion_params", problems);
            (None, None)
        }
    }
}

fn object(fields: &Fields<'_>, key: &str, problems: &mut Problems) -> Option<JsonMap> {
    match fields.given(key) {
        None => Some(JsonMap::new()),
        Some(Json::Object(map)) => Some(map.clone()),
        Some(_) => {
            fields.wrong(key, "a mapping", problems);
            None
        }
    }
}

fn calling(fields: &Fields<'_>, problems: &mut Problems) -> Option<Calling> {
    let calls_max = whole(fields, "max_tool_calls_per_request", TOOL_CALLS_MAX, problems);
    let rounds_max = whole(fields, "max_tool_rounds", 0, problems);
    let is_parallel = flag(fields, "parallel_tool_calls", false, problems);
    let on_error = match fields.given("on_tool_error") {
        None => Some("continue"),
        Some(_) => fields.one_of("on_tool_error", &["continue", "fail"], problems),
    };
    let is_single = match fields.given("tool_choice_mode") {
        None => Some(false),
        Some(_) => fields
            .one_of("tool_choice_mode", &["single_round", "multi_round"], problems)
            .map(|mode| mode == "single_round"),
    };
    let rounds_max = if is_single? { 0 } else { rounds_max? };
    Some(Calling { calls_max: calls_max?, rounds_max, is_parallel: is_parallel?, fails: on_error? == "fail" })
}

fn conversation(fields: &Fields<'_>, problems: &mut Problems) -> Option<Option<Conversation>> {
    let output_as = match fields.given("output_as") {
        None => Some(Role::Assistant),
        Some(_) => fields.one_of("output_as", &["assistant", "user"], problems).map(|role| match role {
            "user" => Role::User,
            _ => Role::Assistant,
        }),
    };
    let (enabled, id) = match fields.given("conversation") {
        None => (Some(true), Some(MAIN)),
        Some(Json::Bool(enabled)) => (Some(*enabled), Some(MAIN)),
        Some(Json::Object(map)) => problems.within("conversation", |problems| {
            let inner = Fields::new(map, INVALID);
            let id = inner.given("id").map_or(Some(MAIN), |_| inner.text("id", problems));
            (flag(&inner, "enabled", true, problems), id.map(|id| if id.is_empty() { MAIN } else { id }))
        }),
        Some(_) => {
            fields.wrong("conversation", "a mapping with enabled and id", problems);
            (None, None)
        }
    };
    if id.is_some_and(|id| !is_list_name(id)) {
        let message = format!(
            "a list of messages is named with letters, digits, - and _ (at most {LIST_NAME_BYTES_MAX})"
        );
        problems.within("conversation", |problems| problems.error(INVALID, message));
        return None;
    }
    let conversation = Conversation { id: id?.to_owned(), output_as: output_as? };
    Some(enabled?.then_some(conversation))
}

fn flag(fields: &Fields<'_>, key: &str, default: bool, problems: &mut Problems) -> Option<bool> {
    fields.given(key).map_or(Some(default), |_| fields.boolean(key, default, problems))
}

fn whole(fields: &Fields<'_>, key: &str, default: u32, problems: &mut Problems) -> Option<u32> {
    let number = fields
        .given(key)
        .map_or(Some(i64::from(default)), |_| fields.integer(key, i64::from(default), 0, problems));
    number.map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}
