//! Makes up a value that fits a JSON schema, always the same one for a schema: the answer of a mock that is asked for
//! JSON, or the arguments of a call.

use serde_json::{Map, Number, Value as Json, json};

/// Deepest level at which properties and items are made up that the schema does not require.
const OPTIONAL_DEPTH_MAX: usize = 4;
/// Deepest level at all. A schema that requires itself has no value that fits.
const DEPTH_MAX: usize = 32;
/// Most items of a list, whatever `minItems` wants.
const ITEMS_MAX: u64 = 100;
/// Longest text that is made up because of `minLength`, in characters.
const TEXT_CHARS_MAX: u64 = 10_000;

/// A value that fits the schema. `name` is the name of the value, from which its texts are made up.
pub(super) fn value(schema: &Json, name: &str) -> Json {
    Making { root: schema }.value(schema, name, 0)
}

/// An object that fits the schema, also if the schema does not say that it wants an object.
pub(super) fn object(schema: &Json) -> Json {
    match value(schema, "value") {
        made @ Json::Object(_) => made,
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Making { root: schema }.object(schema, 0)
        }
    }
}

struct Making<'a> {
    root: &'a Json,
}

impl Making<'_> {
    fn value(&self, schema: &Json, name: &str, depth: usize) -> Json {
        if depth > DEPTH_MAX {
            return Json::Null;
        }
        if let Some(target) = self.target(schema) {
            return self.value(target, name, depth + 1);
        }
        let kind = kind(schema);
        // The options of a list's items may be written beside the items.
        let first = schema["enum"].as_array().and_then(|options| options.first());
        match (schema.get("const"), first, kind) {
            (Some(constant), _, _) => return constant.clone(),
            (None, Some(option), Some("array")) if !option.is_array() => return json!([option]),
            (None, Some(option), _) => return option.clone(),
            (None, None, _) => {}
        }
        if let Some(default) = schema.get("default").filter(|default| is_of(kind, default)) {
            return default.clone();
        }
        if let Some(choice) = choice(schema) {
            return self.value(&with_rest(schema, choice), name, depth + 1);
        }
        if let Some(Json::Array(parts)) = schema.get("allOf") {
            let whole = parts
                .iter()
                .fold(schema.clone(), |whole, part| merged(&whole, self.target(part).unwrap_or(part)));
            return self.value(&without(&whole, "allOf"), name, depth + 1);
        }
        match kind {
            Some("object") => self.object(schema, depth),
            Some("array") => self.list(schema, name, depth),
            Some("number" | "integer") => number(schema, kind == Some("integer")),
            Some("boolean") => json!(true),
            Some("null") => Json::Null,
            Some(_) | None => json!(text(schema, name)),
        }
    }

    fn object(&self, schema: &Json, depth: usize) -> Json {
        let mut made = Map::new();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let properties = schema["properties"].as_object();
        for (name, property) in properties.into_iter().flatten() {
            if depth < OPTIONAL_DEPTH_MAX || required.contains(&name.as_str()) {
                made.insert(name.clone(), self.value(property, name, depth + 1));
            }
        }
        for name in required {
            if !made.contains_key(name) {
                let other = &schema["additionalProperties"];
                made.insert(name.to_owned(), self.value(other, name, depth + 1));
            }
        }
        Json::Object(made)
    }

    fn list(&self, schema: &Json, name: &str, depth: usize) -> Json {
        let first = schema["prefixItems"].as_array().or_else(|| schema["items"].as_array());
        if let Some(first) = first {
            return first.iter().map(|item| self.value(item, name, depth + 1)).collect();
        }
        let wanted = u64::from(depth < OPTIONAL_DEPTH_MAX && schema["items"].is_object());
        let most = schema["maxItems"].as_u64().unwrap_or(ITEMS_MAX).min(ITEMS_MAX);
        let count = schema["minItems"].as_u64().unwrap_or(wanted).min(most).max(wanted.min(most));
        (0..count).map(|_| self.value(&schema["items"], name, depth + 1)).collect()
    }

    /// The schema that a reference within the document names.
    fn target(&self, schema: &Json) -> Option<&Json> {
        let path = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
        self.root.pointer(path)
    }
}

/// The type of a schema, stated or visible from its keys; the first of several that is not null.
fn kind(schema: &Json) -> Option<&str> {
    match schema.get("type") {
        Some(Json::String(kind)) => Some(kind),
        Some(Json::Array(kinds)) => {
            let kinds: Vec<&str> = kinds.iter().filter_map(Json::as_str).collect();
            kinds.iter().find(|kind| **kind != "null").or(kinds.first()).copied()
        }
        Some(Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_)) | None => {
            let keys = [("properties", "object"), ("required", "object"), ("items", "array")];
            keys.into_iter().find(|(key, _)| schema.get(key).is_some()).map(|(_, kind)| kind)
        }
    }
}

fn is_of(kind: Option<&str>, value: &Json) -> bool {
    match kind {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("string") => value.is_string(),
        Some(_) | None => true,
    }
}

/// The first alternative of a schema that is not null.
fn choice(schema: &Json) -> Option<&Json> {
    let choices = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array())?;
    choices.iter().find(|choice| choice["type"] != "null").or_else(|| choices.first())
}

/// An alternative together with the keys beside the alternatives.
fn with_rest(schema: &Json, choice: &Json) -> Json {
    merged(&without(&without(schema, "anyOf"), "oneOf"), choice)
}

fn without(schema: &Json, key: &str) -> Json {
    let keys = schema.as_object().into_iter().flatten().filter(|(name, _)| *name != key);
    Json::Object(keys.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Both schemas in one: properties and required names of both; else the second one counts.
fn merged(one: &Json, other: &Json) -> Json {
    let mut all = one.as_object().cloned().unwrap_or_default();
    for (key, value) in other.as_object().into_iter().flatten() {
        match (key.as_str(), all.get_mut(key), value) {
            ("properties", Some(Json::Object(known)), Json::Object(more)) => {
                known.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            ("required", Some(Json::Array(known)), Json::Array(more)) => known.extend(more.iter().cloned()),
            _ => {
                all.insert(key.clone(), value.clone());
            }
        }
    }
    Json::Object(all)
}

fn number(schema: &Json, is_whole: bool) -> Json {
    let bound = |key: &str| schema.get(key).and_then(Json::as_f64);
    let least = bound("minimum").or_else(|| bound("exclusiveMinimum").map(|least| least + 1.0));
    let most = bound("maximum").or_else(|| bound("exclusiveMaximum").map(|most| most - 1.0));
    let mut number: f64 = 1.0;
    if let Some(most) = most {
        number = number.min(most);
    }
    if let Some(least) = least {
        number = number.max(least);
    }
    // Between two close bounds that are both excluded.
    if let (Some(above), Some(below)) = (bound("exclusiveMinimum"), bound("exclusiveMaximum"))
        && (number <= above || number >= below)
    {
        number = f64::midpoint(above, below);
    }
    if let Some(step) = bound("multipleOf").filter(|step| *step > 0.0) {
        number = (number / step).ceil() * step;
    }
    if is_whole {
        number = number.ceil();
    }
    whole(number)
        .map_or_else(|| Number::from_f64(number).map_or(json!(1), Json::Number), |whole| json!(whole))
}

#[allow(clippy::cast_possible_truncation)]
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

fn text(schema: &Json, name: &str) -> String {
    let text = match schema["format"].as_str() {
        Some("date") => "2025-01-01".to_owned(),
        Some("time") => "12:00:00Z".to_owned(),
        Some("date-time") => "2025-01-01T12:00:00Z".to_owned(),
        Some("email") => "mock@example.com".to_owned(),
        Some("uri" | "url") => "https://example.com/".to_owned(),
        Some("uuid") => "00000000-0000-4000-8000-000000000000".to_owned(),
        Some("ipv4") => "192.0.2.1".to_owned(),
        Some("hostname") => "example.com".to_owned(),
        // Steps name fields by their path.
        Some(_) | None => format!("mock {}", name.rsplit('/').next().unwrap_or(name)),
    };
    let least = schema["minLength"].as_u64().unwrap_or(0).min(TEXT_CHARS_MAX);
    let most = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
    let size = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
    let missing = size(least).saturating_sub(text.chars().count());
    text.chars().chain(std::iter::repeat_n('x', missing)).take(size(most)).collect()
}
