//! Parses `data` of an `llm` node into [`LlmData`], or reports all its problems.

use serde_json::Value as Json;

use super::blocks::{INVALID, memory, model, optional_text, present, selector, vision};
use super::{
    JinjaVariable, LlmData, MessageTemplate, PromptTemplate, ReasoningFormat, Role, TextTemplate,
    conversation,
};
use crate::dsl::Problems;
use tidemill_base::value::{JsonMap, Selector};

pub(super) fn parse(data: &JsonMap, problems: &mut Problems) -> Option<LlmData> {
    // All parts are read before any `?`, so that all mistakes are reported at once.
    let model = problems.within("model", |p| model(present(data, "model"), p));
    let prompt = problems.within("prompt_template", |p| prompt(present(data, "prompt_template"), p));
    let jinja_variables =
        problems.within("prompt_config", |p| jinja_variables(present(data, "prompt_config"), p));
    let memory = problems.within("memory", |p| memory(present(data, "memory"), p));
    let context = problems.within("context", |p| context(data.get("context"), p));
    let vision = problems.within("vision", |p| vision(present(data, "vision"), p));
    let structured_output = problems.within("structured_output", |p| structured_output(data, p));
    let reasoning = problems.within("reasoning_format", |p| reasoning(present(data, "reasoning_format"), p));
    let joined = problems.within("conversation", |p| conversation::parse(present(data, "conversation"), p));
    let (vision, detail) = vision?;
    Some(LlmData {
        model: model?,
        prompt: prompt?,
        jinja_variables: jinja_variables?,
        memory: memory?,
        context: context?,
        vision,
        detail,
        structured_output: structured_output?,
        reasoning: reasoning?,
        conversation: joined?,
    })
}

fn prompt(value: Option<&Json>, problems: &mut Problems) -> Option<PromptTemplate> {
    match value {
        Some(Json::Array(items)) => {
            let messages: Vec<_> = items
                .iter()
                .enumerate()
                .map(|(at, item)| problems.within(format!("[{at}]"), |p| message(item, p)))
                .collect();
            messages.into_iter().collect::<Option<_>>().map(PromptTemplate::Chat)
        }
        Some(Json::Object(map)) => text(map, problems).map(PromptTemplate::Completion),
        _ => {
            problems.error(
                INVALID,
                "prompt_template must be a list of messages, or a mapping with text for a completion",
            );
            None
        }
    }
}

fn message(value: &Json, problems: &mut Problems) -> Option<MessageTemplate> {
    let Some(map) = value.as_object() else {
        problems.error(INVALID, "a message must be a mapping with role and text");
        return None;
    };
    if let Some(list) = map.get("$context").or_else(|| map.get("value_selector")) {
        let selector = selector(Some(list)).filter(|selector| selector.len() >= 2);
        if selector.is_none() {
            problems.error(INVALID, "the messages of a prompt are named by a selector: node and variable");
        }
        return Some(MessageTemplate { role: Role::User, text: TextTemplate::Messages(selector?) });
    }
    let role = problems.within("role", |p| match map.get("role").and_then(Json::as_str) {
        Some("system") => Some(Role::System),
        Some("user") => Some(Role::User),
        Some("assistant") => Some(Role::Assistant),
        Some("tool") => Some(Role::Tool),
        other => {
            p.error(INVALID, format!("{:?} is not a role: system, user or assistant", other.unwrap_or("")));
            None
        }
    });
    let text = text(map, problems);
    Some(MessageTemplate { role: role?, text: text? })
}

fn text(map: &JsonMap, problems: &mut Problems) -> Option<TextTemplate> {
    let basic = optional_text(map, "text", problems);
    let jinja = optional_text(map, "jinja2_text", problems);
    match present(map, "edition_type").map(|v| v.as_str()) {
        None | Some(Some("basic")) => basic.map(TextTemplate::Basic),
        Some(Some("jinja2")) => jinja.map(TextTemplate::Jinja),
        Some(_) => {
            problems.within("edition_type", |p| p.error(INVALID, "edition_type must be basic or jinja2"));
            None
        }
    }
}

fn jinja_variables(value: Option<&Json>, problems: &mut Problems) -> Option<Vec<JinjaVariable>> {
    let Some(list) = value.and_then(Json::as_object).and_then(|map| present(map, "jinja2_variables")) else {
        return Some(Vec::new());
    };
    problems.within("jinja2_variables", |problems| {
        let Some(items) = list.as_array() else {
            problems.error(INVALID, "jinja2_variables must be a list");
            return None;
        };
        let read = |(at, item): (usize, &Json)| {
            problems.within(format!("[{at}]"), |p| {
                let variable = item.as_object().and_then(|map| {
                    let name = map.get("variable")?.as_str()?.to_owned();
                    Some(JinjaVariable { name, selector: selector(map.get("value_selector"))? })
                });
                if variable.is_none() {
                    p.error(
                        INVALID,
                        "a Jinja variable needs variable (a name) and value_selector (a list of texts)",
                    );
                }
                variable
            })
        };
        items.iter().enumerate().map(read).collect::<Vec<_>>().into_iter().collect()
    })
}

fn context(value: Option<&Json>, problems: &mut Problems) -> Option<Option<Selector>> {
    let Some(map) = value.and_then(Json::as_object) else {
        problems.error_with_hint(
            INVALID,
            "an llm node needs a context block",
            "without context write context: {enabled: false, variable_selector: []}",
        );
        return None;
    };
    let enabled = map.get("enabled").and_then(Json::as_bool).unwrap_or(false);
    Some(selector(map.get("variable_selector")).filter(|s| enabled && !s.is_empty()))
}

/// The schema when structured output is on. `structured_output_enabled` is the switch's older name. Imports rewrite it,
/// but documents stored earlier still have it. The current name wins.
fn structured_output(data: &JsonMap, problems: &mut Problems) -> Option<Option<JsonMap>> {
    let switch = data.get("structured_output_switch_on").or_else(|| data.get("structured_output_enabled"));
    if !switch.and_then(Json::as_bool).unwrap_or(false) {
        return Some(None);
    }
    match present(data, "structured_output") {
        None => Some(None),
        Some(Json::Object(map)) => Some(Some(map.clone())),
        Some(_) => {
            problems.error(INVALID, "structured_output must be a mapping with schema");
            None
        }
    }
}

fn reasoning(value: Option<&Json>, problems: &mut Problems) -> Option<ReasoningFormat> {
    match value.map(Json::as_str) {
        None | Some(Some("tagged")) => Some(ReasoningFormat::Tagged),
        Some(Some("separated")) => Some(ReasoningFormat::Separated),
        Some(_) => {
            problems.error(INVALID, "reasoning_format must be tagged or separated");
            None
        }
    }
}
