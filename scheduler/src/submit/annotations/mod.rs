//! The annotation reply: finds the annotation that answers a question in place of the workflow ([`matching`]), and keeps the
//! index of an app's questions ([`index`]).
//!
//! A question that matches exactly is found by its key in the store. For a match by meaning a worker searches the embedded
//! dataset of the app's questions, because only workers have the embedding model. The dataset belongs to this feature: no
//! list shows it. It may hold questions of annotations that were changed or removed since; what it finds counts only if
//! an annotation has that question now.

mod index;
mod matching;

pub(super) use matching::{Asked, Matched};

/// What these runs are for: the value of [`super::inner::FIELD`].
const PURPOSE: &str = "annotations";
