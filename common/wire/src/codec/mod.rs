//! Texts and JSON, written and read without a tree where that is worth it: [`text`] writes JSON, [`fields`] and
//! [`scan`] read it, [`pairs`] packs many small values, [`value`] has the stored forms of values.

pub(crate) mod fields;
pub mod pairs;
pub(crate) mod scan;
pub(crate) mod text;
pub mod value;
