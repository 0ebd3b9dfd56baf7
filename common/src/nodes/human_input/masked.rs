//! The variables as people may see them: a form is shown to whoever answers it, so secrets come masked.

use std::borrow::Cow;

use crate::value::{Lookup, Segment, SegmentType, Variables};

/// Variables whose secrets are texts that show the mask only.
pub(in crate::nodes) struct Masked<'a>(pub(in crate::nodes) &'a dyn Variables);

impl Variables for Masked<'_> {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        match self.0.variable(node, name) {
            Lookup::Found(segment) if segment.ty == SegmentType::Secret => {
                Lookup::Found(Cow::Owned(Segment::string(segment.log())))
            }
            other @ (Lookup::Found(_) | Lookup::Missing | Lookup::Blob(_)) => other,
        }
    }
    fn names(&self) -> Vec<(String, String)> {
        self.0.names()
    }
}
