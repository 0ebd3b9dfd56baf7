//! Which Call a node means: a library node's, one that is built in, or one that is registered.

use super::{BuiltIn, LibraryConfig, library_of};
use crate::store::{Catalog, CatalogEntry, CatalogKind};

/// Where entries are looked up.
pub trait Known {
    /// An entry of a kind.
    fn entry(&self, kind: CatalogKind, id: &str) -> Option<&CatalogEntry>;
}

impl Known for Catalog {
    fn entry(&self, kind: CatalogKind, id: &str) -> Option<&CatalogEntry> {
        self.find(kind, id)
    }
}

/// What a node means.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    /// The Call.
    pub target: Target,
    /// The library node that it came by, and its version.
    pub library: Option<(String, u64)>,
    /// What the library node says: a copy, which is the node's own. Empty without one.
    pub node: LibraryConfig,
}

/// A Call.
#[derive(Debug, Clone, PartialEq)]
pub enum Target {
    /// One that is built in.
    BuiltIn(&'static BuiltIn),
    /// One that is registered: its entry, of which the version is recorded.
    Registered(CatalogEntry),
}

impl Resolved {
    /// The Call's id, as its owner spells it.
    pub fn call_id(&self) -> &str {
        match &self.target {
            Target::BuiltIn(call) => call.id,
            Target::Registered(entry) => &entry.id,
        }
    }
    /// The version of a Call that is registered.
    pub fn call_version(&self) -> Option<u64> {
        match &self.target {
            Target::BuiltIn(_) => None,
            Target::Registered(entry) => Some(entry.version),
        }
    }
}

/// Why a node means nothing. A `ValueError`, as its class is reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// Nothing is called so.
    #[error(
        "Call {0} not found: no library node (`tidemill library ls`), built-in Call or registered Call \
         (`tidemill calls ls`) has this id"
    )]
    Id(String),
    /// A library node names a Call that is not there.
    #[error("Call {call} not found: the library node {node} names it")]
    OfLibrary {
        /// The library node.
        node: String,
        /// What it names.
        call: String,
    },
    /// A library node cannot be read.
    #[error("the library node {node} cannot be used: {reason}")]
    Unreadable {
        /// The library node.
        node: String,
        /// Why.
        reason: String,
    },
}

/// The Call that `node` means: a library node first, then those that are always there in any spelling, then those that are
/// registered and the other built-in ones.
///
/// # Errors
/// [`Unknown`].
pub fn resolve(node: &str, known: &(impl Known + ?Sized)) -> Result<Resolved, Unknown> {
    let Some(entry) = known.entry(CatalogKind::Library, node) else {
        let target = call(node, known).ok_or_else(|| Unknown::Id(node.into()))?;
        return Ok(Resolved { target, library: None, node: LibraryConfig::default() });
    };
    let config =
        library_of(entry).map_err(|reason| Unknown::Unreadable { node: node.into(), reason })?;
    let target = call(&config.call_id, known)
        .ok_or_else(|| Unknown::OfLibrary { node: node.into(), call: config.call_id.clone() })?;
    Ok(Resolved { target, library: Some((entry.id.clone(), entry.version)), node: config })
}

fn call(id: &str, known: &(impl Known + ?Sized)) -> Option<Target> {
    let registered = || known.entry(CatalogKind::Call, id).cloned().map(Target::Registered);
    let built_in = BuiltIn::named(id);
    match built_in {
        Some(call) if call.special => Some(Target::BuiltIn(call)),
        other => registered().or(other.map(Target::BuiltIn)),
    }
}
