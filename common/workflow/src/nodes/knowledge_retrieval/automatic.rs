//! Lets a model derive filters from a question: it gets the documents' fields and names those that the question
//! restricts.

use serde_json::{Value as Json, json};

use super::filter::{Condition, Filters, Logic, Operator};
use crate::nodes::llm::Role;
use crate::nodes::llm::message::Message;
use crate::nodes::question_classifier::answer::block;
use tidemill_base::value::pyjson;

const TASK: &str = "You find out which documents a question is about, by their metadata. You are given the names of the fields \
    that documents have, and a question.\n\
    For every field that the question limits, name the field, the value and how the field is compared with it. Use only \
    fields that are given; leave out what the question does not say.\n\
    Reply with one JSON object and nothing else:\n\
    ```json\n{\"metadata_map\": [{\"metadata_field_name\": \"…\", \"metadata_field_value\": \"…\", \
    \"comparison_operator\": \"…\"}]}\n```\n\
    If the question limits nothing, the list is empty. Comparisons: ";

/// The messages that ask for filters over these fields.
pub fn messages(query: &str, fields: &[&str]) -> Vec<Message> {
    let operators: Vec<&str> = Operator::ALL.iter().map(|operator| operator.name()).collect();
    let question = format!("Fields: {}\nQuestion: {query}", json!(fields));
    let task = format!("{TASK}{}.", operators.join(", "));
    vec![Message::text(Role::System, task), Message::text(Role::User, question)]
}

/// The filters in a reply. `None` when it cannot be parsed or has no filters. Unknown fields are ignored.
pub fn filters(reply: &str, fields: &[&str], logic: Option<Logic>) -> Option<Filters> {
    let answer = pyjson::loads(block(reply)?.trim()).ok()?;
    let found = answer.get("metadata_map")?.as_array()?;
    let known = found.iter().filter(|item| {
        let name = item.get("metadata_field_name").and_then(Json::as_str);
        name.is_some_and(|name| fields.contains(&name))
    });
    let conditions = known.map(condition).collect::<Option<_>>()?;
    Filters::new(logic.unwrap_or(Logic::Or), conditions)
}

fn condition(item: &Json) -> Option<Condition> {
    let value = match item.get("metadata_field_value") {
        None | Some(Json::Null) => Json::Null,
        Some(value @ (Json::Number(_) | Json::String(_) | Json::Array(_))) => value.clone(),
        Some(Json::Bool(_) | Json::Object(_)) => return None,
    };
    Some(Condition {
        name: item.get("metadata_field_name")?.as_str()?.into(),
        operator: Operator::from_name(item.get("comparison_operator")?.as_str()?)?,
        value,
    })
}
