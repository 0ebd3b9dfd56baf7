//! Python's arithmetic and its error messages.

use minijinja::value::{Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior};

use super::budget::charge;
use super::{mutable, percent, show};

/// Adds the functions into which [`super::rewrite`] turns operators.
pub(super) fn add(env: &mut Environment<'static>) {
    env.add_function("__cat", concatenate);
    env.add_function("__sum", |state: &mut State, signs: &str, values: Rest<Value>| {
        chain(state, signs, &values)
    });
    env.add_function("__prod", |state: &mut State, signs: &str, values: Rest<Value>| {
        chain(state, signs, &values)
    });
    env.add_function("__pow", |state: &mut State, signs: &str, values: Rest<Value>| {
        chain(state, signs, &values)
    });
    env.add_function("__neg", |value: Value| signed("-", &value));
    env.add_function("__pos", |value: Value| signed("+", &value));
    env.add_function("__iter", |value: Value| match value.kind() {
        ValueKind::None | ValueKind::Bool | ValueKind::Number => {
            Err(failure(format!("'{}' object is not iterable", show::type_name(&value))))
        }
        _ => Ok(value),
    });
    env.add_function("__no_items", || Err::<Value, _>(failure("no items for cycling given")));
    env.add_function("__keep", mutable::keep);
    env.add_function("__put", mutable::put);
    env.add_function("__list", |state: &mut State, value: Value| {
        let items = super::sequences::items(&value)?;
        charge(state, items.len() * size_of::<Value>())?;
        Ok::<_, Error>(mutable::list(items))
    });
    env.add_function("__dict", |value: Value| {
        let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
        mutable::dict(pairs.into_iter().flatten())
    });
}

/// Builds an error with this message.
pub(super) fn failure(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Builds the error for the use of an undefined value. It contains the value's origin, and so its name.
pub(super) fn undefined(value: &Value) -> Error {
    match value.get_attr("") {
        Err(error) => error,
        Ok(_) => failure("a value is undefined"),
    }
}

fn concatenate(state: &mut State, _signs: &str, values: Rest<Value>) -> Result<String, Error> {
    let strict = state.undefined_behavior() == UndefinedBehavior::Strict;
    let mut out = String::new();
    for value in values.iter() {
        if strict && value.is_undefined() {
            return Err(undefined(value));
        }
        match value.as_str() {
            Some(text) => out.push_str(text),
            None => out.push_str(&show::text(value)),
        }
    }
    charge(state, out.len())?;
    Ok(out)
}

fn chain(state: &mut State, signs: &str, values: &[Value]) -> Result<Value, Error> {
    let Some((first, rest)) = values.split_first() else { return Err(failure("nothing to calculate with")) };
    let mut left = first.clone();
    for (sign, right) in signs.split(' ').zip(rest) {
        left = operate(state, sign, &left, right)?;
    }
    Ok(left)
}

#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Fraction(f64),
}

impl Number {
    fn of(value: &Value) -> Option<Self> {
        match value.kind() {
            ValueKind::Bool => Some(Self::Whole(i128::from(value.is_true()))),
            ValueKind::Number if value.is_integer() => i128::try_from(value.clone()).ok().map(Self::Whole),
            ValueKind::Number => f64::try_from(value.clone()).ok().map(Self::Fraction),
            _ => None,
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "as Python, which rounds to the nearest fraction")]
    fn fraction(self) -> f64 {
        match self {
            Self::Whole(whole) => whole as f64,
            Self::Fraction(fraction) => fraction,
        }
    }
}

pub(super) fn operate(state: &mut State, sign: &str, left: &Value, right: &Value) -> Result<Value, Error> {
    for value in [left, right] {
        // `'%s' % missing` is checked by the conversion.
        let formatted = sign == "%" && left.as_str().is_some();
        if value.is_undefined() && !formatted {
            return Err(undefined(value));
        }
    }
    match (Number::of(left), Number::of(right)) {
        (Some(Number::Whole(left)), Some(Number::Whole(right))) => whole(sign, left, right),
        (Some(left), Some(right)) => fraction(sign, left.fraction(), right.fraction()),
        (left_number, right_number) => match (sign, left_number, right_number) {
            ("+", None, _) => add_sequences(state, left, right),
            ("*", None, Some(Number::Whole(times))) => repeat(state, left, times),
            ("*", Some(Number::Whole(times)), None) => repeat(state, right, times),
            ("%", None, _) => match left.as_str() {
                Some(text) => percent::operator(state, text, right),
                None => Err(unsupported(sign, left, right)),
            },
            _ => Err(unsupported(sign, left, right)),
        },
    }
}

/// Evaluates a sign in front of a value.
fn signed(sign: &str, value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Err(undefined(value));
    }
    match Number::of(value) {
        Some(Number::Whole(number)) if sign == "-" => Ok(whole_value(number.saturating_neg())),
        Some(Number::Whole(number)) => Ok(whole_value(number)),
        Some(Number::Fraction(number)) => Ok(Value::from(if sign == "-" { -number } else { number })),
        None => Err(failure(format!("bad operand type for unary {sign}: '{}'", show::type_name(value)))),
    }
}

fn whole(sign: &str, left: i128, right: i128) -> Result<Value, Error> {
    let value = match sign {
        "+" => left.checked_add(right),
        "-" => left.checked_sub(right),
        "*" => left.checked_mul(right),
        "/" if right == 0 => return Err(failure("division by zero")),
        "/" => return Ok(Value::from(Number::Whole(left).fraction() / Number::Whole(right).fraction())),
        "//" if right == 0 => return Err(failure("integer division or modulo by zero")),
        "%" if right == 0 => return Err(failure("integer modulo by zero")),
        "//" => left.checked_div(right).map(|quotient| {
            let inexact = left % right != 0;
            quotient - i128::from(inexact && (left < 0) != (right < 0))
        }),
        "%" => left
            .checked_rem(right)
            .map(|rest| if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest }),
        _ if right < 0 => {
            return fraction("**", Number::Whole(left).fraction(), Number::Whole(right).fraction());
        }
        _ => u32::try_from(right).ok().and_then(|power| left.checked_pow(power)),
    };
    value.map(whole_value).ok_or_else(|| failure("the number is too large"))
}

/// Returns a whole number in the smallest form, which all other code expects.
pub(super) fn whole_value(value: i128) -> Value {
    i64::try_from(value).map_or_else(|_| Value::from(value), Value::from)
}

fn fraction(sign: &str, left: f64, right: f64) -> Result<Value, Error> {
    let by_zero = |message: &str| if right == 0.0 { Err(failure(message)) } else { Ok(()) };
    let value = match sign {
        "+" => left + right,
        "-" => left - right,
        "*" => left * right,
        "/" => {
            by_zero("float division by zero")?;
            left / right
        }
        "//" => {
            by_zero("float floor division by zero")?;
            floor_divide(left, right).0
        }
        "%" => {
            by_zero("float modulo")?;
            floor_divide(left, right).1
        }
        _ if left == 0.0 && right < 0.0 => return Err(failure("0.0 cannot be raised to a negative power")),
        _ if left < 0.0 && right.fract() != 0.0 => return Err(failure("the power is a complex number")),
        _ => {
            let power = left.powf(right);
            if power.is_infinite() && left.is_finite() && right.is_finite() {
                return Err(failure("(34, 'Numerical result out of range')"));
            }
            power
        }
    };
    Ok(Value::from(value))
}

/// Returns quotient and remainder of a division that rounds down, as Python computes them.
fn floor_divide(left: f64, right: f64) -> (f64, f64) {
    let mut rest = left % right;
    let mut quotient = (left - rest) / right;
    if rest == 0.0 {
        rest = 0.0_f64.copysign(right);
    } else if (rest < 0.0) != (right < 0.0) {
        rest += right;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0_f64.copysign(left / right), rest);
    }
    let floor = quotient.floor();
    (if quotient - floor > 0.5 { floor + 1.0 } else { floor }, rest)
}

fn add_sequences(state: &mut State, left: &Value, right: &Value) -> Result<Value, Error> {
    match (left.as_str(), right.as_str()) {
        (Some(left), Some(right)) => {
            charge(state, left.len() + right.len())?;
            return Ok(Value::from([left, right].concat()));
        }
        (Some(_), None) => {
            let other = show::type_name(right);
            return Err(failure(format!("can only concatenate str (not \"{other}\") to str")));
        }
        (None, _) => {}
    }
    let kind = |value: &Value| Some(show::type_name(value)).filter(|name| matches!(*name, "list" | "tuple"));
    match (kind(left), kind(right)) {
        (Some(a), Some(b)) if a == b => {
            let mut items = super::sequences::items(left)?;
            items.extend(super::sequences::items(right)?);
            charge(state, items.len() * size_of::<Value>())?;
            Ok(super::sequences::like(left, items))
        }
        (Some(a), _) => {
            let other = show::type_name(right);
            Err(failure(format!("can only concatenate {a} (not \"{other}\") to {a}")))
        }
        (None, _) => Err(unsupported("+", left, right)),
    }
}

fn repeat(state: &mut State, value: &Value, times: i128) -> Result<Value, Error> {
    let times = usize::try_from(times.max(0)).unwrap_or(usize::MAX);
    if let Some(text) = value.as_str() {
        charge(state, text.len().saturating_mul(times))?;
        return Ok(Value::from(text.repeat(times)));
    }
    if !matches!(show::type_name(value), "list" | "tuple") {
        return Err(unsupported("*", value, &Value::from(0)));
    }
    let items = super::sequences::items(value)?;
    charge(state, items.len().saturating_mul(times).saturating_mul(size_of::<Value>()))?;
    let repeated = std::iter::repeat_n(&items, times).flatten().cloned().collect();
    Ok(super::sequences::like(value, repeated))
}

fn unsupported(sign: &str, left: &Value, right: &Value) -> Error {
    let (left_type, right_type) = (show::type_name(left), show::type_name(right));
    let other = if left.as_str().is_some() || left.as_object().is_some() { right_type } else { left_type };
    match sign {
        "*" if other != "int"
            && [left, right].iter().any(|v| v.as_str().is_some() || v.kind() == ValueKind::Seq) =>
        {
            failure(format!("can't multiply sequence by non-int of type '{other}'"))
        }
        "**" => {
            failure(format!("unsupported operand type(s) for ** or pow(): '{left_type}' and '{right_type}'"))
        }
        _ => failure(format!("unsupported operand type(s) for {sign}: '{left_type}' and '{right_type}'")),
    }
}
