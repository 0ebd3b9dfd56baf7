//! Calls a method on a value in a template. Methods that minijinja lacks, or implements differently from Python, are
//! here; all others go to its own table of Python methods.

use minijinja::value::{Kwargs, Tuple, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::budget::{charge, width};
use super::ops::{failure, undefined};
use super::{braces, layout, search, show};
use crate::value::lines::lines_with_ends;

/// Calls a method on a value.
///
/// # Errors
/// Python's message when the value has no such method or the arguments do not fit.
pub(super) fn call(state: &mut State, value: &Value, method: &str, args: &[Value]) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(undefined(value));
    }
    let ours = match (value.kind(), value.as_str()) {
        (_, Some(text)) => match search::call(state, text, method, args)? {
            Some(found) => Some(found),
            None => text_method(state, text, method, args)?,
        },
        (ValueKind::Number, _) => number_method(value, method)?,
        (ValueKind::Map, _) if method == "copy" => Some(value.clone()),
        (ValueKind::Seq | ValueKind::Iterable, _) => list_method(value, method, args)?,
        _ => None,
    };
    match ours {
        Some(result) => Ok(result),
        None => unknown_method_callback(state, value, method, args).map_err(|error| match error.kind() {
            // A value stored under this name may still be callable; only if it is not, the error is final.
            ErrorKind::UnknownMethod => {
                let owner = show::type_name(value);
                let owner = if value.is_none() { "None".into() } else { format!("{owner} object") };
                Error::new(ErrorKind::UnknownMethod, format!("'{owner}' has no attribute '{method}'"))
            }
            _ => error,
        }),
    }
}

fn text_method(state: &mut State, text: &str, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    let characters = |text: &str| text.chars().count();
    let padded = |state: &mut State, args: &[Value], left: bool| {
        let (to, fill): (i64, Option<String>) = from_args(args)?;
        let missing = width(to)?.saturating_sub(characters(text));
        let fill = fill.unwrap_or_else(|| " ".into()).repeat(missing);
        charge(state, fill.len())?;
        Ok::<_, Error>(Value::from(if left { format!("{fill}{text}") } else { format!("{text}{fill}") }))
    };
    Ok(Some(match method {
        "ljust" => padded(state, args, false)?,
        "rjust" => padded(state, args, true)?,
        "center" => {
            let (to, fill): (i64, Option<char>) = from_args(args)?;
            Value::from(layout::center(text, to, fill.unwrap_or(' '))?)
        }
        "zfill" => {
            let missing = width(from_args::<(i64,)>(args)?.0)?.saturating_sub(characters(text));
            let (sign, digits) = text.split_at(usize::from(text.starts_with(['-', '+'])));
            Value::from(format!("{sign}{}{digits}", "0".repeat(missing)))
        }
        "replace" => {
            let (old, new, count): (String, String, Option<i64>) = from_args(args)?;
            let most = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
            let found = text.matches(old.as_str()).count().min(most);
            charge(state, text.len().saturating_add(found.saturating_mul(new.len())))?;
            Value::from(text.replacen(old.as_str(), &new, most))
        }
        "join" => {
            let (list,): (Value,) = from_args(args)?;
            if matches!(list.kind(), ValueKind::None | ValueKind::Bool | ValueKind::Number) {
                return Err(failure("can only join an iterable"));
            }
            let mut parts = Vec::new();
            for (at, item) in super::sequences::items(&list)?.iter().enumerate() {
                let part = item.as_str().map(String::from).ok_or_else(|| {
                    let found = show::type_name(item);
                    failure(format!("sequence item {at}: expected str instance, {found} found"))
                })?;
                parts.push(part);
            }
            let joined = parts.iter().map(String::len).sum::<usize>() + text.len() * parts.len();
            charge(state, joined)?;
            Value::from(parts.join(text))
        }
        "format" => Value::from(braces::method(state, text, args)?),
        "partition" | "rpartition" => {
            let (at,): (String,) = from_args(args)?;
            let found = if method == "partition" { text.split_once(&at) } else { text.rsplit_once(&at) };
            let parts = match found {
                Some((before, after)) => [before, at.as_str(), after],
                None if method == "partition" => [text, "", ""],
                None => ["", "", text],
            };
            Value::from(Tuple::from(parts.map(Value::from)))
        }
        "swapcase" => {
            text.chars()
                .map(|c| {
                    if c.is_uppercase() { c.to_lowercase().to_string() } else { c.to_uppercase().to_string() }
                })
                .collect::<String>()
                .into()
        }
        "splitlines" => {
            let (keeps, named): (Option<bool>, Kwargs) = from_args(args)?;
            let keeps = keeps.or(named.get("keepends")?).unwrap_or(false);
            named.assert_all_used()?;
            let line =
                |(line, end): (&str, &str)| if keeps { format!("{line}{end}") } else { line.to_string() };
            lines_with_ends(text).map(line).map(Value::from).collect()
        }
        "casefold" => Value::from(text.to_lowercase()),
        "removeprefix" => {
            let (prefix,): (String,) = from_args(args)?;
            Value::from(text.strip_prefix(prefix.as_str()).unwrap_or(text))
        }
        "removesuffix" => {
            let (suffix,): (String,) = from_args(args)?;
            Value::from(text.strip_suffix(suffix.as_str()).unwrap_or(text))
        }
        "isdigit" => Value::from(!text.is_empty() && text.chars().all(is_digit)),
        "isdecimal" => Value::from(
            !text.is_empty() && text.chars().all(|c| crate::value::coerce::decimal_digit(c).is_some()),
        ),
        "isidentifier" => Value::from(
            !text.starts_with(|c: char| c.is_numeric())
                && !text.is_empty()
                && text.chars().all(|c| c == '_' || c.is_alphanumeric()),
        ),
        "istitle" => {
            let mut begins = true;
            let mut cased = false;
            let right = text.chars().all(|c| {
                let fits = !(c.is_uppercase() && !begins || c.is_lowercase() && begins);
                cased |= c.is_alphabetic();
                begins = !c.is_alphabetic();
                fits
            });
            Value::from(right && cased)
        }
        _ => return Ok(None),
    }))
}

/// True for digits, including superscript, subscript and circled ones, but not fractions.
fn is_digit(c: char) -> bool {
    crate::value::coerce::decimal_digit(c).is_some()
        || matches!(c, '²' | '³' | '¹' | '⁰' | '⁴'..='⁹' | '₀'..='₉' | '①'..='⑨' | '⓪')
}

fn number_method(value: &Value, method: &str) -> Result<Option<Value>, Error> {
    Ok(match method {
        "is_integer" => {
            let number = f64::try_from(value.clone())?;
            Some(Value::from(value.is_integer() || number.fract() == 0.0))
        }
        "bit_length" if value.is_integer() => {
            let number = i128::try_from(value.clone())?.unsigned_abs();
            Some(Value::from(128 - number.leading_zeros()))
        }
        _ => None,
    })
}

fn list_method(value: &Value, method: &str, args: &[Value]) -> Result<Option<Value>, Error> {
    Ok(match method {
        "index" => {
            let (item,): (Value,) = from_args(args)?;
            let items = super::sequences::items(value)?;
            let at = items.iter().position(|known| *known == item);
            let at = at.ok_or_else(|| failure(format!("{} is not in list", show::repr(&item))))?;
            Some(Value::from(at))
        }
        "copy" => Some(super::mutable::list(super::sequences::items(value)?)),
        _ => None,
    })
}
