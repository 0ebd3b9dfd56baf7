//! Types for texts that logs and errors must never show: secrets of the settings, and URLs and commands that
//! may contain one. A struct with such fields can be printed with `Debug` safely, so no logging code has to
//! know which values are secret.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Serialize};

/// The text shown instead of a secret.
const MASK: &str = "***";
/// Schemes of URLs whose path is not a secret: the number of a database, the name of a master, a folder, a prefix in a
/// bucket.
const PATHS_SHOWN: [&str; 7] = ["redis", "rediss", "redis+sentinel", "rediss+sentinel", "unix", "file", "s3"];

/// A secret. `Debug` shows only whether it is empty, and there is no `Display`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hidden(pub String);

/// A URL that may contain a password or a key. `Debug` hides the part before the host, the path of a web
/// address, and the query.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HiddenUrl(pub String);

/// A program and its arguments. `Debug` shows only the program, since an argument may be a key.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HiddenCommand(pub Vec<String>);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", if self.0.is_empty() { "" } else { MASK })
    }
}

impl fmt::Debug for HiddenUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", masked_url(&self.0))
    }
}

impl fmt::Debug for HiddenCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().take(1).map(String::as_str);
        f.debug_list().entries(shown.chain((self.0.len() > 1).then_some(MASK))).finish()
    }
}

impl Deref for HiddenCommand {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl Deref for Hidden {
    type Target = String;

    fn deref(&self) -> &String {
        &self.0
    }
}

impl DerefMut for Hidden {
    fn deref_mut(&mut self) -> &mut String {
        &mut self.0
    }
}

impl Deref for HiddenUrl {
    type Target = String;

    fn deref(&self) -> &String {
        &self.0
    }
}

impl DerefMut for HiddenUrl {
    fn deref_mut(&mut self) -> &mut String {
        &mut self.0
    }
}

impl<T: Into<String>> From<T> for Hidden {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl<T: Into<String>> From<T> for HiddenUrl {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl HiddenUrl {
    /// Returns the URL in the form that may be shown.
    pub fn masked(&self) -> String {
        masked_url(&self.0)
    }
}

/// Masks a URL: hides the part between `://` and `@`, the query and the fragment. It also hides the path of a
/// web address, because some services have their key there.
pub fn masked_url(url: &str) -> String {
    let shown = without_users(url);
    let Some((scheme, rest)) = shown.split_once("://").filter(|(scheme, _)| !PATHS_SHOWN.contains(scheme))
    else {
        return shown;
    };
    let (before, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
    match before.split_once('/') {
        Some((host, path)) if !path.is_empty() => format!("{scheme}://{host}/{MASK}{query}"),
        Some(_) | None => shown,
    }
}

/// Hides the part before the host, the query and the fragment.
fn without_users(url: &str) -> String {
    let (address, rest) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
    let query = if rest.len() > 1 { format!("{}{MASK}", &rest[..1]) } else { String::new() };
    match (address.find("://"), url.rfind('@')) {
        // A password may contain `/`, `?` or `#`; then all up to the last `@` is hidden.
        (Some(scheme), Some(at)) if at >= address.len() => format!("{}{MASK}", &address[..scheme + 3]),
        (Some(scheme), Some(at)) if scheme + 3 <= at => {
            format!("{}{MASK}{}{query}", &address[..scheme + 3], &address[at..])
        }
        // Without a scheme it is not a URL; hide everything before the `@`.
        (None, Some(at)) => format!("{MASK}{}", &url[at..].split(['?', '#']).next().unwrap_or_default()),
        (Some(_), _) | (None, None) => format!("{address}{query}"),
    }
}

/// Removes the rejected value from an error of serde. The value may be a secret that is not known as one.
pub fn without_value(error: &str) -> String {
    let named = [("invalid type: ", true), ("invalid value: ", true), ("unknown variant ", false)];
    let found = named.into_iter().find_map(|(begin, kind)| Some((error.find(begin)? + begin.len(), kind)));
    let Some((at, names_kind)) = found else { return error.to_owned() };
    let (before, rest) = error.split_at(at);
    // The value may contain the same words; those of the error come last.
    let Some(end) = rest.rfind(", expected ") else { return before.trim_end().to_owned() };
    let kind =
        if names_kind { rest.split(['"', '`', ',']).next().unwrap_or_default().trim_end() } else { MASK };
    format!("{before}{kind}{}", &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_shows_only_whether_it_is_empty() {
        assert_eq!(format!("{:?} {:?}", Hidden::from("hush"), Hidden::default()), r#""***" """#);
    }

    #[test]
    fn a_command_is_shown_without_its_arguments() {
        let command = |words: &[&str]| HiddenCommand(words.iter().map(|word| (*word).into()).collect());
        assert_eq!(format!("{:?}", command(&["npx", "--key", "hush"])), r#"["npx", "***"]"#);
        assert_eq!(format!("{:?} {:?}", command(&["npx"]), command(&[])), r#"["npx"] []"#);
    }

    #[test]
    fn an_error_of_a_reader_does_not_show_the_value() {
        for (error, shown) in [
            (
                "invalid type: string \"hu, expected sh\", expected u64 at line 1 column 4",
                "invalid type: string, expected u64 at line 1 column 4",
            ),
            (
                "a.b: invalid type: integer `17`, expected a string",
                "a.b: invalid type: integer, expected a string",
            ),
            (
                "invalid value: map, expected map with a single key",
                "invalid value: map, expected map with a single key",
            ),
            ("unknown variant `hush`, expected `a` or `b`", "unknown variant ***, expected `a` or `b`"),
            ("unknown field `a`, expected `b`", "unknown field `a`, expected `b`"),
            ("expected value at line 1 column 1", "expected value at line 1 column 1"),
        ] {
            assert_eq!(without_value(error), shown);
        }
    }

    #[test]
    fn a_url_is_shown_without_its_users_its_query_and_the_path_of_a_web_address() {
        for (url, shown) in [
            ("redis://127.0.0.1:6379/5", "redis://127.0.0.1:6379/5"),
            ("redis://user:pw@host:1", "redis://***@host:1"),
            ("redis://:p@w@host:1/2", "redis://***@host:1/2"),
            ("redis://:p?w#x@host:1", "redis://***"),
            ("https://host/hush?key=hush", "https://host/***?***"),
            ("https://u:pw@host/hush?key=hush#f", "https://***@host/***?***"),
            ("https://host:8/hush/sse", "https://host:8/***"),
            ("https://u@host/hush", "https://***@host/***"),
            ("https://host/", "https://host/"),
            ("rediss://host:1/2", "rediss://host:1/2"),
            ("redis+sentinel://u:p/w@a:1,b:2/main/3", "redis+sentinel://***@a:1,b:2/main/3"),
            ("rediss+sentinel://a:1,b:2/main", "rediss+sentinel://a:1,b:2/main"),
            ("s3://bucket/prefix", "s3://bucket/prefix"),
            ("file:///a/folder", "file:///a/folder"),
            ("unix:///run/redis.sock", "unix:///run/redis.sock"),
            ("ws://host/hush", "ws://host/***"),
            ("https://host/#hush", "https://host/#***"),
            ("user:pw@host", "***@host"),
            ("host:6379", "host:6379"),
            ("", ""),
        ] {
            assert_eq!(format!("{:?}", HiddenUrl::from(url)), format!("{shown:?}"), "{url}");
        }
    }
}
