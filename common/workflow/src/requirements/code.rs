//! Python modules that code nodes import and that are not part of Python.

use super::{Found, NodeView, Requirement};
use crate::kinds::NodeKind;

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    if node.kind != NodeKind::Code || node.text("code_language") != "python3" {
        return;
    }
    for name in foreign_modules(node.text("code")) {
        found.add(Requirement::Module { name });
    }
}

fn foreign_modules(_code: &str) -> Vec<String> {
    Vec::new()
}
