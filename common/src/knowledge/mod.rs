//! Texts as a knowledge base keeps them, and everything about it that needs no store: documents cut into segments
//! ([`mod@split`]), what a segment is called and how it is counted ([`mod@segment`]), and how near two of them are in meaning
//! ([`vectors`]).

pub mod segment;
pub mod split;
pub mod vectors;

pub use segment::{Piece, segments};
pub use split::{SplitSettings, Unit, split};
