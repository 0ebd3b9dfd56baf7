use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::answer::{UserInput, given, in_reply, nested};
use super::missing::pointer_schema;
use super::pointer::{merge, put};
use super::{Filled, Schema, SlotOutput, with_overrides};
use tidemill_base::value::JsonMap;

fn map(value: Json) -> JsonMap {
    value.as_object().unwrap().clone()
}
fn schema(source: Json) -> Schema {
    Schema::new(source).unwrap()
}
fn weather() -> Schema {
    schema(json!({"type": "object", "properties": {
        "url": {"type": "string"},
        "query": {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"type": "string"}}, "required": ["city"]},
    }, "required": ["url", "query"]}))
}
fn places(schema: &Schema, value: Json) -> Vec<String> {
    schema.missing(&value).into_iter().map(|field| field.pointer).collect()
}

#[test]
fn absent_and_invalid_fields_are_missing() {
    for (value, expected) in [
        (json!({"url": "u", "query": {"city": "Rome"}}), &[][..]),
        (json!({"url": "u", "query": {"unit": "C"}}), &["/query/city"]),
        (json!({"url": "u", "query": {"city": 5}}), &["/query/city"]),
        (json!({"url": "u", "query": "city"}), &["/query"]),
        (json!({"url": 1}), &["/url", "/query"]),
        (json!({"url": "u", "query": {"city": "Rome"}, "more": 1}), &[]),
        (json!([]), &[""]),
    ] {
        let mut found = places(&weather(), value.clone());
        found.sort();
        let mut expected: Vec<_> = expected.iter().map(ToString::to_string).collect();
        expected.sort();
        assert_eq!(found, expected, "{value}");
    }
}

#[test]
fn missing_fields_are_requested_under_pointers() {
    let missing = weather().missing(&json!({"url": "u", "query": {"unit": "C"}}));
    let expected = json!({"type": "object", "properties": {"/query/city": {"type": "string"}}, "required": ["/query/city"]});
    assert_eq!(pointer_schema(&missing), Some(expected));
    assert_eq!(pointer_schema(&[]), None);
}

#[test]
fn the_schema_of_a_place_is_found_through_items_references_and_parts() {
    let schema = schema(json!({
        "definitions": {"person": {"type": "object", "properties": {"name": {"type": "string", "minLength": 1}}, "required": ["name"]}},
        "properties": {"all": {"type": "array", "items": {"$ref": "#/definitions/person"}}},
        "allOf": [{"properties": {"n": {"type": "integer"}}, "required": ["n"]}],
    }));
    let missing = schema.missing(&json!({"all": [{"name": "A"}, {}]}));
    let mut found: Vec<_> =
        missing.iter().map(|field| (field.pointer.as_str(), field.schema.clone())).collect();
    found.sort_by_key(|(pointer, _)| *pointer);
    assert_eq!(
        found,
        [("/all/1/name", json!({"type": "string", "minLength": 1})), ("/n", json!({"type": "integer"}))]
    );
}

#[test]
fn dates_and_timestamps_are_types() {
    let schema = schema(json!({"properties": {
        "day": {"type": "date"}, "at": {"type": "timestamp"}, "perhaps": {"type": ["date", "null"]},
        "type": {"type": "string"},
    }}));
    for (value, expected) in [
        (json!({"day": "2026-01-31", "at": 1700000000, "perhaps": null}), &[][..]),
        (json!({"day": "2026-01-31 10:00:00", "at": "1700000000000", "perhaps": "2026-02-01"}), &[]),
        (json!({"day": "2026-02-31"}), &["/day"]),
        (json!({"day": 5}), &["/day"]),
        (json!({"at": "tomorrow"}), &["/at"]),
        (json!({"at": -1}), &["/at"]),
        (json!({"perhaps": "soon"}), &["/perhaps"]),
        (json!({"type": 5}), &["/type"]),
    ] {
        assert_eq!(places(&schema, value.clone()), expected, "{value}");
    }
    assert_eq!(schema.at("/day"), json!({"type": "date"}));
}

#[test]
fn an_invalid_schema_is_an_error() {
    for wrong in [json!({"type": "txt"}), json!(5), json!({"required": "a"})] {
        let error = Schema::new(wrong).unwrap_err().to_string();
        assert!(error.starts_with("Invalid JSON Schema: "), "{error}");
    }
}

#[test]
fn overrides_replace_whole_properties() {
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]});
    let out = with_overrides(&schema, &map(json!({"b": {"type": "integer"}, "c": {}})));
    let properties = json!({"a": {"type": "string"}, "b": {"type": "integer"}, "c": {}});
    assert_eq!(out, json!({"type": "object", "properties": properties, "required": ["a"]}));
    assert_eq!(with_overrides(&schema, &JsonMap::new()), schema);
    assert_eq!(
        with_overrides(&json!({}), &map(json!({"a": {}}))),
        json!({"type": "object", "properties": {"a": {}}})
    );
}

#[test]
fn se_a08_a_default_fills_what_is_required_without_a_model() {
    let schema = schema(
        json!({"properties": {"days": {"type": "integer", "default": 3}, "unit": {"default": "C"}}, "required": ["days"]}),
    );
    let mut filled = Filled::begin(&schema, JsonMap::new());
    assert!(!filled.is_complete());
    filled.take_defaults(&schema);
    assert!(filled.is_complete());
    let output = SlotOutput {
        slot_data: map(json!({"days": 3})),
        remaining_schema: None,
        filled_fields: vec!["days".into()],
    };
    assert_eq!(filled.output(), output);
    assert_eq!(filled.data, json!({"days": 3}));
}

#[test]
fn se_a02_an_answer_fills_what_is_missing_and_changes_nothing_else() {
    let known = json!({"url": "u", "query": {"unit": "C"}});
    for answer in [
        json!({"query": {"city": "Paris"}}),
        json!({"/query/city": "Paris"}),
        json!({"query": {"city": "Paris", "unit": "F"}, "url": "http://elsewhere"}),
    ] {
        let mut filled = Filled::begin(&weather(), map(known.clone()));
        filled.take_missing(&weather(), &nested(&map(answer)));
        assert_eq!(filled.data, json!({"url": "u", "query": {"unit": "C", "city": "Paris"}}));
        let output = filled.output();
        assert_eq!(output.slot_data, map(json!({"query": {"city": "Paris"}})));
        assert_eq!((output.remaining_schema, output.filled_fields), (None, vec!["query/city".into()]));
    }
}

#[test]
fn invalid_values_stay_missing() {
    let mut filled = Filled::begin(&weather(), map(json!({"url": "u", "query": {}})));
    filled.take_missing(&weather(), &json!({"query": {"city": 5}}));
    assert_eq!(filled.places, [""; 0]);
    assert_eq!(filled.output().remaining_schema.unwrap()["required"], json!(["/query/city"]));
    filled.take_all(&weather(), json!({"query": {"city": 5}}));
    assert_eq!(filled.current(), map(json!({"url": "u", "query": {"city": null}})));
    filled.take_all(&weather(), json!({"query": {"city": "Lyon"}}));
    assert!(filled.is_complete());
    assert_eq!(filled.output().filled_fields, ["query/city"]);
}

#[test]
fn the_object_in_a_reply_is_found() {
    let found = Some(map(json!({"a": 1})));
    for reply in [
        r#"{"a": 1}"#,
        "Sure!\n```json\n{\"a\": 1}\n```\nDone {ok}",
        r#"<think>{"a": 2}</think> it is {"a": 1}."#,
        "{'a': 1,}",
        "```\n{\"a\": 1}\n```",
    ] {
        assert_eq!(in_reply(reply), found, "{reply}");
    }
    for reply in ["", "no idea", "[1, 2]", "}{"] {
        assert_eq!(in_reply(reply), None, "{reply}");
    }
}

#[test]
fn a_person_answers_in_several_shapes_or_cancels() {
    let values =
        |content: Json, description: &str| UserInput::Values { content, description: description.into() };
    for (answer, expected) in [
        (json!({"query": {"city": "Lyon"}}), values(json!({"query": {"city": "Lyon"}}), "")),
        (json!({"content": {"/query/city": "Lyon"}}), values(json!({"query": {"city": "Lyon"}}), "")),
        (
            json!({"content": {"/query/city": "Lyon"}, "description": " and in F "}),
            values(json!({"query": {"city": "Lyon"}}), "and in F"),
        ),
        (json!({"content": {}, "description": "Lyon"}), values(json!({}), "Lyon")),
        (json!({"content": "text", "city": 1}), values(json!({"content": "text", "city": 1}), "")),
        (json!({}), UserInput::Nothing),
        (json!({"content": {}}), UserInput::Nothing),
        (json!(null), UserInput::Nothing),
        (json!(false), UserInput::Nothing),
    ] {
        assert_eq!(given(&answer), expected, "{answer}");
    }
}

#[test]
fn an_output_reads_back_and_an_empty_schema_asks_for_nothing() {
    let mut output = map(json!({"slot_data": {"a": 1}, "remaining_schema": {}, "filled_fields": ["a"]}));
    assert_eq!(SlotOutput::read(&output).remaining_schema, None);
    output.insert("remaining_schema".into(), Json::Null);
    assert_eq!(SlotOutput::read(&output).object(), output);
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Json::from),
        (0..9).prop_map(Json::from),
        "[a-c/~]{0,3}".prop_map(Json::from)
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            prop::collection::vec(("[a-c/~]{1,2}", inner), 0..4)
                .prop_map(|entries| Json::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn a_value_put_at_a_place_is_found_there(mut root in any_json(), keys in prop::collection::vec("[a-c/~]{1,2}", 1..4), value in any_json()) {
        let pointer = keys.iter().fold(String::new(), |at, key| super::pointer::join(&at, key));
        if put(&mut root, &pointer, value.clone()) {
            prop_assert_eq!(root.pointer(&pointer), Some(&value));
        }
    }
    #[test]
    fn merging_twice_is_merging_once(mut into in any_json(), from in any_json()) {
        merge(&mut into, from.clone());
        let once = into.clone();
        merge(&mut into, from);
        prop_assert_eq!(into, once);
    }
    #[test]
    fn filling_leaves_nothing_missing_that_it_says_it_filled(data in any_json(), answer in any_json()) {
        let schema = schema(json!({"properties": {
            "a": {"type": "integer"}, "b": {"type": "object", "properties": {"c": {"type": "string"}}, "required": ["c"]},
        }, "required": ["a", "b"]}));
        let Json::Object(data) = data else { return Ok(()) };
        let mut filled = Filled::begin(&schema, data);
        let before = filled.missing.len();
        filled.take_missing(&schema, &answer);
        prop_assert!(filled.missing.len() <= before);
        for place in &filled.places {
            prop_assert!(!filled.missing.iter().any(|field| field.pointer == *place));
        }
        prop_assert_eq!(&schema.missing(&filled.data), &filled.missing);
    }
}

#[test]
fn se_a02_found_objects_get_the_defaults_of_absent_fields() {
    let schema = Schema::new(json!({"type": "object", "required": ["query"], "properties": {"query": {
        "type": "object", "required": ["city", "unit", "place"], "properties": {
            "city": {"type": "string"}, "unit": {"type": "string", "default": "C"},
            "place": {"type": "object", "required": ["n"], "default": {}, "properties": {"n": {"type": "integer", "default": 3}}}}}}}))
    .unwrap();
    let mut filled = Filled::begin(&schema, JsonMap::new());
    filled.take_missing(&schema, &json!({"query": {"city": "Paris"}}));
    assert!(filled.is_complete(), "{:?}", filled.missing);
    assert_eq!(filled.data, json!({"query": {"city": "Paris", "unit": "C", "place": {"n": 3}}}));
    // A default does not replace an invalid value.
    let mut filled = Filled::begin(&schema, JsonMap::new());
    filled.take_missing(&schema, &json!({"query": {"city": "Paris", "unit": 5}}));
    assert!(!filled.is_complete());
}
