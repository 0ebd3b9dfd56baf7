//! Turns the pieces of a document into segments, with word counts, and ids that are derived
//! from dataset, document and position.

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::is_unspaced;
use super::records::SegmentRecord;

/// A piece of a document: a text, or a question with its answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Piece {
    /// The text, or the question.
    pub content: String,
    pub answer: Option<String>,
    /// The id of its segment. `None`: derived from its position.
    pub id: Option<String>,
    /// Searches do not find it.
    pub is_disabled: bool,
}

/// The namespace of the derived ids.
const IDS: Uuid = Uuid::from_u128(0x7469_6465_6d69_6c6c_6b6e_6f77_6c65_6467);

/// Returns the segments of a document. The same document always gives the same ids.
pub fn segments(dataset: &str, document: &str, pieces: &[Piece]) -> Vec<SegmentRecord> {
    let segment = |(at, piece): (usize, &Piece)| {
        let position = at as u64 + 1;
        let hash = hash(piece);
        SegmentRecord {
            id: piece.id.clone().unwrap_or_else(|| segment_id(dataset, document, position)),
            position,
            content: piece.content.clone(),
            answer: piece.answer.clone(),
            word_count: words(&piece.content) + piece.answer.as_deref().map_or(0, words),
            index_node_id: id(&["node", dataset, document, &position.to_string(), &hash]),
            index_node_hash: hash,
            enabled: !piece.is_disabled,
        }
    };
    pieces.iter().enumerate().map(segment).collect()
}

/// Returns the id of the segment at this position, where none was given.
pub fn segment_id(dataset: &str, document: &str, position: u64) -> String {
    id(&["segment", dataset, document, &position.to_string()])
}

/// Returns the id of a document that has a name and no id.
pub fn document_id(dataset: &str, name: &str) -> String {
    id(&["document", dataset, name])
}

fn id(parts: &[&str]) -> String {
    // No part can contain the separator.
    Uuid::new_v5(&IDS, parts.join("\u{0}").as_bytes()).to_string()
}

fn hash(piece: &Piece) -> String {
    let mut hasher = Sha256::new();
    hasher.update(&piece.content);
    if let Some(answer) = &piece.answer {
        hasher.update([0]);
        hasher.update(answer);
    }
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Counts the words of a text; in scripts without spaces every character is a word.
fn words(text: &str) -> u64 {
    let (mut words, mut within) = (0, false);
    for c in text.chars() {
        let unspaced = is_unspaced(c);
        let begins = !within && c.is_alphanumeric();
        words += u64::from(unspaced || begins);
        within = c.is_alphanumeric() && !unspaced;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_follow_from_the_place_and_the_hash_from_the_text() {
        let piece = |content: &str, answer: Option<&str>| Piece {
            content: content.into(),
            answer: answer.map(Into::into),
            ..Piece::default()
        };
        let one = segments("k", "d", &[piece("a", None), piece("a", Some("b"))]);
        assert_eq!(one, segments("k", "d", &[piece("a", None), piece("a", Some("b"))]));
        let other = segments("k", "d", &[piece("x", None)]);
        assert_eq!((one[0].id == other[0].id, one[0].position), (true, 1));
        assert!(one[0].index_node_hash != other[0].index_node_hash);
        assert!(one[0].index_node_id != one[1].index_node_id && one[0].id != one[1].id);
        assert!(segments("k2", "d", &[piece("a", None)])[0].id != one[0].id);
        let given = Piece { id: Some("mine".into()), is_disabled: true, ..piece("a", None) };
        let given = &segments("k", "d", &[given])[0];
        assert_eq!((given.id.as_str(), given.enabled), ("mine", false));
    }

    #[test]
    fn words_are_counted_in_every_script() {
        for (text, count) in [("", 0), ("Two words, no more.", 4), ("潮汐磨坊", 4), ("GPU 内存 8GB", 4)]
        {
            assert_eq!(words(text), count, "{text}");
        }
    }
}
