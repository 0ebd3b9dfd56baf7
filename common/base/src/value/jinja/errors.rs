//! Error messages in the words of Jinja2 and Python, as far as minijinja's errors allow it.

use std::sync::LazyLock;

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use regex::Regex;

use super::show;

/// The last part of an expression that minijinja reports as undefined: `.name`, `["key"]`, `[0]`.
#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static LAST_STEP: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?s)^(.*?)(?:\.([^\W\d]\w*)|\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(-?\d+)|\.\.\.)\])$"#,
    )
    .expect("the pattern is well formed")
});

/// Returns the message of the innermost cause. With the context, the message of a failed look-up names the
/// input's type.
pub(super) fn message(error: &Error, context: Option<&Value>) -> String {
    let mut innermost = error;
    while let Some(cause) = std::error::Error::source(innermost).and_then(|s| s.downcast_ref::<Error>()) {
        innermost = cause;
    }
    let detail = innermost.detail().unwrap_or_default();
    if let Some(expression) = undefined_expression(detail) {
        return undefined(expression, context);
    }
    match innermost.kind() {
        ErrorKind::UndefinedError => "a value is undefined".into(),
        ErrorKind::UnknownFilter if !detail.is_empty() => format!("No filter named '{}'.", named(detail)),
        ErrorKind::UnknownTest => format!("No test named '{}'.", named(detail)),
        ErrorKind::UnknownFunction => format!("'{}' is undefined", detail.trim_end_matches(" is unknown")),
        ErrorKind::TemplateNotFound => "no loader for this environment specified".into(),
        ErrorKind::SyntaxError => syntax(detail, innermost),
        _ if detail.starts_with("cannot convert string to i") => {
            "'str' object cannot be interpreted as an integer".into()
        }
        _ if detail.starts_with("cannot convert number to i") => {
            "'float' object cannot be interpreted as an integer".into()
        }
        _ if detail == "cannot slice by step size of 0" => "slice step cannot be zero".into(),
        _ if detail == "cannot create range with step of 0" => "range() arg 3 must not be zero".into(),
        _ if detail == "value of type number cannot be sliced" => "'int' object is not subscriptable".into(),
        _ if detail == "value is not iterable" => "cannot unpack non-iterable object".into(),
        _ if detail.starts_with("sequence of wrong length") => unpacking(detail),
        _ if detail.starts_with("value of type ") && detail.ends_with(" is not callable") => {
            not_callable(detail).into()
        }
        _ if detail == "object is not callable" => "'list' object is not callable".into(),
        _ if detail == "cannot recurse outside of recursive loop" => {
            "The loop must have the 'recursive' marker to be called recursively.".into()
        }
        _ if detail.starts_with("can only assign to namespaces") => {
            "cannot assign attribute on non-namespace object".into()
        }
        _ if detail.is_empty() => innermost.kind().to_string(),
        _ => detail.into(),
    }
}

/// Returns the expression in `… (`a.b` is undefined, from line 3)`.
fn undefined_expression(detail: &str) -> Option<&str> {
    let from = detail.find('`')? + 1;
    let to = detail.rfind("` is undefined")?;
    detail.get(from..to)
}

/// Returns Jinja2's message for an undefined name, or for an undefined attribute of a value.
fn undefined(expression: &str, context: Option<&Value>) -> String {
    let Some(found) = LAST_STEP.captures(expression) else { return format!("'{expression}' is undefined") };
    let base = found.get(1).map_or("", |m| m.as_str());
    let value = context.and_then(|context| look_up(context, base));
    let owner = value.map_or("dict object".into(), |value| match value.kind() {
        ValueKind::None => "None".into(),
        _ => format!("{} object", show::type_name(&value)),
    });
    let key = found.get(2).or(found.get(3)).or(found.get(4));
    match (key, found.get(5)) {
        (Some(key), _) => format!("'{owner}' has no attribute '{}'", key.as_str()),
        // Only an integer is written without quotes. The owner of an index counts as a list unless it is
        // known.
        (None, Some(index)) if owner == "dict object" => {
            format!("list object has no element {}", index.as_str())
        }
        (None, Some(index)) => format!("{owner} has no element {}", index.as_str()),
        (None, None) => format!("'{owner}' has no such attribute"),
    }
}

/// Returns the value of a plain path from an input; `None` when the path begins at a local name or is not
/// plain.
fn look_up(context: &Value, path: &str) -> Option<Value> {
    if let Some(found) = LAST_STEP.captures(path) {
        let base = look_up(context, found.get(1)?.as_str())?;
        let value = match (found.get(2).or(found.get(3)).or(found.get(4)), found.get(5)) {
            (Some(key), _) => base.get_attr(key.as_str()).ok()?,
            (None, Some(index)) => base.get_item(&Value::from(index.as_str().parse::<i64>().ok()?)).ok()?,
            (None, None) => return None,
        };
        return (!value.is_undefined()).then_some(value);
    }
    context.get_attr(path).ok().filter(|value| !value.is_undefined())
}

/// Rewrites `sequence of wrong length (expected 2, got 3)` to Python's message.
fn unpacking(detail: &str) -> String {
    let numbers: Vec<&str> =
        detail.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
    match numbers.as_slice() {
        [wanted, found] if found.parse::<usize>().ok() > wanted.parse::<usize>().ok() => {
            format!("too many values to unpack (expected {wanted})")
        }
        [wanted, found] => format!("not enough values to unpack (expected {wanted}, got {found})"),
        _ => detail.into(),
    }
}

/// Rewrites `value of type number is not callable` to Python's message.
fn not_callable(detail: &str) -> &'static str {
    match detail.split(' ').nth(3) {
        Some("string") => "'str' object is not callable",
        Some("none") => "'NoneType' object is not callable",
        Some("bool") => "'bool' object is not callable",
        Some("undefined") => "No caller defined",
        Some("map") => "'dict' object is not callable",
        _ => "'int' object is not callable",
    }
}

/// Returns the name in minijinja's `filter x is unknown`.
fn named(detail: &str) -> &str {
    detail.split(' ').nth(1).unwrap_or(detail)
}

/// Rewrites minijinja's syntax error to Jinja2's message, where Jinja2 has the same error.
fn syntax(detail: &str, error: &Error) -> String {
    if let Some(name) = detail.strip_prefix("unknown statement ") {
        return format!("Encountered unknown tag '{}'.", name.trim_matches('`').trim_matches('\''));
    }
    let end = |name: &str| match name {
        "end of block" => Some("end of statement block"),
        "end of variable block" => Some("end of print statement"),
        _ => None,
    };
    let Some((found, wanted)) =
        detail.strip_prefix("unexpected ").map(|rest| rest.split_once(", expected ").unwrap_or((rest, "")))
    else {
        return detail.replace('`', "'");
    };
    if found == "end of input" {
        return "Unexpected end of template.".into();
    }
    let token = error.range().zip(error.template_source()).and_then(|(range, source)| source.get(range));
    let found = end(found).or(token).unwrap_or(found);
    match (found, wanted) {
        ("}" | "]" | ")", _) => format!("unexpected '{found}'"),
        ("end of statement block" | "end of print statement", "") => {
            format!("Expected an expression, got '{found}'")
        }
        (_, "") => format!("unexpected '{found}'"),
        (_, wanted) => format!("expected token '{}', got '{found}'", end(wanted).unwrap_or(wanted)),
    }
}
