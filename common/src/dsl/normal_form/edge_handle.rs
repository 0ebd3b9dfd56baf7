//! An edge that names no handle. A handle that is null stays: Dify drops such an edge.

use crate::nodes::SOURCE_HANDLE;
use crate::value::JsonMap;

pub(super) fn rewrite(edge: &mut JsonMap) {
    edge.entry("sourceHandle").or_insert_with(|| SOURCE_HANDLE.into());
}
