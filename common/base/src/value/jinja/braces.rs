//! Python's `str.format`: `'{:>5} {name!r}'.format(…)`.

use minijinja::value::{Kwargs, Value, ValueKind, from_args};
use minijinja::{Error, State};

use super::budget::charge;
use super::ops::failure;
use super::sequences::no_attribute;
use super::show;

/// Most digits of a width or precision.
const DIGITS_MAX: usize = 6;

/// Runs the method `format`.
///
/// # Errors
/// Python's message when text and values do not match; an error when the result is too large.
pub(super) fn method(state: &mut State, text: &str, args: &[Value]) -> Result<String, Error> {
    let (in_order, named): (minijinja::value::Rest<Value>, Kwargs) = from_args(args)?;
    let mut fields = Fields { in_order: in_order.0, named, next: 0 };
    fields.fill(state, text, 0)
}

struct Fields {
    in_order: Vec<Value>,
    named: Kwargs,
    next: usize,
}

impl Fields {
    fn fill(&mut self, state: &mut State, text: &str, depth: usize) -> Result<String, Error> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            out.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(after) = rest.strip_prefix(brace) {
                out.push_str(brace);
                rest = after;
            } else if brace == "}" {
                return Err(failure("Single '}' encountered in format string"));
            } else {
                let end = field_end(rest).ok_or_else(|| {
                    failure(if rest.is_empty() {
                        "Single '{' encountered in format string"
                    } else {
                        "expected '}' before end of string"
                    })
                })?;
                out.push_str(&self.field(state, &rest[..end], depth)?);
                rest = &rest[end + 1..];
            }
            charge(state, out.len().min(1024))?;
        }
        out.push_str(rest);
        charge(state, out.len())?;
        Ok(out)
    }

    /// Formats one field: `name.attribute[item]!r:spec`. The spec may contain fields itself.
    fn field(&mut self, state: &mut State, field: &str, depth: usize) -> Result<String, Error> {
        let name_end = field.find(['!', ':']).unwrap_or(field.len());
        let (name, rest) = field.split_at(name_end);
        let (conversion, spec) = match rest.strip_prefix('!') {
            Some(rest) => {
                let (conversion, spec) = rest.split_once(':').unwrap_or((rest, ""));
                (Some(conversion), spec)
            }
            None => (None, rest.strip_prefix(':').unwrap_or("")),
        };
        if depth > 1 {
            return Err(failure("Max string recursion exceeded"));
        }
        let value = self.value(name)?;
        super::arguments::given(state, &value)?;
        let value = match conversion {
            None => value,
            Some("s") => Value::from(show::text(&value)),
            Some("r" | "a") => Value::from(show::repr(&value)),
            Some(other) => return Err(failure(format!("Unknown conversion specifier {other}"))),
        };
        let spec = self.fill(state, spec, depth + 1)?;
        apply(&value, &spec)
    }

    fn value(&mut self, name: &str) -> Result<Value, Error> {
        let base_end = name.find(['.', '[']).unwrap_or(name.len());
        let (base, mut path) = name.split_at(base_end);
        let mut value = if base.is_empty() || base.bytes().all(|b| b.is_ascii_digit()) {
            let at = base.parse().unwrap_or(self.next);
            self.next += usize::from(base.is_empty());
            let missing =
                || failure(format!("Replacement index {at} out of range for positional args tuple"));
            self.in_order.get(at).cloned().ok_or_else(missing)?
        } else {
            self.named.get::<Option<Value>>(base)?.ok_or_else(|| failure(format!("'{base}'")))?
        };
        while !path.is_empty() {
            let (key, rest) = match path.strip_prefix('[') {
                Some(inner) => {
                    inner.split_once(']').ok_or_else(|| failure("Missing ']' in format string"))?
                }
                None => {
                    let name = path.trim_start_matches('.');
                    // Attributes here are those of Python objects, which our values do not have.
                    return Err(plain_attribute(
                        &value,
                        &name[..name.find(['.', '[']).unwrap_or(name.len())],
                    ));
                }
            };
            let item = match key.parse::<i64>() {
                Ok(index) => value.get_item(&Value::from(index))?,
                Err(_) => value.get_item(&Value::from(key))?,
            };
            if item.is_undefined() {
                return Err(failure(crate::value::pyrepr::repr_text(key)));
            }
            value = item;
            path = rest;
        }
        Ok(value)
    }
}

fn plain_attribute(value: &Value, key: &str) -> Error {
    let message =
        no_attribute(value, &Value::from(key)).detail().unwrap_or_default().replace(" object'", "' object");
    failure(message)
}

/// Returns the position of the brace that closes the field.
fn field_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `[[fill]align][sign][#][0][width][grouping][.precision][type]`
struct Spec {
    fill: char,
    align: Option<char>,
    sign: char,
    alternate: bool,
    width: usize,
    grouping: Option<char>,
    precision: Option<usize>,
    kind: Option<char>,
}

impl Spec {
    fn read(text: &str) -> Result<Self, Error> {
        let mut chars: Vec<char> = text.chars().collect();
        let is_align = |c: Option<&char>| c.is_some_and(|c| "<>=^".contains(*c));
        let (mut fill, mut align) = (' ', None);
        if is_align(chars.get(1)) {
            (fill, align) = (chars[0], Some(chars[1]));
            chars.drain(..2);
        } else if is_align(chars.first()) {
            align = Some(chars.remove(0));
        }
        let mut rest = chars.into_iter().peekable();
        let sign = rest.next_if(|c| "+- ".contains(*c)).unwrap_or('-');
        let alternate = rest.next_if_eq(&'#').is_some();
        if rest.next_if_eq(&'0').is_some() && align.is_none() {
            (fill, align) = ('0', Some('='));
        }
        let number = |rest: &mut std::iter::Peekable<std::vec::IntoIter<char>>| {
            let digits: String = std::iter::from_fn(|| rest.next_if(char::is_ascii_digit)).collect();
            if digits.len() > DIGITS_MAX {
                return Err(failure("the format has too large a width"));
            }
            Ok(digits.parse::<usize>().ok())
        };
        let width = number(&mut rest)?.unwrap_or(0);
        let grouping = rest.next_if(|c| matches!(c, ',' | '_'));
        let precision = match rest.next_if_eq(&'.') {
            Some(_) => Some(number(&mut rest)?.ok_or_else(|| failure("Format specifier missing precision"))?),
            None => None,
        };
        let kind = rest.next();
        if rest.next().is_some() {
            return Err(failure("Invalid format specifier"));
        }
        Ok(Self { fill, align, sign, alternate, width, grouping, precision, kind })
    }
}

fn apply(value: &Value, spec: &str) -> Result<String, Error> {
    if spec.is_empty() {
        return Ok(show::text(value));
    }
    let name = show::type_name(value);
    if !matches!(value.kind(), ValueKind::Number | ValueKind::Bool | ValueKind::String | ValueKind::Undefined)
    {
        return Err(failure(format!("unsupported format string passed to {name}.__format__")));
    }
    let spec = Spec::read(spec)?;
    let unknown = |kind: char| failure(format!("Unknown format code '{kind}' for object of type '{name}'"));
    if value.as_str().is_some() || value.is_undefined() {
        if let Some(kind) = spec.kind.filter(|kind| *kind != 's') {
            return Err(unknown(kind));
        }
        let text = show::text(value);
        let text: String = text.chars().take(spec.precision.unwrap_or(usize::MAX)).collect();
        return Ok(padded(&spec, "", &text, '<'));
    }
    let whole = i128::try_from(value.clone()).ok().filter(|_| value.is_integer());
    let whole = whole.or((value.kind() == ValueKind::Bool).then(|| i128::from(value.is_true())));
    let (negative, digits) = match (whole, spec.kind) {
        (Some(number), None | Some('d' | 'n' | 'b' | 'o' | 'x' | 'X' | 'c')) => {
            if spec.kind == Some('c') {
                let c = u32::try_from(number).ok().and_then(char::from_u32);
                let c = c.ok_or_else(|| failure("%c arg not in range(0x110000)"))?;
                return Ok(padded(&spec, "", &c.to_string(), '<'));
            }
            (number < 0, in_base(number.unsigned_abs(), &spec))
        }
        (_, Some(kind @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%'))) => {
            #[expect(clippy::cast_precision_loss, reason = "as Python, which rounds to the nearest fraction")]
            let number = whole.map_or_else(|| f64::try_from(value.clone()).unwrap_or(0.0), |n| n as f64);
            (number.is_sign_negative(), fraction(number.abs(), kind, spec.precision)?)
        }
        (None, None | Some('n')) => {
            let number = f64::try_from(value.clone()).unwrap_or(0.0);
            let digits = match spec.precision {
                Some(precision) => fraction(number.abs(), 'g', Some(precision))?,
                None => crate::value::pyrepr::float_repr(number.abs()),
            };
            (number.is_sign_negative(), digits)
        }
        (_, Some(kind)) => return Err(unknown(kind)),
    };
    let digits = match spec.grouping {
        Some(sign) => grouped(&digits, sign),
        None => digits,
    };
    let sign = match (negative, spec.sign) {
        (true, _) => "-",
        (false, '+') => "+",
        (false, ' ') => " ",
        (false, _) => "",
    };
    Ok(padded(&spec, sign, &digits, '>'))
}

fn in_base(number: u128, spec: &Spec) -> String {
    let prefix = |prefix: &'static str| if spec.alternate { prefix } else { "" };
    match spec.kind {
        Some('b') => format!("{}{number:b}", prefix("0b")),
        Some('o') => format!("{}{number:o}", prefix("0o")),
        Some('x') => format!("{}{number:x}", prefix("0x")),
        Some('X') => format!("{}{number:X}", prefix("0X")),
        Some(_) | None => number.to_string(),
    }
}

fn fraction(number: f64, kind: char, precision: Option<usize>) -> Result<String, Error> {
    if kind == '%' {
        return Ok(format!("{:.*}%", precision.unwrap_or(6), number * 100.0));
    }
    let printf = minijinja::formatting::FormatStyle::Printf;
    let format = format!("%.{}{kind}", precision.unwrap_or(6));
    minijinja::formatting::format(printf, &format, &[Value::from(number)])
}

/// Inserts a separator between every three digits before the point.
fn grouped(digits: &str, sign: char) -> String {
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let mut out = String::new();
    for (at, c) in digits[..end].chars().enumerate() {
        if at > 0 && (end - at).is_multiple_of(3) {
            out.push(sign);
        }
        out.push(c);
    }
    out + &digits[end..]
}

fn padded(spec: &Spec, sign: &str, text: &str, align: char) -> String {
    let missing = spec.width.saturating_sub(sign.len() + text.chars().count());
    let fill = |count: usize| spec.fill.to_string().repeat(count);
    match spec.align.unwrap_or(align) {
        '<' => format!("{sign}{text}{}", fill(missing)),
        '^' => format!("{}{sign}{text}{}", fill(missing / 2), fill(missing - missing / 2)),
        '=' => format!("{sign}{}{text}", fill(missing)),
        _ => format!("{}{sign}{text}", fill(missing)),
    }
}
