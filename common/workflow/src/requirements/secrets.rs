//! Secret environment variables whose value is not in the file: Dify's export blanks them, unless the author chose to
//! include them.

use super::{Found, Requirement};
use crate::dsl::Document;
use tidemill_base::value::SegmentType;

pub(super) fn find(document: &Document, found: &mut Found) {
    for variable in &document.environment {
        let is_blank = variable.value.value.as_str().is_none_or(|value| value.trim().is_empty());
        if variable.value.ty == SegmentType::Secret && is_blank {
            found.add(Requirement::Secret { name: variable.name.to_string() });
        }
    }
}
