//! What is kept beside the runs for all workers: providers, profiles, library nodes, Calls, services and datasources.
//! What lies there as texts, and a number by which a reader sees that something has changed without reading it.
//!
//! The store knows no field of theirs; [`crate::providers`] and [`crate::calls`] do.

use std::collections::BTreeMap;
use std::fmt;

use crate::clock::Timestamp;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CatalogKind {
    /// A connection to models.
    Provider,
    /// A named model with parameters.
    Profile,
    /// A node of the library: a Call with known parameters.
    Library,
    /// A Call of somebody's own, told of by its manifest.
    Call,
    /// A server and the credentials for it.
    Service,
    /// A connection to a database.
    Datasource,
}

impl CatalogKind {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Provider, Self::Profile, Self::Library, Self::Call, Self::Service, Self::Datasource];

    /// Its name in keys and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Profile => "profile",
            Self::Library => "library",
            Self::Call => "call",
            Self::Service => "service",
            Self::Datasource => "datasource",
        }
    }
    /// All of a kind: in paths and commands.
    pub const fn many(self) -> &'static str {
        match self {
            Self::Provider => "providers",
            Self::Profile => "profiles",
            Self::Library => "library",
            Self::Call => "calls",
            Self::Service => "services",
            Self::Datasource => "datasources",
        }
    }
    /// How a secret of its is named instead of being kept: fields that name variables of the workers' environment.
    pub const fn references(self) -> &'static str {
        match self {
            Self::Provider => "api_key_env, --api-key-env",
            Self::Profile => "apiKeyEnv, --api-key-env",
            Self::Call => "headers_env, env_from",
            Self::Service => "value_env, token_env, client_secret_env",
            Self::Datasource => "password_env, --password-env",
            Self::Library => "the environment of a service",
        }
    }
    /// How people call one.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Library => "library node",
            Self::Call => "Call",
            Self::Provider | Self::Profile | Self::Service | Self::Datasource => self.name(),
        }
    }
}

impl fmt::Display for CatalogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// Something as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    /// Its id.
    pub id: String,
    /// Another one with each change, and never one that was there before, also when it was removed in between.
    pub version: u64,
    /// When it was first kept, by the store's clock.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// What it consists of. Secrets are sealed.
    pub fields: BTreeMap<String, String>,
}

/// All that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog {
    /// See [`super::Jobs::catalog_version`]; the entries are as new as that, or newer.
    pub version: u64,
    /// Providers, by id.
    pub providers: Vec<CatalogEntry>,
    /// Profiles, by id.
    pub profiles: Vec<CatalogEntry>,
    /// Nodes of the library, by id.
    pub library: Vec<CatalogEntry>,
    /// Calls, by id.
    pub calls: Vec<CatalogEntry>,
    /// Services, by id.
    pub services: Vec<CatalogEntry>,
    /// Datasources, by id.
    pub datasources: Vec<CatalogEntry>,
    /// The profile that is meant where none is named.
    pub default_profile: Option<String>,
}

impl Catalog {
    /// The entries of a kind.
    pub fn of(&self, kind: CatalogKind) -> &[CatalogEntry] {
        match kind {
            CatalogKind::Provider => &self.providers,
            CatalogKind::Profile => &self.profiles,
            CatalogKind::Library => &self.library,
            CatalogKind::Call => &self.calls,
            CatalogKind::Service => &self.services,
            CatalogKind::Datasource => &self.datasources,
        }
    }

    /// The entries of a kind, to be changed.
    pub fn of_mut(&mut self, kind: CatalogKind) -> &mut Vec<CatalogEntry> {
        match kind {
            CatalogKind::Provider => &mut self.providers,
            CatalogKind::Profile => &mut self.profiles,
            CatalogKind::Library => &mut self.library,
            CatalogKind::Call => &mut self.calls,
            CatalogKind::Service => &mut self.services,
            CatalogKind::Datasource => &mut self.datasources,
        }
    }

    /// An entry.
    pub fn find(&self, kind: CatalogKind, id: &str) -> Option<&CatalogEntry> {
        self.of(kind).iter().find(|entry| entry.id == id)
    }

    /// Who becomes the default when this one goes: the one that was kept next, else the first of those that stay.
    pub fn heir(&self, id: &str) -> Option<&str> {
        let mut others: Vec<&CatalogEntry> = self.profiles.iter().collect();
        others.sort_by_key(|entry| (entry.created_at, entry.id.as_str()));
        let at = others.iter().position(|entry| entry.id == id);
        let next =
            at.and_then(|at| others.get(at + 1)).or_else(|| others.iter().find(|entry| entry.id != id));
        next.map(|entry| entry.id.as_str())
    }
}

/// What must hold of an entry for it to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It is not there.
    Absent,
    /// It is there as this version.
    Version(u64),
}

/// An entry to write, whole: fields that it had and are not given are gone.
#[derive(Debug, Clone, Copy)]
pub struct PutEntry<'a> {
    /// Its kind.
    pub kind: CatalogKind,
    /// Its id.
    pub id: &'a str,
    /// Its fields.
    pub fields: &'a BTreeMap<String, String>,
    /// Of what is there.
    pub expected: Expected,
    /// Makes a profile the default; the first one becomes it in any case.
    pub make_default: bool,
}

/// What became of an entry to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryPut {
    /// It is kept, as this version.
    Kept(u64),
    /// Something else is there than was expected; nothing was done.
    Differs,
    /// There are [`crate::limits::CATALOG_ENTRIES_MAX`] of the kind; nothing was done.
    Full,
}
