//! The filter `urlize`: turns addresses in a text into links.

use std::sync::LazyLock;

use minijinja::value::{Kwargs, Rest, Value};
use minijinja::{Error, State};
use regex::Regex;

use super::arguments::{Arguments, text_of};
use super::budget::charge;
use super::filters::html;
use super::show;

#[expect(clippy::expect_used, reason = "the patterns are constants that the tests compile")]
fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is well formed")
}

/// A web address: with a scheme or `www.` and a name, under a well-known top-level domain, or with an IP
/// address.
static WEB: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?ix)^(?:
            (?:https?://|www\.)(?:(?:[\w%-]+\.)+)?(?:[a-z]{2,63}|xn--[\w%]{2,59})
            | (?:[\w%-]{2,63}\.)+(?:com|net|int|edu|gov|org|info|mil)
            | https?://(?:\d{1,3}(?:\.\d{1,3}){3}|\[(?:[\da-f]{0,4}:){2}(?:[\da-f]{0,4}:?){1,6}\])
        )(?::\d{1,5})?(?:[/?\#]\S*)?$",
    )
});
static MAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\S+@\w[\w.-]*\.\w+$"));
static HEAD: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(?:[(<]|&lt;)+"));
static TAIL: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:[)>.,\n]|&gt;)+$"));

pub(super) fn urlize(
    state: &mut State,
    text: Value,
    args: Rest<Value>,
    named: Kwargs,
) -> Result<String, Error> {
    let mut args = Arguments::of(args, named);
    let limit = args.next("trim_url_limit")?.map(i64::try_from).transpose()?;
    let nofollow = args.flag("nofollow", false)?;
    let target = args.next("target")?.map(|target| show::text(&target));
    let rel = args.next("rel")?.map(|rel| show::text(&rel));
    args.finish()?;
    let mut rels: Vec<String> = rel.iter().flat_map(|rel| rel.split_whitespace()).map(String::from).collect();
    rels.push("noopener".into());
    rels.extend(nofollow.then(|| "nofollow".into()));
    rels.sort();
    rels.dedup();
    let target = target.map(|target| format!(" target=\"{}\"", html(&target))).unwrap_or_default();
    let links = Links {
        limit: limit.and_then(|limit| usize::try_from(limit).ok()),
        attributes: format!(" rel=\"{}\"{target}", html(&rels.join(" "))),
    };
    let text = html(&text_of(state, &text)?);
    let mut out = String::new();
    for piece in text.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        out.push_str(&links.word(word));
        out.push_str(&piece[word.len()..]);
        charge(state, piece.len().saturating_mul(2))?;
    }
    Ok(out)
}

struct Links {
    /// Most characters of an address that are shown.
    limit: Option<usize>,
    attributes: String,
}

impl Links {
    fn word(&self, word: &str) -> String {
        let head = HEAD.find(word).map_or(0, |found| found.end());
        let (head, rest) = word.split_at(head);
        let tail = TAIL.find(rest).map_or(rest.len(), |found| found.start());
        let middle = &rest[..balanced(rest, tail)];
        let tail = &rest[middle.len()..];
        format!("{head}{}{tail}", self.link(middle))
    }

    fn link(&self, middle: &str) -> String {
        if WEB.is_match(middle) {
            let scheme = middle.starts_with("https://") || middle.starts_with("http://");
            let scheme = if scheme { "" } else { "https://" };
            return format!("<a href=\"{scheme}{middle}\"{}>{}</a>", self.attributes, self.shown(middle));
        }
        match middle.strip_prefix("mailto:") {
            Some(mail) if MAIL.is_match(mail) => format!("<a href=\"{middle}\">{mail}</a>"),
            None if !middle.starts_with("www.") && !middle.contains(':') && MAIL.is_match(middle) => {
                format!("<a href=\"mailto:{middle}\">{middle}</a>")
            }
            Some(_) | None => middle.into(),
        }
    }

    fn shown(&self, address: &str) -> String {
        match self.limit {
            Some(limit) if address.chars().count() > limit => {
                address.chars().take(limit).chain("...".chars()).collect()
            }
            Some(_) | None => address.into(),
        }
    }
}

/// Returns the end of an address: closing brackets after it belong to it as long as it opens more than it
/// closes.
fn balanced(word: &str, mut end: usize) -> usize {
    for (open, close) in [("(", ")"), ("<", ">"), ("&lt;", "&gt;")] {
        let opened = word[..end].matches(open).count();
        if opened <= word[..end].matches(close).count() {
            continue;
        }
        for _ in 0..opened.min(word[end..].matches(close).count()) {
            end += word[end..].find(close).map_or(0, |at| at + close.len());
        }
    }
    end
}
