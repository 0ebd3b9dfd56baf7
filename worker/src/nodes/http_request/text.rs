//! Decodes the bytes of an answer as text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};

use super::charset::Charset;

/// Decodes by the declared charset, else as UTF-8. Text that declares no charset and is not UTF-8 is read in its most
/// likely encoding if `guesses`. Invalid bytes become replacement characters.
///
/// # Errors
/// Python's message for UTF-16 and UTF-32 without a byte order mark.
pub(crate) fn decoded(bytes: Vec<u8>, charset: Option<&str>, guesses: bool) -> Result<String, String> {
    let charset = charset.filter(|name| !name.is_empty());
    if let Some(charset) = charset.and_then(Charset::of) {
        return charset.decode(&bytes).map_err(|error| error.to_string());
    }
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error.into_bytes(),
    };
    if charset.is_some() || !guesses || is_wide(&bytes) {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(&bytes, true);
    let encoding = detector.guess(None, Utf8Detection::Deny);
    Ok(encoding.decode_without_bom_handling(&bytes).0.into_owned())
}

/// Texts in UTF-16 and UTF-32, which the detector does not know and would take for another encoding.
fn is_wide(bytes: &[u8]) -> bool {
    bytes.contains(&0) || matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
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
            (b"\xc4\xe3\xba\xc3\xa3\xac\xca\xc0\xbd\xe7", Some(""), "你好，世界"),
            (b"caf\xe9 cr\xe8me", None, "café crème"),
            (b"\xc4\xe3", Some("GBK"), "你"),
            (b"\xfe\xff\x00a", Some("utf-16"), "a"),
            (b"\xef\xbb\xbfa", None, "\u{feff}a"),
            // As on Dify: UTF-16 without a charset is read as UTF-8.
            (b"h\x00\xe9\x00", None, "h\u{0}\u{fffd}\u{0}"),
            (b"\xff\xfeh\x00", None, "\u{fffd}\u{fffd}h\u{0}"),
        ] {
            assert_eq!(decoded(bytes.to_vec(), charset, true).as_deref(), Ok(text), "{charset:?}");
        }
    }

    #[test]
    fn nothing_is_guessed_where_that_is_off() {
        let plain = decoded(b"caf\xe9 cr\xe8me".to_vec(), None, false);
        assert_eq!(plain.as_deref(), Ok("caf\u{fffd} cr\u{fffd}me"));
        assert!(decoded(b"h\x00i\x00".to_vec(), Some("utf-16"), true).is_err());
    }
}
