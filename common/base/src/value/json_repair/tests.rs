//! Texts that are almost JSON, with the values that they are repaired to.

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
        (r#"{"a": [1, 2}, "b": 3}"#, json!({"a": [1, 2], "b": 3})),
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

/// Recorded from json_repair 0.64.5, the library with which Dify repairs bodies.
#[test]
fn quotes_in_texts_are_taken_as_dify_takes_them() {
    for (text, value) in [
        (r#"{"text": "{"x": "y"}", "n": 1}"#, r#"{"text":"{\"x\": \"y\"}","n":1}"#),
        (r#"["He said "hi"","z"]"#, r#"["He said \"hi\"","z"]"#),
        (r#"["a", "He said "hi"", "z"]"#, r#"["a","He said \"hi\"","z"]"#),
        (r#"{"a":"b","c"}"#, r#"{"a":"b"}"#),
        (r#"{"a":"b","c","d"}"#, r#"{"a":"b"}"#),
        (r#"{"a" "b"}"#, r#"{"a":"b"}"#),
        (r#"{"text": "He said "hi"", "n": 1}"#, r#"{"text":"He said \"hi\"","n":1}"#),
        (r#"{"text": ""hi" he said", "n": 1}"#, r#"{"text":"\"hi\" he said","n":1}"#),
        (r#"{"text": "say "a" and "b"", "n": 1}"#, r#"{"text":"say \"a\" and \"b\"","n":1}"#),
        (r#"{"text": "a "b, c" d", "n": 1}"#, r#"{"text":"a \"b, c\" d","n":1}"#),
        (r#"{"text": "5" pipe", "n": 1}"#, r#"{"text":"5\" pipe","n":1}"#),
        (r#"{"text": "5" x 6" pipe", "n": 1}"#, r#"{"text":"5\" x 6\" pipe","n":1}"#),
        (r#"{"text": "["a","b"]", "n": 1}"#, r#"{"text":"[\"a\",","n":1}"#),
        (r#"{"text": "[{"a": "b"}]", "n": 1}"#, r#"{"text":"[{\"a\": \"b\"}]","n":1}"#),
        (r#"{"text": "{"a": {"b": "c"}}", "n": 1}"#, r#"{"text":"{\"a\": {\"b\": \"c\"}}","n":1}"#),
        (r#"{"text": "<a href="x">y</a>", "n": 1}"#, r#"{"text":"<a href=\"x\">y</a>","n":1}"#),
        (
            r#"{"text": "<p class="a" id="b">t</p>", "n": 1}"#,
            r#"{"text":"<p class=\"a\" id=\"b\">t</p>","n":1}"#,
        ),
        (
            r#"{"text": "The "a", the "b", and the "c".", "n": 1}"#,
            r#"{"text":"The \"a\", the \"b\", and the \"c\".","n":1}"#,
        ),
        (r#"{"text": "He said: "no", and left.", "n": 1}"#, r#"{"text":"He said: \"no\", and left.","n":1}"#),
        (
            r#"{"m": [{"role": "user", "content": "say "hi", ok"}], "t": 0.5}"#,
            r#"{"m":[{"role":"user","content":"say \"hi\", ok"}],"t":0.5}"#,
        ),
        (
            r#"{"m": [{"role": "user", "content": "{"x": "y"}"}], "t": 0.5}"#,
            r#"{"m":[{"role":"user","content":"{\"x\": \"y\"}"}],"t":0.5}"#,
        ),
        (r#"{"m": {"k": "print("hi")"}, "t": true}"#, r#"{"m":{"k":"print(\"hi\")"},"t":true}"#),
        (r#"["say "a" and "b""]"#, r#"["say \"a\" and \"b\""]"#),
        (r#"["x, "y"", "z"]"#, r#"["x, \"y\"","z"]"#),
        (r#"["a\"b"c"]"#, r#"["a\"b","c"]"#),
        (r#"[""a"", ""b""]"#, r#"["a","b"]"#),
        (r#"{""a"": ""b""}"#, r#"{"a":"b"}"#),
        (r#"{"a": "", "b": x}"#, r#"{"a":"","b":"x"}"#),
        (r#"["", 'a']"#, r#"["","a"]"#),
        ("{\"a\": \"```json\n{\"b\": 1}\n```\"}", r#"{"a":{"b":1}}"#),
        (r#"{"a": "use `code` here", b: 1}"#, r#"{"a":"use `code` here","b":1}"#),
        (r#"{"a": (1, 2), "b": 3}"#, r#"{"a":[1,2],"b":3}"#),
        (r#"{"a": (1), "b": ("x")}"#, r#"{"a":1,"b":"x"}"#),
        ("(1,2)", "[1,2]"),
        (r#"{"a": 1,234, "b": 5/6}"#, r#"{"a":"1,234","b":"5/6"}"#),
        ("{'it': 'it's', 'n': 1}", r#"{"it":"it's","n":1}"#),
        (r#"{"a": “x”, "b": 1}"#, r#"{"a":"x","b":1}"#),
        (r#"{"a": "path C:\new \ud83d\ude00 \x41", b: 1}"#, r#"{"a":"path C:\new 😀 A","b":1}"#),
        (r#"{"d", "e"}"#, r#"["d","e"]"#),
        (r#"{"l": ["x", "y", "o": {}}"#, r#"{"l":["x","y"],"o":{}}"#),
        (r#"{"l": [1, 2], [3, 4]}"#, r#"{"l":[1,2,3,4]}"#),
        (r#"[{"a": 1}, "b": 2}]"#, r#"[{"a":1},{"b":2}]"#),
        (r#"{"a": 1}, "b": 2}"#, r#"{"a":1,"b":2}"#),
        (r#""a": "b", "c": 1}"#, r#"{"a":"b","c":1}"#),
        (r#"{\"a\": \"b\"}"#, r#"{"a":"b"}"#),
    ] {
        assert_eq!(repair(text).map(|value| value.to_string()).as_deref(), Ok(value), "{text}");
    }
}

/// Each character may cause a look-ahead; the total must not grow with the square of the length.
#[test]
fn long_broken_texts_are_read_to_their_end() {
    for text in ["word, \"quoted\" {x} [y]\n", "a, b] } \n", "\"b\"", "a] , }", "\"", "("] {
        for around in ["{\"text\": \"", "[\"a"] {
            let _ = repair(&format!("{around}{}", text.repeat(5000)));
        }
    }
}

#[test]
fn a_text_without_json_is_an_error() {
    for text in ["", "  ", "hello", "True", "\"\"", "5 apples"] {
        assert_eq!(repair(text), Err(RepairError::Nothing), "{text:?}");
    }
    for text in ["NaN", " -Infinity ", r#"{"a": NaN}"#] {
        assert_eq!(repair(text), Err(RepairError::NotFinite), "{text:?}");
    }
}

proptest! {
    #[test]
    fn every_repair_terminates(text in r#"[\[\]{}:,"'/*# \\a1.\n-]{0,60}"#) {
        let _ = repair(&text);
    }

    #[test]
    fn deep_nesting_terminates(open in "[\\[{]{200,300}") {
        let _ = repair(&open);
    }
}
