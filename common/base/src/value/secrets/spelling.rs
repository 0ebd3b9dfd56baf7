//! The spellings of a secret in a text: in Python and JSON quotes, in a URL, in a header.

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value as Json;

use super::CHARS_MIN;
use crate::value::pyrepr::repr_text;

/// Returns the spellings of a secret, without duplicates and always in the same order: literal, as Python's
/// `repr` and as JSON. For a secret that is long enough also: as ASCII-only JSON, as JSON with escaped
/// slashes, percent-encoded as in URLs and forms, in base64 at any offset of the encoded text, as JSON inside
/// JSON, percent-encoded only where a URL needs it or with other digits, and escaped for HTML. Journals and
/// snapshots contain the number of a spelling, so a new one must come last.
pub fn spellings(plain: &str) -> Vec<String> {
    let mut all = vec![plain.to_owned()];
    add(&mut all, without_quotes(&repr_text(plain)));
    add(&mut all, as_json(plain));
    if plain.chars().nth(CHARS_MIN - 1).is_none() {
        return all;
    }
    add(&mut all, in_ascii(&as_json(plain)));
    add(&mut all, as_json(plain).replace('/', "\\/"));
    add(&mut all, percent_encoded(plain, "%20"));
    add(&mut all, percent_encoded(plain, "+"));
    for before in 0..3 {
        add(&mut all, in_base64(&STANDARD_NO_PAD, before, plain.as_bytes()));
        add(&mut all, in_base64(&URL_SAFE_NO_PAD, before, plain.as_bytes()));
    }
    // A server may repeat a JSON request in its JSON error, which is then shown as JSON.
    let twice = as_json(&as_json(plain));
    add(&mut all, as_json(&twice));
    add(&mut all, twice);
    for address in [in_address(plain, false), in_address(plain, true)] {
        add(&mut all, as_json(&address));
        add(&mut all, address);
    }
    for space in ["%20", "+"] {
        let usual = percent_encoded(plain, space);
        // Python's `quote` and JavaScript's `encodeURI` keep slashes; some libraries write lower-case digits.
        add(&mut all, usual.replace("%2F", "/"));
        add(&mut all, in_small_hex(&usual));
        add(&mut all, in_small_hex(&usual).replace("%2f", "/"));
    }
    add(&mut all, in_html(plain, ["&#34;", "&#39;"]));
    add(&mut all, in_html(plain, ["&quot;", "&#x27;"]));
    all
}

fn add(all: &mut Vec<String>, spelling: String) {
    if !all.contains(&spelling) {
        all.push(spelling);
    }
}

/// Returns a text as JSON writes it, without the quotes.
pub(super) fn as_json(text: &str) -> String {
    without_quotes(&Json::from(text).to_string())
}

fn without_quotes(quoted: &str) -> String {
    quoted[1..quoted.len() - 1].to_owned()
}

fn in_ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() {
            out.push(letter);
        } else {
            let mut units = [0; 2];
            let each = letter.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}"));
            out.extend(each);
        }
    }
    out
}

/// Encodes as Python's `quote_plus` and most clients do; they differ in the space.
fn percent_encoded(plain: &str, space: &str) -> String {
    let mut out = String::with_capacity(plain.len());
    for byte in plain.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => out.push(byte.into()),
            b' ' => out.push_str(space),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Encodes only what a URL must encode, as WHATWG says: in its path or in its query.
fn in_address(plain: &str, in_path: bool) -> String {
    let mut out = String::with_capacity(plain.len());
    for byte in plain.bytes() {
        match byte {
            b'\\' if in_path => out.push('/'),
            b'?' | b'`' | b'{' | b'}' | b'^' if in_path => out.push_str(&format!("%{byte:02X}")),
            b'"' | b'#' | b'<' | b'>' => out.push_str(&format!("%{byte:02X}")),
            b'\'' if !in_path => out.push_str("%27"),
            // URL parsers drop these.
            b'\t' | b'\n' | b'\r' => {}
            b'!'..=b'~' => out.push(byte.into()),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Returns percent-encoded text with lower-case hex digits in its escapes.
fn in_small_hex(encoded: &str) -> String {
    let mut digits = 0;
    let small = |letter: char| match letter {
        '%' => {
            digits = 2;
            letter
        }
        _ if digits > 0 => {
            digits -= 1;
            letter.to_ascii_lowercase()
        }
        _ => letter,
    };
    encoded.chars().map(small).collect()
}

/// Escapes for HTML as Jinja and Python do; they differ in the quotes.
fn in_html(plain: &str, [double, single]: [&str; 2]) -> String {
    let escaped = plain.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    escaped.replace('"', double).replace('\'', single)
}

/// Returns those base64 letters of a longer text that depend only on the secret, when `before` bytes (modulo
/// 3) precede it.
fn in_base64(alphabet: &impl base64::Engine, before: usize, plain: &[u8]) -> String {
    /// The number of letters that also hold bits of the preceding bytes.
    const SHARED: [usize; 3] = [0, 2, 3];
    let encoded = alphabet.encode([&[0; 2][..before], plain].concat());
    let whole = (before + plain.len()) * 8 / 6;
    encoded[SHARED[before]..whole].to_owned()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn a_secret_has_its_spelling_in_every_base64_that_holds_it() {
        let plain = "sk-ab?cd>ef/gh~~é";
        let known = spellings(plain);
        for before in 0..7 {
            for after in 0..4 {
                let text =
                    format!("{}{plain}{}", "u:xyzw".get(..before).unwrap_or("u:xyzw1"), &"!@#$"[..after]);
                for encoded in [STANDARD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                    assert!(known.iter().any(|one| encoded.contains(one.as_str())), "{text}: {encoded}");
                }
            }
        }
    }

    #[test]
    fn spellings_are_each_once_and_a_short_secret_has_few() {
        assert_eq!(spellings("abc-123"), ["abc-123"]);
        let known = spellings("a/\"b c\u{e9}defgh");
        for one in [
            "a/\\\"b c\u{e9}defgh",
            "a/\\\"b c\\u00e9defgh",
            "a\\/\\\"b c\u{e9}defgh",
            "a%2F%22b%20c%C3%A9defgh",
            "a%2F%22b+c%C3%A9defgh",
            "a/%22b%20c%C3%A9defgh",
            "a/\\\\\\\"b c\u{e9}defgh",
        ] {
            assert!(known.iter().any(|known| known == one), "{one}: {known:?}");
        }
        for one in [
            "a/%22b%20c%C3%A9defgh",
            "a/%22b+c%C3%A9defgh",
            "a%2f%22b%20c%c3%a9defgh",
            "a/%22b%20c%c3%a9defgh",
            "a/&#34;b c\u{e9}defgh",
            "a/&quot;b c\u{e9}defgh",
        ] {
            assert!(known.iter().any(|known| known == one), "{one}: {known:?}");
        }
        let html = spellings("<a href='x'>&B");
        for one in ["&lt;a href=&#39;x&#39;&gt;&amp;B", "&lt;a href=&#x27;x&#x27;&gt;&amp;B"] {
            assert!(html.iter().any(|known| known == one), "{one}: {html:?}");
        }
        // The number of a spelling has one digit, and the numbers of earlier versions stay the same.
        let most = spellings("<A/\"b'&? \u{e9}\n~>");
        assert!(most.len() <= 36, "{}", most.len());
        let percent = "%3CA%2F%22b%27%26%3F%20%C3%A9%0A~%3E";
        assert_eq!(most.iter().position(|one| one == percent), Some(5), "{most:?}");
        // Some of the first letters are shared with the preceding bytes; the rest must stay long enough to be
        // rare.
        assert!(known.iter().all(|one| one.len() >= CHARS_MIN), "{known:?}");
        let mut once = known.clone();
        once.dedup();
        assert_eq!(once, known);
    }
}
