//! Shows each pause as a form: fields and buttons for clients that only support forms. Converts their answer to the
//! requested JSON value.

use serde_json::{Value as Json, json};

use super::input::APPROVED;
use super::{PauseKind, PauseRequest};
use tidemill_base::value::JsonMap;

/// The button, and the handle, for approval.
pub const APPROVE: &str = "approved";
/// The button, and the handle, for rejection.
pub const REJECT: &str = "rejected";
/// The button that submits fields.
pub const SUBMIT: &str = "submit";
/// The field of a value without a name.
pub const FIELD: &str = "input";

/// The kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Approval,
    /// One of several choices.
    Choice,
    /// An object with named values.
    Fields,
    /// One value.
    Value,
}

/// The kind of answer that a request wants, derived from its schema. Not for forms.
pub fn wanted(request: &PauseRequest) -> Wanted {
    let has_options = request.options.as_array().is_some_and(|list| !list.is_empty());
    let properties = request.schema.get("properties").and_then(Json::as_object);
    match request.kind {
        PauseKind::Confirm | PauseKind::ToolApproval => Wanted::Approval,
        PauseKind::Params => Wanted::Fields,
        _ if properties.is_some_and(|known| known.contains_key(APPROVED)) => Wanted::Approval,
        _ if has_options => Wanted::Choice,
        _ if properties.is_some_and(|known| !known.is_empty()) => Wanted::Fields,
        _ => Wanted::Value,
    }
}

/// The fields and buttons that show the request as a form; a form has its own.
pub fn form_of(request: &PauseRequest) -> (Json, Json) {
    if request.kind.is_form() {
        return (request.inputs.clone(), request.actions.clone());
    }
    let field = |name: &str| json!({"type": "paragraph", "output_variable_name": name, "default": null});
    let button = |id: &str, title: &str| json!({"id": id, "title": title, "button_style": "default"});
    let submit = || json!([button(SUBMIT, "Submit")]);
    match wanted(request) {
        Wanted::Approval => (json!([]), json!([button(APPROVE, "Approve"), button(REJECT, "Reject")])),
        Wanted::Choice => {
            let options = request.options.as_array().into_iter().flatten();
            let one = |option: &Json| {
                let id = option.get("id").and_then(Json::as_str)?;
                Some(button(id, option.get("label").and_then(Json::as_str).unwrap_or(id)))
            };
            (json!([]), options.filter_map(one).collect())
        }
        Wanted::Fields => {
            let properties = request.schema.get("properties").and_then(Json::as_object);
            (properties.into_iter().flatten().map(|(name, _)| field(name)).collect(), submit())
        }
        Wanted::Value => (json!([field(FIELD)]), submit()),
    }
}

/// Converts a form's answer to the requested value. Mismatches are reported by the check of the answer.
pub fn input_of(request: &PauseRequest, action: &str, mut inputs: JsonMap) -> Json {
    match wanted(request) {
        Wanted::Approval => {
            let approved = match action {
                APPROVE => true.into(),
                REJECT => false.into(),
                other => Json::from(other),
            };
            inputs.insert(APPROVED.into(), approved);
            Json::Object(inputs)
        }
        Wanted::Choice => action.into(),
        Wanted::Fields => {
            let typed = |(name, value): (String, Json)| {
                let schema = request.schema.get("properties").and_then(|known| known.get(&name));
                let typed = schema.map(|schema| of_type(schema, &value));
                (name, typed.unwrap_or(value))
            };
            Json::Object(inputs.into_iter().map(typed).collect())
        }
        Wanted::Value => {
            let value = inputs.remove(FIELD).unwrap_or_default();
            of_type(&request.schema, &value)
        }
    }
}

/// Converts a text to the schema's type where it can be parsed so: form fields give only texts.
pub fn of_type(schema: &Json, value: &Json) -> Json {
    let Some(text) = value.as_str() else { return value.clone() };
    let wants = |name: &str| match schema.get("type") {
        Some(Json::String(one)) => one == name,
        Some(Json::Array(several)) => several.iter().any(|one| one == name),
        _ => false,
    };
    if wants("string") || schema.get("type").is_none_or(|ty| ty.is_null()) {
        return value.clone();
    }
    serde_json::from_str(text.trim()).unwrap_or_else(|_| value.clone())
}

#[cfg(test)]
mod tests {
    use super::super::input::{approval_schema, check_input};
    use super::*;

    fn map(value: Json) -> JsonMap {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn every_kind_has_buttons_and_an_answer_that_fits() {
        let approval = PauseRequest::asking(PauseKind::Confirm, "?", approval_schema());
        let choice = PauseRequest {
            options: json!([{"id": "a", "label": "A"}, {"id": "b"}]),
            ..PauseRequest::asking(PauseKind::UserInteraction, "?", json!({"enum": ["a", "b"]}))
        };
        let number = PauseRequest::asking(PauseKind::UserInteraction, "?", json!({"type": "integer"}));
        let schema =
            json!({"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "number"}}});
        let params = PauseRequest::asking(PauseKind::Params, "?", schema);
        for (request, buttons, action, inputs, expected) in [
            (
                &approval,
                vec!["approved", "rejected"],
                "rejected",
                json!({"comment": "no"}),
                json!({"approved": false, "comment": "no"}),
            ),
            (&choice, vec!["a", "b"], "b", json!({}), json!("b")),
            (&number, vec!["submit"], "submit", json!({"input": "7"}), json!(7)),
            (&params, vec!["submit"], "submit", json!({"q": "5", "n": "5"}), json!({"q": "5", "n": 5})),
        ] {
            let (_, actions) = form_of(request);
            let ids: Vec<&str> =
                actions.as_array().unwrap().iter().map(|a| a["id"].as_str().unwrap()).collect();
            assert_eq!(ids, buttons);
            let input = input_of(request, action, map(inputs));
            assert_eq!(check_input(request, input), Ok(expected));
        }
        let wrong = input_of(&approval, "perhaps", JsonMap::new());
        assert!(check_input(&approval, wrong).is_err());
    }
}
