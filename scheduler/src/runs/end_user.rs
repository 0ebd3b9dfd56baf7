//! Errors as end users of an app may read them. The errors of nodes are written for the operator: they name settings, the
//! addresses that a name was resolved to, and URLs with what stands in them. `/api/v1` shows them unchanged; `/v1` shows
//! what is left here.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::LazyLock;

use serde_json::Value as Json;
use tidemill_common::config;

/// The marks before which a clause ends.
const SEPARATORS: [&str; 5] = ["; ", ": ", ", ", ". ", " ("];

/// The names of all settings.
static SETTINGS: LazyLock<Vec<String>> = LazyLock::new(config::names);

/// The text of an error, if there is one.
pub fn error(value: Json) -> Json {
    match value {
        Json::String(text) => Json::String(error_text(&text).into_owned()),
        other @ (Json::Null | Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => other,
    }
}

/// An error without passwords in URLs, resolved addresses, and clauses that name a setting.
pub fn error_text(text: &str) -> Cow<'_, str> {
    let mut left = Cow::Borrowed(text);
    for part in [without_passwords, without_addresses, without_settings] {
        if let Some(changed) = part(&left) {
            left = Cow::Owned(changed);
        }
    }
    left
}

/// Replaces user and password of each URL; `None` when there are none.
fn without_passwords(text: &str) -> Option<String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(begin) = rest.find("://").map(|at| at + 3) {
        let authority = &rest[begin..];
        let ends = |c: char| c.is_whitespace() || "/?#\"'<>".contains(c);
        let end = authority.find(ends).unwrap_or(authority.len());
        out.push_str(&rest[..begin]);
        let host = authority[..end].rfind('@').map_or(0, |at| at + 1);
        out.push_str(if host > 0 { "***@" } else { "" });
        out.push_str(&authority[host..end]);
        rest = &authority[end..];
    }
    out.push_str(rest);
    (out != text).then_some(out)
}

/// Removes the address in `<host> is at <address>, <kind of address>`, as the guard of HTTP calls writes it.
fn without_addresses(text: &str) -> Option<String> {
    let (before, after) = text.split_once(" is at ")?;
    let (address, after) = after.split_once(", ")?;
    address.parse::<IpAddr>().ok()?;
    Some(format!("{before} is {after}"))
}

/// Removes each clause that names a setting; `None` when none does.
fn without_settings(text: &str) -> Option<String> {
    let mut left = text.to_string();
    while let Some((at, name)) = first_setting(&left) {
        let head = left.get(..at).unwrap_or_default();
        let begin = SEPARATORS.iter().filter_map(|mark| head.rfind(mark)).max().unwrap_or(0);
        let is_in_brackets = left.get(begin..).is_some_and(|rest| rest.starts_with(" ("));
        let after = at + name.len();
        let tail = left.get(after..).unwrap_or_default();
        let end = match is_in_brackets {
            true => tail.find(')').map_or(left.len(), |close| after + close + 1),
            false => tail.find("; ").map_or(left.len(), |close| after + close),
        };
        left.replace_range(begin..end, "");
    }
    let left = left.trim_start_matches([';', ' ']).to_string();
    (left != text).then_some(left)
}

/// The names of settings in a text that are missing in what is shown of it.
pub fn hidden_settings(text: &str, shown: &str) -> Vec<&'static str> {
    // A text is seldom changed, and the names are many.
    if text == shown {
        return Vec::new();
    }
    let names = SETTINGS.iter().map(String::as_str);
    names.filter(|name| place_of(text, name).is_some() && place_of(shown, name).is_none()).collect()
}

/// The first name of a setting in a text, with its place.
fn first_setting(text: &str) -> Option<(usize, &'static str)> {
    let names = SETTINGS.iter().map(String::as_str);
    names.filter_map(|name| place_of(text, name).map(|at| (at, name))).min()
}

/// The place of a name in a text. A longer word that contains the name is not it.
fn place_of(text: &str, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    text.match_indices(name).map(|(at, _)| at).find(|at| {
        let begins = text[..*at].chars().next_back().is_none_or(|c| !is_part(c));
        let after = text[at + name.len()..].chars().next();
        begins && after.is_none_or(|c| !(c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_users_read_neither_settings_nor_addresses_nor_passwords() {
        for (text, left) in [
            (
                "Access to 'http://me:pw@10.0.0.1/x' was blocked by SSRF protection. evil.example is at 10.0.0.1, a \
                 private address; http.allow names what the guard lets through (http.guard)",
                "Access to 'http://***@10.0.0.1/x' was blocked by SSRF protection. evil.example is a private address",
            ),
            ("GET https://u:p@h:1/a?b=c@d and ftp://u@h", "GET https://***@h:1/a?b=c@d and ftp://***@h"),
            (
                "output \"big\" has 9 bytes, and a value may have 8 (run.value_bytes_max)",
                "output \"big\" has 9 bytes, and a value may have 8",
            ),
            ("x has 9 bytes as JSON, more than run.value_bytes_max (8 bytes)", "x has 9 bytes as JSON"),
            (
                "workflow w cannot be called as a tool by this worker: set tools.workflows, or name a service that runs \
                 tools in tools.endpoint",
                "workflow w cannot be called as a tool by this worker",
            ),
            (
                "too many jobs wait for a worker (scheduler.queue_max); try again in a moment",
                "too many jobs wait for a worker; try again in a moment",
            ),
            ("more than 5 bytes (http.file_bytes_max, run.value_bytes_max) came", "more than 5 bytes came"),
        ] {
            assert_eq!(error_text(text), left);
        }
    }

    #[test]
    fn an_operator_learns_which_settings_were_hidden() {
        for (text, names) in [
            ("too many jobs wait for a worker (scheduler.queue_max); try again", vec!["scheduler.queue_max"]),
            (
                "more than 5 bytes (http.file_bytes_max, run.value_bytes_max) came",
                vec!["http.file_bytes_max", "run.value_bytes_max"],
            ),
            ("GET https://u:p@h:1/a failed", vec![]),
            ("query is required", vec![]),
        ] {
            let mut hidden = hidden_settings(text, &error_text(text));
            hidden.sort_unstable();
            assert_eq!(hidden, names, "{text}");
        }
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "",
            "Model m credentials is not initialized.",
            "module 'http.client' has no attribute 'x' (line 3)",
            "the mail me@example.org: http://example.org/@me is at home, sweet home",
            "xrun.value_bytes_max and run.value_bytes_maximum",
        ] {
            assert!(matches!(error_text(text), Cow::Borrowed(_)), "{text}");
        }
    }
}
