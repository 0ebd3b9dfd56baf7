//! Catalog entries for nodes of the step family: library nodes, users' own Calls, services and datasources.
//! Defines how each is written, and checks it.
//!
//! They are stored in Redis as catalog entries ([`tidemill_storage::store::Catalog`]); [`draft`](super::draft())
//! builds an entry from a request and seals its secrets. The worker runs Calls.

mod checks;
mod datasource;
mod library;
mod manifest;
mod names;
mod service;
mod settings;
mod standard;

pub(crate) use checks::{canonical, check};
pub use datasource::{DatabaseType, DatasourceConfig, Tls};
pub use library::LibraryConfig;
pub use manifest::{Manifest, Operation, Transport};
pub use names::{BUILT_IN, Info, Named, built_in};
pub use service::{Auth, Credential, Oidc, ServiceConfig};
pub use settings::CallsConfig;
pub use standard::{API_TIMEOUT_SECONDS, LLM_TEMPERATURE, Standard, standard};

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::registry::entry::opened;
use crate::registry::reading;
use crate::registry::secrets::SecretError;
use tidemill_base::value::JsonMap;
use tidemill_storage::store::{CatalogEntry, CatalogKind};

/// Reads an object.
///
/// # Errors
/// The invalid part, with the most similar valid name.
fn read<T: DeserializeOwned>(kind: CatalogKind, object: JsonMap) -> Result<T, String> {
    reading::read(canonical(kind, object))
}

/// Reads a stored library node. It has no secrets.
///
/// # Errors
/// It is unreadable.
pub fn library_of(entry: &CatalogEntry) -> Result<LibraryConfig, String> {
    of(CatalogKind::Library, entry, None)
}

/// Reads a stored manifest and opens its secrets.
///
/// # Errors
/// It is unreadable, or a secret cannot be opened.
pub fn manifest_of(
    entry: &CatalogEntry,
    key: Option<&tidemill_workflow::dsl::SealingKey>,
) -> Result<Manifest, String> {
    of(CatalogKind::Call, entry, key)
}

/// Reads a stored service and opens its secrets.
///
/// # Errors
/// It is unreadable, or a secret cannot be opened.
pub fn service_of(
    entry: &CatalogEntry,
    key: Option<&tidemill_workflow::dsl::SealingKey>,
) -> Result<ServiceConfig, String> {
    of(CatalogKind::Service, entry, key)
}

/// Reads a stored datasource and opens its secrets.
///
/// # Errors
/// It is unreadable, or a secret cannot be opened.
pub fn datasource_of(
    entry: &CatalogEntry,
    key: Option<&tidemill_workflow::dsl::SealingKey>,
) -> Result<DatasourceConfig, String> {
    of(CatalogKind::Datasource, entry, key)
}

fn of<T: DeserializeOwned>(
    kind: CatalogKind,
    entry: &CatalogEntry,
    key: Option<&tidemill_workflow::dsl::SealingKey>,
) -> Result<T, String> {
    let object = opened(kind, entry, key).map_err(|error: SecretError| error.to_string())?;
    read(kind, object)
}

/// Checks an object's schema as JSON Schema (Draft 7); an empty one is valid.
///
/// # Errors
/// It is not a valid schema.
pub(crate) fn schema(what: &str, schema: &JsonMap) -> Result<(), String> {
    let schema = Json::Object(schema.clone());
    let built = jsonschema::draft7::new(&schema);
    built.map(drop).map_err(|error| format!("{what} is not a JSON Schema: {error}"))
}

#[cfg(test)]
mod tests;
