//! Filters that fit text into a width: `center`, `truncate`, `wordwrap`, `indent`.

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, State};

use super::arguments::{Arguments, defined, text_of};
use super::budget::{charge, width};
use super::ops::failure;
use super::show;
use crate::value::lines::split_lines;

/// Adds the filters.
pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("center", |state: &State, text: Value, args: Rest<Value>, named: Kwargs| {
        let mut args = Arguments::of(args, named);
        let to = args.integer("width", 80)?;
        args.finish()?;
        center(&text_of(state, &text)?, to, ' ')
    });
    env.add_filter("truncate", truncate);
    env.add_filter("wordwrap", wordwrap);
    env.add_filter("indent", indent);
}

/// `str.center`: with an odd width, the odd space goes to the left.
pub(super) fn center(text: &str, to: i64, fill: char) -> Result<String, Error> {
    let (to, length) = (width(to)?, text.chars().count());
    let spaces = to.saturating_sub(length);
    let left = spaces / 2 + (spaces & to & 1);
    let fill = fill.to_string();
    Ok(format!("{}{text}{}", fill.repeat(left), fill.repeat(spaces - left)))
}

/// Returns a text that will be split into lines.
fn lines_of(text: &Value) -> Result<String, Error> {
    defined(text)?;
    let no_text = || failure(format!("'{}' object has no attribute 'splitlines'", show::type_name(text)));
    text.as_str().map(String::from).ok_or_else(no_text)
}

fn truncate(state: &mut State, text: Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    if matches!(text.kind(), ValueKind::None | ValueKind::Bool | ValueKind::Number) {
        return Err(failure(format!("object of type '{}' has no len()", show::type_name(&text))));
    }
    let text = text_of(state, &text)?;
    let mut args = Arguments::of(args, named);
    let length = args.integer("length", 255)?;
    let killwords = args.flag("killwords", false)?;
    let end = args.text("end", "...")?;
    let leeway = args.integer("leeway", 5)?;
    args.finish()?;
    let end_length = i64::try_from(end.chars().count()).unwrap_or(i64::MAX);
    if length < end_length {
        return Err(failure(format!("expected length >= {end_length}, got {length}")));
    }
    if leeway < 0 {
        return Err(failure(format!("expected leeway >= 0, got {leeway}")));
    }
    let count = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if count <= length.saturating_add(leeway) {
        return Ok(text);
    }
    let kept: String = text.chars().take(usize::try_from(length - end_length).unwrap_or(0)).collect();
    match kept.rsplit_once(' ') {
        Some((words, _)) if !killwords => Ok(format!("{words}{end}")),
        Some(_) | None => Ok(kept + &end),
    }
}

fn wordwrap(state: &mut State, text: Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let mut args = Arguments::of(args, named);
    let to = width(args.integer("width", 79)?)?;
    let break_long = args.flag("break_long_words", true)?;
    let with = args.text("wrapstring", "\n")?;
    let hyphens = args.flag("break_on_hyphens", true)?;
    args.finish()?;
    if to == 0 {
        return Err(failure("invalid width 0 (must be > 0)"));
    }
    let text = lines_of(&text)?;
    let lines = split_lines(&text).map(|line| wrap(line, to, break_long, hyphens).join(&with));
    let out = lines.collect::<Vec<_>>().join(&with);
    charge(state, out.len())?;
    Ok(out)
}

/// Python's `textwrap.wrap` with white space kept: lines of at most `to` characters, cut at spaces.
fn wrap(line: &str, to: usize, break_long: bool, hyphens: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    let mut used = 0;
    for chunk in chunks(line, hyphens) {
        let blank = chunk.trim().is_empty();
        let mut chunk = chunk.to_string();
        if used + chunk.chars().count() > to {
            if !current.is_empty() && chunk.chars().count() <= to || blank {
                lines.push(std::mem::take(&mut current).trim_end().to_string());
                used = 0;
            } else if break_long {
                while used + chunk.chars().count() > to {
                    let cut: usize = chunk.chars().take(to - used).map(char::len_utf8).sum();
                    current.push_str(&chunk[..cut]);
                    lines.push(std::mem::take(&mut current));
                    chunk.drain(..cut);
                    used = 0;
                }
            } else if !current.is_empty() {
                lines.push(std::mem::take(&mut current).trim_end().to_string());
                used = 0;
            }
        }
        if blank && used == 0 && !lines.is_empty() {
            continue;
        }
        used += chunk.chars().count();
        current.push_str(&chunk);
    }
    if !current.trim_end().is_empty() {
        lines.push(current.trim_end().to_string());
    }
    lines
}

/// Splits a line into words and the white space between them; words are also split after hyphens.
fn chunks(line: &str, hyphens: bool) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut begin = 0;
    let mut before: Option<char> = None;
    for (at, c) in line.char_indices() {
        let turns = before.is_some_and(|b| b.is_whitespace() != c.is_whitespace());
        let after_hyphen = hyphens
            && c.is_alphabetic()
            && line[begin..at].ends_with('-')
            && line[begin..at].trim_end_matches('-').ends_with(char::is_alphabetic);
        if turns || after_hyphen {
            chunks.push(&line[begin..at]);
            begin = at;
        }
        before = Some(c);
    }
    if begin < line.len() {
        chunks.push(&line[begin..]);
    }
    chunks
}

fn indent(state: &mut State, text: Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let mut args = Arguments::of(args, named);
    let by = args.next("width")?.unwrap_or_else(|| Value::from(4));
    let first = args.flag("first", false)?;
    let blank = args.flag("blank", false)?;
    args.finish()?;
    let by = match by.as_str() {
        Some(text) => text.to_string(),
        None => " ".repeat(width(by.as_i64().unwrap_or(4))?),
    };
    if text.as_str().is_none() && !text.is_undefined() && show::type_name(&text) != "list" {
        let found = show::type_name(&text);
        return Err(failure(format!("unsupported operand type(s) for +=: '{found}' and 'str'")));
    }
    // Jinja2 adds a line end, so that a text that ends with one has an empty line after it.
    let text = lines_of(&text)? + "\n";
    let lines = split_lines(&text).count();
    charge(state, text.len().saturating_add(lines.saturating_mul(by.len())))?;
    let mut out = String::new();
    for (at, line) in split_lines(&text).enumerate() {
        out.push_str(if at == 0 { "" } else { "\n" });
        let wanted = if at == 0 { first } else { blank || !line.is_empty() };
        out.push_str(if wanted { &by } else { "" });
        out.push_str(line);
    }
    Ok(out)
}
