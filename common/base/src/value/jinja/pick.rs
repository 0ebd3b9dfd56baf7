//! Filters that apply a filter or a test to every item: `map`, `select`, `reject`, `selectattr`,
//! `rejectattr`.

use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Environment, Error, ErrorKind, State};

use super::arguments::given;
use super::budget::charge;
use super::ops::failure;
use super::sequences::{attribute, items, no_attribute};

/// Adds the filters.
pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("map", map);
    for (name, by_attribute, wanted) in [
        ("select", false, true),
        ("reject", false, false),
        ("selectattr", true, true),
        ("rejectattr", true, false),
    ] {
        env.add_filter(name, move |state: &mut State, value: Value, args: Rest<Value>| {
            let kept = pick(state, &value, &args, by_attribute, wanted)?;
            charge(state, kept.len() * size_of::<Value>())?;
            Ok::<_, Error>(Value::from(kept))
        });
    }
}

fn map(state: &mut State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    given(state, &value)?;
    let mut mapped = Vec::new();
    if let (true, Some(path)) = (args.is_empty(), named.get::<Option<Value>>("attribute")?) {
        let default: Option<Value> = named.get("default")?;
        named.assert_all_used()?;
        for item in items(&value)? {
            let found = attribute(&item, &path)?;
            mapped.push(if found.is_undefined() { default.clone().unwrap_or(found) } else { found });
        }
    } else {
        let Some((name, more)) = args.split_first() else {
            return Err(failure("map requires a filter argument"));
        };
        let name = super::show::text(name);
        let more =
            more.iter().cloned().chain(named.args().next().is_some().then(|| Value::from(named.clone())));
        let more: Vec<Value> = more.collect();
        for item in items(&value)? {
            let args: Vec<Value> = std::iter::once(item).chain(more.iter().cloned()).collect();
            mapped.push(state.apply_filter(&name, &args).map_err(|error| match error.kind() {
                ErrorKind::UnknownFilter => failure(format!("No filter named '{name}'.")),
                _ => error,
            })?);
        }
    }
    charge(state, mapped.len() * size_of::<Value>())?;
    Ok(Value::from(mapped))
}

fn pick(
    state: &mut State,
    value: &Value,
    args: &[Value],
    by_attribute: bool,
    wanted: bool,
) -> Result<Vec<Value>, Error> {
    given(state, value)?;
    let (path, args) = match args.split_first() {
        Some((path, rest)) if by_attribute => (Some(path), rest),
        None if by_attribute => return Err(failure("Missing parameter for attribute name")),
        Some(_) | None => (None, args),
    };
    let test = args.split_first().map(|(name, more)| (super::show::text(name), more));
    let mut kept = Vec::new();
    for item in items(value)? {
        let subject = match path {
            Some(path) => attribute(&item, path)?,
            None => item.clone(),
        };
        let holds = match &test {
            None => {
                if let (Some(path), Err(_)) = (path, given(state, &subject)) {
                    return Err(no_attribute(&item, path));
                }
                subject.is_true()
            }
            Some((name, more)) => {
                let args: Vec<Value> = std::iter::once(subject).chain(more.iter().cloned()).collect();
                state.perform_test(name, &args).map_err(|error| match error.kind() {
                    ErrorKind::UnknownTest => failure(format!("No test named '{name}'.")),
                    _ => error,
                })?
            }
        };
        if holds == wanted {
            kept.push(item);
        }
    }
    Ok(kept)
}
