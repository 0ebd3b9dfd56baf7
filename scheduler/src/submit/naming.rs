//! What a conversation that begins is called, and what else is kept of its beginning.

use serde_json::Value as Json;
use tidemill_common::graph::Graph;
use tidemill_common::limits::CONVERSATION_INPUTS_BYTES_MAX;
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr::str_of;

/// The name of one that was not given any (Dify's).
pub(crate) const NAMELESS: &str = "New conversation";
/// Longest name that is made of a question, in characters. Dify's, when no model makes one.
const NAME_CHARS_MAX: usize = 50;
/// Characters that are left of a longer one, before three dots.
const NAME_CHARS_LEFT: usize = 47;

/// A name made of the first question. Without a model, as Dify has it then.
pub(crate) fn name_of(query: &str) -> String {
    if query.chars().count() <= NAME_CHARS_MAX {
        return query.to_string();
    }
    let left: String = query.chars().take(NAME_CHARS_LEFT).collect();
    format!("{left}...")
}

/// Fields of a conversation that begins with a run of this workflow.
pub(super) fn of_beginning(graph: &Graph, name: String, inputs: JsonMap) -> Vec<(&'static str, String)> {
    let mut fields = vec![("name", name)];
    let opening = graph.features.get("opening_statement").and_then(Json::as_str).unwrap_or_default();
    if !opening.is_empty() {
        fields.push(("introduction", filled(opening, &inputs)));
    }
    let inputs = Json::Object(inputs).to_string();
    // Each message has its own; those of the first are only shown with the conversation.
    if inputs.len() <= CONVERSATION_INPUTS_BYTES_MAX {
        fields.push(("inputs", inputs));
    }
    fields
}

/// A text whose `{{name}}` are replaced by inputs; others stay.
fn filled(text: &str, inputs: &JsonMap) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(begin) = rest.find("{{") {
        let inner = &rest[begin + 2..];
        let value = inner.find("}}").and_then(|end| Some((end, inputs.get(inner[..end].trim())?)));
        out.push_str(&rest[..begin]);
        match value {
            Some((end, value)) => {
                out.push_str(&str_of(value));
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
    fn an_opening_names_inputs_that_are_there() {
        let Json::Object(inputs) = json!({"who": "Ada", "n": 2}) else { unreachable!() };
        for (text, shown) in [
            ("Hi {{who}}, {{ n }} of {{unknown}}", "Hi Ada, 2 of {{unknown}}"),
            ("{{{{who}}", "{{Ada"),
            ("{{who", "{{who"),
        ] {
            assert_eq!(filled(text, &inputs), shown);
        }
    }
}
