//! Signed URLs in texts, in place of the paths of files. A text that shows a file has a link to its path in the storage
//! (`[a.txt](runs/…)`), because texts are stored and signatures expire. Clients get the signed URL instead.
//!
//! A link opens only files of runs of the app and the user to whom the text is shown, as every signed URL does. So a path
//! that a client or a model wrote into a text leads nowhere else.

use std::borrow::Cow;

use serde_json::Value as Json;
use tidemill_common::files::run_of;
use tidemill_common::value::{FILE_IDENTITY_KEY, mime};

use super::file_links::FileLinks;

/// What every path of a run's file begins with.
const BEGIN: &str = "runs/";
/// The place of the second slash: after the id of the run.
const SECOND_SLASH: usize = BEGIN.len() + 36;
/// The length of a path, in bytes: its end is 32 digits of the file's id.
const PATH_BYTES: usize = SECOND_SLASH + 1 + 32;
/// The longest label of a link that is the name of its file, in characters.
const LABEL_CHARS: usize = 300;
/// The length of the text before a path in which its label is searched, in characters: the label in `![label](`.
const TAIL_CHARS: usize = LABEL_CHARS + 4;
/// The length from which the text that is kept is cut to this, in bytes.
const TAIL_BYTES: usize = 4 * TAIL_CHARS;

impl FileLinks {
    /// Replaces paths in all texts of a value, but not those of file objects: clients send these back.
    pub fn fill_texts(&self, value: &mut Json) {
        match value {
            Json::String(text) => {
                if let Cow::Owned(linked) = self.in_text("", text) {
                    *text = linked;
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.fill_texts(item)),
            Json::Object(fields) if !fields.contains_key(FILE_IDENTITY_KEY) => {
                fields.values_mut().for_each(|field| self.fill_texts(field));
            }
            Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => {}
        }
    }

    /// A text in which links lead to signed URLs. `before` is the text before it.
    pub fn in_text<'a>(&self, before: &str, text: &'a str) -> Cow<'a, str> {
        let (mut linked, mut done) = (String::new(), 0);
        for (at, _) in text.match_indices(BEGIN) {
            let Some(path) = path_at(text, at).filter(|_| at >= done && is_link(before, &text[..at])) else {
                continue;
            };
            let (name, mime_type) = named_before(before, &text[..at]);
            let Some(url) = self.link_of(path, &name, mime_type) else { continue };
            linked.push_str(&text[done..at]);
            linked.push_str(&url);
            done = at + PATH_BYTES;
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        linked.push_str(&text[done..]);
        Cow::Owned(linked)
    }
}

/// Replaces paths in a text that comes in pieces, also a path that is cut. The beginning of a path is held back until the next
/// piece shows what it is.
#[derive(Debug, Default)]
pub struct LinkedPieces {
    /// The end of the text before the next piece, without what is held back.
    tail: String,
    held: String,
}

impl LinkedPieces {
    /// Continues after a text that was sent whole.
    pub fn after(text: &str) -> Self {
        let mut pieces = Self::default();
        pieces.keep(text);
        pieces
    }

    /// The next piece as it is sent; empty if all of it is held back. Most pieces are sent as they are, and copied nowhere but
    /// to the tail.
    pub fn take(&mut self, links: &FileLinks, piece: String) -> String {
        let mut text = match self.held.is_empty() {
            true => piece,
            false => std::mem::take(&mut self.held) + &piece,
        };
        if let Some(at) = unfinished(&self.tail, &text) {
            self.held = text.split_off(at);
        }
        let linked = match links.in_text(&self.tail, &text) {
            Cow::Owned(linked) => Some(linked),
            Cow::Borrowed(_) => None,
        };
        self.keep(&text);
        linked.unwrap_or(text)
    }

    /// The text that is held back.
    pub fn held(&self) -> &str {
        &self.held
    }

    /// Takes the text that is held back, because no piece comes after it.
    pub fn rest(&mut self) -> String {
        let rest = std::mem::take(&mut self.held);
        self.keep(&rest);
        rest
    }

    fn keep(&mut self, text: &str) {
        self.tail.push_str(text);
        // Not at each piece: it is a word.
        if self.tail.len() > TAIL_BYTES {
            let past = self.tail.len() - last_chars(&self.tail).len();
            self.tail.drain(..past);
        }
    }
}

/// The path of a run's file at this place.
fn path_at(text: &str, at: usize) -> Option<&str> {
    text.get(at..at + PATH_BYTES).filter(|path| run_of(path).is_some())
}

/// True where the address or the label of a link begins.
fn is_link(before: &str, text: &str) -> bool {
    let last = text.chars().next_back().or_else(|| before.chars().next_back());
    matches!(last, Some('(' | '['))
}

/// The place from which the end of a text may be a path whose rest comes later.
fn unfinished(before: &str, text: &str) -> Option<usize> {
    let from = text.len().saturating_sub(PATH_BYTES - 1);
    let places = text.char_indices().filter(|(at, sign)| *at >= from && *sign == 'r');
    places.map(|(at, _)| at).find(|at| may_become_path(&text[*at..]) && is_link(before, &text[..*at]))
}

/// True for the beginning of a path.
fn may_become_path(text: &str) -> bool {
    text.bytes().enumerate().all(|(at, byte)| match at {
        at if at < BEGIN.len() => byte == BEGIN.as_bytes()[at],
        SECOND_SLASH => byte == b'/',
        at if at < SECOND_SLASH => byte.is_ascii_hexdigit() || byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}

/// The end of a text, in which the label of a link is searched.
fn last_chars(text: &str) -> &str {
    text.char_indices().rev().nth(TAIL_CHARS - 1).map_or(text, |(from, _)| &text[from..])
}

/// Name and media type of the file whose address begins after these texts: from the label of the link. Looks only at their
/// end: a text may have thousands of links.
fn named_before(before: &str, text: &str) -> (String, &'static str) {
    let near = last_chars(text);
    let near = if near.len() < text.len() { near.to_owned() } else { format!("{before}{text}") };
    let parts = near.strip_suffix("](").and_then(|near| near.rsplit_once('['));
    let Some((ahead, label)) = parts.filter(|(_, label)| label.chars().count() <= LABEL_CHARS) else {
        return Default::default();
    };
    let name = if run_of(label).is_some() { "" } else { label };
    // A browser shows every kind of picture under this type, but nothing else.
    let unknown = if ahead.ends_with('!') { "image/png" } else { "" };
    (name.to_owned(), mime::of_name(name).unwrap_or(unknown))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tidemill_common::config::UploadsConfig;
    use tidemill_common::ids::{RunId, ShardId};
    use tidemill_common::value::FILE_IDENTITY;

    use super::*;
    use crate::runs::file_links::OwnerOfRun;
    use crate::runs::forms::FormTokens;

    fn links() -> FileLinks {
        let config = UploadsConfig { url: "https://h".into(), ..UploadsConfig::default() };
        let owner = OwnerOfRun { app: "a", user: "u" };
        FileLinks::new(FormTokens::of_secret("secret"), &config).shown_to(owner)
    }

    fn path() -> String {
        format!("runs/{}/{}", RunId::generate(ShardId(1)), "0a".repeat(16))
    }

    /// The text with `*` in place of each signature.
    fn plain(text: &str) -> String {
        let mut parts = text.split("?timestamp=");
        let first = parts.next().unwrap_or_default().to_owned();
        parts.fold(first, |plain, part| {
            let end = part.find([')', ']']).unwrap_or(part.len());
            let query = &part[..end];
            let about = query.find("&name=").or_else(|| query.find("&type="));
            let about = about.map(|from| format!("?{}", &query[from + 1..])).unwrap_or_default();
            format!("{plain}{about}{}", &part[end..])
        })
    }

    #[test]
    fn links_to_paths_lead_to_signed_urls_and_other_texts_stay() {
        let path = path();
        let url = format!("https://h/files/{path}");
        for (text, linked) in [
            (
                format!("see [a.txt]({path}) now"),
                format!("see [a.txt]({url}?name=a.txt&type=text%2Fplain) now"),
            ),
            (format!("![b c.png]({path})"), format!("![b c.png]({url}?name=b+c.png&type=image%2Fpng)")),
            (format!("[{path}]({path})"), format!("[{url}]({url})")),
            (format!("![]({path})"), format!("![]({url}?type=image%2Fpng)")),
            (format!("[x]({path})[y]({path})"), format!("[x]({url}?name=x)[y]({url}?name=y)")),
            // A URL of a server, a bare path, and what is no path.
            (format!("[x](https://o/{path})"), format!("[x](https://o/{path})")),
            (format!("\"reference\": \"{path}\""), format!("\"reference\": \"{path}\"")),
            ("[x](runs/../secret)".into(), "[x](runs/../secret)".into()),
            (format!("[x](runs/{})", "ä".repeat(60)), format!("[x](runs/{})", "ä".repeat(60))),
        ] {
            assert_eq!(plain(&links().in_text("", &text)), linked);
        }
    }

    #[test]
    fn a_path_is_replaced_wherever_the_pieces_are_cut_and_no_text_is_lost() {
        let path = path();
        let text = format!("(run) [ä.txt]({path})(r and (runs/12 [r");
        let whole = plain(&links().in_text("", &text));
        assert!(whole.contains("https://h/files/runs/"));
        let chars: Vec<char> = text.chars().collect();
        for size in 1..=chars.len() {
            let (links, mut pieces, mut sent) = (links(), LinkedPieces::default(), String::new());
            for piece in chars.chunks(size) {
                sent.push_str(&pieces.take(&links, piece.iter().collect()));
                assert!(pieces.held().len() < PATH_BYTES, "bounded");
            }
            assert_eq!(pieces.held(), "r", "pieces of {size}");
            sent.push_str(&pieces.rest());
            assert_eq!(plain(&sent), whole, "pieces of {size}");
        }
    }

    #[test]
    fn the_label_is_the_name_up_to_its_longest_wherever_the_text_is_cut() {
        let path = path();
        for (chars, is_name) in [(LABEL_CHARS, true), (LABEL_CHARS + 1, false)] {
            let label = "ä".repeat(chars);
            let text = format!("much before it ![{label}]({path})");
            let begin = text.len() - path.len() - 1;
            let mut pieces = LinkedPieces::after(&text[..begin]);
            for linked in
                [links().in_text("", &text).into_owned(), pieces.take(&links(), text[begin..].to_owned())]
            {
                assert_eq!(linked.contains("&name="), is_name, "{chars}");
                assert!(linked.contains("&type=image%2Fpng") || !is_name, "{chars}");
            }
        }
    }

    #[test]
    fn texts_at_any_depth_are_linked_but_not_those_of_file_objects() {
        let path = path();
        let file =
            json!({FILE_IDENTITY_KEY: FILE_IDENTITY, "reference": path, "filename": format!("({path}")});
        let text = format!("[x]({path})");
        let mut value = json!({"a": [{"b": text}, file.clone()], "file": file.clone(), "n": 1});
        links().fill_texts(&mut value);
        assert!(value["a"][0]["b"].as_str().unwrap().starts_with("[x](https://h/files/runs/"));
        assert_eq!((&value["a"][1], &value["file"]), (&file, &file));
        let none = FileLinks::new(FormTokens::of_secret("s"), &UploadsConfig::default());
        assert_eq!(none.in_text("", &text), text, "without an owner there are no links");
    }

    #[test]
    fn a_text_continues_after_one_that_was_sent_whole() {
        let path = path();
        let mut pieces = LinkedPieces::after("see [x](");
        assert_eq!(pieces.take(&links(), path[..9].to_owned()), "");
        assert!(pieces.take(&links(), path[9..].to_owned()).starts_with("https://h/files/runs/"));
    }
}
