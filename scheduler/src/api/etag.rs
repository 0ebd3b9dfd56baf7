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
    let hash = sha256_hex(shown.to_string());
    // Weak, because the bytes differ when the body is compressed.
    let tag = format!("W/\"{}\"", &hash[..CHARS]);
    let mut response = if is_known(asked, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        JsonBody(shown).into_response()
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
        // Without it a browser may show an old body without a request.
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
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
