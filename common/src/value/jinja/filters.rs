//! Filters on text, where minijinja lacks them or does them differently.

use std::sync::LazyLock;

use minijinja::formatting::{FormatStyle, format as printf};
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, HtmlEscape, State};
use regex::Regex;
use serde_json::Value as Json;

use super::budget::{charge, width};
use super::ops::{failure, undefined};
use super::{convert, sequences, show};
use crate::value::pyrepr::{JsonLayout, json_into};

/// Adds them.
pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("string", |value: Value| show::text(&value));
    env.add_filter("e", escape);
    env.add_filter("escape", escape);
    env.add_filter("forceescape", escape);
    env.add_filter("safe", |value: Value| value);
    env.add_filter("pprint", |value: Value| show::repr(&value));
    env.add_filter("tojson", tojson);
    env.add_filter("join", join);
    env.add_filter("replace", replace);
    env.add_filter("format", |state: &mut State, text: String, args: Rest<Value>| {
        check_widths(&text)?;
        let text = printf(FormatStyle::Printf, &text, &plain(&args))?;
        charge(state, text.len())?;
        Ok::<_, Error>(text)
    });
    env.add_filter("center", |text: Value, to: Option<i64>| center(&show::text(&text), to.unwrap_or(80)));
    env.add_filter("truncate", truncate);
    env.add_filter("wordwrap", wordwrap);
    env.add_filter("wordcount", |text: Value| {
        show::text(&text).split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty()).count()
    });
    env.add_filter("indent", indent);
    env.add_filter("striptags", striptags);
    env.add_filter("xmlattr", xmlattr);
    env.add_filter("urlize", urlize);
    env.add_filter("title", |text: Value| title(&show::text(&text)));
    env.add_filter("capitalize", |text: Value| capitalize(&show::text(&text)));
    env.add_filter("trim", |text: Value, chars: Option<String>| {
        let text = show::text(&text);
        match chars {
            Some(chars) => text.trim_matches(|c| chars.contains(c)).to_string(),
            None => text.trim_matches(crate::value::coerce::is_python_space).to_string(),
        }
    });
}

/// Arguments that may be given in order or by name.
struct Arguments {
    in_order: std::vec::IntoIter<Value>,
    named: Kwargs,
}

impl Arguments {
    fn of(args: Rest<Value>) -> Result<Self, Error> {
        let mut in_order = args.0;
        let named = match in_order.pop_if(|last| last.is_kwargs()) {
            Some(named) => Kwargs::try_from(named)?,
            None => Kwargs::from_iter::<[(&str, Value); 0]>([]),
        };
        Ok(Self { in_order: in_order.into_iter(), named })
    }
    /// The next argument, or the one of this name; none also stands for null.
    fn next(&mut self, name: &str) -> Result<Option<Value>, Error> {
        let value = match self.in_order.next() {
            Some(value) => Some(value),
            None => self.named.get::<Option<Value>>(name)?,
        };
        Ok(value.filter(|value| !value.is_none()))
    }
    fn integer(&mut self, name: &str, default: i64) -> Result<i64, Error> {
        self.next(name)?.map_or(Ok(default), i64::try_from)
    }
    fn flag(&mut self, name: &str, default: bool) -> Result<bool, Error> {
        Ok(self.next(name)?.map_or(default, |value| value.is_true()))
    }
    fn text(&mut self, name: &str, default: &str) -> Result<String, Error> {
        Ok(self.next(name)?.map_or_else(|| default.into(), |value| show::text(&value)))
    }
    fn finish(mut self) -> Result<(), Error> {
        match self.in_order.next() {
            Some(_) => Err(failure("too many arguments")),
            None => self.named.assert_all_used(),
        }
    }
}

/// `'%s and %d' % values`.
///
/// # Errors
/// What Python says when text and values do not fit, or the result is too large.
pub(super) fn percent(state: &mut State, text: &Value, values: &Value) -> Result<Value, Error> {
    let text = text.as_str().unwrap_or_default();
    check_widths(text)?;
    let args = if values.is_tuple() { sequences::items(values)? } else { vec![values.clone()] };
    let text = printf(FormatStyle::Printf, text, &plain(&args))?;
    charge(state, text.len())?;
    Ok(Value::from(text))
}

/// The values with those replaced by their text that minijinja would print differently.
fn plain(values: &[Value]) -> Vec<Value> {
    let plain = |value: &Value| match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => Value::from(show::repr(value)),
        _ => value.clone(),
    };
    values.iter().map(plain).collect()
}

/// Refuses formats that make more than a million characters out of nothing.
pub(super) fn check_widths(format: &str) -> Result<(), Error> {
    let long = format.split(|c: char| !c.is_ascii_digit()).any(|digits| digits.len() > 6);
    if long || format.contains('*') && format.contains('%') {
        return Err(failure("the format has too large a width"));
    }
    Ok(())
}

fn escape(value: Value) -> String {
    html(&show::text(&value))
}

fn html(text: &str) -> String {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text.into();
    }
    let escaped = HtmlEscape(text).to_string();
    escaped.replace("&quot;", "&#34;").replace("&#x27;", "&#39;").replace("&#x2f;", "/")
}

fn tojson(state: &mut State, value: Value, indent: Option<i64>) -> Result<String, Error> {
    if value.is_undefined() {
        return Err(failure("Object of type Undefined is not JSON serializable"));
    }
    let layout = match indent {
        Some(indent) => JsonLayout::Indent(width(indent)?),
        None => JsonLayout::Line,
    };
    let json: Json = convert::json(&value, 0).map_err(failure)?;
    let mut out = String::new();
    json_into(&mut out, &json, layout, true);
    charge(state, out.len())?;
    let escapes = [('<', "\\u003c"), ('>', "\\u003e"), ('&', "\\u0026"), ('\'', "\\u0027")];
    Ok(escapes.iter().fold(out, |out, (c, escape)| if out.contains(*c) { out.replace(*c, escape) } else { out }))
}

fn join(state: &mut State, value: Value, d: Option<Value>, options: Kwargs) -> Result<String, Error> {
    let between = match d {
        Some(between) => show::text(&between),
        None => options.get::<Option<Value>>("d")?.map(|d| show::text(&d)).unwrap_or_default(),
    };
    let attribute: Option<Value> = options.get("attribute")?;
    options.assert_all_used()?;
    let mut out = String::new();
    for (at, item) in sequences::items(&value)?.into_iter().enumerate() {
        let item = match &attribute {
            Some(path) => sequences::attribute(&item, path)?,
            None => item,
        };
        out.push_str(if at == 0 { "" } else { &between });
        out.push_str(&show::text(&item));
        if out.len() > crate::limits::VALUE_BYTES_MAX {
            break;
        }
    }
    charge(state, out.len())?;
    Ok(out)
}

fn replace(state: &mut State, text: Value, old: Value, new: Value, count: Option<i64>) -> Result<String, Error> {
    let (text, old, new) = (show::text(&text), show::text(&old), show::text(&new));
    let most = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let found = text.matches(old.as_str()).count().min(most);
    charge(state, text.len().saturating_add(found.saturating_mul(new.len())))?;
    Ok(text.replacen(old.as_str(), &new, most))
}

/// `str.center`: an odd space more goes to the left when the width is odd.
pub(super) fn center(text: &str, to: i64) -> Result<String, Error> {
    let (to, length) = (width(to)?, text.chars().count());
    let spaces = to.saturating_sub(length);
    let left = spaces / 2 + (spaces & to & 1);
    Ok(format!("{}{text}{}", " ".repeat(left), " ".repeat(spaces - left)))
}

fn truncate(text: Value, args: Rest<Value>) -> Result<String, Error> {
    let text = show::text(&text);
    let mut args = Arguments::of(args)?;
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

fn wordwrap(state: &mut State, text: Value, args: Rest<Value>) -> Result<String, Error> {
    let mut args = Arguments::of(args)?;
    let to = width(args.integer("width", 79)?)?;
    let break_long = args.flag("break_long_words", true)?;
    let with = args.text("wrapstring", "\n")?;
    let hyphens = args.flag("break_on_hyphens", true)?;
    args.finish()?;
    if to == 0 {
        return Err(failure("invalid width 0 (must be > 0)"));
    }
    let text = show::text(&text);
    let lines = text.lines().map(|line| wrap(line, to, break_long, hyphens).join(&with));
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

/// Words and the white space between them; words are also cut behind hyphens.
fn chunks(line: &str, hyphens: bool) -> Vec<&str> {
    let mut chunks = Vec::new();
    let mut begin = 0;
    let mut before: Option<char> = None;
    for (at, c) in line.char_indices() {
        let turns = before.is_some_and(|b| b.is_whitespace() != c.is_whitespace());
        let behind_hyphen = hyphens
            && c.is_alphabetic()
            && line[begin..at].ends_with('-')
            && line[begin..at].trim_end_matches('-').ends_with(char::is_alphabetic);
        if turns || behind_hyphen {
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

fn indent(state: &mut State, text: Value, args: Rest<Value>) -> Result<String, Error> {
    let mut args = Arguments::of(args)?;
    let by = args.next("width")?.unwrap_or_else(|| Value::from(4));
    let first = args.flag("first", false)?;
    let blank = args.flag("blank", false)?;
    args.finish()?;
    let by = match by.as_str() {
        Some(text) => text.to_string(),
        None => " ".repeat(width(by.as_i64().unwrap_or(4))?),
    };
    // Jinja2 adds a line end first, so that a last empty line is kept.
    let text = show::text(&text);
    charge(state, text.len().saturating_add(text.matches('\n').count().saturating_add(1).saturating_mul(by.len())))?;
    let mut out = String::new();
    for (at, line) in text.split('\n').enumerate() {
        out.push_str(if at == 0 { "" } else { "\n" });
        let wanted = if at == 0 { first } else { blank || !line.is_empty() };
        out.push_str(if wanted { &by } else { "" });
        out.push_str(line);
    }
    Ok(out)
}

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
fn striptags(text: Value) -> String {
    static TAG: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)<!--.*?-->|<[^>]*>").expect("the pattern is well formed"));
    let text = show::text(&text);
    let bare = TAG.replace_all(&text, "");
    let words: Vec<&str> = bare.split_whitespace().collect();
    let entities =
        [("&lt;", "<"), ("&gt;", ">"), ("&#34;", "\""), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", "\u{a0}"), ("&amp;", "&")];
    entities.iter().fold(words.join(" "), |text, (entity, plain)| text.replace(entity, plain))
}

fn xmlattr(value: Value, autospace: Option<bool>) -> Result<String, Error> {
    let object = value.as_object().ok_or_else(|| failure("xmlattr needs a mapping"))?;
    let mut out = Vec::new();
    for (key, item) in object.try_iter_pairs().into_iter().flatten() {
        let key = show::text(&key);
        if item.is_none() || item.is_undefined() {
            continue;
        }
        if key.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '>' | '=')) {
            return Err(failure(format!("Invalid character in attribute name: {}", crate::value::pyrepr::repr_text(&key))));
        }
        out.push(format!("{}=\"{}\"", html(&key), html(&show::text(&item))));
    }
    let space = if autospace.unwrap_or(true) && !out.is_empty() { " " } else { "" };
    Ok(format!("{space}{}", out.join(" ")))
}

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
fn urlize(text: Value, trim: Option<i64>, nofollow: Option<bool>, options: Kwargs) -> Result<String, Error> {
    static LINK: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)^(https?://|www\.)?[^\s<>&'\x22]+$").expect("the pattern is well formed")
    });
    let trim: Option<i64> = trim.or(options.get("trim_url_limit")?);
    let nofollow = nofollow.or(options.get("nofollow")?).unwrap_or(false);
    let target: Option<String> = options.get("target")?;
    let rel: Option<String> = options.get("rel")?;
    options.assert_all_used()?;
    let mut rels: Vec<String> = rel.iter().flat_map(|rel| rel.split_whitespace()).map(String::from).collect();
    rels.push("noopener".into());
    rels.extend(nofollow.then(|| "nofollow".into()));
    rels.sort();
    rels.dedup();
    let target = target.map(|target| format!(" target=\"{}\"", html(&target))).unwrap_or_default();
    let text = html(&show::text(&text));
    let link = |word: &str| {
        let begin = word.len() - word.trim_start_matches(['(', '<']).len();
        let middle = &word[begin..];
        let end = middle.trim_end_matches([')', '.', ',', '!', '?', ';', ':']);
        let tail = &middle[end.len()..];
        let lower = end.to_lowercase();
        let web = lower.starts_with("http://") || lower.starts_with("https://");
        let bare = lower.starts_with("www.")
            || [".com", ".org", ".net"].iter().any(|domain| lower.ends_with(domain)) && !lower.contains('@');
        if !(web || bare) || !LINK.is_match(end) {
            return word.to_string();
        }
        let shown = match trim.and_then(|limit| usize::try_from(limit).ok()) {
            Some(limit) if end.chars().count() > limit => end.chars().take(limit).chain("...".chars()).collect(),
            Some(_) | None => end.to_string(),
        };
        let scheme = if web { "" } else { "https://" };
        format!("{}<a href=\"{scheme}{end}\" rel=\"{}\"{target}>{shown}</a>{tail}", &word[..begin], rels.join(" "))
    };
    Ok(text.split_inclusive(char::is_whitespace).map(|word| {
        let bare = word.trim_end();
        format!("{}{}", link(bare), &word[bare.len()..])
    }).collect())
}

/// Every word with a large first letter; words begin behind spaces, hyphens and brackets.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        if begins { out.extend(c.to_uppercase()) } else { out.extend(c.to_lowercase()) }
        begins = c.is_whitespace() || matches!(c, '-' | '(' | '{' | '[' | '<');
    }
    out
}

/// The first letter large, all others small.
pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + &chars.as_str().to_lowercase()
}

/// The failure for an undefined value where a filter needs one.
pub(super) fn defined(value: &Value) -> Result<(), Error> {
    if value.is_undefined() { Err(undefined(value)) } else { Ok(()) }
}
