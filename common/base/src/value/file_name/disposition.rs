//! Reads a `Content-Disposition`. The name is `filename*` (RFC 5987) before `filename`, which may be quoted,
//! percent-encoded or an encoded word (RFC 2047), as browsers accept it; also in pieces (`filename*0*=`, RFC 2231).

use super::{clean, decode, parameters};

/// Most pieces of a name that are read; real headers have a few.
const PIECES_MAX: usize = 64;

/// A `Content-Disposition`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Disposition {
    /// `attachment`, `inline` or another word, in lower case.
    pub kind: String,
    /// True if it has a parameter for a name, even an empty one.
    pub has_name: bool,
    /// The decoded name, safe to show: see [`clean`].
    pub name: Option<String>,
}

impl Disposition {
    /// Reads the header's value.
    pub fn parse(header: &str) -> Self {
        let (kind, parameters) = parameters::split(header);
        let has_name = |(name, _): &(String, String)| name == "filename" || name.starts_with("filename*");
        Self {
            kind: kind.to_lowercase(),
            has_name: parameters.iter().any(has_name),
            name: extended(&parameters).or_else(|| plain(&parameters)).and_then(|name| clean(&name)),
        }
    }
}

/// `filename*`: charset, language and percent-encoded text.
fn extended(parameters: &[(String, String)]) -> Option<String> {
    let decoded = |value: &str| {
        let (charset, rest) = value.split_once('\'')?;
        let (_, text) = rest.split_once('\'')?;
        decode::percent_in(text, charset).filter(|name| !name.trim().is_empty())
    };
    let whole =
        parameters.iter().filter(|(name, _)| name == "filename*").find_map(|(_, value)| decoded(value));
    whole.or_else(|| pieces(parameters))
}

/// `filename*0`, `filename*1*`, …: pieces of a name; those whose parameter ends with a star are percent-encoded.
fn pieces(parameters: &[(String, String)]) -> Option<String> {
    let piece = |number: usize| {
        let (plain, encoded) = (format!("filename*{number}"), format!("filename*{number}*"));
        let found = parameters.iter().find(|(name, _)| *name == plain || *name == encoded)?;
        Some((found.1.as_str(), found.0 == encoded))
    };
    let (mut charset, mut name) = ("utf-8", String::new());
    for number in 0..PIECES_MAX {
        let Some((mut value, is_encoded)) = piece(number) else { break };
        if is_encoded && number == 0 {
            let (given, rest) = value.split_once('\'')?;
            charset = if given.is_empty() { charset } else { given };
            value = rest.split_once('\'')?.1;
        }
        // A character may be cut between two pieces, so they are joined before they are decoded.
        name.push_str(&if is_encoded { value.to_owned() } else { value.replace('%', "%25") });
    }
    decode::percent_in(&name, charset).filter(|name| !name.trim().is_empty())
}

fn plain(parameters: &[(String, String)]) -> Option<String> {
    let of_name = |(name, value): &&(String, String)| name == "filename" && !value.trim().is_empty();
    let (_, value) = parameters.iter().find(of_name)?;
    // Some servers write the extended form under the plain name.
    let extended = value.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("utf-8''"));
    let value = if extended { &value[7..] } else { value };
    let text = decode::words(value);
    Some(decode::percent(&text).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_in_all_its_spellings() {
        for (header, name) in [
            ("attachment", None),
            ("attachment; filename=a.txt", Some("a.txt")),
            ("attachment; filename=\"a b; c.txt\"", Some("a b; c.txt")),
            ("attachment; FILENAME = \"a.txt\"", Some("a.txt")),
            ("attachment; filename=\"\"", None),
            ("attachment; filename*=UTF-8''%E6%B8%AF%E5%8F%A3.pdf", Some("港口.pdf")),
            ("attachment; filename=\"x.pdf\"; filename*=UTF-8''%E6%B8%AF.pdf", Some("港.pdf")),
            ("attachment; filename*=UTF-8''%E6%B8%AF.pdf; filename=\"x.pdf\"", Some("港.pdf")),
            ("attachment; filename*=utf-8'en'a%20b.txt", Some("a b.txt")),
            ("attachment; filename*=iso-8859-1''caf%E9.txt", Some("café.txt")),
            ("attachment; filename*=GBK''%C4%E3.txt", Some("你.txt")),
            // What cannot be decoded leaves the plain name.
            ("attachment; filename*=utf-8''%ff; filename=b.txt", Some("b.txt")),
            ("attachment; filename*=unheard-of''a; filename=b.txt", Some("b.txt")),
            ("attachment; filename*=a.txt; filename=b.txt", Some("b.txt")),
            ("attachment; filename*=utf-8''; filename=b.txt", Some("b.txt")),
            ("attachment; filename=\"%E6%B8%AF.txt\"", Some("港.txt")),
            ("attachment; filename=\"100%.txt\"", Some("100%.txt")),
            ("attachment; filename=\"=?utf-8?B?5riv5Y+jLnR4dA==?=\"", Some("港口.txt")),
            ("attachment; filename==?utf-8?Q?Gr=C3=B6=C3=9Fe.txt?=", Some("Größe.txt")),
            ("attachment; filename=UTF-8''%E6%B8%AF.txt", Some("港.txt")),
            ("attachment; filename=港口.txt", Some("港口.txt")),
            ("attachment; filename*0=\"long \"; filename*1=name.txt", Some("long name.txt")),
            (
                "attachment; filename*0*=utf-8''%E6%B8; filename*1*=%AF%20; filename*2=50%.txt",
                Some("港 50%.txt"),
            ),
            // No path, no control characters.
            ("attachment; filename=\"../../etc/passwd\"", Some("passwd")),
            (r#"attachment; filename="C:\tmp\a.txt""#, Some("a.txt")),
            ("attachment; filename*=utf-8''..%2F..%2Fa%00%0D%0A.txt", Some("a.txt")),
            ("attachment; filename=\"..\"", None),
            ("attachment; filename*=utf-8''a%E2%80%AEtxt.exe", Some("atxt.exe")),
        ] {
            assert_eq!(Disposition::parse(header).name.as_deref(), name, "{header}");
        }
    }

    #[test]
    fn its_kind_and_an_empty_name_are_known() {
        let inline = Disposition::parse("Inline; filename=\"\"");
        assert_eq!((inline.kind.as_str(), inline.has_name, inline.name), ("inline", true, None));
        assert!(!Disposition::parse("inline; name=x").has_name);
    }
}
