//! The values that a node leaves in its run: its [`records`], [`variables`], [`messages`], and
//! [`changes`] of conversation variables that items make.

pub(crate) mod changes;
pub(crate) mod messages;
pub(crate) mod records;
pub(crate) mod variables;
