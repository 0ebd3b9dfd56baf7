//! Lists and objects that methods can change: `l.append(x)`, `d.update(y=1)`.
//!
//! A value cannot be put into itself, not even indirectly: a cycle would never be freed, and printing it
//! would never end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use minijinja::value::{DynObject, Enumerator, Kwargs, Object, ObjectRepr, Tuple, Value, from_args};
use minijinja::{Error, ErrorKind, State};

use super::budget::charge;
use super::compare::comparable;
use super::ops::failure;
use super::{globals, sequences, show};

/// Deepest nesting of a stored value. JSON of 128 levels may come in, and a template may wrap it a few times.
const DEPTH_MAX: usize = 160;

/// Creates a list that can be changed.
pub(super) fn list(items: Vec<Value>) -> Value {
    Value::from_object(List(Mutex::new(items)))
}

/// Creates an object that can be changed.
pub(super) fn dict(pairs: impl IntoIterator<Item = (Value, Value)>) -> Value {
    Value::from_object(Dict(Mutex::new(pairs.into_iter().collect())))
}

#[derive(Debug)]
struct List(Mutex<Vec<Value>>);

#[derive(Debug)]
struct Dict(Mutex<IndexMap<Value, Value>>);

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each change is a single call on the container, so a poisoned lock still guards consistent data.
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        lock(&self.0).get(key.as_usize()?).cloned()
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(lock(&self.0).clone())
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(lock(&self.0).len())
    }
    fn call_method(
        self: &Arc<Self>,
        state: &mut State,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        let this = Arc::as_ptr(self).cast::<()>();
        match method {
            "append" => {
                let (item,): (Value,) = from_args(args)?;
                check(this, &item)?;
                charge(state, size_of::<Value>())?;
                lock(&self.0).push(item);
            }
            "extend" => {
                let (more,): (Value,) = from_args(args)?;
                let more = sequences::items(&more)?;
                more.iter().try_for_each(|item| check(this, item))?;
                charge(state, more.len() * size_of::<Value>())?;
                lock(&self.0).extend(more);
            }
            "insert" => {
                let (at, item): (i64, Value) = from_args(args)?;
                check(this, &item)?;
                charge(state, size_of::<Value>())?;
                let mut items = lock(&self.0);
                let at = place(at, items.len()).unwrap_or(if at < 0 { 0 } else { items.len() });
                items.insert(at, item);
            }
            "pop" => {
                let (at,): (Option<i64>,) = from_args(args)?;
                let mut items = lock(&self.0);
                if items.is_empty() {
                    return Err(failure("pop from empty list"));
                }
                let at =
                    place(at.unwrap_or(-1), items.len()).ok_or_else(|| failure("pop index out of range"))?;
                return Ok(items.remove(at));
            }
            "remove" => {
                let (item,): (Value,) = from_args(args)?;
                // Compared without the lock: the item may be this list.
                let items = lock(&self.0).clone();
                let at = items.iter().position(|known| *known == item);
                lock(&self.0).remove(at.ok_or_else(|| failure("list.remove(x): x not in list"))?);
            }
            "clear" => lock(&self.0).clear(),
            "reverse" => lock(&self.0).reverse(),
            "sort" => {
                let (options,): (Kwargs,) = from_args(args)?;
                let backwards: Option<bool> = options.get("reverse")?;
                let mut items = lock(&self.0);
                items.windows(2).try_for_each(|pair| comparable("<", &pair[1], &pair[0]))?;
                items.sort();
                if backwards == Some(true) {
                    items.reverse();
                }
            }
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        }
        Ok(Value::from(()))
    }
}

impl Object for Dict {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        if key.as_object().is_some() {
            // Comparing such a key may need this lock again. Only tuples can be object keys at all.
            return lock(&self.0).clone().get(key).cloned();
        }
        lock(&self.0).get(key).cloned()
    }
    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(lock(&self.0).keys().cloned().collect())
    }
    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(lock(&self.0).len())
    }
    fn call_method(
        self: &Arc<Self>,
        state: &mut State,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        let this = Arc::as_ptr(self).cast::<()>();
        match method {
            "update" => {
                let (other, named): (Option<Value>, Kwargs) = from_args(args)?;
                let pairs = other.iter().filter_map(Value::as_object).filter_map(DynObject::try_iter_pairs);
                let mut more: Vec<(Value, Value)> = pairs.flatten().collect();
                for name in named.args() {
                    more.push((Value::from(name), named.get(name)?));
                }
                more.iter().try_for_each(|(key, item)| check_key(key).and_then(|()| check(this, item)))?;
                charge(state, more.len() * 2 * size_of::<Value>())?;
                lock(&self.0).extend(more);
            }
            "setdefault" => {
                let (key, default): (Value, Option<Value>) = from_args(args)?;
                let default = default.unwrap_or_else(|| Value::from(()));
                check_key(&key)?;
                check(this, &default)?;
                charge(state, 2 * size_of::<Value>())?;
                return Ok(lock(&self.0).entry(key).or_insert(default).clone());
            }
            "pop" => {
                let (key, default): (Value, Option<Value>) = from_args(args)?;
                check_key(&key)?;
                let found = lock(&self.0).shift_remove(&key);
                return found.or(default).ok_or_else(|| failure(show::repr(&key)));
            }
            "popitem" => {
                let () = from_args(args)?;
                let last = lock(&self.0).pop().ok_or_else(|| failure("'popitem(): dictionary is empty'"))?;
                return Ok(Value::from(Tuple::from([last.0, last.1])));
            }
            "clear" => lock(&self.0).clear(),
            _ => return Err(Error::from(ErrorKind::UnknownMethod)),
        }
        Ok(Value::from(()))
    }
}

/// Resolves an index, which counts from the end when it is negative; `None` when it is out of range.
fn place(at: i64, length: usize) -> Option<usize> {
    let at = if at < 0 {
        length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?)?
    } else {
        usize::try_from(at).ok()?
    };
    (at < length).then_some(at)
}

/// Refuses keys that Python cannot hash. These include all keys whose look-up would need the lock of this
/// object again.
fn check_key(key: &Value) -> Result<(), Error> {
    if key.as_object().is_some() {
        return Err(failure(format!("unhashable type: '{}'", show::type_name(key))));
    }
    Ok(())
}

/// Prepares a value for storing under a name: evaluates a lazy one, and refuses one that is nested too
/// deeply. A loop that wraps a value in each round could otherwise build one whose release overflows the
/// stack.
///
/// # Errors
/// When the value is nested too deeply.
pub(super) fn keep(value: Value) -> Result<Value, Error> {
    let value = match value.as_object().map(DynObject::repr) {
        Some(ObjectRepr::Iterable) => Value::from(sequences::items(&value)?),
        Some(_) | None => value,
    };
    if show::is_loop(&value) {
        // Only a name inside the loop's body can hold it, and that name ends with the round.
        return Ok(value);
    }
    refuse(!is_sound(&Rule { container: std::ptr::null(), namespaces: true }, &value, 0))?;
    Ok(value)
}

/// As [`keep`], for the attribute of a namespace, which must not contain itself.
///
/// # Errors
/// When the value is nested too deeply, or contains a namespace.
pub(super) fn put(value: Value) -> Result<Value, Error> {
    let value = keep(value)?;
    check(std::ptr::null(), &value)?;
    Ok(value)
}

/// Refuses to put a value into a container that it contains, or that would be nested too deeply.
fn check(container: *const (), value: &Value) -> Result<(), Error> {
    refuse(!is_sound(&Rule { container, namespaces: false }, value, 0))
}

fn refuse(refused: bool) -> Result<(), Error> {
    if refused { Err(failure("a value cannot contain itself or be nested too deeply")) } else { Ok(()) }
}

/// The things that a value must not contain.
struct Rule {
    /// The list or object into which it will be put.
    container: *const (),
    /// True when it may contain namespaces. A namespace can change later without a check, so a mutable value
    /// must not contain one.
    namespaces: bool,
}

fn is_sound(rule: &Rule, value: &Value, depth: usize) -> bool {
    let Some(object) = value.as_object() else { return true };
    let list = value.downcast_object_ref::<List>().map(|list| std::ptr::from_ref(list).cast::<()>());
    let dict = value.downcast_object_ref::<Dict>().map(|dict| std::ptr::from_ref(dict).cast::<()>());
    if depth > DEPTH_MAX || [list, dict].contains(&Some(rule.container)) || show::is_loop(value) {
        return false;
    }
    if !rule.namespaces && show::type_name(value) == "Namespace" {
        return false;
    }
    let free = |item: &Value| is_sound(rule, item, depth + 1);
    if let Some(items) = globals::cycler_items(value) {
        return items.iter().all(free);
    }
    match object.repr() {
        ObjectRepr::Map => {
            object.try_iter_pairs().into_iter().flatten().all(|(key, item)| free(&key) && free(&item))
        }
        ObjectRepr::Seq | ObjectRepr::Iterable => {
            object.try_iter().into_iter().flatten().all(|item| free(&item))
        }
        _ => true,
    }
}
