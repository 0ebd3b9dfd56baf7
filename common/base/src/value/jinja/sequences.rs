//! Filters on lists and objects that minijinja lacks or implements differently.

use minijinja::value::{Kwargs, Tuple, Value, ValueKind};
use minijinja::{Environment, Error, State};

use super::arguments::given;
use super::budget::{charge, width};
use super::ops::{failure, undefined};
use super::show;

/// Adds the filters.
pub(super) fn add(env: &mut Environment<'static>) {
    let length = |state: &State, value: Value| {
        given(state, &value)?;
        let length = if value.is_undefined() { Some(0) } else { value.len() };
        let none = || failure(format!("object of type '{}' has no len()", show::type_name(&value)));
        length.filter(|_| !value.is_none()).ok_or_else(none)
    };
    env.add_filter("length", length);
    env.add_filter("count", length);
    env.add_filter("list", |state: &mut State, value: Value| {
        given(state, &value)?;
        let items = items(&value)?;
        charge(state, items.len() * size_of::<Value>())?;
        Ok::<_, Error>(Value::from(items))
    });
    // A repeated run must produce the same text again, so the choice must not be random.
    env.add_filter("random", |state: &State, value: Value| {
        given(state, &value)?;
        if matches!(value.kind(), ValueKind::None | ValueKind::Bool | ValueKind::Number) {
            return Err(failure(format!("object of type '{}' has no len()", show::type_name(&value))));
        }
        items(&value).map(|items| items.into_iter().next().unwrap_or_default())
    });
    env.add_filter("first", |state: &State, value: Value| {
        given(state, &value)?;
        items(&value).map(|items| items.into_iter().next().unwrap_or_default())
    });
    env.add_filter("last", |state: &State, value: Value| {
        given(state, &value)?;
        if matches!(value.kind(), ValueKind::None | ValueKind::Bool | ValueKind::Number) {
            return Err(failure(format!("'{}' object is not reversible", show::type_name(&value))));
        }
        items(&value).map(|items| items.into_iter().next_back().unwrap_or_default())
    });
    env.add_filter("reverse", reverse);
    env.add_filter("sum", sum);
    env.add_filter("slice", slice);
    env.add_filter("batch", batch);
    env.add_filter("items", |value: Value| {
        if value.is_undefined() {
            return Ok(Value::from(Vec::<Value>::new()));
        }
        let pairs =
            value.as_object().filter(|_| value.kind() == ValueKind::Map).and_then(|o| o.try_iter_pairs());
        let pairs = pairs.ok_or_else(|| failure("Can only get item pairs from a mapping."))?;
        Ok::<_, Error>(
            pairs.map(|(key, item)| Value::from(Tuple::from([key, item]))).collect::<Vec<_>>().into(),
        )
    });
}

/// Reverses a text, or returns the reversed list of items of any other value.
fn reverse(state: &mut State, value: Value) -> Result<Value, Error> {
    given(state, &value)?;
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items = items(&value).map_err(|_| failure("argument must be iterable"))?;
    charge(state, items.len() * size_of::<Value>())?;
    items.reverse();
    Ok(Value::from(items))
}

/// Returns the pairs of an object.
///
/// # Errors
/// Python's message for any other value.
pub(super) fn pairs_of(value: &Value) -> Result<Vec<(Value, Value)>, Error> {
    if value.is_undefined() {
        return Err(undefined(value));
    }
    let pairs = value.as_object().filter(|_| value.kind() == ValueKind::Map).and_then(|o| o.try_iter_pairs());
    let none = || failure(format!("'{}' object has no attribute 'items'", show::type_name(value)));
    pairs.map(Iterator::collect).ok_or_else(none)
}

/// Builds the error for an item that lacks an attribute.
pub(super) fn no_attribute(item: &Value, name: &Value) -> Error {
    let owner = show::type_name(item);
    let owner = if item.is_none() { "None".into() } else { format!("{owner} object") };
    failure(format!("'{owner}' has no attribute '{}'", show::text(name)))
}

/// Returns the items over which a `for` would iterate.
///
/// # Errors
/// When the value is not iterable.
pub(super) fn items(value: &Value) -> Result<Vec<Value>, Error> {
    match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => {
            Err(failure(format!("'{}' object is not iterable", show::type_name(value))))
        }
        _ => value
            .try_iter()
            .map(Iterator::collect)
            .map_err(|_| failure(format!("'{}' object is not iterable", show::type_name(value)))),
    }
}

/// Returns the items in the type of `value`: a tuple or a list.
pub(super) fn like(value: &Value, items: Vec<Value>) -> Value {
    if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) }
}

/// Returns an attribute as filters name it: a number, or a path with dots.
///
/// # Errors
/// When a value on the path is undefined.
pub(super) fn attribute(item: &Value, path: &Value) -> Result<Value, Error> {
    let Some(path) = path.as_str() else { return item.get_item(path) };
    let mut at = item.clone();
    let mut before: Option<(Value, &str)> = None;
    for part in path.split('.') {
        if at.is_undefined() {
            return Err(before
                .map_or_else(|| undefined(&at), |(owner, name)| no_attribute(&owner, &Value::from(name))));
        }
        before = Some((at.clone(), part));
        at = match part.parse::<i64>() {
            Ok(index) => at.get_item(&Value::from(index))?,
            Err(_) => at.get_attr(part)?,
        };
    }
    Ok(at)
}

fn sum(
    state: &mut State,
    value: Value,
    path: Option<Value>,
    start: Option<Value>,
    options: Kwargs,
) -> Result<Value, Error> {
    let path: Option<Value> = path.or(options.get("attribute")?);
    let mut total = start.or(options.get("start")?).unwrap_or_else(|| Value::from(0));
    options.assert_all_used()?;
    given(state, &value)?;
    for item in items(&value)? {
        let item = match &path {
            Some(path) if !path.is_none() => {
                let found = attribute(&item, path)?;
                if found.is_undefined() {
                    return Err(no_attribute(&item, path));
                }
                found
            }
            Some(_) | None => item,
        };
        total = super::ops::operate(state, "+", &total, &item)?;
    }
    Ok(total)
}

fn slice(state: &mut State, value: Value, count: i64, fill: Option<Value>) -> Result<Value, Error> {
    given(state, &value)?;
    let (items, count) = (items(&value)?, width(count)?);
    if count == 0 {
        return Err(failure("integer division or modulo by zero"));
    }
    charge(state, count * size_of::<Value>())?;
    let (each, more) = (items.len() / count, items.len() % count);
    let mut slices = Vec::new();
    let mut rest = items.as_slice();
    for at in 0..count {
        let (head, tail) = rest.split_at(each + usize::from(at < more));
        rest = tail;
        let mut slice = head.to_vec();
        slice.extend(fill.clone().filter(|fill| !fill.is_none() && at >= more));
        slices.push(Value::from(slice));
    }
    Ok(Value::from(slices))
}

fn batch(state: &mut State, value: Value, count: i64, fill: Option<Value>) -> Result<Value, Error> {
    given(state, &value)?;
    let (items, count) = (items(&value)?, width(count)?);
    if count == 0 {
        return Err(failure("a batch cannot be empty"));
    }
    charge(state, (items.len() + count) * size_of::<Value>())?;
    let batches = items.chunks(count).map(|chunk| {
        let mut batch = chunk.to_vec();
        if let Some(fill) = fill.as_ref().filter(|fill| !fill.is_none()) {
            batch.resize(count, fill.clone());
        }
        Value::from(batch)
    });
    Ok(batches.collect::<Vec<_>>().into())
}
