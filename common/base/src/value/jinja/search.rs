//! Methods of texts that search or split: `find`, `startswith`, `split`.

use minijinja::value::{Kwargs, Rest, Value, ValueKind, from_args};
use minijinja::{Error, State};

use super::arguments::Arguments;
use super::budget::charge;
use super::ops::failure;
use super::{sequences, show};

/// Calls such a method; returns `None` when the method is not one of them.
///
/// # Errors
/// Python's message when the arguments do not fit.
pub(super) fn call(
    state: &mut State,
    text: &str,
    method: &str,
    args: &[Value],
) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "startswith" | "endswith" => {
            let (affix, begin, end): (Value, Option<i64>, Option<i64>) = from_args(args)?;
            let part = part(text, begin, end).map_or("", |(_, part)| part);
            let fits = |affix: &Value| match affix.as_str() {
                Some(affix) if method == "startswith" => Ok(part.starts_with(affix)),
                Some(affix) => Ok(part.ends_with(affix)),
                None => {
                    let found = show::type_name(affix);
                    Err(failure(format!("{method} first arg must be str or a tuple of str, not {found}")))
                }
            };
            if affix.kind() == ValueKind::Seq {
                let found = sequences::items(&affix)?.iter().map(fits).collect::<Result<Vec<_>, _>>()?;
                Value::from(found.contains(&true))
            } else {
                Value::from(fits(&affix)?)
            }
        }
        "find" | "rfind" | "index" | "rindex" => {
            let (wanted, begin, end): (Value, Option<i64>, Option<i64>) = from_args(args)?;
            let wanted = wanted
                .as_str()
                .ok_or_else(|| failure(format!("must be str, not {}", show::type_name(&wanted))))?;
            let found = part(text, begin, end).and_then(|(skipped, part)| {
                let at = if method.starts_with('r') { part.rfind(wanted) } else { part.find(wanted) };
                at.map(|at| skipped + part[..at].chars().count())
            });
            match found {
                Some(at) => Value::from(at),
                None if method.ends_with("find") => Value::from(-1),
                None => return Err(failure("substring not found")),
            }
        }
        "count" => {
            let (wanted, begin, end): (String, Option<i64>, Option<i64>) = from_args(args)?;
            Value::from(part(text, begin, end).map_or(0, |(_, part)| part.matches(wanted.as_str()).count()))
        }
        "split" | "rsplit" => {
            let (args, named): (Rest<Value>, Kwargs) = from_args(args)?;
            let mut args = Arguments::of(args, named);
            let at = args.next("sep")?;
            let most = usize::try_from(args.integer("maxsplit", -1)?).unwrap_or(usize::MAX);
            args.finish()?;
            let parts = match &at {
                None => words(text, most, method == "rsplit"),
                Some(at) => match at.as_str() {
                    Some("") => return Err(failure("empty separator")),
                    Some(at) => pieces(text, at, most, method == "rsplit"),
                    None => {
                        return Err(failure(format!("must be str or None, not {}", show::type_name(at))));
                    }
                },
            };
            charge(state, parts.len() * size_of::<Value>())?;
            parts.into_iter().map(Value::from).collect::<Vec<_>>().into()
        }
        "title" => {
            let () = from_args(args)?;
            Value::from(title(text))
        }
        "isprintable" => {
            let () = from_args(args)?;
            Value::from(text.chars().all(|c| c == ' ' || !(c.is_control() || c.is_whitespace())))
        }
        "expandtabs" => {
            let (size,): (Option<usize>,) = from_args(args)?;
            let size = size.unwrap_or(8).min(1000);
            charge(state, text.len().saturating_add(text.matches('\t').count().saturating_mul(size)))?;
            Value::from(expand_tabs(text, size))
        }
        _ => return Ok(None),
    }))
}

/// Returns the part from one position to another (negative ones count from the end), and the number of
/// skipped characters. `None` when the part would begin after its end.
fn part(text: &str, begin: Option<i64>, end: Option<i64>) -> Option<(usize, &str)> {
    let length = text.chars().count();
    let place = |at: i64| {
        let back = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
        if at < 0 { length.saturating_sub(back) } else { back }
    };
    let (begin, end) = (place(begin.unwrap_or(0)), end.map_or(length, place).min(length));
    let byte = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
    (begin <= end).then(|| (begin, &text[byte(begin)..byte(end)]))
}

fn pieces<'t>(text: &'t str, at: &str, most: usize, backwards: bool) -> Vec<&'t str> {
    let most = most.saturating_add(1);
    if !backwards {
        return text.splitn(most, at).collect();
    }
    let mut parts: Vec<&str> = text.rsplitn(most, at).collect();
    parts.reverse();
    parts
}

/// Returns the words. After `most` splits the rest stays one word.
fn words(text: &str, most: usize, backwards: bool) -> Vec<&str> {
    let mut rest = text.trim();
    let mut words = Vec::new();
    while !rest.is_empty() {
        let at = if backwards { rest.rfind(char::is_whitespace) } else { rest.find(char::is_whitespace) };
        let (word, more) = match at.filter(|_| words.len() < most) {
            None => (rest, ""),
            Some(at) if backwards => (rest[at..].trim_start(), rest[..at].trim_end()),
            Some(at) => (&rest[..at], rest[at..].trim_start()),
        };
        words.push(word);
        rest = more;
    }
    if backwards {
        words.reverse();
    }
    words
}

/// Capitalizes every run of letters, as Python's method does; the filter `title` only looks at spaces.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        if begins {
            out.extend(c.to_uppercase());
        } else {
            out.extend(c.to_lowercase());
        }
        begins = !c.is_alphabetic();
    }
    out
}

fn expand_tabs(text: &str, size: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut column = 0_usize;
    for c in text.chars() {
        match c {
            '\t' => {
                let spaces = size.saturating_sub(column.checked_rem(size).unwrap_or(0));
                out.push_str(&" ".repeat(spaces));
                column += spaces;
            }
            '\n' | '\r' => {
                out.push(c);
                column = 0;
            }
            c => {
                out.push(c);
                column += 1;
            }
        }
    }
    out
}
