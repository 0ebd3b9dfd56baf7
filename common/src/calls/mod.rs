//! What nodes of the step family call, as far as it is kept for all workers: library nodes, Calls of somebody's own,
//! services and datasources. How each is written, and what can be wrong with it.
//!
//! They lie in Redis as entries of the catalogue ([`crate::store::Catalog`]); [`crate::providers::draft`] makes an entry of
//! what somebody asks to keep, and seals its secrets. What Calls do is the worker's.

mod datasource;
mod library;
mod manifest;
mod names;
mod service;
mod settings;
mod standing;

pub use datasource::{DatabaseType, DatasourceConfig, Tls};
pub use library::LibraryConfig;
pub use manifest::{Manifest, Operation, Transport};
pub use names::{BUILT_IN, Info, Named, built_in};
pub use service::{Auth, Credential, Oidc, ServiceConfig};
pub use settings::CallsConfig;
pub(crate) use standing::{canonical, check};

use serde::de::DeserializeOwned;
use serde_json::Value as Json;

use crate::providers::secrets::SecretError;
use crate::providers::{opened, reading};
use crate::store::{CatalogEntry, CatalogKind};
use crate::value::JsonMap;

/// Reads what an object says.
///
/// # Errors
/// What does not fit, with what was probably meant.
fn read<T: DeserializeOwned>(kind: CatalogKind, object: JsonMap) -> Result<T, String> {
    reading::read(canonical(kind, object))
}

/// A library node as it is kept. It has no secrets.
///
/// # Errors
/// It cannot be read.
pub fn library_of(entry: &CatalogEntry) -> Result<LibraryConfig, String> {
    of(CatalogKind::Library, entry, None)
}

/// A manifest as it is kept, its secrets open.
///
/// # Errors
/// It cannot be read, or a secret does not open.
pub fn manifest_of(entry: &CatalogEntry, key: Option<&crate::dsl::SealingKey>) -> Result<Manifest, String> {
    of(CatalogKind::Call, entry, key)
}

/// A service as it is kept, its secrets open.
///
/// # Errors
/// It cannot be read, or a secret does not open.
pub fn service_of(
    entry: &CatalogEntry,
    key: Option<&crate::dsl::SealingKey>,
) -> Result<ServiceConfig, String> {
    of(CatalogKind::Service, entry, key)
}

/// A datasource as it is kept, its secrets open.
///
/// # Errors
/// It cannot be read, or a secret does not open.
pub fn datasource_of(
    entry: &CatalogEntry,
    key: Option<&crate::dsl::SealingKey>,
) -> Result<DatasourceConfig, String> {
    of(CatalogKind::Datasource, entry, key)
}

fn of<T: DeserializeOwned>(
    kind: CatalogKind,
    entry: &CatalogEntry,
    key: Option<&crate::dsl::SealingKey>,
) -> Result<T, String> {
    let object = opened(kind, entry, key).map_err(|error: SecretError| error.to_string())?;
    read(kind, object)
}

/// The schema of an object as JSON Schema (Draft 7) has it; none for one that is empty.
///
/// # Errors
/// It is none.
pub(crate) fn schema(what: &str, schema: &JsonMap) -> Result<(), String> {
    let schema = Json::Object(schema.clone());
    let built = jsonschema::draft7::new(&schema);
    built.map(drop).map_err(|error| format!("{what} is no JSON Schema: {error}"))
}

#[cfg(test)]
mod tests;
