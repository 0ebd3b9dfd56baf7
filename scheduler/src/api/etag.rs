//! Answers with an `ETag`: a client that names the tag of what it has (`If-None-Match`) gets 304 without a body while nothing
//! has changed. Front ends ask for the same facts about an app at every start.

use axum::Json as JsonBody;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value as Json;

use super::auth::sha256_hex;

/// The characters of a hash that make a tag.
const CHARS: usize = 32;

/// The response that shows `shown`, or 304 when the client has it.
pub(crate) fn tagged(asked: &HeaderMap, shown: Json) -> Response {
    let tag = tag_of(&shown.to_string());
    // Without `no-cache` a browser may show an old body without a request.
    answer(asked, &tag, "private, no-cache", || JsonBody(shown).into_response())
}

/// The tag of a text. Weak, because the bytes differ when the body is compressed.
pub(super) fn tag_of(text: &str) -> String {
    format!("W/\"{}\"", &sha256_hex(text)[..CHARS])
}

/// The response that `show` makes, or 304 when the client has it, with the tag and this `Cache-Control`.
pub(super) fn answer(
    asked: &HeaderMap,
    tag: &str,
    kept: &'static str,
    show: impl FnOnce() -> Response,
) -> Response {
    let mut response = if is_known(asked, tag) { StatusCode::NOT_MODIFIED.into_response() } else { show() };
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static(kept));
    }
    response
}

/// True when `If-None-Match` names the tag. Tags are compared weakly, as the header demands.
fn is_known(asked: &HeaderMap, tag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let lists = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|one| one.trim() == "*" || opaque(one) == opaque(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_names_the_tag_gets_304() {
        for (asked, expected) in [
            ("W/\"a\"", true),
            ("\"a\"", true),
            ("\"b\", W/\"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, asked.parse().unwrap());
            assert_eq!(is_known(&headers, "W/\"a\""), expected, "{asked}");
        }
        assert!(!is_known(&HeaderMap::new(), "W/\"a\""));
    }
}
