//! Decodes the bytes of an answer as text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Decodes by the declared charset, else as UTF-8 if valid, else by the most likely encoding. Invalid bytes become
/// replacement characters.
pub(crate) fn decoded(bytes: Vec<u8>, charset: Option<&str>) -> String {
    let declared = charset.map(|label| Encoding::for_label(label.as_bytes()).unwrap_or(UTF_8));
    let bytes = match (declared, String::from_utf8(bytes)) {
        (None, Ok(text)) => return text,
        (Some(encoding), Ok(text)) if encoding == UTF_8 => return text,
        (Some(_), Ok(text)) => text.into_bytes(),
        (_, Err(error)) => error.into_bytes(),
    };
    let encoding = declared.unwrap_or_else(|| {
        let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
        detector.feed(&bytes, true);
        detector.guess(None, Utf8Detection::Deny)
    });
    // In UTF-16 the byte order mark selects the byte order; in other encodings it is text, as in Python.
    if encoding == UTF_16LE || encoding == UTF_16BE {
        return encoding.decode(&bytes).0.into_owned();
    }
    encoding.decode_without_bom_handling(&bytes).0.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_by_their_charset_or_by_the_best_guess() {
        for (bytes, charset, text) in [
            (&b"\xc6r\xf8"[..], Some("iso-8859-1"), "Ærø"),
            ("Ærø".as_bytes(), None, "Ærø"),
            (b"a\xff", Some("utf-8"), "a\u{fffd}"),
            (b"a\xff", Some("unheard-of"), "a\u{fffd}"),
            (b"\xc4\xe3\xba\xc3\xa3\xac\xca\xc0\xbd\xe7", None, "你好，世界"),
            (b"caf\xe9 cr\xe8me", None, "café crème"),
            (b"\xc4\xe3", Some("GBK"), "你"),
            (b"\xfe\xff\x00a", Some("utf-16"), "a"),
            (b"\xef\xbb\xbfa", None, "\u{feff}a"),
        ] {
            assert_eq!(decoded(bytes.to_vec(), charset), text, "{charset:?}");
        }
    }
}
