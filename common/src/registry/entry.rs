//! Converts catalog entries to and from their fields in Redis: texts as they are, all else as JSON.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::secrets::{EntryRef, SecretError};
use tidemill_base::value::JsonMap;
use tidemill_storage::store::{CatalogEntry, CatalogKind};
use tidemill_workflow::dsl::SealingKey;

/// Fields that are plain texts.
const fn texts(kind: CatalogKind) -> &'static [&'static str] {
    match kind {
        CatalogKind::Provider => {
            &["kind", "base_url", "api_key", "api_key_env", "api_version", "multimodal_send"]
        }
        CatalogKind::Profile => &["name", "provider", "model", "apiKey", "apiKeyEnv", "baseUrl", "toolMode"],
        // The name may differ by language, so it is JSON.
        CatalogKind::Library => &["callId", "service_id"],
        CatalogKind::Call => &[],
        CatalogKind::Service => &["name", "server"],
        CatalogKind::Datasource => &[
            "name",
            "database_type",
            "host",
            "username",
            "password",
            "password_env",
            "database",
            "tls",
            "service_url",
        ],
        CatalogKind::Plugin => &["author", "name", "plugin_version", "sha256", "signature"],
        CatalogKind::PluginCredentials => &[],
    }
}

/// Writes the stored fields.
pub(super) fn fields(kind: CatalogKind, object: JsonMap) -> BTreeMap<String, String> {
    let field = |(name, value): (String, Json)| match value {
        Json::String(text) if texts(kind).contains(&name.as_str()) => (name, text),
        value => (name, value.to_string()),
    };
    object.into_iter().map(field).collect()
}

/// Reads an entry with sealed secrets. An unreadable value stays a text, so that the reader of the fields
/// reports it.
pub(super) fn object(kind: CatalogKind, fields: &BTreeMap<String, String>) -> JsonMap {
    let value = |name: &str, text: &str| {
        if texts(kind).contains(&name) {
            return text.into();
        }
        serde_json::from_str(text).unwrap_or_else(|_| text.into())
    };
    fields.iter().map(|(name, text)| (name.clone(), value(name, text))).collect()
}

/// Reads an entry and opens its secrets, to create a client.
///
/// # Errors
/// A secret cannot be opened.
pub fn opened(
    kind: CatalogKind,
    entry: &CatalogEntry,
    key: Option<&SealingKey>,
) -> Result<JsonMap, SecretError> {
    let mut object = object(kind, &entry.fields);
    EntryRef { kind, id: &entry.id }.open(&mut object, key)?;
    Ok(object)
}

/// The public form: masked secrets, with id and version, times in seconds.
pub fn public_form(kind: CatalogKind, entry: &CatalogEntry) -> JsonMap {
    let mut object = object(kind, &entry.fields);
    EntryRef { kind, id: &entry.id }.mask(&mut object);
    let mut shown = JsonMap::new();
    shown.insert("id".into(), entry.id.as_str().into());
    shown.extend(object);
    shown.insert("version".into(), entry.version.into());
    shown.insert("created_at".into(), entry.created_at.seconds_f64().into());
    shown.insert("updated_at".into(), entry.updated_at.seconds_f64().into());
    shown
}
