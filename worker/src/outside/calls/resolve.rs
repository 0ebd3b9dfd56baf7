//! Finds the call of a node: through a library node, a built-in call, or a registered call.

use std::ops::Deref;
use std::sync::Arc;

use tidemill_common::nodes::step::CallError;

use crate::outside::calls::catalog::VALUE_ERROR;
use crate::outside::calls::{BUILT_IN, Call, CallCatalog, LibraryNode};

/// The call found for a node.
pub struct Resolved {
    pub call: CallRef,
    /// Its id, as defined by the call.
    pub call_id: String,
    /// The library node it was found through. It is shared: copy the parameters before changing them.
    pub library: Option<Arc<LibraryNode>>,
    /// The version of a registered call.
    pub version: Option<u64>,
}

/// A call of any origin.
pub enum CallRef {
    /// A built-in call.
    BuiltIn(&'static dyn Call),
    /// A registered call.
    Registered(Arc<dyn Call>),
}

impl Deref for CallRef {
    type Target = dyn Call;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::BuiltIn(call) => *call,
            Self::Registered(call) => &**call,
        }
    }
}

/// Finds the call that `node` names (a node's `node`, or else its type). Library nodes come first, then built-in calls,
/// whose ids ignore case and are reserved, then registered calls.
///
/// # Errors
/// `ValueError` if no call has this name, or an error of the catalog.
pub async fn resolve(node: &str, catalog: &dyn CallCatalog) -> Result<Resolved, CallError> {
    let library = catalog.library(node).await?;
    let id = library.as_ref().map_or(node, |library| library.call_id.as_str());
    if let Some((id, call)) = BUILT_IN.iter().find(|(known, _)| known.eq_ignore_ascii_case(id)) {
        let call_id = (*id).to_owned();
        return Ok(Resolved { call: CallRef::BuiltIn(*call), call_id, library, version: None });
    }
    if let Some((call, version)) = catalog.call(id).await? {
        let call_id = id.to_owned();
        return Ok(Resolved { call: CallRef::Registered(call), call_id, library, version: Some(version) });
    }
    let origin = match &library {
        Some(library) => format!("the library node {} names it", library.id),
        None => "there is no library node, no built-in Call and no registered Call of this id \
                 (`tidemill library ls`, `tidemill calls ls`)"
            .into(),
    };
    Err(CallError::of(VALUE_ERROR, format!("Call {id} not found: {origin}")))
}
