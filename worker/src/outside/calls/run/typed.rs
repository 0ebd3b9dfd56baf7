//! Applies the types of the output's schema, and checks outputs that must match it.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::step::CallError;
use tidemill_common::slots::Schema;
use tidemill_common::value::{JsonMap, Segment, SegmentType};

use crate::outside::calls::run::value_of;

/// The error type of an output that does not match.
const OUTPUT_MISMATCH: &str = "OutputSchemaMismatch";

/// Gives outputs their declared types where the values match. With `is_strict` a mismatch is an error.
pub(super) fn typed(
    mut outputs: Vec<(String, Segment)>,
    schema: Json,
    is_strict: bool,
) -> Result<Vec<(String, Segment)>, CallError> {
    for (name, segment) in &mut outputs {
        let declared = schema.get("properties").and_then(|properties| properties.get(name.as_str()));
        if let Some(ty) = declared.and_then(|declared| type_of(declared, &segment.value)) {
            segment.ty = ty;
        }
    }
    if is_strict {
        let schema = Schema::new(schema).map_err(|error| CallError::of("ValueError", error.to_string()))?;
        let value: JsonMap = outputs.iter().map(value_of).collect();
        if let Some(wrong) = schema.missing(&Json::Object(value)).first() {
            let message = format!("the output does not fit its schema: {}: {}", wrong.pointer, wrong.problem);
            return Err(CallError::of(OUTPUT_MISMATCH, message).with(json!({"field": wrong.pointer})));
        }
    }
    Ok(outputs)
}

/// Returns the declared type, if the value matches and does not show the type itself: the item type of a list, or
/// whether a number has a fraction.
fn type_of(declared: &Json, value: &Json) -> Option<SegmentType> {
    match (named(declared)?, value) {
        ("number", Json::Number(_)) => Some(SegmentType::Float),
        ("array", Json::Array(items)) => {
            let (ty, fits): (_, fn(&Json) -> bool) = match declared.get("items").and_then(named) {
                Some("string") => (SegmentType::ArrayString, Json::is_string),
                Some("number" | "integer") => (SegmentType::ArrayNumber, Json::is_number),
                Some("object") => (SegmentType::ArrayObject, Json::is_object),
                Some("boolean") => (SegmentType::ArrayBoolean, Json::is_boolean),
                _ => (SegmentType::ArrayAny, |_| true),
            };
            items.iter().all(fits).then_some(ty)
        }
        _ => None,
    }
}

/// The type a schema names; in a list the first one other than null.
fn named(schema: &Json) -> Option<&str> {
    match schema.get("type")? {
        Json::Array(types) => types.iter().filter_map(Json::as_str).find(|ty| *ty != "null"),
        ty => ty.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_have_the_types_that_are_declared_where_their_values_are_of_them() {
        let list = |of: &str| json!({"type": ["null", "array"], "items": {"type": of}});
        for (declared, value, expected) in [
            (list("string"), json!([]), SegmentType::ArrayString),
            (list("integer"), json!([]), SegmentType::ArrayNumber),
            (list("object"), json!([]), SegmentType::ArrayObject),
            (list("boolean"), json!([true]), SegmentType::ArrayBoolean),
            (json!({"type": "array"}), json!(["a"]), SegmentType::ArrayAny),
            (json!({"type": "number"}), json!(7), SegmentType::Float),
            (json!({"type": "integer"}), json!(7), SegmentType::Integer),
            // A value that does not match keeps its own type.
            (list("string"), json!([1]), SegmentType::ArrayNumber),
            (json!({"type": "number"}), json!("7"), SegmentType::String),
            (json!({}), json!([]), SegmentType::ArrayAny),
        ] {
            let outputs = vec![("x".to_owned(), Segment::infer(value.clone()))];
            let schema = json!({"type": "object", "properties": {"x": declared}});
            let typed = typed(outputs, schema, false).unwrap();
            assert_eq!(typed[0].1, Segment { ty: expected, value }, "{declared}");
        }
    }
}
