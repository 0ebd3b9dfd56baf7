//! Modules that code nodes import and that their language does not have, and code that calls servers.

use super::{Found, NodeView, Requirement};
use crate::kinds::NodeKind;
use crate::nodes::code::CodeLanguage;
use crate::nodes::code::modules::{foreign_modules, networked_modules};

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    if node.kind != NodeKind::Code {
        return;
    }
    let language = CodeLanguage::ALL.into_iter().find(|one| one.name() == node.text("code_language"));
    let Some(language) = language else { return };
    let code = node.text("code");
    // Code that expects a module to be missing runs without it.
    for module in foreign_modules(language, code).into_iter().filter(|module| !module.is_optional) {
        found.add(Requirement::Module { name: module.name, package: module.package });
    }
    if let Some(first) = networked_modules(language, code).into_iter().next() {
        found.add(Requirement::CodeNetwork { module: first.name.to_string() });
    }
}
