//! What a file is: its name, extension, media type and kind, from what is known about it. The caller gives what a
//! request or a server said; nothing is fetched here.
//!
//! [`disposition`] reads the name in a `Content-Disposition`, [`decode`] turns the spellings of a name into text.
//! `http-request` uses this for what it fetched, the API for files that a request names by their URL.

pub mod decode;
pub mod disposition;
pub mod parameters;

use super::mime;
use crate::limits::FILE_NAME_CHARS_MAX;

/// The media type of a file about which nothing is known.
pub const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The extension of a file about which nothing is known.
pub const UNKNOWN_EXTENSION: &str = ".bin";

/// Kinds of files, and the extensions that Dify accepts for each.
const KINDS: [(&str, &[&str]); 4] = [
    ("image", &["jpg", "jpeg", "png", "webp", "gif", "svg"]),
    ("video", &["mp4", "mov", "mpeg", "webm"]),
    ("audio", &["mp3", "m4a", "wav", "amr", "mpga"]),
    (
        "document",
        &[
            "txt",
            "markdown",
            "md",
            "mdx",
            "pdf",
            "html",
            "htm",
            "xlsx",
            "xls",
            "vtt",
            "properties",
            "doc",
            "docx",
            "csv",
            "eml",
            "msg",
            "ppt",
            "pptx",
            "xml",
            "epub",
            "odt",
        ],
    ),
];

/// Media types with which servers say that they do not know the type.
const SAY_NOTHING: [&str; 8] = [
    "application/octet-stream",
    "binary/octet-stream",
    "application/binary",
    "application/x-binary",
    "application/download",
    "application/force-download",
    "application/x-download",
    "application/unknown",
];

/// Endings of programs on servers. They say nothing about the file that such a program gives.
const PAGES: [&str; 8] = ["php", "asp", "aspx", "ashx", "jsp", "cgi", "do", "action"];

/// What is known about a file, each `None` if unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known<'a> {
    /// The name that the request gives.
    pub given_name: Option<&'a str>,
    /// The media type that the request gives. It counts before all others.
    pub given_type: Option<&'a str>,
    /// The name that the server gives (`Content-Disposition`), decoded.
    pub said_name: Option<&'a str>,
    /// The media type that the server gives (`Content-Type`).
    pub said_type: Option<&'a str>,
    /// The URL that was asked for.
    pub url: &'a str,
    /// The URL at the end of all redirects.
    pub last_url: Option<&'a str>,
}

/// A file's name and type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFacts {
    /// The name; `None` if neither request nor server nor URL has one.
    pub name: Option<String>,
    /// With its dot, in lower case; [`UNKNOWN_EXTENSION`] if unknown.
    pub extension: String,
    /// The media type without parameters, in lower case; [`UNKNOWN_TYPE`] if unknown.
    pub mime_type: String,
    /// `image`, `video`, `audio`, `document` or `custom`; `None` if neither extension nor type is known.
    pub kind: Option<&'static str>,
}

impl FileFacts {
    /// Decides from what is known. The order for the name: the request, the server, the URL. For the type: the request,
    /// the server unless it says nothing, the name.
    ///
    /// The extension is that of the name. A name that is only a part of the URL may have another ending than the file
    /// (`download.php`, a picture under `x.txt`), so there a type that does not fit decides.
    pub fn of(known: Known<'_>) -> Self {
        let named = [known.given_name, known.said_name].into_iter().flatten().find_map(clean);
        let is_named = named.is_some();
        let name = named.or_else(|| name_of_urls(known.url, known.last_url));
        let ending = name.as_deref().and_then(extension).filter(|ending| *ending != "bin");
        let ending = ending.map(str::to_lowercase);
        let given_type = known.given_type.and_then(plain_type);
        let said_type = known.said_type.and_then(plain_type);
        let stated = given_type.clone().or(said_type);
        let by_type = stated.as_deref().and_then(mime::extension_of);
        let ending = match (ending, by_type) {
            (Some(own), Some(by_type)) if !is_named && !fits(&own, stated.as_deref(), by_type) => {
                Some(by_type.to_owned())
            }
            (own, by_type) => own.or_else(|| by_type.map(str::to_owned)),
        };
        let of_ending = ending.as_deref().and_then(mime::of_extension);
        let mime_type = stated.or_else(|| of_ending.map(str::to_owned));
        let kind = kind_of(ending.as_deref().unwrap_or_default(), mime_type.as_deref());
        Self {
            name,
            extension: ending.map_or_else(|| UNKNOWN_EXTENSION.to_owned(), |ending| format!(".{ending}")),
            mime_type: mime_type.unwrap_or_else(|| UNKNOWN_TYPE.to_owned()),
            kind,
        }
    }
}

/// Returns true if a file of this type may have this ending.
fn fits(ending: &str, media_type: Option<&str>, by_type: &str) -> bool {
    let own_type = mime::of_extension(ending);
    if ending == by_type || own_type == media_type {
        return true;
    }
    match kind_of(ending, own_type) {
        Some(kind) => Some(kind) == kind_of(by_type, media_type),
        // Source code and the like are plain texts with many endings.
        None => media_type == Some("text/plain") && !PAGES.contains(&ending),
    }
}

/// The kind of file for an extension in lower case without its dot, or `None` if neither extension nor type is known.
fn kind_of(extension: &str, media_type: Option<&str>) -> Option<&'static str> {
    let of =
        |extension: &str| KINDS.iter().find(|(_, known)| known.contains(&extension)).map(|(kind, _)| *kind);
    of(extension).or_else(|| {
        let media_type = media_type?;
        if let Some(kind) = mime::extension_of(media_type).and_then(of) {
            return Some(kind);
        }
        let main = media_type.split('/').next()?;
        Some(["image", "video", "audio"].into_iter().find(|kind| *kind == main).unwrap_or("custom"))
    })
}

/// A media type without parameters in lower case, or `None` if it says nothing.
fn plain_type(given: &str) -> Option<String> {
    let plain = given.split([';', ',']).next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_type = plain.split_once('/').is_some_and(|(main, sub)| !main.is_empty() && !sub.is_empty());
    (is_type && !SAY_NOTHING.contains(&plain.as_str())).then_some(plain)
}

/// The end of a name after its last dot, as written. A name that only begins with a dot has none.
pub fn extension(name: &str) -> Option<&str> {
    let (front, end) = name.rsplit_once('.')?;
    let is_ending = !front.is_empty() && !end.is_empty() && !end.contains(char::is_whitespace);
    is_ending.then_some(end)
}

/// The name in the URL that was asked for, or in the last one if only that one has an extension.
fn name_of_urls(url: &str, last: Option<&str>) -> Option<String> {
    let asked = name_in_url(url);
    let has_extension = |name: &String| extension(name).is_some();
    if asked.as_ref().is_some_and(has_extension) {
        return asked;
    }
    let last = last.and_then(name_in_url);
    last.clone().filter(has_extension).or(asked).or(last)
}

/// The last part of a URL's path, percent-decoded, or `None` if the path has none.
pub fn name_in_url(url: &str) -> Option<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let (_, path) = rest.split_once('/')?;
    // Only what is a slash in the URL separates its parts, so it is split before it is decoded.
    let last = path.rsplit('/').next().filter(|name| !name.is_empty())?;
    clean(&decode::percent(last).unwrap_or_else(|| last.to_owned()))
}

/// A name without its path, without control characters and invisible marks that turn the direction of text, and at most
/// [`FILE_NAME_CHARS_MAX`] characters long; the extension stays. `None` if nothing is left.
pub fn clean(name: &str) -> Option<String> {
    let last = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2028}' | '\u{2029}')
            || matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let kept: String = last.chars().filter(|c| !is_hidden(*c)).collect();
    let kept = kept.trim();
    if kept.trim_matches('.').is_empty() {
        return None;
    }
    let length = kept.chars().count();
    if length <= FILE_NAME_CHARS_MAX {
        return Some(kept.to_owned());
    }
    let ending = extension(kept).filter(|ending| ending.chars().count() < FILE_NAME_CHARS_MAX / 4);
    let ending = ending.map(|ending| format!(".{ending}")).unwrap_or_default();
    let front = FILE_NAME_CHARS_MAX - ending.chars().count();
    Some(kept.chars().take(front).chain(ending.chars()).collect())
}

#[cfg(test)]
mod tests;
