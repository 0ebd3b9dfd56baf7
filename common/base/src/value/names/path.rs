//! Paths such as `user.name` and `items[0].title`: a name and the path inside its value.

use serde_json::Value as Json;

use super::super::selector::file_attribute;
use super::super::{Segment, SegmentType, infer_type};

/// A name and the path inside its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Path<'a> {
    pub(super) head: &'a str,
    steps: Vec<Step<'a>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

impl<'a> Path<'a> {
    /// Returns the name at the beginning of a text that has a path after it; `None` while the name itself may
    /// continue.
    pub(super) fn head_of(text: &'a str) -> Option<&'a str> {
        text.find(['.', '[']).map(|at| text[..at].trim())
    }

    /// Parses a path; `None` when it is invalid.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let at = text.find(['.', '[']).unwrap_or(text.len());
        let (head, mut rest) = (text[..at].trim(), &text[at..]);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(key) = rest.strip_prefix('.') {
                let end = key.find(['.', '[']).unwrap_or(key.len());
                steps.push(Step::Key(Some(key[..end].trim()).filter(|key| !key.is_empty())?));
                rest = &key[end..];
            } else {
                let (index, after) = rest.strip_prefix('[')?.split_once(']')?;
                steps.push(Step::Index(index.trim().parse().ok()?));
                rest = after.trim_start();
            }
        }
        (!head.is_empty()).then_some(Self { head, steps })
    }

    /// True when the path is only a name.
    pub(super) fn is_whole(&self) -> bool {
        self.steps.is_empty()
    }

    /// Returns the value at the path inside `value`; `None` when it is null or missing.
    pub(super) fn within(&self, value: &Segment) -> Option<Segment> {
        if let (SegmentType::File, [Step::Key(key)]) = (value.ty, self.steps.as_slice()) {
            return file_attribute(&value.value, key).filter(|found| !found.is_null()).map(Segment::infer);
        }
        let mut at = &value.value;
        for step in &self.steps {
            at = match step {
                Step::Key(key) => at.as_object()?.get(*key)?,
                Step::Index(index) => at.as_array()?.get(*index)?,
            };
        }
        (*at != Json::Null).then(|| Segment { ty: infer_type(at), value: at.clone() })
    }
}
