//! Variables for display to people: a form is shown to the person who answers it, so secrets are masked.

use std::borrow::Cow;

use tidemill_base::value::{Lookup, Segment, SegmentType, Variables};

/// Variables in which each secret is a text that shows only the mask.
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
