//! Parses the configuration of a `user-interaction` node; other spellings were rewritten before.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::on_answer::{AddMessage, Expression, OnAnswer, Scope, SetVariable};
use super::{AnswerOption, ByModel, InteractionType, UserInteractionData};
use crate::dsl::Problems;
use crate::dsl::fields::{BUILD_FAILED, Fields};
use crate::nodes::pause::input::check_input;
use crate::nodes::{OnTimeout, PauseKind, PauseRequest};
use tidemill_base::value::JsonMap;
use tidemill_base::value::template::Template;

const DEFAULT_PROFILE: &str = "default";

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<UserInteractionData> {
    let before = problems.error_count();
    let fields = Fields::new(data, BUILD_FAILED);
    let names = InteractionType::ALL.map(InteractionType::name);
    let interaction =
        fields.one_of("interaction_type", &names, problems).and_then(InteractionType::from_name);
    let prompt = fields.given("show_message").and_then(|_| fields.text("show_message", problems));
    let timeout_ms = match fields.given("timeout_ms") {
        Some(_) => fields.integer("timeout_ms", 0, 0, problems).unwrap_or_default().unsigned_abs(),
        None => 0,
    };
    let parsed = UserInteractionData {
        interaction: interaction.unwrap_or(InteractionType::Message),
        prompt: prompt.map(Template::parse),
        preset: fields.given("user_input").map(Expression::parse),
        schema: schema(&fields, problems),
        options: options(&fields, problems),
        require_ack: truth(&fields, "require_ack", problems),
        timeout_ms,
        on_timeout: on_timeout(&fields, problems),
        defaults: fields.given("defaults").cloned().unwrap_or_default(),
        on_answer: on_answer(&fields, problems),
        by_model: by_model(&fields, problems),
    };
    if problems.error_count() == before {
        defaults_fit(&parsed, problems);
    }
    (problems.error_count() == before).then_some(parsed)
}

fn truth(fields: &Fields<'_>, key: &str, problems: &mut Problems) -> bool {
    fields.given(key).is_some() && fields.boolean(key, false, problems).unwrap_or(false)
}

fn error(key: &str, message: impl Into<String>, problems: &mut Problems) {
    problems.within(key, |problems| problems.error(BUILD_FAILED, message));
}

/// An object, or its JSON text.
fn schema(fields: &Fields<'_>, problems: &mut Problems) -> Json {
    let Some(given) = fields.given("input_schema") else { return Json::Null };
    let read = match given {
        Json::String(text) => serde_json::from_str(text).unwrap_or_default(),
        other => other.clone(),
    };
    if !read.is_object() {
        fields.wrong("input_schema", "a JSON schema: an object", problems);
        return Json::Null;
    }
    if let Err(wrong) = jsonschema::draft7::options().offline().build(&read) {
        error("input_schema", format!("`input_schema` is not a JSON schema: {wrong}"), problems);
    }
    read
}

fn options(fields: &Fields<'_>, problems: &mut Problems) -> Vec<AnswerOption> {
    if fields.given("options").is_none() {
        return Vec::new();
    }
    let (mut found, mut ids) = (Vec::new(), HashSet::new());
    for (at, item) in fields.list("options", problems).into_iter().flatten().enumerate() {
        let of = |key: &str| item.get(key).and_then(Json::as_str);
        let id = item.as_str().or_else(|| of("id")).filter(|id| !id.is_empty());
        let place = format!("options[{at}]");
        match id {
            Some(id) if ids.insert(id) => {
                found.push(AnswerOption { id: id.into(), label: of("label").unwrap_or(id).into() });
            }
            Some(id) => error(&place, format!("the option {id:?} appears twice"), problems),
            None => error(&place, "an option is a text, or a mapping with `id` and `label`", problems),
        }
    }
    found
}

fn on_timeout(fields: &Fields<'_>, problems: &mut Problems) -> OnTimeout {
    let words = OnTimeout::ALL.map(OnTimeout::name);
    let given = fields.given("on_timeout").and_then(|_| fields.one_of("on_timeout", &words, problems));
    given.and_then(OnTimeout::from_name).unwrap_or_default()
}

/// The answer on timeout must be valid.
fn defaults_fit(data: &UserInteractionData, problems: &mut Problems) {
    if data.on_timeout != OnTimeout::Default {
        return;
    }
    let request = PauseRequest::asking(PauseKind::UserInteraction, "", data.answer_schema());
    if let Err(wrong) = check_input(&request, data.defaults.clone()) {
        error(
            "defaults",
            format!("`on_timeout: default` needs a valid answer in `defaults`: {wrong}"),
            problems,
        );
    }
}

fn by_model(fields: &Fields<'_>, problems: &mut Problems) -> Option<Box<ByModel>> {
    let given =
        fields.given("execution").and_then(|_| fields.one_of("execution", &["pause", "llm"], problems));
    if given != Some("llm") {
        return None;
    }
    let profile = fields.given("profile_id").and_then(|_| fields.text("profile_id", problems));
    let parameters = fields.given("parameters").map(|given| {
        let map = given.as_object().cloned();
        if map.is_none() {
            fields.wrong("parameters", "a mapping", problems);
        }
        map.unwrap_or_default()
    });
    let profile = profile.unwrap_or(DEFAULT_PROFILE).to_string();
    Some(Box::new(ByModel { profile, parameters: parameters.unwrap_or_default() }))
}

fn on_answer(fields: &Fields<'_>, problems: &mut Problems) -> OnAnswer {
    let Some(given) = fields.given("on_answer") else { return OnAnswer::default() };
    let Some(map) = given.as_object() else {
        fields.wrong("on_answer", "a mapping with update_variables, add_message or both", problems);
        return OnAnswer::default();
    };
    problems.within("on_answer", |problems| {
        let fields = Fields::new(map, BUILD_FAILED);
        let known = ["update_variables", "add_message"];
        if let Some(other) = map.keys().find(|key| !known.contains(&key.as_str())) {
            error(other, format!("Unknown operation type: {other}"), problems);
        }
        OnAnswer {
            variables: map.get("update_variables").map(|_| variables(&fields, problems)),
            message: map.get("add_message").map(|_| message(&fields, problems)),
        }
    })
}

fn variables(fields: &Fields<'_>, problems: &mut Problems) -> Vec<SetVariable> {
    let list = fields.given("update_variables").and_then(|_| fields.list("update_variables", problems));
    if list.is_none_or(Vec::is_empty) {
        error("update_variables", "No variables defined for UPDATE_VARIABLES operation", problems);
    }
    let one = |(at, item): (usize, &Json)| {
        problems.within(format!("update_variables[{at}]"), |problems| {
            let empty = JsonMap::new();
            let fields = Fields::new(item.as_object().unwrap_or(&empty), BUILD_FAILED);
            let name = fields.text("name", problems)?;
            let scopes = Scope::ALL.map(Scope::name);
            let scope = match fields.given("scope") {
                Some(_) => Scope::from_name(fields.one_of("scope", &scopes, problems)?)?,
                None => Scope::Thread,
            };
            let expression = fields.given("expression").map_or_else(Expression::input, Expression::parse);
            Some(SetVariable { name: name.to_string(), expression, scope })
        })
    };
    list.into_iter().flatten().enumerate().filter_map(one).collect()
}

fn message(fields: &Fields<'_>, problems: &mut Problems) -> Option<AddMessage> {
    let Some(map) = fields.given("add_message").and_then(Json::as_object) else {
        error("add_message", "No message defined for ADD_MESSAGE operation", problems);
        return None;
    };
    problems.within("add_message", |problems| {
        let fields = Fields::new(map, BUILD_FAILED);
        let roles = ["user", "assistant", "system"];
        let role = match fields.given("role") {
            Some(_) => fields.one_of("role", &roles, problems)?,
            None => "user",
        };
        let content = fields.text("content", problems)?;
        let list = fields.given("conversation_id").and_then(|_| fields.text("conversation_id", problems));
        Some(AddMessage {
            role: role.to_string(),
            content: Expression::of_text(content),
            list: list.unwrap_or("main").to_string(),
        })
    })
}
