//! The answer with a stored file. Its type comes from a client, so it may be a page with a script in it: a browser never
//! opens such a file as a page of this server. The rules and headers are Dify's.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use tidemill_common::files::Content;

use super::upload_limits::extension_of;

/// The media type that no browser opens.
const PLAIN_BYTES: &str = "application/octet-stream";
/// Forbids scripts in documents that a browser opens all the same.
const INERT: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
/// Types for which Dify says that ranges are known.
const WITH_RANGES: [&str; 10] = [
    "audio/mpeg",
    "audio/wav",
    "audio/mp4",
    "audio/ogg",
    "audio/flac",
    "audio/aac",
    "video/mp4",
    "video/webm",
    "video/quicktime",
    "audio/x-m4a",
];

/// What the headers say about a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served<'a> {
    pub(super) name: &'a str,
    /// As the client gave it.
    pub(super) mime_type: &'a str,
    /// Whether a browser stores it instead of showing it.
    pub(super) as_attachment: bool,
}

/// The answer with the bytes of a file.
pub(super) fn answer(content: Content, file: Served<'_>) -> Response {
    let mut response = Body::from_stream(content.pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, content.size.into());
    for (name, value) in headers_of(file) {
        // A type or a name that is no header is left out; a browser then stores the bytes.
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    response
}

fn headers_of(file: Served<'_>) -> Vec<(HeaderName, String)> {
    let mime_type = file.mime_type.split(';').next().unwrap_or_default().trim().to_lowercase();
    let extension = extension_of(file.name);
    let is_page = matches!(mime_type.as_str(), "text/html" | "application/xhtml+xml")
        || matches!(extension.as_str(), "html" | "htm" | "xhtml" | "xht");
    // Pictures of this kind are shown in a page, where their scripts do not run.
    let has_scripts = mime_type.ends_with("/xml")
        || mime_type.ends_with("+xml")
        || mime_type.ends_with("/xsl")
        || matches!(extension.as_str(), "svg" | "svgz" | "xml" | "xsl");
    let is_stored = file.as_attachment || is_page || !is_one_type(&mime_type);
    let shown = if is_stored { PLAIN_BYTES.to_owned() } else { mime_type.clone() };
    let mut headers = vec![
        (header::CONTENT_TYPE, shown),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        // Dify says `public`. The file is of one user, so a cache that is shared must not keep it.
        (header::CACHE_CONTROL, "private, max-age=3600".to_owned()),
    ];
    if is_stored || has_scripts {
        headers.push((
            header::CONTENT_DISPOSITION,
            format!("attachment; filename*=UTF-8''{}", quoted(file.name)),
        ));
    }
    let is_medium = mime_type == "application/pdf"
        || ["image/", "audio/", "video/"].iter().any(|kind| mime_type.starts_with(kind));
    if has_scripts || is_page || !is_medium || !is_one_type(&mime_type) {
        headers.push((header::CONTENT_SECURITY_POLICY, INERT.to_owned()));
    }
    if WITH_RANGES.contains(&mime_type.as_str()) {
        headers.push((header::ACCEPT_RANGES, "bytes".to_owned()));
    }
    headers
}

/// Returns true for the syntax of exactly one media type. Of a list such as `image/png,text/html` browsers take the last.
fn is_one_type(mime_type: &str) -> bool {
    let is_name = |name: &str| {
        let is_first = |byte: &u8| byte.is_ascii_alphanumeric();
        name.as_bytes().first().is_some_and(is_first)
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    mime_type.split_once('/').is_some_and(|(kind, subtype)| is_name(kind) && is_name(subtype))
}

/// A name with percent signs for all but letters, digits and a few signs.
fn quoted(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte);
    name.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, mime_type: &str, as_attachment: bool) -> [String; 3] {
        let headers = headers_of(Served { name, mime_type, as_attachment });
        let value = |wanted: HeaderName| {
            let found = headers.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        assert_eq!(value(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
        [
            value(header::CONTENT_TYPE),
            value(header::CONTENT_DISPOSITION),
            value(header::CONTENT_SECURITY_POLICY),
        ]
    }

    #[test]
    fn a_file_is_never_a_page_of_this_server() {
        let stored = |name: &str| format!("attachment; filename*=UTF-8''{name}");
        for (name, mime_type, as_attachment, [shown, disposition, policy]) in [
            ("a.png", "image/png", false, ["image/png", "", ""]),
            ("a b.pdf", "application/pdf", true, [PLAIN_BYTES, &stored("a%20b.pdf"), ""]),
            ("a.html", "text/html", false, [PLAIN_BYTES, &stored("a.html"), INERT]),
            ("a.txt", "Text/HTML; charset=utf-8", false, [PLAIN_BYTES, &stored("a.txt"), INERT]),
            ("a.HTM", "text/plain", false, [PLAIN_BYTES, &stored("a.HTM"), INERT]),
            ("a.svg", "image/svg+xml", false, ["image/svg+xml", &stored("a.svg"), INERT]),
            ("a.svg", "image/png", false, ["image/png", &stored("a.svg"), INERT]),
            ("a", "application/rss+xml", false, ["application/rss+xml", &stored("a"), INERT]),
            ("a", "", false, [PLAIN_BYTES, &stored("a"), INERT]),
            ("a.txt", "text/plain", false, ["text/plain", "", INERT]),
            ("a.json", "application/ld+json", false, ["application/ld+json", "", INERT]),
            ("a.pdf", "application/pdf", false, ["application/pdf", "", ""]),
            ("a.mp4", "video/mp4", false, ["video/mp4", "", ""]),
            ("a.png", "image/png,text/html", false, [PLAIN_BYTES, &stored("a.png"), INERT]),
            ("a.png", "image/png, text/html", false, [PLAIN_BYTES, &stored("a.png"), INERT]),
            ("a.png", "image/png/html", false, [PLAIN_BYTES, &stored("a.png"), INERT]),
            ("a.png", "image/", false, [PLAIN_BYTES, &stored("a.png"), INERT]),
            ("a.png", "image/\u{e4}", false, [PLAIN_BYTES, &stored("a.png"), INERT]),
            ("港\r\n\".pdf", "application/pdf", true, [PLAIN_BYTES, &stored("%E6%B8%AF%0D%0A%22.pdf"), ""]),
        ] {
            assert_eq!(
                of(name, mime_type, as_attachment),
                [shown, disposition, policy],
                "{name} {mime_type}"
            );
        }
    }
}
