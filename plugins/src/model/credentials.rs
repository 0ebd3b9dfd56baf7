//! Credentials of a model as the form of its provider wants them: the fields that are shown for the model, with their
//! defaults and types.

use serde_json::Value as Json;
use tidemill_common::value::JsonMap;

use super::Named;
use crate::package::{Kind, Parameter};

/// The reason why credentials do not fit.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// These fields need a value.
    #[error("{}", .0.join(", "))]
    Missing(Vec<String>),
    /// A field has none of its values.
    #[error("{field} must be one of: {}", .options.join(", "))]
    Option { field: String, options: Vec<String> },
}

/// Returns the credentials for a model, or those of the provider. Fields whose conditions do not hold are left out, as on
/// Dify.
///
/// # Errors
/// [`Unfit`].
pub fn fitted(form: &[Parameter], given: &JsonMap, named: Option<Named<'_>>) -> Result<JsonMap, Unfit> {
    let given_text = |name: &str| {
        let text = given.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let value = |name: &str| match (name, named) {
        ("__model_type", Some(named)) => Some(named.kind.word().to_owned()),
        ("__model_name", Some(named)) => Some(named.model.to_owned()),
        (name, _) => given_text(name).or_else(|| {
            form.iter().find(|field| field.name == name)?.default.as_ref()?.as_str().map(str::to_owned)
        }),
    };
    let (mut fitted, mut missing) = (JsonMap::new(), Vec::new());
    let is_shown = |field: &&Parameter| {
        field.show_on.iter().all(|(variable, wanted)| value(variable).as_ref() == Some(wanted))
    };
    for field in form.iter().filter(is_shown) {
        let Some(text) = given_text(&field.name) else {
            match &field.default {
                Some(default) => {
                    fitted.insert(field.name.clone(), default.clone());
                }
                None if field.required => missing.push(field.name.clone()),
                None => {}
            }
            continue;
        };
        if field.kind == Kind::Select && !field.options.is_empty() && !field.options.contains(&text) {
            return Err(Unfit::Option { field: field.name.clone(), options: field.options.clone() });
        }
        fitted.insert(field.name.clone(), typed(field.kind, text));
    }
    if missing.is_empty() { Ok(fitted) } else { Err(Unfit::Missing(missing)) }
}

fn typed(kind: Kind, text: String) -> Json {
    if kind == Kind::Boolean {
        return Json::Bool(["true", "1", "yes", "on"].contains(&text.to_lowercase().as_str()));
    }
    Json::String(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::{Form, ModelKind};
    use serde_json::json;

    fn field(name: &str, kind: Kind) -> Parameter {
        Parameter {
            name: name.into(),
            label: String::new(),
            kind,
            form: Form::Form,
            required: true,
            default: None,
            min: None,
            max: None,
            options: Vec::new(),
            multiple: false,
            help: String::new(),
            show_on: Vec::new(),
        }
    }

    #[test]
    fn fields_are_taken_as_the_form_shows_them_for_the_model() {
        let on = |variable: &str, value: &str| vec![(variable.to_owned(), value.to_owned())];
        let form = [
            field("key", Kind::Secret),
            Parameter { default: Some(json!("chat")), required: false, ..field("mode", Kind::Select) },
            Parameter { show_on: on("__model_type", "tts"), ..field("voice", Kind::Text) },
            Parameter { show_on: on("mode", "chat"), ..field("stream", Kind::Boolean) },
            Parameter { options: vec!["eu".into()], required: false, ..field("region", Kind::Select) },
        ];
        let fit = |given: Json, kind| {
            fitted(&form, given.as_object().unwrap(), Some(Named { kind, model: "m" })).map(Json::Object)
        };
        let given = json!({"key": "k", "stream": "True", "voice": "x", "other": "y", "region": ""});
        assert_eq!(fit(given, ModelKind::Llm), Ok(json!({"key": "k", "mode": "chat", "stream": true})));
        let missing = |names: &[&str]| Err(Unfit::Missing(names.iter().map(ToString::to_string).collect()));
        assert_eq!(fit(json!({}), ModelKind::Tts), missing(&["key", "voice", "stream"]));
        assert_eq!(fit(json!({"mode": "completion"}), ModelKind::Llm), missing(&["key"]));
        let error = fit(json!({"key": "k", "stream": "no", "region": "us"}), ModelKind::Llm).unwrap_err();
        assert_eq!(error.to_string(), "region must be one of: eu");
    }
}
