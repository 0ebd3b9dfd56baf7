//! The name of a new conversation, and other fields that are stored when it begins.

use serde_json::Value as Json;
use tidemill_common::graph::Graph;
use tidemill_common::limits::CONVERSATION_INPUTS_BYTES_MAX;
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr::str_of;

/// Dify's name for a conversation that has no name.
pub(crate) const NAMELESS: &str = "New conversation";
/// The longest name that is taken from a question, in characters (as Dify without a model).
const NAME_CHARS_MAX: usize = 50;
/// Characters that remain of a longer question, before three dots.
const NAME_CHARS_LEFT: usize = 47;

/// The name that follows from the first question, as Dify makes it without a model.
pub(crate) fn name_of(query: &str) -> String {
    if query.chars().count() <= NAME_CHARS_MAX {
        return query.to_string();
    }
    let left: String = query.chars().take(NAME_CHARS_LEFT).collect();
    format!("{left}...")
}

/// The fields of a new conversation that begins with a run of this workflow.
pub(super) fn of_beginning(graph: &Graph, name: String, inputs: JsonMap) -> Vec<(&'static str, String)> {
    let mut fields = vec![("name", name)];
    let opening = graph.features.get("opening_statement").and_then(Json::as_str).unwrap_or_default();
    if !opening.is_empty() {
        fields.push(("introduction", filled(opening, &inputs)));
    }
    let inputs = Json::Object(inputs).to_string();
    // Each message has its own inputs; those of the first are only shown with the conversation, so they may be left
    // out.
    if inputs.len() <= CONVERSATION_INPUTS_BYTES_MAX {
        fields.push(("inputs", inputs));
    }
    fields
}

/// Replaces each `{{name}}` by the input of that name, by nothing for one that was not given. Unknown names stay.
fn filled(text: &str, inputs: &JsonMap) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(begin) = rest.find("{{") {
        let inner = &rest[begin + 2..];
        let value = inner.find("}}").and_then(|end| Some((end, inputs.get(inner[..end].trim())?)));
        out.push_str(&rest[..begin]);
        match value {
            Some((end, value)) => {
                if !value.is_null() {
                    out.push_str(&str_of(value));
                }
                rest = &inner[end + 2..];
            }
            None => {
                out.push_str("{{");
                rest = inner;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_conversation_is_named_after_its_first_question() {
        let fits = "é".repeat(50);
        assert_eq!(name_of(&fits), fits);
        assert_eq!(name_of(&format!("{fits}!")), format!("{}...", "é".repeat(47)));
    }

    #[test]
    fn an_opening_replaces_only_names_of_given_inputs() {
        let Json::Object(inputs) = json!({"who": "Ada", "n": 2, "none": null}) else { unreachable!() };
        for (text, shown) in [
            ("Hi {{who}}, {{ n }} of {{unknown}}", "Hi Ada, 2 of {{unknown}}"),
            ("{{who}}{{none}}!", "Ada!"),
            ("{{{{who}}", "{{Ada"),
            ("{{who", "{{who"),
        ] {
            assert_eq!(filled(text, &inputs), shown);
        }
    }
}
