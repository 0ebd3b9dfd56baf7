//! Filters on numbers, computed as in Python.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error};

use super::arguments::defined;
use super::ops::{failure, whole_value};
use super::show;
use crate::value::coerce::{parse_python_float, parse_python_int};

/// Adds the filters.
pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("round", round);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_filter("abs", abs);
    env.add_filter("filesizeformat", filesizeformat);
}

/// `round(n, 'common' | 'ceil' | 'floor')`: a float stays a float, and a half is rounded to the even
/// neighbour.
fn round(value: Value, digits: Option<i32>, method: Option<String>, options: Kwargs) -> Result<Value, Error> {
    defined(&value)?;
    let digits = digits.or(options.get("precision")?).unwrap_or(0);
    let method: String = method.or(options.get("method")?).unwrap_or_else(|| "common".into());
    options.assert_all_used()?;
    if !matches!(value.kind(), ValueKind::Number | ValueKind::Bool) {
        return Err(failure(format!("type {} doesn't define __round__ method", show::type_name(&value))));
    }
    let whole = value.is_integer() || value.kind() == ValueKind::Bool;
    let number = f64::try_from(value.clone()).unwrap_or(f64::from(u8::from(value.is_true())));
    match method.as_str() {
        "common" if value.kind() == ValueKind::Bool && digits >= 0 => {
            Ok(Value::from(i64::from(value.is_true())))
        }
        "common" if whole && digits >= 0 => Ok(value),
        "common" => {
            let rounded = round_half_even(number, digits);
            #[expect(clippy::cast_possible_truncation, reason = "it was a whole number before")]
            if whole { Ok(whole_value(rounded as i128)) } else { Ok(Value::from(rounded)) }
        }
        "ceil" => Ok(Value::from((number * 10_f64.powi(digits)).ceil() / 10_f64.powi(digits))),
        "floor" => Ok(Value::from((number * 10_f64.powi(digits)).floor() / 10_f64.powi(digits))),
        _ => Err(failure("method must be common, ceil or floor")),
    }
}

/// Python's `round`: rounds the exact decimal value of the binary fraction, half to even.
fn round_half_even(number: f64, digits: i32) -> f64 {
    if !number.is_finite() || digits > 300 {
        return number;
    }
    match usize::try_from(digits) {
        // Formatting rounds the exact value, half to even.
        Ok(digits) => format!("{number:.digits$}").parse().unwrap_or(number),
        Err(_) => {
            let scale = 10_f64.powi(-digits);
            (number / scale).round_ties_even() * scale
        }
    }
}

fn int(value: Value, default: Option<Value>, base: Option<u32>, options: Kwargs) -> Result<Value, Error> {
    defined(&value)?;
    let default = default.or(options.get("default")?).unwrap_or_else(|| Value::from(0));
    let base = base.or(options.get("base")?).unwrap_or(10);
    options.assert_all_used()?;
    #[expect(clippy::cast_possible_truncation, reason = "as Python, which cuts the fraction off")]
    let truncated = |number: f64| number.is_finite().then(|| whole_value(number as i128));
    let number = match (value.kind(), value.as_str()) {
        (ValueKind::Number, _) if value.is_integer() => Some(value),
        (ValueKind::Number, _) => f64::try_from(value).ok().and_then(truncated),
        (ValueKind::Bool, _) => Some(Value::from(i64::from(value.is_true()))),
        (_, Some(text)) if base == 10 => parse_python_int(text)
            .map(whole_value)
            .ok()
            .or_else(|| parse_python_float(text).ok().and_then(truncated)),
        (_, Some(text)) if (2..=36).contains(&base) => in_base(text, base),
        _ => None,
    };
    Ok(number.unwrap_or(default))
}

fn in_base(text: &str, base: u32) -> Option<Value> {
    let text = text.trim().to_lowercase();
    let prefix = match base {
        16 => "0x",
        8 => "0o",
        2 => "0b",
        _ => "",
    };
    let (sign, digits) = text.strip_prefix('-').map_or((1, text.as_str()), |digits| (-1, digits));
    let digits = digits.strip_prefix(prefix).unwrap_or(digits);
    i128::from_str_radix(digits, base).ok().map(|number| whole_value(sign * number))
}

fn float(value: Value, default: Option<Value>, options: Kwargs) -> Result<Value, Error> {
    defined(&value)?;
    let default = default.or(options.get("default")?).unwrap_or_else(|| Value::from(0.0));
    options.assert_all_used()?;
    let number = match (value.kind(), value.as_str()) {
        (ValueKind::Bool, _) => Some(f64::from(u8::from(value.is_true()))),
        (ValueKind::Number, _) => f64::try_from(value).ok(),
        (_, Some(text)) => parse_python_float(text).ok(),
        _ => None,
    };
    Ok(number.map_or(default, Value::from))
}

fn abs(value: Value) -> Result<Value, Error> {
    defined(&value)?;
    match value.kind() {
        ValueKind::Bool => Ok(Value::from(i64::from(value.is_true()))),
        ValueKind::Number if value.is_integer() => {
            i128::try_from(value.clone()).map(|number| whole_value(number.saturating_abs()))
        }
        ValueKind::Number => f64::try_from(value.clone()).map(|number| Value::from(number.abs())),
        _ => Err(failure(format!("bad operand type for abs(): '{}'", show::type_name(&value)))),
    }
}

fn filesizeformat(value: Value, binary: Option<bool>, options: Kwargs) -> Result<String, Error> {
    defined(&value)?;
    let binary = binary.or(options.get("binary")?).unwrap_or(false);
    options.assert_all_used()?;
    let bytes = match value.as_str() {
        Some(text) => parse_python_float(text).map_err(failure)?,
        None => f64::try_from(value.clone()).map_err(|_| {
            let found = show::type_name(&value);
            failure(format!("float() argument must be a string or a real number, not '{found}'"))
        })?,
    };
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return Ok("1 Byte".into());
    }
    if bytes < base {
        return Ok(format!("{} Bytes", bytes.trunc()));
    }
    let mut unit = base;
    let letters = "kMGTPEZY";
    for (at, letter) in letters.chars().enumerate() {
        let next = unit * base;
        if bytes < next || at + 1 == letters.len() {
            let prefix = if binary { format!("{}i", letter.to_uppercase()) } else { letter.to_string() };
            return Ok(format!("{:.1} {prefix}B", base * bytes / next));
        }
        unit = next;
    }
    Ok(String::new())
}
