//! Resolves plain YAML scalars as PyYAML's safe loader does (YAML 1.1), since Dify reads files with it.
//! `yes`, `on` and `0777` are not text, while `1e3` and `0o17` are.

use serde_json::{Number, Value as Json};

/// Returns the value of an unquoted scalar. Timestamps stay text; so do infinities, which JSON cannot hold.
pub fn resolve_plain(text: &str) -> Json {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Json::Null,
        "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Json::Bool(true),
        "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Json::Bool(false),
        other => {
            let may_be_number = other.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
            may_be_number.then(|| number(other)).flatten().unwrap_or_else(|| Json::String(other.into()))
        }
    }
}

/// Reads a number in any spelling of YAML 1.1.
pub(super) fn number(text: &str) -> Option<Json> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if let Some(size) = integer(digits) {
        return Some(signed(negative, size));
    }
    // PyYAML accepts no sign before a float that begins with its dot.
    let bare_dot = digits.starts_with('.');
    if bare_dot && digits.len() != text.len() {
        return None;
    }
    let size = if digits.contains(':') { sexagesimal_float(digits)? } else { float(digits)? };
    Number::from_f64(if negative { -size } else { size }).map(Json::Number)
}

/// The absolute value of an integer; a float when it is beyond 64 bits, as in JSON readers.
enum Size {
    Exact(u64),
    Large(f64),
}

fn signed(negative: bool, size: Size) -> Json {
    let float = |value: f64| Number::from_f64(value).map_or(Json::Null, Json::Number);
    match (negative, size) {
        (false, Size::Exact(n)) => Json::from(n),
        (true, Size::Exact(n)) => match 0i64.checked_sub_unsigned(n) {
            Some(n) => Json::from(n),
            None => float(-(n as f64)),
        },
        (false, Size::Large(n)) => float(n),
        (true, Size::Large(n)) => float(-n),
    }
}

fn integer(text: &str) -> Option<Size> {
    if let Some(bits) = text.strip_prefix("0b") {
        return in_base(bits, 2);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return in_base(digits, 16);
    }
    if text.starts_with('0') && text[1..].bytes().all(|b| b == b'_') {
        return Some(Size::Exact(0));
    }
    if text.starts_with('_') {
        return None;
    }
    if let Some(digits) = text.strip_prefix('0') {
        return in_base(digits, 8);
    }
    if text.contains(':') {
        return sexagesimal(text);
    }
    in_base(text, 10)
}

fn in_base(digits: &str, base: u32) -> Option<Size> {
    let well_formed = digits.chars().all(|c| c == '_' || c.is_digit(base));
    let digits: String = digits.chars().filter(|&c| c != '_').collect();
    if !well_formed || digits.is_empty() {
        return None;
    }
    if let Ok(size) = u64::from_str_radix(&digits, base) {
        return Some(Size::Exact(size));
    }
    let large =
        digits.chars().fold(0.0, |sum, c| sum * f64::from(base) + f64::from(c.to_digit(base).unwrap_or(0)));
    // In base ten, parsing the text rounds better than a sum.
    let large = if base == 10 { digits.parse().unwrap_or(large) } else { large };
    large.is_finite().then_some(Size::Large(large))
}

/// Reads base sixty, as in YAML 1.1: `1:30` is ninety.
fn sexagesimal(text: &str) -> Option<Size> {
    let mut parts = text.split(':');
    let first = parts.next().filter(|part| part.starts_with(|c: char| ('1'..='9').contains(&c)))?;
    let Size::Exact(mut sum) = in_base(first, 10)? else { return None };
    for part in parts {
        sum = sum.checked_mul(60)?.checked_add(sixty(part)?)?;
    }
    Some(Size::Exact(sum))
}

fn sixty(part: &str) -> Option<u64> {
    let fits = (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    part.parse().ok().filter(|&n| fits && n < 60)
}

fn sexagesimal_float(text: &str) -> Option<f64> {
    let (whole, fraction) = text.split_once('.')?;
    if !fraction.bytes().all(|b| b.is_ascii_digit() || b == b'_') {
        return None;
    }
    let mut parts = whole.split(':');
    let digits = |part: &&str| part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let first = parts.next().filter(digits).filter(|part| part.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut sum: f64 = first.replace('_', "").parse().ok()?;
    for part in parts {
        sum = sum * 60.0 + sixty(part)? as f64;
    }
    let fraction: f64 = format!("0.{}0", fraction.replace('_', "")).parse().ok()?;
    Some(sum + fraction)
}

/// Reads a float. A dot is required, and an exponent needs its sign: `1.0e+3`, never `1e3`.
fn float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    if let Some(exponent) = exponent {
        let digits = exponent.strip_prefix(['+', '-'])?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
    }
    let (whole, fraction) = mantissa.split_once('.')?;
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || b == b'_');
    let begins = |part: &str| part.starts_with(|c: char| c.is_ascii_digit());
    let well_formed =
        digits(whole) && digits(fraction) && (begins(whole) || (whole.is_empty() && begins(fraction)));
    if !well_formed {
        return None;
    }
    text.replace('_', "").parse().ok().filter(|n: &f64| n.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_scalars_are_read_as_the_safe_loader_of_python_reads_them() {
        for (text, value) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("NULL", json!(null)),
            ("nULL", json!("nULL")),
            ("yes", json!(true)),
            ("Off", json!(false)),
            ("y", json!("y")),
            ("oN", json!("oN")),
            ("0", json!(0)),
            ("-0", json!(0)),
            ("12", json!(12)),
            ("+12", json!(12)),
            ("-1_000", json!(-1000)),
            ("0x1F", json!(31)),
            ("0b101", json!(5)),
            ("0777", json!(511)),
            ("08", json!("08")),
            ("0o17", json!("0o17")),
            ("_1", json!("_1")),
            ("-_1", json!("-_1")),
            ("0_", json!(0)),
            ("1:30", json!(90)),
            ("1:60", json!("1:60")),
            ("1:30.5", json!(90.5)),
            ("9E9:7.", json!("9E9:7.")),
            ("18446744073709551615", json!(18446744073709551615u64)),
            ("-9223372036854775808", json!(i64::MIN)),
            ("18446744073709551616", json!(18446744073709551616.0)),
            ("1.5", json!(1.5)),
            ("1.", json!(1.0)),
            (".5", json!(0.5)),
            ("-.5", json!("-.5")),
            ("-1.5e-3", json!(-0.0015)),
            ("1e3", json!("1e3")),
            ("1.0e3", json!("1.0e3")),
            ("1.0e+3", json!(1000.0)),
            (".", json!(".")),
            ("-", json!("-")),
            (".inf", json!(".inf")),
            (".nan", json!(".nan")),
            ("2024-01-02", json!("2024-01-02")),
            ("2024-01-02T03:04:05Z", json!("2024-01-02T03:04:05Z")),
            ("0.6.0", json!("0.6.0")),
            ("1.2.3.4", json!("1.2.3.4")),
            ("0x", json!("0x")),
            ("1__", json!(1)),
        ] {
            assert_eq!(resolve_plain(text), value, "{text:?}");
        }
    }
}
