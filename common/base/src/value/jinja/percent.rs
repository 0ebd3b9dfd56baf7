//! Python's printf formatting, `'%s and %.2f' % values`, one conversion at a time.

use minijinja::formatting::{FormatStyle, format as printf};
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Error, State};

use super::budget::charge;
use super::ops::{failure, undefined, whole_value};
use super::{sequences, show};

/// The operator `%`: a tuple gives one value per conversion, a mapping gives values by name, any other value
/// is a single one.
///
/// # Errors
/// Python's message when text and values do not match; an error when the result is too large.
pub(super) fn operator(state: &mut State, text: &str, values: &Value) -> Result<Value, Error> {
    let single = [values.clone()];
    let tuple = if values.is_tuple() { sequences::items(values)? } else { Vec::new() };
    let in_order: &[Value] = if values.is_tuple() { &tuple } else { &single };
    let mapping = (values.kind() == ValueKind::Map).then_some(values);
    format(state, text, in_order, mapping).map(Value::from)
}

/// The filter `format`: values in order or by name.
///
/// # Errors
/// As [`operator`].
pub(super) fn filter(
    state: &mut State,
    text: Value,
    args: Rest<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let text = super::arguments::text_of(state, &text)?;
    let by_name = named.args().next().is_some();
    if by_name && !args.0.is_empty() {
        return Err(failure("can't handle positional and keyword arguments at the same time"));
    }
    let mapping = Value::from(named);
    format(state, &text, &args.0, by_name.then_some(&mapping))
}

fn format(
    state: &mut State,
    text: &str,
    in_order: &[Value],
    mapping: Option<&Value>,
) -> Result<String, Error> {
    let mut out = String::new();
    let mut rest = text;
    let mut values = in_order.iter();
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let spec = Spec::read(after)?;
        rest = &after[spec.length..];
        if spec.conversion == '%' {
            out.push('%');
            continue;
        }
        let value = match (spec.key, mapping) {
            (Some(key), Some(mapping)) => {
                let value = mapping.get_attr(key)?;
                if value.is_undefined() {
                    return Err(failure(crate::value::pyrepr::repr_text(key)));
                }
                value
            }
            (Some(_), None) => return Err(failure("format requires a mapping")),
            (None, _) => {
                values.next().cloned().ok_or_else(|| failure("not enough arguments for format string"))?
            }
        };
        super::arguments::given(state, &value)?;
        let index = text[..text.len() - rest.len()].chars().count() - 1;
        out.push_str(&spec.apply(value, index)?);
        charge(state, out.len().min(1024))?;
    }
    out.push_str(rest);
    if values.next().is_some() && mapping.is_none() {
        return Err(failure("not all arguments converted during string formatting"));
    }
    charge(state, out.len())?;
    Ok(out)
}

/// One conversion: `%(key)-5.2f`.
struct Spec<'s> {
    key: Option<&'s str>,
    /// Flags, width and precision.
    options: &'s str,
    conversion: char,
    /// Length in bytes, without the `%`.
    length: usize,
}

impl<'s> Spec<'s> {
    fn read(text: &'s str) -> Result<Self, Error> {
        let incomplete = || failure("incomplete format");
        let (key, at) = match text.strip_prefix('(') {
            Some(inner) => {
                let end = inner.find(')').ok_or_else(|| failure("incomplete format key"))?;
                (Some(&inner[..end]), end + 2)
            }
            None => (None, 0),
        };
        let options_end = text[at..].find(|c: char| !"#0- +.123456789".contains(c)).ok_or_else(incomplete)?;
        let options = &text[at..at + options_end];
        let tail = text[at + options_end..].trim_start_matches(['h', 'l', 'L']);
        let conversion = tail.chars().next().ok_or_else(incomplete)?;
        if options.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 6) {
            return Err(failure("the format has too large a width"));
        }
        Ok(Self { key, options, conversion, length: text.len() - tail.len() + conversion.len_utf8() })
    }

    fn apply(&self, value: Value, index: usize) -> Result<String, Error> {
        if value.is_undefined() && !matches!(self.conversion, 's' | 'r' | 'a') {
            return Err(undefined(&value));
        }
        let found = show::type_name(&value);
        let numeric = matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
        let (conversion, value) = match self.conversion {
            's' => ('s', Value::from(show::text(&value))),
            'r' => ('s', Value::from(show::repr(&value))),
            'a' => ('s', Value::from(ascii(&show::repr(&value)))),
            'd' | 'i' | 'u' if numeric => ('d', whole(&value)),
            'd' | 'i' | 'u' => {
                let conversion = self.conversion;
                return Err(failure(format!("%{conversion} format: a real number is required, not {found}")));
            }
            'x' | 'X' | 'o' if !numeric || found == "float" => {
                let conversion = self.conversion;
                return Err(failure(format!("%{conversion} format: an integer is required, not {found}")));
            }
            'x' | 'X' | 'o' => (self.conversion, whole(&value)),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' if numeric => (
                self.conversion,
                Value::from(f64::try_from(value.clone()).unwrap_or(f64::from(u8::from(value.is_true())))),
            ),
            'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
                return Err(failure(format!("must be real number, not {found}")));
            }
            'c' => ('c', value),
            other => {
                let code = u32::from(other);
                return Err(failure(format!(
                    "unsupported format character '{other}' ({code:#x}) at index {index}"
                )));
            }
        };
        printf(FormatStyle::Printf, &format!("%{}{conversion}", self.options), &[value])
    }
}

/// Escapes all characters that are not ASCII.
fn ascii(text: &str) -> String {
    let escape = |c: char| match u32::from(c) {
        code @ 0..0x80 => char::from_u32(code).into_iter().collect(),
        code @ 0x80..0x100 => format!("\\x{code:02x}"),
        code @ 0x100..0x10000 => format!("\\u{code:04x}"),
        code => format!("\\U{code:08x}"),
    };
    text.chars().map(escape).collect()
}

/// Cuts off the fraction.
fn whole(value: &Value) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "as Python, which cuts the fraction off")]
    match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        _ if value.is_integer() => value.clone(),
        _ => whole_value(f64::try_from(value.clone()).map_or(0, |number| number as i128)),
    }
}
