//! The prompts for missing fields. The first asks the model to find them. If that fails, the second asks for
//! JSON of a given schema, and names the error in the last answer.

use serde_json::{Value as Json, json};

use super::Filled;
use super::missing::pointer_schema;
use tidemill_base::language::Language;
use tidemill_base::value::JsonMap;

/// The texts from which the model may take values.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The user's question.
    pub question: String,
    /// The conversation and actions before, as text; may be empty.
    pub context: String,
    /// The text of a person who was asked for the fields; mostly empty.
    pub description: String,
}

/// Returns the instruction and the question of the first pass.
pub fn first(filled: &Filled, sources: &Sources, language: Language) -> (String, String) {
    let instruction = match language {
        Language::Zh => {
            "你负责从对话中提取工具调用缺少的参数。只提取对话中出现或能够直接推断的值，不要编造。\
             只输出一个 JSON 对象，其键为字段的路径或嵌套的字段名；找不到的字段不要输出。"
        }
        Language::En => {
            "You draw the missing parameters of a tool call from a conversation. Take only values that are said there \
             or follow directly; never invent one. Answer with one JSON object whose keys are the paths of the fields, \
             or nest them; leave out what you cannot find."
        }
    };
    (instruction.into(), question_of(filled, sources))
}

/// Returns those of the second pass; `problem` is the error in the answer before.
pub fn second(
    filled: &Filled,
    sources: &Sources,
    problem: Option<&str>,
    language: Language,
) -> (String, String) {
    let instruction = match language {
        Language::Zh => {
            "根据对话内容，按照给定的 JSON Schema 输出一个 JSON 对象。不要输出任何其他内容，不要编造对话中没有的值。"
        }
        Language::En => {
            "Answer with one JSON object that follows the given JSON schema, filled from the conversation. Say nothing \
             else, and invent no value that is not there."
        }
    };
    let mut question = question_of(filled, sources);
    if let Some(problem) = problem {
        question.push_str(&format!("\n\n<error>\n{problem}\n</error>"));
    }
    (instruction.into(), question)
}

fn question_of(filled: &Filled, sources: &Sources) -> String {
    let schema = pointer_schema(&filled.missing).unwrap_or_else(|| json!({}));
    let mut parts = vec![
        ("schema", schema.to_string()),
        ("known", filled.data.to_string()),
        ("question", sources.question.clone()),
    ];
    for (name, text) in [("context", &sources.context), ("description", &sources.description)] {
        if !text.is_empty() {
            parts.push((name, text.clone()));
        }
    }
    let parts: Vec<String> =
        parts.iter().map(|(name, text)| format!("<{name}>\n{text}\n</{name}>")).collect();
    parts.join("\n\n")
}

/// Describes the errors of an answer for the next attempt; `None` when nothing is missing.
pub fn problem(before: &Filled, after: &Filled, answer: Option<&JsonMap>) -> Option<String> {
    if after.is_complete() {
        return None;
    }
    let Some(answer) = answer else { return Some("the answer held no JSON object".into()) };
    let given = |place: &str| super::answer::nested(answer).pointer(place).map(Json::to_string);
    let lines: Vec<String> = after
        .missing
        .iter()
        .filter(|field| before.missing.iter().any(|known| known.pointer == field.pointer))
        .map(|field| match given(&field.pointer) {
            Some(value) => format!("{}: {value} does not fit {}", field.pointer, field.schema),
            None => format!("{}: is missing", field.pointer),
        })
        .collect();
    Some(if lines.is_empty() { "fields are missing still".into() } else { lines.join("\n") })
}
