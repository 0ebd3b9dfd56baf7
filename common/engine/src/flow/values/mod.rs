//! The values that a node leaves in its run: its [`records`], [`variables`], and [`messages`].

pub(crate) mod messages;
pub(crate) mod records;
pub(crate) mod variables;
