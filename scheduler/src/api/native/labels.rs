//! Labels of runs in requests: given at submission, and wanted in lists.

use serde_json::Value as Json;
use tidemill_common::config::RunConfig;
use tidemill_common::store::Labels;
use tidemill_common::value::JsonMap;

use crate::api::error::ApiError;
use crate::api::request::take_object;

/// Takes the labels out of a submission.
///
/// # Errors
/// 400 for labels that are too many or too long, and for a name or a value that is no label.
pub(super) fn take(map: &mut JsonMap, config: &RunConfig) -> Result<Labels, ApiError> {
    let Some(given) = take_object(map, "labels")? else { return Ok(Labels::new()) };
    let max = config.labels_max;
    if given.len() > max {
        let message = format!("a run may have {max} labels at most (run.labels_max), not {}", given.len());
        return Err(ApiError::invalid_param(message));
    }
    let text = |(name, value): (String, Json)| match value {
        Json::String(value) => check(&name, &value, config).map(|()| (name, value)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
            Err(ApiError::invalid_param(format!("labels.{name} must be a text")))
        }
    };
    given.into_iter().map(text).collect()
}

/// Reads a label that a list wants: `name=value`.
///
/// # Errors
/// 400 for another form.
pub(super) fn wanted(text: &str) -> Result<(String, String), ApiError> {
    match text.split_once('=') {
        Some((name, value)) if is_name(name) => Ok((name.to_owned(), value.to_owned())),
        _ => Err(ApiError::invalid_param("label must be NAME=VALUE")),
    }
}

fn check(name: &str, value: &str, config: &RunConfig) -> Result<(), ApiError> {
    let max = config.label_chars_max;
    if !is_name(name) {
        let message = "names of labels have letters, digits, and - _ . / only, and one of them at least";
        return Err(ApiError::invalid_param(message));
    }
    if name.chars().count() > max || value.chars().count() > max {
        let message = format!(
            "labels.{name} has a name or a value with more than {max} characters (run.label_chars_max)"
        );
        return Err(ApiError::invalid_param(message));
    }
    if value.chars().any(char::is_control) {
        return Err(ApiError::invalid_param(format!(
            "labels.{name} must be one line without control characters"
        )));
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn labels_are_short_texts_under_plain_names() {
        let config = RunConfig { labels_max: 2, label_chars_max: 4, ..RunConfig::default() };
        let taken = |labels: Json| {
            let mut map = JsonMap::from_iter([("labels".to_owned(), labels)]);
            take(&mut map, &config).map_err(|error| error.message().to_owned())
        };
        assert_eq!(taken(json!({"a.b": "x y", "c": ""})).map(|labels| labels.len()), Ok(2));
        assert_eq!(taken(Json::Null), Ok(Labels::new()));
        for (labels, part) in [
            (json!({"a": "1", "b": "2", "c": "3"}), "run.labels_max"),
            (json!({"a": "12345"}), "run.label_chars_max"),
            (json!({"abcde": "1"}), "run.label_chars_max"),
            (json!({"a": 1}), "labels.a must be a text"),
            (json!({"a=b": "1"}), "letters, digits"),
            (json!({"": "1"}), "letters, digits"),
            (json!({"a": "1\n2"}), "one line"),
            (json!(["a"]), "object"),
        ] {
            let refused = taken(labels.clone()).expect_err("it is refused");
            assert!(refused.contains(part), "{labels}: {refused}");
        }
    }

    #[test]
    fn a_wanted_label_has_a_name_and_a_value() {
        assert_eq!(wanted("a=b=c").ok(), Some(("a".into(), "b=c".into())));
        assert_eq!(wanted("a=").ok(), Some(("a".into(), String::new())));
        assert!(["a", "=b", "a b=c", ""].iter().all(|text| wanted(text).is_err()));
    }
}
