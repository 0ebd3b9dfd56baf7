//! Python's rules for reading numbers, and Dify's rules for values that fit a declared type.

use serde_json::{Value as Json, json};

use super::pyrepr::repr_text;
use super::{FILE_IDENTITY, FILE_IDENTITY_KEY, SegmentType};

/// Parses as Python's `int(text)`: surrounding white space, a sign, decimal digits of any script, single
/// underscores between digits. A number beyond 128 bits becomes the nearest one that fits; every value it is
/// compared with is smaller.
///
/// # Errors
/// Python's message when the text is not a whole number.
pub fn parse_python_int(text: &str) -> Result<i128, String> {
    let plain = ascii_digits(text.trim_matches(is_python_space));
    whole(&plain).ok_or_else(|| format!("invalid literal for int() with base 10: {}", repr_text(text)))
}

/// Parses as Python's `float(text)`: as [`parse_python_int`], and also a fraction, an exponent, `inf`,
/// `infinity` and `nan`.
///
/// # Errors
/// Python's message when the text is not a number.
/// Python's message when the text is no number.
pub fn parse_python_float(text: &str) -> Result<f64, String> {
    let plain = ascii_digits(text.trim_matches(is_python_space));
    // Rust reads the same numbers, except for underscores, which must have a digit on both sides.
    without_underscores(&plain)
        .and_then(|plain| plain.parse().ok())
        .ok_or_else(|| format!("could not convert string to float: {}", repr_text(text)))
}

/// True for white space in the sense of Python's `str.strip`: Unicode's, and the four separators of ASCII.
pub fn is_python_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

fn whole(plain: &str) -> Option<i128> {
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, plain),
    };
    let digits = without_underscores(digits)?;
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some(match (digits.parse::<i128>(), negative) {
        (Ok(value), false) => value,
        (Ok(value), true) => -value,
        (Err(_), false) => i128::MAX,
        (Err(_), true) => i128::MIN,
    })
}

fn without_underscores(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let ok = (0..bytes.len())
        .filter(|&at| bytes[at] == b'_')
        .all(|at| digit(at.checked_sub(1)) && digit(at.checked_add(1)));
    ok.then(|| text.replace('_', ""))
}

/// Replaces decimal digits of any script with ASCII digits.
fn ascii_digits(text: &str) -> String {
    text.chars().map(|c| decimal_digit(c).map_or(c, |digit| char::from(b'0' + digit))).collect()
}

/// Returns the value of a decimal digit (Unicode category Nd).
pub fn decimal_digit(c: char) -> Option<u8> {
    /// First characters of the runs of ten digits, in order.
    const ZEROS: [u32; 71] = [
        0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6,
        0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0,
        0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30,
        0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0,
        0x11950, 0x11c50, 0x11d50, 0x11da0, 0x11f50, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2,
        0x1d7ec, 0x1d7f6, 0x1e140, 0x1e2f0, 0x1e4f0, 0x1e950, 0x1fbf0, 0x10d40, 0x16d70, 0x1ccf0,
    ];
    if c.is_ascii() {
        return c.to_digit(10).and_then(|digit| u8::try_from(digit).ok());
    }
    let code = u32::from(c);
    ZEROS
        .iter()
        .find(|&&zero| (zero..zero + 10).contains(&code))
        .and_then(|zero| u8::try_from(code - zero).ok())
}

/// True when Dify accepts the value for a variable of this type. As on Dify, booleans count as numbers, and
/// every item of a list is checked.
pub fn matches_type(ty: SegmentType, value: &Json) -> bool {
    let items = |test: fn(&Json) -> bool| value.as_array().is_some_and(|items| items.iter().all(test));
    match ty {
        SegmentType::None => value.is_null(),
        SegmentType::String | SegmentType::Secret => value.is_string(),
        SegmentType::Integer | SegmentType::Float => is_numeric(value),
        SegmentType::Boolean => value.is_boolean(),
        SegmentType::Object => value.is_object(),
        SegmentType::File => is_file(value),
        SegmentType::ArrayAny => value.is_array(),
        SegmentType::ArrayString => items(Json::is_string),
        SegmentType::ArrayNumber => items(is_numeric),
        SegmentType::ArrayObject => items(Json::is_object),
        SegmentType::ArrayBoolean => items(Json::is_boolean),
        SegmentType::ArrayFile => items(is_file),
    }
}

/// Casts to a declared type as Dify does: booleans become 0 and 1 where integers are declared, also in a list
/// that holds only booleans. All other values are returned unchanged.
pub fn cast(ty: SegmentType, value: Json) -> Json {
    let number = |flag: bool| json!(i32::from(flag));
    match (ty, value) {
        (SegmentType::Integer, Json::Bool(flag)) => number(flag),
        (SegmentType::ArrayNumber, Json::Array(items)) if items.iter().all(Json::is_boolean) => {
            items.iter().map(|item| number(item.as_bool() == Some(true))).collect()
        }
        (_, value) => value,
    }
}

/// Returns the value that `clear` assigns to a variable of the type.
///
/// # Errors
/// Dify's message for types without such a value.
pub fn zero_value(ty: SegmentType) -> Result<Json, String> {
    match ty {
        SegmentType::String => Ok(json!("")),
        SegmentType::Integer => Ok(json!(0)),
        SegmentType::Float => Ok(json!(0.0)),
        SegmentType::Boolean => Ok(json!(false)),
        SegmentType::Object => Ok(json!({})),
        SegmentType::ArrayAny
        | SegmentType::ArrayString
        | SegmentType::ArrayNumber
        | SegmentType::ArrayObject
        | SegmentType::ArrayBoolean => Ok(json!([])),
        SegmentType::None | SegmentType::Secret | SegmentType::File | SegmentType::ArrayFile => {
            Err(format!("unsupported variable type: {ty}"))
        }
    }
}

fn is_numeric(value: &Json) -> bool {
    value.is_number() || value.is_boolean()
}

fn is_file(value: &Json) -> bool {
    value.get(FILE_IDENTITY_KEY).and_then(Json::as_str) == Some(FILE_IDENTITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_python_reads_them() {
        for (text, value) in
            [("7", 7), (" -1_000\n", -1000), ("+٣", 3), ("\u{1f}5\u{a0}", 5), ("００７", 7), ("-0", 0)]
        {
            assert_eq!(parse_python_int(text), Ok(value), "{text:?}");
        }
        assert_eq!(parse_python_int(&"9".repeat(60)), Ok(i128::MAX));
        for text in ["7.0", "", " ", "1e3", "1__0", "_1", "1_", "- 1", "--1", "0x1", "½", "it's"] {
            let quoted = repr_text(text);
            assert_eq!(
                parse_python_int(text),
                Err(format!("invalid literal for int() with base 10: {quoted}"))
            );
        }
    }

    #[test]
    fn fractions_are_read_as_python_reads_them() {
        for (text, value) in [
            ("1.", 1.0),
            (".5", 0.5),
            (" 1_0.5e-1_0 ", 1.05e-9),
            ("-Infinity", f64::NEG_INFINITY),
            ("١.٥", 1.5),
        ] {
            assert_eq!(parse_python_float(text), Ok(value), "{text:?}");
        }
        assert!(parse_python_float("NaN").is_ok_and(f64::is_nan));
        for text in ["", ".", "1_.5", "1e", "e5", "0x1", "1,5", "one"] {
            assert_eq!(parse_python_float(text), Err(format!("could not convert string to float: '{text}'")));
        }
    }

    #[test]
    fn types_accept_what_dify_accepts() {
        for (ty, value, fits) in [
            (SegmentType::Integer, json!(true), true),
            (SegmentType::Float, json!(1), true),
            (SegmentType::Integer, json!("1"), false),
            (SegmentType::Secret, json!("x"), true),
            (SegmentType::ArrayNumber, json!([1, true]), true),
            (SegmentType::ArrayNumber, json!([1, "x"]), false),
            (SegmentType::ArrayString, json!([]), true),
            (SegmentType::ArrayFile, json!([{"dify_model_identity": "__dify__file__"}]), true),
            (SegmentType::File, json!({}), false),
            (SegmentType::None, json!(null), true),
        ] {
            assert_eq!(matches_type(ty, &value), fits, "{ty} {value}");
        }
        assert_eq!(cast(SegmentType::Integer, json!(true)), json!(1));
        assert_eq!(cast(SegmentType::ArrayNumber, json!([true, false])), json!([1, 0]));
        assert_eq!(cast(SegmentType::ArrayNumber, json!([true, 2])), json!([true, 2]));
        assert_eq!(zero_value(SegmentType::File), Err("unsupported variable type: file".into()));
    }
}
