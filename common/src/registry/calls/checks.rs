//! Checks of catalog entries before they are stored: alone, and against the catalog.

use serde_json::Value as Json;

use super::{DatasourceConfig, LibraryConfig, Manifest, ServiceConfig, built_in, read};
use tidemill_base::value::JsonMap;
use tidemill_storage::store::{Catalog, CatalogKind};

/// Accepted spellings, and the stored ones.
const LIBRARY: [(&str, &str); 5] = [
    ("call_id", "callId"),
    ("known_params", "knownParams"),
    ("override_input", "overrideInput"),
    ("override_output", "overrideOutput"),
    ("serviceId", "service_id"),
];
const CALL: [(&str, &str); 4] = [
    ("inputSchema", "input_schema"),
    ("outputSchema", "output_schema"),
    ("enableFilling", "enable_filling"),
    ("toUser", "to_user"),
];
const SERVICE: [(&str, &str); 1] = [("openapiUrl", "openapi_url")];
const DATASOURCE: [(&str, &str); 3] =
    [("type", "database_type"), ("tableNameList", "table_name_list"), ("serviceUrl", "service_url")];

/// Renames the fields of an object to the stored names.
pub(crate) fn canonical(kind: CatalogKind, object: JsonMap) -> JsonMap {
    let spellings: &[(&str, &str)] = match kind {
        CatalogKind::Library => &LIBRARY,
        CatalogKind::Call => &CALL,
        CatalogKind::Datasource => &DATASOURCE,
        CatalogKind::Service => &SERVICE,
        CatalogKind::Provider
        | CatalogKind::Profile
        | CatalogKind::Plugin
        | CatalogKind::PluginCredentials => &[],
    };
    let name = |name: String| match spellings.iter().find(|(other, _)| *other == name) {
        Some((_, kept)) => (*kept).to_owned(),
        None => name,
    };
    object.into_iter().map(|(key, value)| (name(key), value)).collect()
}

/// Checks an object before it is stored; returns warnings.
///
/// # Errors
/// The problem, and what to do.
pub(crate) fn check(
    kind: CatalogKind,
    id: &str,
    object: JsonMap,
    catalog: &Catalog,
) -> Result<Vec<String>, String> {
    let of = |reason: String| format!("the {} {id}: {reason}", kind.words());
    match kind {
        CatalogKind::Provider
        | CatalogKind::Profile
        | CatalogKind::Plugin
        | CatalogKind::PluginCredentials => Ok(Vec::new()),
        CatalogKind::Library => {
            let node: LibraryConfig = read(kind, object).map_err(of)?;
            node.check().map_err(of)?;
            Ok(beside(&node, catalog))
        }
        CatalogKind::Call => {
            let standard = |reason: String| format!("Call {id} does not meet the Call standard: {reason}");
            if let Some(call) = built_in(id) {
                return Err(format!("Call {id} cannot be registered: {call} is built in"));
            }
            let manifest: Manifest = read(kind, object).map_err(standard)?;
            manifest.check().map_err(standard)?;
            Ok(Vec::new())
        }
        CatalogKind::Service => {
            let service: ServiceConfig = read(kind, object).map_err(of)?;
            service.check().map_err(of)?;
            Ok(Vec::new())
        }
        CatalogKind::Datasource => {
            let datasource: DatasourceConfig = read(kind, object).map_err(of)?;
            datasource.check().map_err(of)?;
            Ok(Vec::new())
        }
    }
}

/// Warnings about things that a library node names and that do not exist yet.
fn beside(node: &LibraryConfig, catalog: &Catalog) -> Vec<String> {
    let mut warnings = Vec::new();
    let call = &node.call_id;
    if built_in(call).is_none() && catalog.find(CatalogKind::Call, call).is_none() {
        warnings.push(format!(
            "there is no Call {call} yet: nodes that use this one fail until it is registered"
        ));
    }
    if let Some(service) = &node.service_id
        && catalog.find(CatalogKind::Service, service).is_none()
    {
        warnings.push(format!(
            "there is no service {service} yet: nodes that use this one fail until it is kept"
        ));
    }
    let url = node.known_params.get("url").and_then(Json::as_str).unwrap_or_default();
    if url.split_once('?').is_some_and(|(_, query)| query.contains("key=") || query.contains("token=")) {
        warnings
            .push("knownParams.url seems to carry a key, and known parameters are shown in events".into());
    }
    warnings
}
