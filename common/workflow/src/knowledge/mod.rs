//! The parts of a knowledge base that need no store: documents are split into segments ([`mod@split`]),
//! segments get ids and word counts ([`mod@segment`]), and vectors are compared by meaning ([`vectors`]). [`process`] reads
//! Dify's rules for splitting, and [`built_in`] has Dify's built-in metadata.

pub mod built_in;
pub mod notes;
pub mod process;
pub mod records;
pub mod segment;
pub mod split;
pub mod vectors;

pub use segment::{Piece, segments};
pub use split::{SplitSettings, Unit, split};

/// True for Chinese, Japanese and Thai: scripts without spaces between words.
pub fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0e00}'..='\u{0e7f}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}
