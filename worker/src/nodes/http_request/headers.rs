//! Builds the headers of a request, with the errors of Dify's client for invalid ones.

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::http_request::{ErrorType, draft};
use tidemill_common::value::pyrepr::repr_text;

/// Headers that frame a message. Only the client may set them; otherwise they allow request smuggling.
const FRAMING: [&str; 6] =
    ["content-length", "transfer-encoding", "connection", "upgrade", "te", "proxy-authorization"];

/// Returns the workflow's headers, without those that frame a message.
pub(super) fn headers(head: &draft::Head) -> Result<HeaderMap, NodeFailure> {
    // Dify's client encodes all headers before it checks any.
    for (name, value) in &head.headers {
        ascii(name)?;
        ascii(value)?;
    }
    let mut headers = HeaderMap::new();
    for (name, value) in &head.headers {
        let parsed: HeaderName = name.parse().map_err(|_| illegal("name", name))?;
        if !FRAMING.contains(&parsed.as_str()) {
            // Dify treats names that differ in case as two headers, and sends both.
            headers.append(parsed, sendable(value)?);
        }
    }
    Ok(headers)
}

/// Checks a value. As in Dify, the error shows it; secrets in it are masked as in all texts.
pub(super) fn sendable(value: &str) -> Result<HeaderValue, NodeFailure> {
    ascii(value)?;
    let is_blank = |end: Option<char>| matches!(end, Some(' ' | '\t'));
    if is_blank(value.chars().next()) || is_blank(value.chars().next_back()) {
        return Err(illegal("value", value));
    }
    HeaderValue::from_str(value).map_err(|_| illegal("value", value))
}

/// The text is ASCII here, so Python's bytes look like the text.
fn illegal(what: &str, text: &str) -> NodeFailure {
    ErrorType::Request.failure(format!("Illegal header {what} b{}", repr_text(text)))
}

/// Refuses non-ASCII text, with Python's message.
fn ascii(text: &str) -> Result<(), NodeFailure> {
    let Some(start) = text.chars().position(|c| !c.is_ascii()) else { return Ok(()) };
    let run: Vec<char> = text.chars().skip(start).take_while(|c| !c.is_ascii()).collect();
    let which = match run[..] {
        [only] => {
            let shown = match u32::from(only) {
                code @ ..0x100 => format!("\\x{code:02x}"),
                code @ 0x100..0x1_0000 => format!("\\u{code:04x}"),
                code => format!("\\U{code:08x}"),
            };
            format!("character '{shown}' in position {start}")
        }
        _ => format!("characters in position {start}-{}", start + run.len() - 1),
    };
    Err(NodeFailure::escaped(format!("'ascii' codec can't encode {which}: ordinal not in range(128)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &str = "HttpRequestNodeError";
    const ESCAPED: &str = "WorkflowNodeError";

    #[test]
    fn values_that_cannot_be_sent_are_refused_in_difys_words() {
        for (value, class, message) in [
            ("Bearer k ", REQUEST, "Illegal header value b'Bearer k '"),
            ("\tk", REQUEST, "Illegal header value b'\\tk'"),
            (" ", REQUEST, "Illegal header value b' '"),
            ("Bearer k\n", REQUEST, "Illegal header value b'Bearer k\\n'"),
            ("it's\r\\", REQUEST, "Illegal header value b\"it's\\r\\\\\""),
            (
                "Größe",
                ESCAPED,
                "'ascii' codec can't encode characters in position 2-3: ordinal not in range(128)",
            ),
            (
                " é",
                ESCAPED,
                "'ascii' codec can't encode character '\\xe9' in position 1: ordinal not in range(128)",
            ),
            (
                "中",
                ESCAPED,
                "'ascii' codec can't encode character '\\u4e2d' in position 0: ordinal not in range(128)",
            ),
            (
                "ok 🙂",
                ESCAPED,
                "'ascii' codec can't encode character '\\U0001f642' in position 3: ordinal not in range(128)",
            ),
        ] {
            let failure = sendable(value).unwrap_err();
            assert_eq!(
                (failure.error_type.as_str(), failure.message.as_str()),
                (class, message),
                "{value:?}"
            );
        }
        for value in ["", "k", "a  b\tc"] {
            assert_eq!(sendable(value).unwrap(), value);
        }
    }

    #[test]
    fn all_headers_are_put_into_ascii_before_any_is_looked_at() {
        for (pairs, message) in [
            (&[("X K", "v")][..], "Illegal header name b'X K'"),
            (&[("", "v")], "Illegal header name b''"),
            (
                &[("X K", "v"), ("Ähre", "v")],
                "'ascii' codec can't encode character '\\xc4' in position 0: ordinal not in range(128)",
            ),
            (
                &[("a", "ü"), ("Ähre", "v")],
                "'ascii' codec can't encode character '\\xfc' in position 0: ordinal not in range(128)",
            ),
        ] {
            let headers =
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let head = draft::Head { url: String::new(), params: Vec::new(), headers };
            assert_eq!(super::headers(&head).unwrap_err().message, message, "{pairs:?}");
        }
    }
}
