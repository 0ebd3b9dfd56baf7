//! Bounds of what executors say. They are programs of others: a value that is too deep or too large fails their node, with
//! the name of the value, instead of what stores it.

use serde_json::Value as Json;
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::limits::{HOST_TEXT_BYTES_MAX, HOST_VALUE_DEPTH_MAX};
use tidemill_common::machine::state::run::json_size;

use crate::host::NodeOutcome;

/// The size of a value, and the setting that has it.
pub(super) type BytesMax = (usize, &'static str);

/// Checks the values of an outcome.
///
/// # Errors
/// The first that is too deep or too large.
pub(super) fn check(outcome: &NodeOutcome, most: BytesMax) -> Result<(), NodeFailure> {
    let parts = [
        ("the output", &outcome.outputs),
        ("the process data", &outcome.process_data),
        ("the metadata", &outcome.metadata),
    ];
    for (part, values) in parts {
        for (name, value) in values {
            check_value(&format!("{part} {name:?}"), value, most)?;
        }
    }
    Ok(())
}

/// Checks a value.
///
/// # Errors
/// It is too deep or too large.
pub(super) fn check_value(
    what: &str,
    value: &Json,
    (bytes_max, setting): BytesMax,
) -> Result<(), NodeFailure> {
    let failed = |message| Err(NodeFailure::new(EngineErrorType::ValueTooLarge.name(), message));
    if is_deeper(value, HOST_VALUE_DEPTH_MAX) {
        return failed(format!(
            "{what} of the executor is nested deeper than {HOST_VALUE_DEPTH_MAX} levels, the most that is kept; give it as a text"
        ));
    }
    let size = json_size(value);
    if size > bytes_max {
        return failed(format!(
            "{what} of the executor has {size} bytes, and a value may have {bytes_max} ({setting})"
        ));
    }
    Ok(())
}

fn is_deeper(value: &Json, most: usize) -> bool {
    let inner_is = |inner: &Json| most == 0 || is_deeper(inner, most - 1);
    match value {
        Json::Array(items) => most == 0 || items.iter().any(inner_is),
        Json::Object(map) => most == 0 || map.values().any(inner_is),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    }
}

/// Cuts a text for people.
pub(super) fn cut(mut text: String) -> String {
    if text.len() > HOST_TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(HOST_TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nested(depth: usize) -> Json {
        (0..depth).fold(json!(1), |inner, at| if at % 2 == 0 { json!([inner]) } else { json!({"a": inner}) })
    }

    #[test]
    fn a_value_that_is_too_deep_or_too_large_is_named() {
        let most = (1000, "run.value_bytes_max");
        let outcome = |part: &str, value: Json| {
            let map = json!({"x": value}).as_object().cloned().unwrap_or_default();
            let mut outcome = NodeOutcome::default();
            match part {
                "output" => outcome.outputs = map,
                "process data" => outcome.process_data = map,
                _ => outcome.metadata = map,
            }
            outcome
        };
        for part in ["output", "process data", "metadata"] {
            for fits in [json!("x".repeat(900)), nested(HOST_VALUE_DEPTH_MAX), json!([]), json!({})] {
                assert_eq!(check(&outcome(part, fits), most), Ok(()), "{part}");
            }
            for (value, said) in [
                (nested(HOST_VALUE_DEPTH_MAX + 1), "deeper than 100 levels"),
                (nested(400), "deeper than 100 levels"),
                (json!("x".repeat(1000)), "1000 (run.value_bytes_max)"),
            ] {
                let failure = check(&outcome(part, value), most).expect_err("it does not fit");
                assert!(failure.message.starts_with(&format!("the {part} \"x\" of")), "{}", failure.message);
                assert!(failure.message.contains(said), "{}", failure.message);
            }
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("short".into()), "short");
        let text = cut("ä".repeat(HOST_TEXT_BYTES_MAX));
        assert!(text.len() <= HOST_TEXT_BYTES_MAX + '…'.len_utf8() && text.ends_with("ä…"));
    }
}
