//! The other way round.
