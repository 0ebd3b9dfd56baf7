//! Parses `NAME=VALUE` arguments.

use crate::error::Error;
use serde_json::Value as Json;

/// Parses a name and a text.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err("write NAME=VALUE".into()),
    }
}

/// Parses a text as JSON; other text becomes a JSON string.
pub(super) fn json_or_text(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// Parses a variable with its node: `node.name`.
///
/// # Errors
/// The text has another form.
pub(super) fn selector(text: &str) -> Result<(&str, &str), Error> {
    match text.split_once('.') {
        Some((node, name)) if !node.is_empty() && !name.is_empty() => Ok((node, name)),
        _ => Err(Error::Usage(format!("{text:?} is not a variable: write NODE.NAME=VALUE"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_json_where_they_can_be() {
        let cases = [
            ("3", json!(3)),
            ("Ada", json!("Ada")),
            ("\"3\"", json!("3")),
            ("[1,2]", json!([1, 2])),
            ("", json!("")),
        ];
        for (text, expected) in cases {
            assert_eq!(json_or_text(text), expected, "{text}");
        }
        assert!(matches!(selector("a.b.c"), Ok(("a", "b.c"))));
        assert!(selector("a").is_err() && selector(".b").is_err());
        assert_eq!(pair("a.b=c=d"), Ok(("a.b".into(), "c=d".into())));
    }
}
