//! Converts JSON to minijinja's values and back.

use minijinja::value::{Value, ValueKind};
use serde_json::{Map, Number, Value as Json};

use super::mutable;
use super::show;

/// Deepest nesting that is converted to JSON; a deeper value was built by a runaway loop.
const DEPTH_MAX: usize = 200;

/// Converts an input. With `mutable`, methods can change its lists and objects.
pub(super) fn value(json: &Json, mutable: bool) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => {
            let items: Vec<Value> = items.iter().map(|item| value(item, mutable)).collect();
            if mutable { mutable::list(items) } else { Value::from(items) }
        }
        Json::Object(object) => {
            let pairs = object.iter().map(|(key, item)| (Value::from(key.as_str()), value(item, mutable)));
            if mutable { mutable::dict(pairs) } else { Value::from_pairs(pairs) }
        }
    }
}

/// Converts a value to JSON, with keys sorted as Dify's `tojson` does.
///
/// # Errors
/// Python's message for a value that is not JSON; it names the Python type.
pub(super) fn json(value: &Value, depth: usize) -> Result<Json, String> {
    if depth > DEPTH_MAX {
        return Err("Circular reference detected".into());
    }
    let not_json = || format!("Object of type {} is not JSON serializable", show::type_name(value));
    Ok(match value.kind() {
        ValueKind::None => Json::Null,
        ValueKind::Bool => Json::Bool(value.is_true()),
        ValueKind::Number => number(value).ok_or_else(not_json)?,
        ValueKind::String => Json::String(value.as_str().unwrap_or_default().into()),
        ValueKind::Seq | ValueKind::Iterable => {
            let items = value.try_iter().map_err(|_| not_json())?;
            Json::Array(items.map(|item| json(&item, depth + 1)).collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let object = value.as_object().ok_or_else(not_json)?;
            let mut pairs = Vec::new();
            for (key, item) in object.try_iter_pairs().ok_or_else(not_json)? {
                pairs.push((json_key(&key), json(&item, depth + 1)?));
            }
            pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
            Json::Object(Map::from_iter(pairs))
        }
        _ => return Err(not_json()),
    })
}

fn number(value: &Value) -> Option<Json> {
    if value.is_integer() {
        let whole = i64::try_from(value.clone()).map(Number::from);
        return whole.or_else(|_| u64::try_from(value.clone()).map(Number::from)).ok().map(Json::Number);
    }
    // Python writes NaN and Infinity, which are not JSON; later readers could not parse them.
    Some(f64::try_from(value.clone()).ok().and_then(Number::from_f64).map_or(Json::Null, Json::Number))
}

fn json_key(key: &Value) -> String {
    match key.kind() {
        ValueKind::None => "null".into(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.into(),
        _ => show::text(key),
    }
}
