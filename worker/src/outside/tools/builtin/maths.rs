//! The provider `maths`: evaluates an expression by Python's rules, with Dify's messages.

use tidemill_common::nodes::tool::{Declaration, Form, Parameter, ParameterType};
use tidemill_common::value::JsonMap;
use tidemill_common::value::pyrepr::float_repr;

use crate::outside::tools::builtin::text;

/// Longest expression, in bytes.
const EXPRESSION_BYTES_MAX: usize = 1000;
/// Deepest nesting of brackets, signs and powers.
const DEPTH_MAX: usize = 50;

pub(super) fn tools() -> Vec<Declaration> {
    let expression = Parameter {
        name: "expression".into(),
        ty: ParameterType::String,
        form: Form::Llm,
        required: true,
        description: "such as 2 * (3 + sqrt(16)) ** 2".into(),
        ..Parameter::default()
    };
    vec![Declaration {
        name: "eval_expression".into(),
        description:
            "Evaluates a mathematical expression: numbers, + - * / // % **, and functions such as sqrt."
                .into(),
        parameters: vec![expression],
        takes_more: false,
        has_output_schema: false,
    }]
}

pub(super) fn run(tool: &str, arguments: &JsonMap) -> Result<String, String> {
    if tool != "eval_expression" {
        return Err(format!("there is no tool {tool}"));
    }
    let expression = text(arguments, "expression", "");
    let expression = expression.trim();
    if expression.is_empty() {
        return Ok("Invalid expression".into());
    }
    Ok(match evaluate(expression) {
        Ok(value) => format!("The result of the expression \"{expression}\" is {}", value.shown()),
        Err(error) => format!("Invalid expression: {expression}, error: {error}"),
    })
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Number {
    Whole(i64),
    Real(f64),
}

use Number::{Real, Whole};

impl Number {
    fn real(self) -> f64 {
        match self {
            Whole(number) => number as f64,
            Real(number) => number,
        }
    }

    fn shown(self) -> String {
        match self {
            Whole(number) => number.to_string(),
            Real(number) => float_repr(number),
        }
    }
}

const TOO_LARGE: &str = "a whole number is too large";
const BY_ZERO: &str = "division by zero";

fn evaluate(text: &str) -> Result<Number, String> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("it is longer than {EXPRESSION_BYTES_MAX} bytes"));
    }
    let mut reader = Reader { rest: text.trim_start(), depth: 0 };
    let value = reader.sum()?;
    if reader.rest.is_empty() { Ok(value) } else { Err(format!("{:?} is not understood", reader.rest)) }
}

/// The unread rest of an expression.
struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, sign: &str) -> bool {
        let found = self.rest.strip_prefix(sign);
        found.map(|rest| self.rest = rest.trim_start()).is_some()
    }

    fn sum(&mut self) -> Result<Number, String> {
        let mut value = self.product()?;
        loop {
            let other = if self.take("+") {
                self.product()?
            } else if self.take("-") {
                negative(self.product()?)?
            } else {
                return Ok(value);
            };
            value = both(value, other, i64::checked_add, |a, b| a + b)?;
        }
    }

    fn product(&mut self) -> Result<Number, String> {
        let mut value = self.signed()?;
        loop {
            if self.rest.starts_with("**") {
                return Ok(value);
            }
            value = if self.take("*") {
                both(value, self.signed()?, i64::checked_mul, |a, b| a * b)?
            } else if self.take("//") {
                divided(value, self.signed()?, floor_div, |a, b| (a / b).floor())?
            } else if self.take("/") {
                Real(divisor(value, self.signed()?)?)
            } else if self.take("%") {
                divided(value, self.signed()?, floor_rem, |a, b| a - b * (a / b).floor())?
            } else {
                return Ok(value);
            };
        }
    }

    fn signed(&mut self) -> Result<Number, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        let value = self.signed_within();
        self.depth -= 1;
        value
    }

    fn signed_within(&mut self) -> Result<Number, String> {
        if self.take("-") {
            return negative(self.signed()?);
        }
        if self.take("+") {
            return self.signed();
        }
        let base = self.single()?;
        if self.take("**") { power(base, self.signed()?) } else { Ok(base) }
    }

    fn single(&mut self) -> Result<Number, String> {
        if self.take("(") {
            let value = self.sum()?;
            return if self.take(")") { Ok(value) } else { Err("a bracket is not closed".into()) };
        }
        if self.rest.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.number();
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        if name.is_empty() {
            let what = self.rest.chars().next();
            return Err(what.map_or("it ends too early".into(), |sign| format!("{sign:?} is not understood")));
        }
        self.rest = rest.trim_start();
        if !self.take("(") {
            return Err(format!("there is no {name:?}"));
        }
        let mut arguments = vec![self.sum()?];
        while self.take(",") {
            arguments.push(self.sum()?);
        }
        if !self.take(")") {
            return Err("a bracket is not closed".into());
        }
        called(name, &arguments)
    }

    fn number(&mut self) -> Result<Number, String> {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let mut end = digits(self.rest);
        let mut is_whole = true;
        if self.rest[end..].starts_with('.') {
            is_whole = false;
            end += 1 + digits(&self.rest[end + 1..]);
        }
        if let Some(exponent) = self.rest[end..].strip_prefix(['e', 'E']) {
            let sign = usize::from(exponent.starts_with(['+', '-']));
            let count = digits(&exponent[sign..]);
            if count > 0 {
                is_whole = false;
                end += 1 + sign + count;
            }
        }
        let (number, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        if is_whole {
            return number.parse().map(Whole).map_err(|_| TOO_LARGE.into());
        }
        number.parse().map(Real).map_err(|_| format!("{number:?} is not a number"))
    }
}

fn negative(value: Number) -> Result<Number, String> {
    match value {
        Whole(number) => number.checked_neg().map(Whole).ok_or_else(|| TOO_LARGE.into()),
        Real(number) => Ok(Real(-number)),
    }
}

fn both(
    a: Number,
    b: Number,
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Result<Number, String> {
    match (a, b) {
        (Whole(a), Whole(b)) => whole(a, b).map(Whole).ok_or_else(|| TOO_LARGE.into()),
        (a, b) => Ok(Real(real(a.real(), b.real()))),
    }
}

fn divisor(a: Number, b: Number) -> Result<f64, String> {
    if b.real() == 0.0 { Err(BY_ZERO.into()) } else { Ok(a.real() / b.real()) }
}

/// Integer division and its remainder, rounded towards minus infinity as in Python.
fn divided(
    a: Number,
    b: Number,
    whole: fn(i64, i64) -> Option<i64>,
    real: fn(f64, f64) -> f64,
) -> Result<Number, String> {
    divisor(a, b)?;
    both(a, b, whole, real)
}

fn floor_div(a: i64, b: i64) -> Option<i64> {
    let quotient = a.checked_div(b)?;
    let is_rounded_up = a % b != 0 && (a < 0) != (b < 0);
    Some(quotient - i64::from(is_rounded_up))
}

fn floor_rem(a: i64, b: i64) -> Option<i64> {
    let rest = a.checked_rem(b)?;
    let is_other_side = rest != 0 && (rest < 0) != (b < 0);
    Some(if is_other_side { rest + b } else { rest })
}

fn power(a: Number, b: Number) -> Result<Number, String> {
    match (a, b) {
        (Whole(a), Whole(b @ 0..)) => {
            let exponent = u32::try_from(b).ok();
            exponent.and_then(|b| a.checked_pow(b)).map(Whole).ok_or_else(|| TOO_LARGE.into())
        }
        (a, b) if a.real() == 0.0 && b.real() < 0.0 => Err(BY_ZERO.into()),
        (a, b) => Ok(Real(a.real().powf(b.real()))),
    }
}

fn called(name: &str, arguments: &[Number]) -> Result<Number, String> {
    if let ("abs", [Whole(number)]) = (name, arguments) {
        return number.checked_abs().map(Whole).ok_or_else(|| TOO_LARGE.into());
    }
    let numbers: Vec<f64> = arguments.iter().map(|number| number.real()).collect();
    let value = match (name, numbers[..].as_ref()) {
        ("sqrt", [x]) => x.sqrt(),
        ("sin", [x]) => x.sin(),
        ("cos", [x]) => x.cos(),
        ("tan", [x]) => x.tan(),
        ("arcsin", [x]) => x.asin(),
        ("arccos", [x]) => x.acos(),
        ("arctan", [x]) => x.atan(),
        ("arctan2", [y, x]) => y.atan2(*x),
        ("sinh", [x]) => x.sinh(),
        ("cosh", [x]) => x.cosh(),
        ("tanh", [x]) => x.tanh(),
        ("log", [x]) => x.ln(),
        ("log10", [x]) => x.log10(),
        ("log1p", [x]) => x.ln_1p(),
        ("exp", [x]) => x.exp(),
        ("expm1", [x]) => x.exp_m1(),
        ("abs", [x]) => x.abs(),
        ("floor", [x]) => x.floor(),
        ("ceil", [x]) => x.ceil(),
        _ => return Err(format!("there is no function {name:?} of {} numbers", numbers.len())),
    };
    Ok(Real(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn said(expression: &str) -> String {
        run("eval_expression", json!({"expression": expression}).as_object().unwrap()).unwrap()
    }

    #[test]
    fn expressions_have_pythons_values() {
        for (expression, value) in [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * 3", "9"),
            ("7 / 2", "3.5"),
            ("6 / 2", "3.0"),
            ("7 // 2", "3"),
            ("-7 // 2", "-4"),
            ("7 // -2", "-4"),
            ("-7 % 3", "2"),
            ("7 % -3", "-2"),
            ("7.5 % 2", "1.5"),
            ("2 ** 3 ** 2", "512"),
            ("-2 ** 2", "-4"),
            ("2 ** -1", "0.5"),
            ("0.1 + 0.2", "0.30000000000000004"),
            ("1e3", "1000.0"),
            (".5 + 1.", "1.5"),
            ("sqrt(16) + abs(-3)", "7.0"),
            ("arctan2(0, 1)", "0.0"),
            (" ( 4 ) ", "4"),
            ("--3", "3"),
        ] {
            assert_eq!(
                said(expression),
                format!("The result of the expression \"{}\" is {value}", expression.trim())
            );
        }
    }

    #[test]
    fn what_makes_no_sense_is_told_as_a_text() {
        for (expression, error) in [
            ("1 +", "it ends too early"),
            ("1 / 0", "division by zero"),
            ("1 // 0.0", "division by zero"),
            ("0 ** -1", "division by zero"),
            ("(1", "a bracket is not closed"),
            ("1 2", "\"2\" is not understood"),
            ("x + 1", "there is no \"x\""),
            ("f(1)", "there is no function \"f\" of 1 numbers"),
            ("2 ** 64", "a whole number is too large"),
            ("9999999999999999999", "a whole number is too large"),
            ("1 & 2", "\"& 2\" is not understood"),
            ("größe", "'ö' is not understood"),
        ] {
            let found = said(expression);
            let expected = format!("Invalid expression: {expression}, error: {error}");
            assert!(found == expected || expression == "größe" && found.contains("error: "), "{found}");
        }
        assert_eq!(said("  "), "Invalid expression");
        assert!(said(&"(".repeat(1001)).contains("longer than 1000 bytes"));
        for deep in ["(", "-", "2**", "sqrt("] {
            assert!(said(&deep.repeat(200)).contains("nested deeper than 50"), "{deep}");
        }
    }
}
