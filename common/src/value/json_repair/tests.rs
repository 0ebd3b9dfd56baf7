//! Texts that are nearly JSON, and what becomes of them.

use super::*;
use proptest::prelude::*;
use serde_json::json;

#[test]
fn texts_are_repaired_as_dify_repairs_them() {
    for (text, value) in [
        (r#"{"a": 1, "b": [true, null]}"#, json!({"a": 1, "b": [true, null]})),
        ("{'a': 'x', 'b': True, 'c': None, 'd': FALSE}", json!({"a": "x", "b": true, "c": null, "d": false})),
        ("{a:1,}", json!({"a": 1})),
        ("[1,2", json!([1, 2])),
        ("[1 2 3]", json!([1, 2, 3])),
        ("[true false, -1.5e3]", json!([true, false, -1500.0])),
        (r#"{"a": }"#, json!({"a": ""})),
        (r#"{"a": , "b": 2}"#, json!({"a": "", "b": 2})),
        (r#"{"a": 1 "b": 2}"#, json!({"a": 1, "b": 2})),
        (r#"{"a": "x" "b": "y"}"#, json!({"a": "x", "b": "y"})),
        ("{\"a\": \"x\"\n b: 1}", json!({"a": "x", "b": 1})),
        (r#"["a" "b"]"#, json!(["a", "b"])),
        (r#"text {"a":1} more"#, json!({"a": 1})),
        ("```json\n{\"a\": 1}\n```", json!({"a": 1})),
        (r#"{"a":1} {"b":2}"#, json!([{"a": 1}, {"b": 2}])),
        (r#"{"a":1} {"a":2}"#, json!({"a": 2})),
        ("{\"a\": \"one\ntwo\"}", json!({"a": "one\ntwo"})),
        (r#"{"a": "x "y" z"}"#, json!({"a": "x \"y\" z"})),
        (r#"{"a": "x "y", z", "b": 1}"#, json!({"a": "x \"y\", z", "b": 1})),
        ("{\"a\": 1, // note\n b: 2 /* c */, # d\n c: 3}", json!({"a": 1, "b": 2, "c": 3})),
        (r#"{"a": {"b": [1, {"c": 2"#, json!({"a": {"b": [1, {"c": 2}]}})),
        (r#"{"a": [1, 2}, "b": 3}"#, json!({"a": [1, 2]})),
        (r#"{"a": "x, "b": 1}"#, json!({"a": "x", "b": 1})),
        (r#"{"a": "x}"#, json!({"a": "x"})),
        (r#"{"a: 1}"#, json!({"a": 1})),
        ("{\"a\": \"\\u00e9\\n\\\"q\\\"\",}", json!({"a": "é\n\"q\""})),
        ("{a: hello world, b: x}", json!({"a": "hello world", "b": "x"})),
        ("{a: 12ab}", json!({"a": "12ab"})),
        ("true", json!(true)),
        ("5", json!(5)),
        ("\"abc\"", json!("abc")),
    ] {
        assert_eq!(repair(text), Ok(value), "{text}");
    }
}

#[test]
fn what_holds_no_json_is_no_json() {
    for text in ["", "  ", "hello", "True", "\"\"", "5 apples"] {
        assert_eq!(repair(text), Err(RepairError::Nothing), "{text:?}");
    }
    for text in ["NaN", " -Infinity ", r#"{"a": NaN}"#] {
        assert_eq!(repair(text), Err(RepairError::NotFinite), "{text:?}");
    }
}

proptest! {
    #[test]
    fn every_text_comes_to_an_end(text in r#"[\[\]{}:,"'/*# \\a1.\n-]{0,60}"#) {
        let _ = repair(&text);
    }

    #[test]
    fn deep_nesting_comes_to_an_end(open in "[\\[{]{200,300}") {
        let _ = repair(&open);
    }
}
