//! Checks if an answer fits its request. Except for forms, the answer is one JSON value, validated against the schema.

use jsonschema::draft7;
use serde_json::{Value as Json, json};

use super::{PauseKind, PauseRequest};
use crate::nodes::human_input::AnswerError;
use crate::nodes::human_input::AnswerProblem;
use crate::nodes::start::schema::message;
use tidemill_base::value::JsonMap;

/// The key of an answer that approves or rejects.
pub const APPROVED: &str = "approved";

/// The schema of an answer that approves or rejects, with an optional comment.
pub fn approval_schema() -> Json {
    json!({
        "type": "object",
        "properties": {"approved": {"type": "boolean"}, "comment": {"type": "string"}},
        "required": ["approved"],
    })
}

/// Checks an answer and normalises it. For approvals `true` becomes `{"approved": true}`; an empty answer to a
/// confirmation is a rejection.
///
/// # Errors
/// All mismatches, each with its path.
pub fn check_input(request: &PauseRequest, input: Json) -> Result<Json, AnswerError> {
    let input = whole(request, input);
    let problems = match request.kind {
        // This schema is only for the form; values are checked where they are used.
        PauseKind::Params => match &input {
            Json::Object(_) | Json::Null | Json::Bool(false) => Vec::new(),
            other => vec![(String::new(), format!("must be an object, null or false, not {other}"))],
        },
        PauseKind::Form
        | PauseKind::Simple
        | PauseKind::UserInteraction
        | PauseKind::Confirm
        | PauseKind::ToolApproval
        | PauseKind::HumanRelay => misfits(&request.schema, &input),
    };
    if problems.is_empty() {
        return Ok(input);
    }
    let problem = |(place, reason)| AnswerProblem::Misfit { place, reason };
    Err(AnswerError { problems: problems.into_iter().map(problem).collect() })
}

/// True when the answer approves.
pub fn is_approved(input: &Json) -> bool {
    input.get(APPROVED).and_then(Json::as_bool) == Some(true)
}

fn whole(request: &PauseRequest, input: Json) -> Json {
    let asks_approval = request.schema.pointer("/properties/approved").is_some();
    match input {
        Json::Bool(approved) if asks_approval => json!({ APPROVED: approved }),
        empty if request.kind == PauseKind::Confirm && is_empty(&empty) => json!({ APPROVED: false }),
        other => other,
    }
}

fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Bool(_) | Json::Number(_) => false,
    }
}

/// The reason why no answer can fit a schema: it is no JSON schema. `None` for one that can be used, and for none.
pub fn wrong_schema(schema: &Json) -> Option<String> {
    if schema.is_null() {
        return None;
    }
    draft7::options().offline().build(schema).err().map(|error| message(&error))
}

/// The mismatches of a value: path (a JSON pointer) and reason. No schema is fetched over the network.
fn misfits(schema: &Json, value: &Json) -> Vec<(String, String)> {
    if schema.is_null() || schema.as_object().is_some_and(JsonMap::is_empty) {
        return Vec::new();
    }
    match draft7::options().offline().build(schema) {
        Ok(validator) => {
            validator.iter_errors(value).map(|e| (e.instance_path().to_string(), message(&e))).collect()
        }
        Err(error) => {
            vec![(String::new(), format!("the schema of the answer is invalid: {}", message(&error)))]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(kind: PauseKind, schema: Json) -> PauseRequest {
        PauseRequest::asking(kind, "?", schema)
    }

    #[test]
    fn approval_is_given_by_a_single_value_or_in_full() {
        let request = asking(PauseKind::UserInteraction, approval_schema());
        for (input, expected) in [
            (json!(true), json!({"approved": true})),
            (json!({"approved": false, "comment": "no"}), json!({"approved": false, "comment": "no"})),
        ] {
            assert_eq!(check_input(&request, input).unwrap(), expected);
        }
        for input in [json!("yes"), json!({}), json!({"approved": 1}), Json::Null] {
            assert!(check_input(&request, input.clone()).is_err(), "{input}");
        }
        let confirm = asking(PauseKind::Confirm, approval_schema());
        for input in [json!(null), json!({}), json!(""), json!(false)] {
            assert!(!is_approved(&check_input(&confirm, input).unwrap()));
        }
        assert!(is_approved(&check_input(&confirm, json!(true)).unwrap()));
    }

    #[test]
    fn all_mismatches_are_reported_with_their_path() {
        let schema = json!({
            "type": "object", "required": ["n"],
            "properties": {"a": {"type": "object", "properties": {"b": {"type": "integer"}}}},
        });
        let request = asking(PauseKind::UserInteraction, schema);
        let error = check_input(&request, json!({"a": {"b": "x"}})).unwrap_err().to_string();
        assert!(error.contains("/a/b: 'x' is not of type 'integer'"), "{error}");
        assert!(error.contains("'n' is a required property"), "{error}");
    }

    #[test]
    fn missing_values_are_taken_as_they_come_but_only_as_an_object_or_not_at_all() {
        let request = asking(PauseKind::Params, json!({"type": "object", "required": ["/q"]}));
        for input in [json!({}), json!({"q": 5}), json!(null), json!(false)] {
            assert_eq!(check_input(&request, input.clone()), Ok(input));
        }
        for input in [json!(true), json!("x"), json!([1])] {
            assert!(check_input(&request, input.clone()).is_err(), "{input}");
        }
    }

    #[test]
    fn a_schema_that_is_none_is_known_before_anybody_answers() {
        for fine in [json!(null), json!({}), json!({"type": "integer"}), approval_schema()] {
            assert_eq!(wrong_schema(&fine), None, "{fine}");
        }
        for wrong in [json!({"type": "nonsense"}), json!({"required": 1}), json!("text")] {
            assert!(wrong_schema(&wrong).is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_schema_may_be_absent_and_is_never_fetched() {
        let free = asking(PauseKind::HumanRelay, Json::Null);
        assert_eq!(check_input(&free, json!([1])), Ok(json!([1])));
        let away = asking(PauseKind::UserInteraction, json!({"$ref": "http://example.com/s.json"}));
        assert!(check_input(&away, json!(1)).is_err());
    }
}
