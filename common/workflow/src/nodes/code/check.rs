//! Checks the result of user code: exactly the declared outputs, of the declared types, within the limits. The order of
//! checks, the messages and the oddities are Dify's, since a workflow sees the first failure.

use serde_json::{Value as Json, json};

use super::result::{python_type_name, scientific};
use super::{CodeLimits, Output, OutputType};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::JsonMap;
use tidemill_base::value::pyrepr::float_repr;

/// The checked outputs, in the declared order.
///
/// # Errors
/// The first output that does not fit, with Dify's class and message.
pub fn outputs(result: JsonMap, declared: &[Output], limits: &CodeLimits) -> Result<JsonMap, NodeFailure> {
    Check { limits }.declared(result, declared, "", 1)
}

struct Check<'a> {
    limits: &'a CodeLimits,
}

type Checked<T> = Result<T, NodeFailure>;

fn wrong<T>(message: String) -> Checked<T> {
    Err(NodeFailure::new("OutputValidationError", message))
}

/// A text in scientific notation, such as `1e-07`, as the number that it means where a number is declared. Dify reads
/// such texts as numbers everywhere.
fn as_number(value: Json) -> Json {
    match value.as_str().and_then(scientific) {
        Some(number) => Json::Number(number),
        None => value,
    }
}

/// `<class 'str'>`, as Python shows a type.
fn class(value: &Json) -> String {
    format!("<class '{}'>", python_type_name(value))
}

fn path(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// In Python booleans are numbers.
fn is_number(value: &Json) -> bool {
    value.is_number() || value.is_boolean()
}

fn null_or(test: fn(&Json) -> bool) -> impl Fn(&Json) -> bool {
    move |value| value.is_null() || test(value)
}

impl Check<'_> {
    // Recursion is bounded by the limit on depth.
    fn declared(
        &self,
        mut result: JsonMap,
        declared: &[Output],
        prefix: &str,
        depth: u32,
    ) -> Checked<JsonMap> {
        self.depth(depth)?;
        let count = result.len();
        let mut checked = JsonMap::new();
        for output in declared {
            let path = path(prefix, &output.name);
            let Some(value) = result.get_mut(&output.name).map(Json::take) else {
                return wrong(format!("Output {path} is missing."));
            };
            let value = if value.is_null() { value } else { self.output(value, output, &path, depth)? };
            checked.insert(output.name.clone(), value);
        }
        if checked.len() != count {
            return Err(NodeFailure::new("CodeNodeError", "Not all output parameters are validated."));
        }
        Ok(checked)
    }

    /// A declared output that is not null.
    fn output(&self, value: Json, output: &Output, path: &str, depth: u32) -> Checked<Json> {
        match (output.ty, value) {
            (OutputType::Boolean, value) => Ok(value),
            (OutputType::String, value) => self.string(value, path),
            (OutputType::Number, value) => self.number(value, path),
            (OutputType::Object, Json::Object(map)) => {
                self.object(map, output.children.as_deref(), path, depth + 1)
            }
            (OutputType::Object, other) => {
                wrong(format!("Output {path} is not an object, got {} instead.", class(&other)))
            }
            (OutputType::ArrayString, Json::Array(items)) => self.strings(items, path),
            (OutputType::ArrayNumber, Json::Array(items)) => self.numbers(items, path),
            (OutputType::ArrayObject, Json::Array(items)) => {
                self.objects(items, output.children.as_deref(), path, depth + 1)
            }
            (OutputType::ArrayBoolean, Json::Array(items)) => booleans(items, path),
            (
                OutputType::ArrayString
                | OutputType::ArrayNumber
                | OutputType::ArrayObject
                | OutputType::ArrayBoolean,
                other,
            ) => wrong(format!("Output {path} is not an array, got {} instead.", class(&other))),
        }
    }

    fn object(&self, map: JsonMap, children: Option<&[Output]>, path: &str, depth: u32) -> Checked<Json> {
        match children {
            Some(children) => self.declared(map, children, path, depth).map(Json::Object),
            None => {
                self.untyped(&map, path, depth)?;
                Ok(Json::Object(map))
            }
        }
    }

    fn strings(&self, items: Vec<Json>, path: &str) -> Checked<Json> {
        self.length(items.len(), self.limits.string_array, path)?;
        let checked =
            items.into_iter().enumerate().map(|(at, item)| self.string(item, &format!("{path}[{at}]")));
        checked.collect()
    }

    fn numbers(&self, items: Vec<Json>, path: &str) -> Checked<Json> {
        self.length(items.len(), self.limits.number_array, path)?;
        let one = |(at, item): (usize, Json)| match as_number(item) {
            Json::Bool(flag) => Ok(json!(i32::from(flag))),
            item @ Json::Number(_) => Ok(item),
            Json::Null | Json::String(_) | Json::Array(_) | Json::Object(_) => {
                wrong(format!("The element at index {at} of output variable `{path}` must be a number."))
            }
        };
        items.into_iter().enumerate().map(one).collect()
    }

    /// The types of all items are checked before their contents.
    fn objects(
        &self,
        items: Vec<Json>,
        children: Option<&[Output]>,
        path: &str,
        depth: u32,
    ) -> Checked<Json> {
        self.length(items.len(), self.limits.object_array, path)?;
        if let Some(at) = items.iter().position(|item| !null_or(Json::is_object)(item)) {
            let class = class(&items[at]);
            return wrong(format!(
                "Output {path}[{at}] is not an object, got {class} instead at index {at}."
            ));
        }
        let one = |(at, item): (usize, Json)| match item {
            Json::Object(map) => self.object(map, children, &format!("{path}[{at}]"), depth),
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => Ok(item),
        };
        items.into_iter().enumerate().map(one).collect()
    }

    /// A text or null. NUL characters are removed after the length check.
    fn string(&self, value: Json, path: &str) -> Checked<Json> {
        self.text(&value, path)?;
        match value {
            Json::String(text) if text.contains('\0') => Ok(Json::String(text.replace('\0', ""))),
            Json::Null
            | Json::Bool(_)
            | Json::Number(_)
            | Json::String(_)
            | Json::Array(_)
            | Json::Object(_) => Ok(value),
        }
    }

    fn text(&self, value: &Json, path: &str) -> Checked<()> {
        let max = self.limits.string_chars;
        match value {
            Json::Null => Ok(()),
            // A text has at least as many bytes as characters, so most texts need no counting.
            Json::String(text) if text.len() <= max || text.chars().count() <= max => Ok(()),
            Json::String(_) => {
                wrong(format!("The length of output variable `{path}` must be less than {max} characters"))
            }
            Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => {
                wrong(format!("Output {path} must be a string, got {} instead.", python_type_name(value)))
            }
        }
    }

    fn number(&self, value: Json, path: &str) -> Checked<Json> {
        let value = as_number(value);
        self.range(&value, path)?;
        match value {
            Json::Bool(flag) => Ok(json!(i32::from(flag))),
            Json::Null | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => Ok(value),
        }
    }

    fn range(&self, value: &Json, path: &str) -> Checked<()> {
        let CodeLimits { number_min: min, number_max: max, precision, .. } = *self.limits;
        let number = match value {
            Json::Null | Json::Bool(_) => return Ok(()),
            Json::Number(number) => number,
            Json::String(_) | Json::Array(_) | Json::Object(_) => {
                return wrong(format!("Output {path} is not a number, got {} instead.", class(value)));
            }
        };
        let float = number.as_f64().filter(|_| number.is_f64());
        let within = match (number.as_i64(), float) {
            (Some(whole), _) => (min..=max).contains(&whole),
            // Python compares exactly: 2^63 as a float is larger than 2^63 - 1.
            (None, Some(float)) => float_within(float, min, max),
            (None, None) => false,
        };
        if !within {
            return wrong(format!(
                "Output variable `{path}` is out of range, it must be between {min} and {max}."
            ));
        }
        if float.is_some_and(|float| decimal_places(float) > i64::from(precision)) {
            return wrong(format!(
                "Output variable `{path}` has too high precision, it must be less than {precision} digits."
            ));
        }
        Ok(())
    }

    /// Checks an object without declared fields, and everything below it. Limits on list lengths do not apply here.
    // Recursion is bounded by the limit on depth.
    fn untyped(&self, map: &JsonMap, prefix: &str, depth: u32) -> Checked<()> {
        self.depth(depth)?;
        for (name, value) in map {
            let path = path(prefix, name);
            match value {
                Json::Null | Json::Bool(_) => {}
                Json::Number(_) => self.range(value, &path)?,
                Json::String(_) => self.text(value, &path)?,
                Json::Object(map) => self.untyped(map, &path, depth + 1)?,
                Json::Array(items) => self.untyped_list(items, &path, depth + 1)?,
            }
        }
        Ok(())
    }

    /// All items must have the type of the first. A list that begins with null is not checked.
    fn untyped_list(&self, items: &[Json], path: &str, depth: u32) -> Checked<()> {
        let first = items.first().unwrap_or(&Json::Null);
        let all = |test: fn(&Json) -> bool| items.iter().all(null_or(test));
        let places = || items.iter().enumerate().map(|(at, item)| (format!("{path}[{at}]"), item));
        match first {
            Json::Null => Ok(()),
            Json::Bool(_) | Json::Number(_) if all(is_number) => {
                places().try_for_each(|(path, item)| self.range(item, &path))
            }
            Json::String(_) if all(Json::is_string) => {
                places().try_for_each(|(path, item)| self.text(item, &path))
            }
            Json::Object(_) if all(Json::is_object) => places().try_for_each(|(path, item)| match item {
                Json::Object(map) => self.untyped(map, &path, depth),
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => Ok(()),
            }),
            // Dify takes the inner list for an object and fails with Python's message.
            Json::Array(_) if all(Json::is_array) => {
                self.depth(depth)?;
                Err(NodeFailure::escaped("'list' object has no attribute 'items'"))
            }
            Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) | Json::Object(_) => wrong(
                format!("Output {path} is not a valid array. make sure all elements are of the same type."),
            ),
        }
    }

    fn depth(&self, depth: u32) -> Checked<()> {
        let max = self.limits.depth;
        if depth <= max {
            return Ok(());
        }
        Err(NodeFailure::new("DepthLimitError", format!("Depth limit {max} reached, object too deep.")))
    }

    fn length(&self, length: usize, max: usize, path: &str) -> Checked<()> {
        if length <= max {
            return Ok(());
        }
        wrong(format!("The length of output variable `{path}` must be less than {max} elements."))
    }
}

fn booleans(items: Vec<Json>, path: &str) -> Checked<Json> {
    let odd = items.iter().position(|item| !null_or(Json::is_boolean)(item));
    match odd {
        Some(at) => {
            let class = class(&items[at]);
            wrong(format!("Output {path}[{at}] is not a boolean, got {class} instead."))
        }
        None => Ok(Json::Array(items)),
    }
}

/// True when a float is within whole bounds, compared exactly.
fn float_within(value: f64, min: i64, max: i64) -> bool {
    // Beyond i128 the cast saturates, which is outside all bounds. Floor and ceiling keep a fraction next to a bound
    // exact.
    let (floor, ceiling) = (value.floor() as i128, value.ceil() as i128);
    i128::from(min) <= floor && ceiling <= i128::from(max)
}

/// Decimal places of the shortest text of a float, without trailing zeros; negative for 1e+16 and the like.
fn decimal_places(value: f64) -> i64 {
    let text = float_repr(value);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i64 = exponent.parse().unwrap_or_default();
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if !fraction.is_empty() {
        return fraction.len() as i64 - exponent;
    }
    let zeros = whole.len() - whole.trim_end_matches('0').len();
    if whole.trim_start_matches('-').trim_end_matches('0').is_empty() {
        0
    } else {
        -(zeros as i64) - exponent
    }
}
