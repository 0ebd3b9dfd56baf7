//! Sets the default handle of an edge without one. A null handle stays: Dify drops such an edge.

use crate::kinds::SOURCE_HANDLE;
use tidemill_base::value::JsonMap;

pub(super) fn rewrite(edge: &mut JsonMap) {
    edge.entry("sourceHandle").or_insert_with(|| SOURCE_HANDLE.into());
}
