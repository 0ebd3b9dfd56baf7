//! The catalog that all workers share: providers, profiles, library nodes, Calls, services, datasources and plugins. A
//! version number shows readers that something changed, so that they need not read it all.
//!
//! The store does not interpret the fields; the registry of `tidemill-common` does.

use std::collections::BTreeMap;
use std::fmt;

use tidemill_base::clock::Timestamp;

/// The kind of a catalog entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CatalogKind {
    /// A connection to models.
    Provider,
    /// A named model with parameters.
    Profile,
    /// A node of the library: a Call with known parameters.
    Library,
    /// A user's own Call, described by its manifest.
    Call,
    /// A server and the credentials for it.
    Service,
    /// A connection to a database.
    Datasource,
    /// An installed plugin, in one version.
    Plugin,
    /// The credentials for a tool provider of a plugin.
    PluginCredentials,
}

impl CatalogKind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Provider,
        Self::Profile,
        Self::Library,
        Self::Call,
        Self::Service,
        Self::Datasource,
        Self::Plugin,
        Self::PluginCredentials,
    ];

    /// The name in keys and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Profile => "profile",
            Self::Library => "library",
            Self::Call => "call",
            Self::Service => "service",
            Self::Datasource => "datasource",
            Self::Plugin => "plugin",
            Self::PluginCredentials => "plugin-credential",
        }
    }
    /// The plural, for paths and commands.
    pub const fn many(self) -> &'static str {
        match self {
            Self::Provider => "providers",
            Self::Profile => "profiles",
            Self::Library => "library",
            Self::Call => "calls",
            Self::Service => "services",
            Self::Datasource => "datasources",
            Self::Plugin => "plugins",
            Self::PluginCredentials => "plugin-credentials",
        }
    }
    /// The fields that name environment variables of the workers, instead of storing secrets.
    pub const fn references(self) -> &'static str {
        match self {
            Self::Provider => "api_key_env, --api-key-env",
            Self::Profile => "apiKeyEnv, --api-key-env",
            Self::Call => "headers_env, env_from",
            Self::Service => "value_env, token_env, client_secret_env",
            Self::Datasource => "password_env, --password-env",
            Self::PluginCredentials => "env, `tidemill plugins config … --set FIELD=env:VARIABLE`",
            Self::Library | Self::Plugin => "the environment of a service",
        }
    }
    /// The words for people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Library => "library node",
            Self::Call => "Call",
            Self::PluginCredentials => "plugin credentials",
            Self::Provider | Self::Profile | Self::Service | Self::Datasource | Self::Plugin => self.name(),
        }
    }
    /// The command that writes an entry again, for messages.
    pub fn command(self, id: &str) -> String {
        match self {
            Self::PluginCredentials => format!("tidemill plugins config {id}"),
            other => format!("tidemill {} add {id} --replace", other.many()),
        }
    }
}

impl fmt::Display for CatalogKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// A catalog entry as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogEntry {
    pub id: String,
    /// Changes with every write and is never reused, not even after a removal.
    pub version: u64,
    /// By the store's clock.
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    /// Secrets are sealed.
    pub fields: BTreeMap<String, String>,
}

/// The whole catalog.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog {
    /// See [`super::Jobs::catalog_version`]. The entries are at least as new.
    pub version: u64,
    /// Sorted by id, as are the following.
    pub providers: Vec<CatalogEntry>,
    pub profiles: Vec<CatalogEntry>,
    pub library: Vec<CatalogEntry>,
    pub calls: Vec<CatalogEntry>,
    pub services: Vec<CatalogEntry>,
    pub datasources: Vec<CatalogEntry>,
    pub plugins: Vec<CatalogEntry>,
    pub plugin_credentials: Vec<CatalogEntry>,
    /// The profile used where none is named.
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
            CatalogKind::Plugin => &self.plugins,
            CatalogKind::PluginCredentials => &self.plugin_credentials,
        }
    }

    /// The entries of a kind, mutable.
    pub fn of_mut(&mut self, kind: CatalogKind) -> &mut Vec<CatalogEntry> {
        match kind {
            CatalogKind::Provider => &mut self.providers,
            CatalogKind::Profile => &mut self.profiles,
            CatalogKind::Library => &mut self.library,
            CatalogKind::Call => &mut self.calls,
            CatalogKind::Service => &mut self.services,
            CatalogKind::Datasource => &mut self.datasources,
            CatalogKind::Plugin => &mut self.plugins,
            CatalogKind::PluginCredentials => &mut self.plugin_credentials,
        }
    }

    /// The entry with this id.
    pub fn find(&self, kind: CatalogKind, id: &str) -> Option<&CatalogEntry> {
        self.of(kind).iter().find(|entry| entry.id == id)
    }

    /// The profile that becomes the default when this one is removed: the next one created, else the first of
    /// the rest.
    pub fn heir(&self, id: &str) -> Option<&str> {
        let mut others: Vec<&CatalogEntry> = self.profiles.iter().collect();
        others.sort_by_key(|entry| (entry.created_at, entry.id.as_str()));
        let at = others.iter().position(|entry| entry.id == id);
        let next =
            at.and_then(|at| others.get(at + 1)).or_else(|| others.iter().find(|entry| entry.id != id));
        next.map(|entry| entry.id.as_str())
    }
}

/// The condition for writing an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// It does not exist.
    Absent,
    /// It exists with this version.
    Version(u64),
}

/// A complete entry to write; fields that are not given are removed.
#[derive(Debug, Clone, Copy)]
pub struct PutEntry<'a> {
    pub kind: CatalogKind,
    pub id: &'a str,
    pub fields: &'a BTreeMap<String, String>,
    /// The condition for the write.
    pub expected: Expected,
    /// Makes a profile the default. The first profile becomes the default in any case.
    pub make_default: bool,
}

/// The result of removing an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryRemoved {
    Removed,
    /// It does not exist.
    Gone,
    /// It has another version; nothing was removed.
    Differs,
}

/// The result of writing an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryPut {
    /// Written, with this version.
    Stored(u64),
    /// The condition did not hold; nothing was written.
    Differs,
    /// The kind has [`tidemill_base::limits::CATALOG_ENTRIES_MAX`] entries; nothing was written.
    Full,
}
