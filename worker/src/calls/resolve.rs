//! Which call a node means: by a library node, by the id of one that is part of this program, or of one that is registered.

use std::ops::Deref;
use std::sync::Arc;

use tidemill_common::nodes::step::CallError;

use super::kept::VALUE_ERROR;
use super::{BUILT_IN, Call, LibraryNode, Shelf};

/// What a node means.
pub struct Resolved {
    /// The call.
    pub call: CallRef,
    /// Its id, as its owner spells it.
    pub call_id: String,
    /// The library node that it came by. It is shared: whoever changes parameters takes a copy.
    pub library: Option<Arc<LibraryNode>>,
    /// The version of the call, if it is registered.
    pub version: Option<u64>,
}

/// A call, wherever it is from.
pub enum CallRef {
    /// Part of this program.
    BuiltIn(&'static dyn Call),
    /// Registered.
    Kept(Arc<dyn Call>),
}

impl Deref for CallRef {
    type Target = dyn Call;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::BuiltIn(call) => *call,
            Self::Kept(call) => &**call,
        }
    }
}

/// The call that `node` means, a node's `node` or else its type. A library node comes first; then calls of this program, whose
/// ids no other call has, in any spelling; then those that are registered.
///
/// # Errors
/// `ValueError`: nothing is called so. Or what the shelf says.
pub async fn resolve(node: &str, shelf: &dyn Shelf) -> Result<Resolved, CallError> {
    let library = shelf.library(node).await?;
    let id = library.as_ref().map_or(node, |library| library.call_id.as_str());
    if let Some((id, call)) = BUILT_IN.iter().find(|(known, _)| known.eq_ignore_ascii_case(id)) {
        let call_id = (*id).to_owned();
        return Ok(Resolved { call: CallRef::BuiltIn(*call), call_id, library, version: None });
    }
    if let Some((call, version)) = shelf.call(id).await? {
        let call_id = id.to_owned();
        return Ok(Resolved { call: CallRef::Kept(call), call_id, library, version: Some(version) });
    }
    let whose = match &library {
        Some(library) => format!("the library node {} names it", library.id),
        None => "there is no library node, no built-in Call and no registered Call of this id \
                 (`tidemill library ls`, `tidemill calls ls`)"
            .into(),
    };
    Err(CallError::of(VALUE_ERROR, format!("Call {id} not found: {whose}")))
}
