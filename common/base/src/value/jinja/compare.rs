//! Comparisons and tests as in Python: values without an order cannot be compared, and only containers
//! contain.

use std::cmp::Ordering;

use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{Environment, Error, State, UndefinedBehavior};

use super::ops::{failure, operate, undefined};
use super::show;

/// Adds the functions into which [`super::rewrite`] turns comparisons, and the tests that compare.
pub(super) fn add(env: &mut Environment<'static>) {
    env.add_function("__cmp", chain);
    env.add_test("odd", |state: &mut State, value: Value| {
        remainder(state, &value, 2).map(|rest| rest == Value::from(1))
    });
    env.add_test("even", |state: &mut State, value: Value| {
        remainder(state, &value, 2).map(|rest| rest == Value::from(0))
    });
    env.add_test("divisibleby", |state: &mut State, value: Value, by: Value| {
        operate(state, "%", &value, &by).map(|rest| rest == Value::from(0))
    });
    for (sign, names) in [
        ("<", ["lt", "lessthan", "<"]),
        ("<=", ["le", "le", "<="]),
        (">", ["gt", "greaterthan", ">"]),
        (">=", ["ge", "ge", ">="]),
    ] {
        for name in names {
            env.add_test(name, move |left: Value, right: Value| ordered(sign, &left, &right));
        }
    }
    env.add_test("in", |state: &State, item: Value, list: Value| contains(state, &list, &item));
}

fn remainder(state: &mut State, value: &Value, by: i64) -> Result<Value, Error> {
    operate(state, "%", value, &Value::from(by))
}

/// Evaluates `a < b in c`: compares each operand with the next.
fn chain(state: &State, signs: &str, values: Rest<Value>) -> Result<bool, Error> {
    for (sign, pair) in signs.split(' ').zip(values.windows(2)) {
        let (left, right) = (&pair[0], &pair[1]);
        let strict = state.undefined_behavior() == UndefinedBehavior::Strict;
        if let (true, Some(value)) = (strict, pair.iter().find(|value| value.is_undefined())) {
            return Err(undefined(value));
        }
        let holds = match sign {
            "==" => left == right,
            "!=" => left != right,
            "in" => contains(state, right, left)?,
            "not-in" => !contains(state, right, left)?,
            _ => ordered(sign, left, right)?,
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Evaluates `left < right` and the like.
///
/// # Errors
/// When the two have no order.
pub(super) fn ordered(sign: &str, left: &Value, right: &Value) -> Result<bool, Error> {
    comparable(sign, left, right)?;
    Ok(match (sign, left.cmp(right)) {
        ("<", order) => order == Ordering::Less,
        ("<=", order) => order != Ordering::Greater,
        (">", order) => order == Ordering::Greater,
        (_, order) => order != Ordering::Less,
    })
}

/// Refuses two values that have no order.
///
/// # Errors
/// Python's message for this sign.
pub(super) fn comparable(sign: &str, left: &Value, right: &Value) -> Result<(), Error> {
    if let Some(value) = [left, right].into_iter().find(|value| value.is_undefined()) {
        return Err(undefined(value));
    }
    let class = |value: &Value| match value.kind() {
        ValueKind::Bool | ValueKind::Number => 1,
        ValueKind::String => 2,
        ValueKind::Seq if value.is_tuple() => 3,
        ValueKind::Seq | ValueKind::Iterable => 4,
        _ => 0,
    };
    if class(left) != class(right) || class(left) == 0 {
        let (left, right) = (show::type_name(left), show::type_name(right));
        return Err(failure(format!("'{sign}' not supported between instances of '{left}' and '{right}'")));
    }
    if class(left) >= 3 {
        // Lists are compared by the first items that differ, which must have an order themselves.
        let items = left.try_iter().into_iter().flatten().zip(right.try_iter().into_iter().flatten());
        if let Some((left, right)) = items.into_iter().find(|(left, right)| left != right) {
            return comparable(sign, &left, &right);
        }
    }
    Ok(())
}

fn contains(state: &State, list: &Value, item: &Value) -> Result<bool, Error> {
    if list.is_undefined() {
        return match state.undefined_behavior() {
            UndefinedBehavior::Strict => Err(undefined(list)),
            _ => Ok(false),
        };
    }
    match (list.kind(), list.as_str(), item.as_str()) {
        (_, Some(text), Some(part)) => Ok(text.contains(part)),
        (_, Some(_), None) => {
            let found = show::type_name(item);
            Err(failure(format!("'in <string>' requires string as left operand, not {found}")))
        }
        (ValueKind::Seq | ValueKind::Iterable, ..) => Ok(list.try_iter()?.any(|known| known == *item)),
        (ValueKind::Map, ..) => Ok(list.get_item(item).is_ok_and(|found| !found.is_undefined())
            || list.try_iter()?.any(|known| known == *item)),
        _ => Err(failure(format!("argument of type '{}' is not iterable", show::type_name(list)))),
    }
}
