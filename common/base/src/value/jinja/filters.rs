//! Filters on text that minijinja lacks or implements differently.

use std::sync::LazyLock;

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, HtmlEscape, State};
use regex::Regex;
use serde_json::Value as Json;

use super::arguments::{Arguments, given, text_of};
use super::budget::{charge, width};
use super::ops::failure;
use super::{convert, percent, sequences, show, urlize};
use crate::value::coerce::is_python_space;
use crate::value::pyrepr::{JsonLayout, json_into};

/// Adds the filters.
pub(super) fn add(env: &mut Environment<'static>) {
    env.add_filter("string", |state: &State, value: Value| text_of(state, &value));
    env.add_filter("e", escape);
    env.add_filter("escape", escape);
    env.add_filter("forceescape", |state: &State, value: Value| {
        text_of(state, &value).map(|text| Value::from_safe_string(html(&text)))
    });
    env.add_filter("pprint", |value: Value| show::repr(&value));
    env.add_filter("tojson", tojson);
    env.add_filter("join", join);
    env.add_filter("replace", replace);
    env.add_filter("format", percent::filter);
    env.add_filter("wordcount", |state: &State, text: Value| {
        let text = text_of(state, &text)?;
        let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        Ok::<_, Error>(words.filter(|word| !word.is_empty()).count())
    });
    env.add_filter("striptags", striptags);
    env.add_filter("xmlattr", xmlattr);
    env.add_filter("urlize", urlize::urlize);
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_filter("urlencode", urlencode);
    env.add_filter("title", |state: &State, text: Value| text_of(state, &text).map(|text| title(&text)));
    env.add_filter("capitalize", |state: &State, text: Value| {
        text_of(state, &text).map(|text| capitalize(&text))
    });
    env.add_filter("trim", |state: &State, text: Value, chars: Option<String>| {
        let text = text_of(state, &text)?;
        Ok::<_, Error>(match chars {
            Some(chars) => text.trim_matches(|c| chars.contains(c)).to_string(),
            None => text.trim_matches(is_python_space).to_string(),
        })
    });
}

fn default(value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut args = Arguments::of(args, named);
    let instead = args.next("default_value")?;
    let when_false = args.flag("boolean", false)?;
    args.finish()?;
    let wanted = value.is_undefined() || when_false && !value.is_true();
    Ok(if wanted { instead.unwrap_or_else(|| Value::from("")) } else { value })
}

fn escape(state: &State, value: Value) -> Result<Value, Error> {
    if value.is_safe() {
        return Ok(value);
    }
    text_of(state, &value).map(|text| Value::from_safe_string(html(&text)))
}

/// Escapes the special characters of HTML as Jinja2 does.
pub(super) fn html(text: &str) -> String {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return text.into();
    }
    let escaped = HtmlEscape(text).to_string();
    escaped.replace("&quot;", "&#34;").replace("&#x27;", "&#39;").replace("&#x2f;", "/")
}

fn tojson(state: &mut State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let mut args = Arguments::of(args, named);
    let indent = args.next("indent")?.map(i64::try_from).transpose()?;
    args.finish()?;
    if value.is_undefined() {
        let strict = given(state, &value).is_err();
        let found = if strict { "StrictUndefined" } else { "Undefined" };
        return Err(failure(format!("Object of type {found} is not JSON serializable")));
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
    Ok(Value::from_safe_string(
        escapes
            .iter()
            .fold(out, |out, (c, escape)| if out.contains(*c) { out.replace(*c, escape) } else { out }),
    ))
}

fn join(state: &mut State, value: Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    given(state, &value)?;
    let mut args = Arguments::of(args, named);
    let between = args.text("d", "")?;
    let attribute = args.next("attribute")?;
    args.finish()?;
    let mut out = String::new();
    for (at, item) in sequences::items(&value)?.into_iter().enumerate() {
        let item = match &attribute {
            Some(path) => sequences::attribute(&item, path)?,
            None => item,
        };
        given(state, &item)?;
        out.push_str(if at == 0 { "" } else { &between });
        out.push_str(&show::text(&item));
        if out.len() > crate::limits::VALUE_BYTES_MAX {
            break;
        }
    }
    charge(state, out.len())?;
    Ok(out)
}

fn replace(state: &mut State, text: Value, args: Rest<Value>, named: Kwargs) -> Result<String, Error> {
    let mut args = Arguments::of(args, named);
    let missing =
        |name: &str| failure(format!("do_replace() missing 1 required positional argument: '{name}'"));
    let old = args.next("old")?.ok_or_else(|| missing("old"))?;
    let new = args.next("new")?.ok_or_else(|| missing("new"))?;
    let count = args.next("count")?.map(i64::try_from).transpose()?;
    args.finish()?;
    let (text, old, new) = (text_of(state, &text)?, text_of(state, &old)?, text_of(state, &new)?);
    let most = count.and_then(|count| usize::try_from(count).ok()).unwrap_or(usize::MAX);
    let found = text.matches(old.as_str()).count().min(most);
    charge(state, text.len().saturating_add(found.saturating_mul(new.len())))?;
    Ok(text.replacen(old.as_str(), &new, most))
}

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
fn striptags(state: &State, text: Value) -> Result<String, Error> {
    static TAG: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?s)<!--.*?-->|<[^>]*>").expect("the pattern is well formed"));
    let text = text_of(state, &text)?;
    let bare = TAG.replace_all(&text, "");
    let words: Vec<&str> = bare.split_whitespace().collect();
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&#34;", "\""),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", "\u{a0}"),
        ("&amp;", "&"),
    ];
    Ok(entities.iter().fold(words.join(" "), |text, (entity, plain)| text.replace(entity, plain)))
}

fn xmlattr(value: Value, autospace: Option<bool>) -> Result<String, Error> {
    let mut out = Vec::new();
    for (key, item) in sequences::pairs_of(&value)? {
        let key = show::text(&key);
        if item.is_none() || item.is_undefined() {
            continue;
        }
        if key.contains(|c: char| c.is_whitespace() || matches!(c, '/' | '>' | '=')) {
            return Err(failure(format!(
                "Invalid character in attribute name: {}",
                crate::value::pyrepr::repr_text(&key)
            )));
        }
        out.push(format!("{}=\"{}\"", html(&key), html(&show::text(&item))));
    }
    let space = if autospace.unwrap_or(true) && !out.is_empty() { " " } else { "" };
    Ok(format!("{space}{}", out.join(" ")))
}

/// Percent-encodes a text (slashes are kept), or pairs as a query.
fn urlencode(state: &State, value: Value) -> Result<String, Error> {
    let encode = |text: &str, keep: &str, space: &str| {
        let mut out = String::new();
        for c in text.chars() {
            match c {
                ' ' => out.push_str(space),
                c if c.is_ascii_alphanumeric() || "_.-~".contains(c) || keep.contains(c) => out.push(c),
                c => {
                    c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")))
                }
            }
        }
        out
    };
    let pairs = match value.kind() {
        ValueKind::Map => value.as_object().and_then(|o| o.try_iter_pairs()).into_iter().flatten().collect(),
        ValueKind::Seq | ValueKind::Iterable => {
            let pair = |item: Value| Ok((item.get_item_by_index(0)?, item.get_item_by_index(1)?));
            sequences::items(&value)?.into_iter().map(pair).collect::<Result<Vec<_>, Error>>()?
        }
        _ => return text_of(state, &value).map(|text| encode(&text, "/", "%20")),
    };
    let query = pairs.iter().map(|(key, item)| {
        format!("{}={}", encode(&show::text(key), "", "+"), encode(&show::text(item), "", "+"))
    });
    Ok(query.collect::<Vec<_>>().join("&"))
}

/// Capitalizes every word; words begin after spaces, hyphens and brackets.
fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut begins = true;
    for c in text.chars() {
        if begins {
            out.extend(c.to_uppercase())
        } else {
            out.extend(c.to_lowercase())
        }
        begins = c.is_whitespace() || matches!(c, '-' | '(' | '{' | '[' | '<');
    }
    out
}

/// Makes the first letter upper case and all others lower case.
pub(super) fn capitalize(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    first + &chars.as_str().to_lowercase()
}
