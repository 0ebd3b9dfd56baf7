//! Filters on lists and objects, where minijinja lacks them or does them differently.

use minijinja::value::{Kwargs, Tuple, Value, ValueKind};
use minijinja::{Environment, Error, State};

use super::budget::{charge, width};
use super::ops::{failure, undefined};
use super::show;

/// Adds them.
pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("list", |state: &mut State, value: Value| {
        let items = items(&value)?;
        charge(state, items.len() * size_of::<Value>())?;
        Ok::<_, Error>(Value::from(items))
    });
    env.add_filter("random", |value: Value| items(&value).map(|items| items.into_iter().next().unwrap_or_default()));
    env.add_filter("sum", sum);
    env.add_filter("groupby", groupby);
    env.add_filter("slice", slice);
    env.add_filter("batch", batch);
    env.add_filter("items", |value: Value| {
        if value.is_undefined() {
            return Ok(Value::from(Vec::<Value>::new()));
        }
        let pairs = value.as_object().filter(|_| value.kind() == ValueKind::Map).and_then(|o| o.try_iter_pairs());
        let pairs = pairs.ok_or_else(|| failure("Can only get item pairs from a mapping."))?;
        Ok::<_, Error>(pairs.map(|(key, item)| Value::from(Tuple::from([key, item]))).collect::<Vec<_>>().into())
    });
}

/// The items that a `for` would see.
///
/// # Errors
/// When the value has none.
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

/// The items as what the value was: a tuple or a list.
pub(super) fn like(value: &Value, items: Vec<Value>) -> Value {
    if value.is_tuple() { Value::from(Tuple::from(items)) } else { Value::from(items) }
}

/// An attribute as filters name it: a number, or a path with dots.
///
/// # Errors
/// When the path goes through something undefined.
pub(super) fn attribute(item: &Value, path: &Value) -> Result<Value, Error> {
    let Some(path) = path.as_str() else { return item.get_item(path) };
    let mut at = item.clone();
    for part in path.split('.') {
        if at.is_undefined() {
            return Err(undefined(&at));
        }
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
    for item in items(&value)? {
        let item = match &path {
            Some(path) if !path.is_none() => attribute(&item, path)?,
            Some(_) | None => item,
        };
        total = super::ops::operate(state, "+", &total, &item)?;
    }
    Ok(total)
}

fn groupby(value: Value, path: Value, default: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    let default: Option<Value> = default.or(options.get("default")?);
    let case_sensitive = options.get::<Option<bool>>("case_sensitive")?.unwrap_or(false);
    options.assert_all_used()?;
    let mut keyed = Vec::new();
    for item in items(&value)? {
        let found = attribute(&item, &path)?;
        let key = if found.is_undefined() { default.clone().unwrap_or(found) } else { found };
        let folded = match key.as_str() {
            Some(text) if !case_sensitive => Value::from(text.to_lowercase()),
            Some(_) | None => key.clone(),
        };
        keyed.push((folded, key, item));
    }
    keyed.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let groups = keyed.chunk_by(|(a, ..), (b, ..)| a == b).map(|group| {
        let members: Vec<Value> = group.iter().map(|(.., item)| item.clone()).collect();
        group_value(group[0].1.clone(), members)
    });
    Ok(groups.collect::<Vec<_>>().into())
}

/// One group: a pair that also has the names `grouper` and `list`.
fn group_value(grouper: Value, members: Vec<Value>) -> Value {
    Value::from_object(Group { grouper, list: Value::from(members) })
}

#[derive(Debug)]
struct Group {
    grouper: Value,
    list: Value,
}

impl minijinja::value::Object for Group {
    fn repr(self: &std::sync::Arc<Self>) -> minijinja::value::ObjectRepr {
        minijinja::value::ObjectRepr::Seq
    }
    fn get_value(self: &std::sync::Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_str(), key.as_usize()) {
            (Some("grouper"), _) | (_, Some(0)) => Some(self.grouper.clone()),
            (Some("list"), _) | (_, Some(1)) => Some(self.list.clone()),
            _ => None,
        }
    }
    fn enumerate(self: &std::sync::Arc<Self>) -> minijinja::value::Enumerator {
        minijinja::value::Enumerator::Seq(2)
    }
}

fn slice(state: &mut State, value: Value, count: i64, fill: Option<Value>) -> Result<Value, Error> {
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
        slice.extend(fill.clone().filter(|fill| !fill.is_none() && at >= more && more > 0));
        slices.push(Value::from(slice));
    }
    Ok(Value::from(slices))
}

fn batch(state: &mut State, value: Value, count: i64, fill: Option<Value>) -> Result<Value, Error> {
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
