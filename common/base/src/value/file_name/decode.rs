//! Turns the spellings of a name in headers and URLs into text: percent-encoded bytes, and the encoded words of mails.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use encoding_rs::Encoding;

/// Percent-decodes UTF-8 text. `None` if the bytes are no UTF-8; a `%` that begins no byte stays.
pub fn percent(text: &str) -> Option<String> {
    String::from_utf8(percent_bytes(text)).ok()
}

/// Percent-decodes the bytes of a text in this charset. `None` for an unknown charset, and for bytes that it does not
/// have.
pub(super) fn percent_in(text: &str, charset: &str) -> Option<String> {
    in_charset(&percent_bytes(text), charset)
}

fn in_charset(bytes: &[u8], charset: &str) -> Option<String> {
    let encoding = Encoding::for_label(charset.trim().as_bytes())?;
    encoding.decode_without_bom_handling_and_without_replacement(bytes).map(|text| text.into_owned())
}

fn percent_bytes(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).and_then(|two| hex(two[0], two[1]));
        match (byte, digits) {
            (b'%', Some(decoded)) => {
                out.push(decoded);
                at += 3;
            }
            (byte, _) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    out
}

fn hex(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? * 16 + digit(low)?)
}

/// Decodes the encoded words of RFC 2047 (`=?utf-8?B?…?=`) in a text. What is not a well-formed one stays. The space
/// between two of them is not part of the text.
pub(super) fn words(text: &str) -> String {
    let (mut out, mut rest, mut after_word) = (String::new(), text, false);
    while let Some(start) = rest.find("=?") {
        let (before, from) = rest.split_at(start);
        match word(from) {
            Some((decoded, length)) => {
                if !(after_word && before.trim().is_empty()) {
                    out.push_str(before);
                }
                out.push_str(&decoded);
                rest = &from[length..];
                after_word = true;
            }
            None => {
                out.push_str(before);
                out.push_str("=?");
                rest = &from[2..];
                after_word = false;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The encoded word at the beginning of a text, and its length in bytes.
fn word(text: &str) -> Option<(String, usize)> {
    let mut parts = text.strip_prefix("=?")?.splitn(3, '?');
    let (charset, method, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (encoded, _) = rest.split_once("?=")?;
    let bytes = match method {
        "B" | "b" => STANDARD.decode(encoded).or_else(|_| STANDARD_NO_PAD.decode(encoded)).ok()?,
        "Q" | "q" => percent_bytes(&encoded.replace('%', "%25").replace('_', " ").replace('=', "%")),
        _ => return None,
    };
    // A language may follow the charset (RFC 2231).
    let decoded = in_charset(&bytes, charset.split('*').next().unwrap_or(charset))?;
    Some((decoded, "=?".len() + charset.len() + method.len() + encoded.len() + "??".len() + "?=".len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_encoded_bytes_become_text_in_their_charset() {
        for (text, charset, decoded) in [
            ("%E6%B8%AF.txt", "utf-8", Some("港.txt")),
            ("%e4%f6.txt", "ISO-8859-1", Some("äö.txt")),
            ("%C4%E3.txt", "gbk", Some("你.txt")),
            ("100%.txt", "utf-8", Some("100%.txt")),
            ("%4", "utf-8", Some("%4")),
            ("%zz%41", "utf-8", Some("%zzA")),
            ("%ff", "utf-8", None),
            ("a", "unheard-of", None),
        ] {
            assert_eq!(percent_in(text, charset).as_deref(), decoded, "{text} {charset}");
        }
        assert_eq!((percent("a%20b").as_deref(), percent("%ff")), (Some("a b"), None));
    }

    #[test]
    fn encoded_words_become_text_and_other_text_stays() {
        for (text, decoded) in [
            ("=?utf-8?B?5riv5Y+jLnR4dA==?=", "港口.txt"),
            ("=?UTF-8?Q?Gr=C3=B6=C3=9Fe_1.txt?=", "Größe 1.txt"),
            ("=?iso-8859-1?q?caf=E9?=.txt", "café.txt"),
            ("=?gb2312?B?xOM=?= =?gb2312?B?xOM=?=", "你你"),
            ("=?utf-8*en?B?YQ?=b", "ab"),
            ("x =?utf-8?B?YQ==?= y", "x a y"),
            ("=?utf-8?X?a?=", "=?utf-8?X?a?="),
            ("=?utf-8?B?***?=", "=?utf-8?B?***?="),
            ("=?unheard-of?B?YQ==?=", "=?unheard-of?B?YQ==?="),
            ("=?a", "=?a"),
            ("50% =?", "50% =?"),
        ] {
            assert_eq!(words(text), decoded, "{text}");
        }
    }
}
