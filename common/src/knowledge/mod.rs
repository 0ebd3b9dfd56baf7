//! The parts of a knowledge base that need no store: documents are split into segments ([`mod@split`]),
//! segments get ids and word counts ([`mod@segment`]), and vectors are compared by meaning ([`vectors`]).

pub mod segment;
pub mod split;
pub mod vectors;

pub use segment::{Piece, segments};
pub use split::{SplitSettings, Unit, split};
