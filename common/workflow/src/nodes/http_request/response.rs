//! Classifies a response as file or text, and builds the error for one that is too large.

use serde_json::Value as Json;

use super::ErrorType;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::file_name::disposition::Disposition;
use tidemill_base::value::file_name::{FileFacts, Known, UNKNOWN_TYPE, decode, parameters};
use tidemill_base::value::{Segment, SegmentType, mime};

/// Bytes that are checked when the headers do not tell a file from a text.
pub const SNIFFED_BYTES: usize = 1024;

/// The two classes of responses; each has its own limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Stored as a file.
    File,
    /// Decoded and given as `body`.
    Text,
}

/// The headers that decide on the class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kind {
    /// `Content-Type` as received; empty when missing.
    pub content_type: String,
    /// `Content-Disposition` as received.
    pub disposition: Option<String>,
}

impl Kind {
    /// The class, when the headers decide it.
    pub fn class(&self) -> Option<Class> {
        if self.is_attached() {
            return Some(Class::File);
        }
        let media_type = self.media_type();
        if media_type.starts_with("text/") && !media_type.contains("csv") {
            return Some(Class::Text);
        }
        const TEXTUAL: [&str; 6] = ["json", "xml", "javascript", "x-www-form-urlencoded", "yaml", "graphql"];
        if media_type.starts_with("application/") {
            let is_text = TEXTUAL.iter().any(|part| media_type.contains(part));
            return is_text.then_some(Class::Text);
        }
        Some(by_table(&media_type))
    }

    /// The class, decided by headers and the first bytes (at most [`SNIFFED_BYTES`]).
    pub fn class_of(&self, start: &[u8]) -> Class {
        const MARKS: [&str; 7] = ["{", "[", "<", "function", "var ", "const ", "let "];
        self.class().unwrap_or_else(|| {
            // A cut-off character makes the bytes invalid as text, as on Dify.
            match std::str::from_utf8(&start[..start.len().min(SNIFFED_BYTES)]) {
                Ok(text) if MARKS.iter().any(|mark| text.contains(mark)) => Class::Text,
                Ok(_) | Err(_) => by_table(&self.media_type()),
            }
        })
    }

    /// The media type of the response as a file; `url` is the requested URL.
    pub fn file_type(&self, url: &str) -> String {
        let of_disposition = self.filename().and_then(|name| mime::of_name(&name));
        let of_url = || {
            let path = url.split('?').next().unwrap_or(url);
            mime::of_name(path.rsplit('/').next().unwrap_or(path))
        };
        match (of_disposition, self.media_type()) {
            (Some(media_type), _) => media_type.into(),
            (None, given) if given.is_empty() => of_url().unwrap_or(UNKNOWN_TYPE).into(),
            (None, given) => given,
        }
    }

    /// Name, extension and kind of the response as a file. `last_url` is the URL after all redirects.
    pub fn facts(&self, url: &str, last_url: Option<&str>) -> FileFacts {
        let said_name = self.filename();
        FileFacts::of(Known {
            said_name: said_name.as_deref(),
            said_type: Some(&self.content_type),
            url,
            last_url,
            ..Known::default()
        })
    }

    /// The `charset` of a text, unquoted. Also in the form `charset*=us-ascii'en'NAME` (RFC 2231).
    pub fn charset(&self) -> Option<String> {
        let (_, parameters) = parameters::split(&self.content_type);
        let (name, value) =
            parameters.into_iter().find(|(name, _)| matches!(name.as_str(), "charset" | "charset*"))?;
        match value.rsplit_once('\'') {
            Some((_, text)) if name == "charset*" => decode::percent(text),
            Some(_) | None => Some(value),
        }
    }

    /// The file's name in `Content-Disposition`, decoded and without a path.
    pub fn filename(&self) -> Option<String> {
        Disposition::parse(self.disposition.as_deref()?).name
    }

    fn is_attached(&self) -> bool {
        let Some(disposition) = &self.disposition else { return false };
        let disposition = Disposition::parse(disposition);
        disposition.kind == "attachment" || disposition.has_name
    }

    fn media_type(&self) -> String {
        self.content_type.split(';').next().unwrap_or_default().trim().to_lowercase()
    }
}

fn by_table(media_type: &str) -> Class {
    let main = media_type.split('/').next().unwrap_or_default();
    let is_file = match mime::is_known(media_type) {
        true => matches!(main, "application" | "image" | "audio" | "video"),
        false => ["image/", "audio/", "video/"].iter().any(|part| media_type.contains(part)),
    };
    if is_file { Class::File } else { Class::Text }
}

/// The failure for a response that is too large. `size` is `None` when the response did not declare its size.
pub fn too_large(class: Class, max: u64, size: Option<u64>) -> NodeFailure {
    let kind = match class {
        Class::File => "File",
        Class::Text => "Text",
    };
    let size = size.map_or_else(|| format!("more than {}", readable(max)), readable);
    let message = format!(
        "{kind} size is too large, max size is {:.2} MB, but current size is {size}.",
        mebibytes(max)
    );
    ErrorType::ResponseSize.failure(message)
}

fn readable(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.2} KB", bytes as f64 / 1024.0),
        1_048_576.. => format!("{:.2} MB", mebibytes(bytes)),
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// The node's outputs.
pub fn outputs(
    status: u16,
    body: String,
    headers: &[(String, String)],
    files: Vec<Json>,
) -> Vec<(String, Segment)> {
    let mut joined = tidemill_base::value::JsonMap::new();
    for (name, value) in headers {
        let name = name.to_lowercase();
        match joined.get_mut(&name) {
            Some(Json::String(known)) => {
                known.push_str(", ");
                known.push_str(value);
            }
            Some(_) | None => _ = joined.insert(name, Json::String(value.clone())),
        }
    }
    vec![
        ("status_code".into(), Segment::new(SegmentType::Integer, status.into())),
        ("body".into(), Segment::string(body)),
        ("headers".into(), Segment::new(SegmentType::Object, Json::Object(joined))),
        ("files".into(), Segment::new(SegmentType::ArrayFile, Json::Array(files))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(content_type: &str, disposition: Option<&str>) -> Kind {
        Kind { content_type: content_type.into(), disposition: disposition.map(Into::into) }
    }

    #[test]
    fn files_and_texts_are_distinguished_by_the_first_rule_that_fits() {
        for (content_type, disposition, start, class) in [
            ("text/plain", Some("attachment"), "x", Class::File),
            ("text/plain", Some("inline; filename=\"a.txt\""), "x", Class::File),
            ("text/plain", Some("inline"), "x", Class::Text),
            ("text/plain", Some("inline; filename=\"\""), "x", Class::File),
            ("text/plain", Some("inline; filename*=utf-8''a.txt"), "x", Class::File),
            ("TEXT/HTML; charset=utf-8", None, "x", Class::Text),
            ("text/csv", None, "a,b", Class::Text),
            (
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
                None,
                "PK",
                Class::Text,
            ),
            ("application/graphql", None, "x", Class::Text),
            ("application/octet-stream", None, "let x = 1", Class::Text),
            ("application/octet-stream", None, "\u{0}\u{1}", Class::File),
            ("application/pdf", None, "%PDF-1.7 <<", Class::Text),
            ("application/pdf", None, "%PDF", Class::File),
            ("application/x-foo", None, "bytes", Class::Text),
            ("image/svg+xml", None, "<svg/>", Class::File),
            ("image/unheard", None, "x", Class::File),
            ("audio/mpeg", None, "x", Class::File),
            ("font/woff2", None, "x", Class::Text),
            ("", None, "x", Class::Text),
        ] {
            let class_of = kind(content_type, disposition).class_of(start.as_bytes());
            assert_eq!(class_of, class, "{content_type} {disposition:?}");
        }
        assert_eq!(kind("application/zip", None).class_of(&[0xff, b'{']), Class::File);
    }

    #[test]
    fn a_files_type_comes_from_its_name_its_header_or_its_address() {
        for (content_type, disposition, url, media_type) in [
            ("x/y", Some("attachment; filename=a.pdf"), "http://h/b.png", "application/pdf"),
            ("image/png; q=1", Some("attachment"), "http://h/b.jpg", "image/png"),
            ("x/y", Some("attachment; filename*=utf-8''%E6%B8%AF.pdf"), "http://h/b.png", "application/pdf"),
            ("", Some("attachment"), "http://h/b.png?x=/c.gif", "image/png"),
            ("", Some("attachment"), "http://h/", "application/octet-stream"),
        ] {
            assert_eq!(kind(content_type, disposition).file_type(url), media_type);
        }
    }

    #[test]
    fn a_charset_is_a_parameter_of_its_own() {
        for (content_type, charset) in [
            ("text/plain; charset=iso-8859-1", Some("iso-8859-1")),
            ("text/plain;Charset=\"GBK\"; x=1", Some("GBK")),
            ("text/plain; note=\"a; charset=x\"", None),
            ("text/plain; charset*=us-ascii'en'latin-1", Some("latin-1")),
            ("text/plain; charset=a; charset=b", Some("a")),
            ("text/plain", None),
        ] {
            assert_eq!(kind(content_type, None).charset().as_deref(), charset, "{content_type}");
        }
    }

    #[test]
    fn a_response_that_is_too_large_fails_with_difys_message() {
        for (class, max, size, message) in [
            (
                Class::Text,
                1 << 20,
                Some(1_048_577),
                "Text size is too large, max size is 1.00 MB, but current size is 1.00 MB.",
            ),
            (
                Class::File,
                10 << 20,
                Some(20 << 20),
                "File size is too large, max size is 10.00 MB, but current size is 20.00 MB.",
            ),
            (
                Class::Text,
                100,
                Some(1023),
                "Text size is too large, max size is 0.00 MB, but current size is 1023 bytes.",
            ),
            (
                Class::Text,
                100,
                Some(2048),
                "Text size is too large, max size is 0.00 MB, but current size is 2.00 KB.",
            ),
            (
                Class::Text,
                1 << 20,
                None,
                "Text size is too large, max size is 1.00 MB, but current size is more than 1.00 MB.",
            ),
        ] {
            assert_eq!(too_large(class, max, size).message, message);
        }
    }

    #[test]
    fn repeated_headers_are_joined_under_small_names() {
        let headers =
            [("Set-Cookie", "a"), ("X", "1"), ("set-cookie", "b")].map(|(n, v)| (n.into(), v.into()));
        let outputs = outputs(200, String::new(), &headers, vec![]);
        assert_eq!(outputs[2].1.value, serde_json::json!({"set-cookie": "a, b", "x": "1"}));
    }
}
