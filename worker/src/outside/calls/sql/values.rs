//! Converts between JSON and database values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value as Json;

/// A value that every database accepts.
#[derive(Debug, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Integer(i64),
    Float(f64),
    Text(String),
}

impl Plain {
    /// Converts a JSON value. Lists and objects become JSON texts, and so does an integer too large for a column.
    pub(super) fn of(value: &Json) -> Self {
        match value {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match (number.as_i64(), number.is_f64()) {
                (Some(value), _) => Self::Integer(value),
                (None, true) => Self::Float(number.as_f64().unwrap_or_default()),
                (None, false) => Self::Text(number.to_string()),
            },
            Json::String(text) => Self::Text(text.clone()),
            Json::Array(_) | Json::Object(_) => Self::Text(value.to_string()),
        }
    }
}

/// Converts bytes to a text: UTF-8 if possible, else base64.
pub(super) fn bytes_text(bytes: Vec<u8>) -> Json {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => BASE64.encode(error.into_bytes()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_bound_as_what_they_are() {
        for (value, expected) in [
            (Json::Null, Plain::Null),
            (json!(true), Plain::Bool(true)),
            (json!(-7), Plain::Integer(-7)),
            (json!(1.5), Plain::Float(1.5)),
            (json!(u64::MAX), Plain::Text(u64::MAX.to_string())),
            (json!("x"), Plain::Text("x".into())),
            (json!({"a": [1]}), Plain::Text(r#"{"a":[1]}"#.into())),
        ] {
            assert_eq!(Plain::of(&value), expected);
        }
        assert_eq!((bytes_text(b"ab".to_vec()), bytes_text(vec![0xff])), (json!("ab"), json!("/w==")));
    }
}
