//! Filters that sort and group: `sort`, `unique`, `dictsort`, `groupby`, `min`, `max`. They ignore case
//! unless the call says otherwise.

use std::sync::Arc;

use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, Tuple, Value, ValueKind};
use minijinja::{Environment, Error, State};

use super::arguments::{Arguments, given};
use super::compare::{comparable, ordered};
use super::ops::failure;
use super::sequences::{attribute, items, no_attribute, pairs_of};

/// Adds the filters.
pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("sort", sort);
    env.add_filter("unique", unique);
    env.add_filter("dictsort", dictsort);
    env.add_filter("groupby", groupby);
    env.add_filter("min", |state: &mut State, value: Value, args: Rest<Value>, named: Kwargs| {
        extreme(state, "<", &value, args, named)
    });
    env.add_filter("max", |state: &mut State, value: Value, args: Rest<Value>, named: Kwargs| {
        extreme(state, ">", &value, args, named)
    });
}

fn sort(state: &mut State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    given(state, &value)?;
    let mut args = Arguments::of(args, named);
    let backwards = args.flag("reverse", false)?;
    let case_sensitive = args.flag("case_sensitive", false)?;
    let path = args.next("attribute")?;
    args.finish()?;
    let mut keyed = Vec::new();
    for item in items(&value)? {
        let key = sort_key(&item, path.as_ref(), case_sensitive)?;
        if let (Some(path), Some(lacking)) = (&path, key.iter().find(|key| key.is_undefined())) {
            given(state, lacking).map_err(|_| no_attribute(&item, path))?;
        }
        keyed.push((key, item));
    }
    in_order(&mut keyed, backwards)?;
    Ok(keyed.into_iter().map(|(_, item)| item).collect::<Vec<_>>().into())
}

/// Returns the sort key of an item: itself, an attribute, or several separated by commas.
fn sort_key(item: &Value, path: Option<&Value>, case_sensitive: bool) -> Result<Vec<Value>, Error> {
    let Some(path) = path else { return Ok(vec![fold(item.clone(), case_sensitive)]) };
    let Some(paths) = path.as_str() else { return Ok(vec![fold(attribute(item, path)?, case_sensitive)]) };
    let one = |path: &str| Ok(fold(attribute(item, &Value::from(path.trim()))?, case_sensitive));
    paths.split(',').map(one).collect()
}

/// Returns a text in lower case, unless case counts.
fn fold(value: Value, case_sensitive: bool) -> Value {
    match value.as_str() {
        Some(text) if !case_sensitive => Value::from(text.to_lowercase()),
        Some(_) | None => value,
    }
}

/// Sorts by the keys; equal ones keep their order. Keys of different types have no order, as in Python.
fn in_order<T>(keyed: &mut [(Vec<Value>, T)], backwards: bool) -> Result<(), Error> {
    for pair in keyed.windows(2) {
        let differing = pair[0].0.iter().zip(&pair[1].0).find(|(left, right)| left != right);
        if let Some((left, right)) = differing {
            comparable("<", right, left)?;
        }
    }
    keyed.sort_by(|(a, _), (b, _)| if backwards { b.cmp(a) } else { a.cmp(b) });
    Ok(())
}

/// Returns the first item that compares so (`sign`) to all others; undefined for an empty list.
fn extreme(
    state: &mut State,
    sign: &str,
    value: &Value,
    args: Rest<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    given(state, value)?;
    let mut args = Arguments::of(args, named);
    let case_sensitive = args.flag("case_sensitive", false)?;
    let path = args.next("attribute")?;
    args.finish()?;
    let mut best: Option<(Value, Value)> = None;
    for item in items(value)? {
        let key = match &path {
            Some(path) => attribute(&item, path)?,
            None => item.clone(),
        };
        let key = fold(key, case_sensitive);
        let better = match &best {
            Some((known, _)) => ordered(sign, &key, known)?,
            None => true,
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map(|(_, item)| item).unwrap_or_default())
}

fn unique(state: &mut State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    given(state, &value)?;
    let mut args = Arguments::of(args, named);
    let case_sensitive = args.flag("case_sensitive", false)?;
    let path = args.next("attribute")?;
    args.finish()?;
    let mut seen = std::collections::HashSet::new();
    let mut kept = Vec::new();
    for item in items(&value)? {
        let key = match &path {
            Some(path) => attribute(&item, path)?,
            None => item.clone(),
        };
        // In Python a bool is a number.
        let key = if key.kind() == ValueKind::Bool { Value::from(i64::from(key.is_true())) } else { key };
        if seen.insert(fold(key, case_sensitive)) {
            kept.push(item);
        }
    }
    Ok(kept.into())
}

fn dictsort(state: &mut State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    given(state, &value)?;
    let mut args = Arguments::of(args, named);
    let case_sensitive = args.flag("case_sensitive", false)?;
    let by = args.text("by", "key")?;
    let backwards = args.flag("reverse", false)?;
    args.finish()?;
    if !matches!(by.as_str(), "key" | "value") {
        return Err(failure("You can only sort by either \"key\" or \"value\""));
    }
    let pairs = pairs_of(&value)?;
    let mut keyed: Vec<_> = pairs
        .into_iter()
        .map(|(key, item)| {
            let sort_by = if by == "key" { key.clone() } else { item.clone() };
            (vec![fold(sort_by, case_sensitive)], Value::from(Tuple::from([key, item])))
        })
        .collect();
    in_order(&mut keyed, backwards)?;
    Ok(keyed.into_iter().map(|(_, pair)| pair).collect::<Vec<_>>().into())
}

fn groupby(state: &mut State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    given(state, &value)?;
    let mut args = Arguments::of(args, named);
    let path = args.next("attribute")?.ok_or_else(|| failure("groupby needs an attribute"))?;
    let default = args.next("default")?;
    let case_sensitive = args.flag("case_sensitive", false)?;
    args.finish()?;
    let mut keyed = Vec::new();
    for item in items(&value)? {
        let found = attribute(&item, &path)?;
        let key = match default.clone() {
            Some(default) if found.is_undefined() => default,
            None if found.is_undefined() => return Err(no_attribute(&item, &path)),
            Some(_) | None => found,
        };
        keyed.push((vec![fold(key.clone(), case_sensitive)], (key, item)));
    }
    in_order(&mut keyed, false)?;
    let groups = keyed.chunk_by(|(a, _), (b, _)| a == b).map(|group| {
        let members: Vec<Value> = group.iter().map(|(_, (_, item))| item.clone()).collect();
        let grouper = group.first().map(|(_, (key, _))| key.clone()).unwrap_or_default();
        Value::from_object(Group { grouper, list: Value::from(members) })
    });
    Ok(groups.collect::<Vec<_>>().into())
}

/// A pair of key and members, also available as `grouper` and `list`.
#[derive(Debug)]
struct Group {
    grouper: Value,
    list: Value,
}

impl Object for Group {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match (key.as_str(), key.as_usize()) {
            (Some("grouper"), _) | (_, Some(0)) => Some(self.grouper.clone()),
            (Some("list"), _) | (_, Some(1)) => Some(self.list.clone()),
            _ => None,
        }
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(2)
    }
}

/// True for a group, which prints as a tuple as in Jinja2.
pub(super) fn is_group(value: &Value) -> bool {
    value.downcast_object_ref::<Group>().is_some()
}
