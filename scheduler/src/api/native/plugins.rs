//! `/api/v1/plugins`: Dify plugins that are installed for all workers. A package is sent as the body of a request; it is
//! read and checked here, and nothing of it runs here. Workers prepare it for themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json as JsonBody;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use serde_json::{Value as Json, json};
use tidemill_common::files::{self, FilesError, Packages};
use tidemill_common::limits::{CATALOG_ENTRIES_MAX, CATALOG_ENTRY_BYTES_MAX};
use tidemill_common::registry::plugins::{InstalledPlugin, has_version};
use tidemill_common::registry::public_form;
use tidemill_common::store::{
    Catalog, CatalogEntry, CatalogKind, EntryPut, EntryRemoved, Expected, LiveWorker, PutEntry,
};
use tidemill_plugins::limits::PackageLimits;
use tidemill_plugins::package::{Package, PublicKey, Severity, Signature};

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::api::native::{catalog, fleet};
use crate::api::request::{self, IdInPath};

const KIND: CatalogKind = CatalogKind::Plugin;

/// Lists the installed plugins, with the state of each on each living worker.
///
/// # Errors
/// Errors of the store.
pub async fn list(State(state): State<ApiState>) -> Result<JsonBody<Json>, ApiError> {
    let (catalog, workers) = (state.store.catalog().await?, workers(&state).await?);
    let data: Vec<Json> = catalog.plugins.iter().map(|entry| shown(entry, &workers)).collect();
    Ok(JsonBody(json!({"data": data})))
}

/// Shows one.
///
/// # Errors
/// 404, and errors of the store.
pub async fn show(State(state): State<ApiState>, IdInPath(id): IdInPath) -> Result<JsonBody<Json>, ApiError> {
    let catalog = state.store.catalog().await?;
    let entry = catalog.find(KIND, &id).ok_or_else(|| catalog::unknown(KIND, &id))?;
    Ok(JsonBody(shown(entry, &workers(&state).await?)))
}

/// Installs the package in the body of the request. The same package again stores what is lost, and writes the record again if an
/// earlier version has read less from the package. 201, or 200 if it was there.
///
/// # Errors
/// 400 for a package that is broken or not signed, 409 for another package under the same id or too many packages, 413 for one
/// that is too large.
pub async fn add(
    State(state): State<ApiState>,
    request: Request,
) -> Result<(StatusCode, JsonBody<Json>), ApiError> {
    let most = usize::try_from(state.config.plugins.package_bytes_max).unwrap_or(usize::MAX);
    let bytes = request::read(request.into_body(), most, "plugins.package_bytes_max").await?;
    let keys = keys(&state.config.plugins.signing_keys)?;
    let size = bytes.len() as u64;
    let content = bytes.clone();
    let read = tokio::task::spawn_blocking(move || checked(&content, &keys)).await;
    let package = read.map_err(|_| interrupted())??;
    let packages = packages(&state)?;
    let plugin = InstalledPlugin { in_files: packages.is_some(), ..package.record(size) };
    let id = plugin.id();
    let fields = plugin.fields();
    check_size(&id, &fields)?;
    let catalog = state.store.catalog().await?;
    if let Some(there) = catalog.find(KIND, &id) {
        let known = same(there, &plugin)?;
        // It may have been lost, or stored by an installation that did not end.
        store_package(&state, &known, bytes).await?;
        renew(&state, there.version, &known, plugin).await?;
        let catalog = state.store.catalog().await?;
        let there = catalog.find(KIND, &id).ok_or_else(|| catalog::unknown(KIND, &id))?;
        return Ok((StatusCode::OK, JsonBody(shown(there, &workers(&state).await?))));
    }
    if packages.is_none() {
        check_room(&catalog, &state, size)?;
    }
    if !has_version(&catalog, &plugin.storage()) {
        // An invocation that outlived an earlier installation may have left some.
        state.store.remove_plugin_values(&plugin.storage()).await?;
    }
    let put =
        PutEntry { kind: KIND, id: &id, fields: &fields, expected: Expected::Absent, make_default: false };
    match installed(&state, &plugin, put, bytes).await {
        Ok(EntryPut::Stored(version)) => {
            tracing::info!(plugin = id, sha256 = plugin.sha256, version, "plugin installed for all workers");
        }
        Ok(EntryPut::Differs) => {
            remove_unused(&state, &plugin).await?;
            // Another client was faster, perhaps with the same package.
            let catalog = state.store.catalog().await?;
            let there = catalog.find(KIND, &id).ok_or_else(|| differs(&id))?;
            same(there, &plugin)?;
            return Ok((StatusCode::OK, JsonBody(shown(there, &workers(&state).await?))));
        }
        Ok(EntryPut::Full) => {
            remove_unused(&state, &plugin).await?;
            let message = format!("there are {CATALOG_ENTRIES_MAX} plugins, as many as there may be");
            return Err(ApiError::new(StatusCode::CONFLICT, "too_many", message));
        }
        Err(error) => {
            // The error is what the client must know. In Redis a package without an entry ends alone.
            let _ = remove_unused(&state, &plugin).await;
            return Err(error);
        }
    }
    let catalog = state.store.catalog().await?;
    let entry = catalog.find(KIND, &id).ok_or_else(|| catalog::unknown(KIND, &id))?;
    Ok((StatusCode::CREATED, JsonBody(shown(entry, &workers(&state).await?))))
}

/// Stores the package, then the entry that names it.
async fn installed(
    state: &ApiState,
    plugin: &InstalledPlugin,
    put: PutEntry<'_>,
    bytes: Bytes,
) -> Result<EntryPut, ApiError> {
    match packages(state)? {
        Some(packages) => packages.put(&plugin.sha256, bytes.clone()).await.map_err(unstored)?,
        None => state.store.put_package(&plugin.sha256, &bytes).await?,
    }
    let put = state.store.put_entry(put).await?;
    if let EntryPut::Stored(_) = put {
        store_package(state, plugin, bytes).await?;
    }
    Ok(put)
}

/// Stores the package of an entry that is there, if it is not stored.
async fn store_package(state: &ApiState, plugin: &InstalledPlugin, bytes: Bytes) -> Result<(), ApiError> {
    if plugin.in_files {
        let packages = packages(state)?.ok_or_else(|| no_storage(&plugin.id()))?;
        return packages.put(&plugin.sha256, bytes).await.map_err(unstored);
    }
    if !state.store.keep_package(&plugin.sha256).await? {
        state.store.put_package(&plugin.sha256, &bytes).await?;
        state.store.keep_package(&plugin.sha256).await?;
    }
    Ok(())
}

/// Removes a plugin and its package. Credentials of its providers stay, for another version of it.
///
/// # Errors
/// 404, 409 if it was installed again in the meantime, 422 if the storage of its package is not set here, and errors of the store.
pub async fn remove(State(state): State<ApiState>, IdInPath(id): IdInPath) -> Result<StatusCode, ApiError> {
    let catalog = state.store.catalog().await?;
    let entry = catalog.find(KIND, &id).ok_or_else(|| catalog::unknown(KIND, &id))?;
    let plugin = InstalledPlugin::of(entry);
    if plugin.as_ref().is_some_and(|plugin| plugin.in_files) && packages(&state)?.is_none() {
        return Err(no_storage(&id));
    }
    // First the entry: a package without an entry is only bytes, an entry without a package cannot be prepared.
    match state.store.remove_entry(KIND, &id, "", Some(entry.version)).await? {
        EntryRemoved::Removed => {}
        EntryRemoved::Gone => return Err(catalog::unknown(KIND, &id)),
        EntryRemoved::Differs => {
            let message = format!("{id} was installed again in the meantime; it stays installed");
            return Err(ApiError::new(StatusCode::CONFLICT, "version_mismatch", message));
        }
    }
    if let Some(plugin) = plugin {
        // One may fail. Values that are left, also when this process ends here, go with a pass in the background.
        let values = remove_values(&state, &plugin).await;
        remove_unused(&state, &plugin).await.and(values)?;
    }
    tracing::info!(plugin = id, "plugin removed for all workers");
    Ok(StatusCode::NO_CONTENT)
}

fn interrupted() -> ApiError {
    let message = "reading the package was interrupted";
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_server_error", message)
}

fn no_storage(id: &str) -> ApiError {
    let message = format!(
        "the package of {id} is in the storage of files, which this scheduler does not have: set files.url here, too"
    );
    ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "files_unusable", message)
}

/// Refuses a plugin whose entry, which all workers read, would be too large.
fn check_size(id: &str, fields: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let bytes: usize = fields.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes <= CATALOG_ENTRY_BYTES_MAX {
        return Ok(());
    }
    Err(ApiError::invalid_param(format!(
        "the record of {id} has {bytes} bytes: at most {CATALOG_ENTRY_BYTES_MAX} bytes of names, tools and forms of credentials \
         (CATALOG_ENTRY_BYTES_MAX)"
    )))
}

/// The storage of packages, if they are not in Redis.
fn packages(state: &ApiState) -> Result<Option<Arc<dyn Packages>>, ApiError> {
    files::open_packages(&state.config.files).map_err(unstored)
}

fn unstored(error: FilesError) -> ApiError {
    let message = format!("the package cannot be stored: {error}");
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "files_unusable", message)
}

/// Removes a package that no entry names.
async fn remove_unused(state: &ApiState, plugin: &InstalledPlugin) -> Result<(), ApiError> {
    let catalog = state.store.catalog().await?;
    let is_it = |known: InstalledPlugin| known.sha256 == plugin.sha256 && known.in_files == plugin.in_files;
    if catalog.plugins.iter().filter_map(InstalledPlugin::of).any(is_it) {
        return Ok(());
    }
    match packages(state)?.filter(|_| plugin.in_files) {
        Some(packages) => packages.remove(&plugin.sha256).await.map_err(unstored),
        None => Ok(state.store.remove_package(&plugin.sha256).await?),
    }
}

/// Removes what a plugin has stored, with its last version.
async fn remove_values(state: &ApiState, plugin: &InstalledPlugin) -> Result<(), ApiError> {
    if has_version(&state.store.catalog().await?, &plugin.storage()) {
        return Ok(());
    }
    Ok(state.store.remove_plugin_values(&plugin.storage()).await?)
}

/// The record of the same package, if an entry is one.
fn same(there: &CatalogEntry, plugin: &InstalledPlugin) -> Result<InstalledPlugin, ApiError> {
    let known = InstalledPlugin::of(there).filter(|known| known.sha256 == plugin.sha256);
    known.ok_or_else(|| differs(&there.id))
}

/// Writes the record of a package again if it differs from what is read from the package now: an earlier version did not know
/// datasources, for example.
async fn renew(
    state: &ApiState,
    version: u64,
    known: &InstalledPlugin,
    plugin: InstalledPlugin,
) -> Result<(), ApiError> {
    // These describe the package that is stored.
    let (bytes, in_files, signature) = (known.bytes, known.in_files, known.signature.clone());
    let plugin = InstalledPlugin { bytes, in_files, signature, ..plugin };
    if plugin == *known {
        return Ok(());
    }
    let (id, fields, expected) = (plugin.id(), plugin.fields(), Expected::Version(version));
    let put = PutEntry { kind: KIND, id: &id, fields: &fields, expected, make_default: false };
    match state.store.put_entry(put).await? {
        EntryPut::Stored(version) => {
            tracing::info!(plugin = id, version, "the record of a plugin is written again");
            Ok(())
        }
        EntryPut::Differs | EntryPut::Full => {
            let message = format!("{id} was changed in the meantime; add it again");
            Err(ApiError::new(StatusCode::CONFLICT, "version_mismatch", message))
        }
    }
}

fn differs(id: &str) -> ApiError {
    let message = format!(
        "{id} is installed with other files: remove it first (`tidemill plugins rm {id}`), or give the package another version"
    );
    ApiError::new(StatusCode::CONFLICT, "already_exists", message)
}

fn check_room(catalog: &Catalog, state: &ApiState, size: u64) -> Result<(), ApiError> {
    let installed = catalog.plugins.iter().filter_map(InstalledPlugin::of);
    let used: u64 = installed.filter(|plugin| !plugin.in_files).map(|plugin| plugin.bytes).sum();
    let most = state.config.plugins.packages_bytes_max;
    if used.saturating_add(size) <= most {
        return Ok(());
    }
    let message = format!(
        "the packages of all plugins in Redis would have more than {most} bytes (plugins.packages_bytes_max): remove some, raise \
         it, or set files.url"
    );
    Err(ApiError::new(StatusCode::CONFLICT, "too_many", message))
}

fn keys(files: &[String]) -> Result<Vec<PublicKey>, ApiError> {
    let key = |file: &String| {
        let text = std::fs::read_to_string(file).map_err(|error| error.to_string());
        let key = text.and_then(|text| PublicKey::from_pem(&text));
        key.map_err(|reason| {
            let message = format!("plugins.signing_keys {file}: {reason}");
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "signing_keys_unusable", message)
        })
    };
    files.iter().map(key).collect()
}

/// Reads a package; one of the keys must have signed it, if there are any.
fn checked(bytes: &[u8], keys: &[PublicKey]) -> Result<Package, ApiError> {
    let limits = PackageLimits::default();
    let read = |key: Option<&PublicKey>| {
        Package::read(bytes, &limits, key).map_err(|error| ApiError::invalid_param(error.to_string()))
    };
    let mut package = read(keys.first())?;
    for key in keys.iter().skip(1) {
        if package.signature != Signature::Right {
            package = read(Some(key))?;
        }
    }
    let id = package.id();
    if !keys.is_empty() && package.signature != Signature::Right {
        let message = format!(
            "the signature of {id} is {}; one of the keys of plugins.signing_keys must have signed it",
            package.signature.in_words()
        );
        return Err(ApiError::invalid_param(message));
    }
    if let Some(problem) = package.problems.iter().find(|problem| problem.severity == Severity::Error) {
        let message = format!("{id} cannot run: {problem}; `tidemill plugins show` lists all problems");
        return Err(ApiError::invalid_param(message));
    }
    if !package.has_parts_that_run() {
        let reasons = package.parts_that_do_not_run().join(" ");
        let message = format!("{id} has no part that can run here: {reasons}");
        return Err(ApiError::invalid_param(message.trim_end().to_owned()));
    }
    let manifest = &package.manifest;
    let fits = |text: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
        !text.is_empty() && text.len() <= 64 && text.chars().all(is_plain)
    };
    if ![&manifest.author, &manifest.name, &manifest.version].into_iter().all(|text| fits(text)) {
        return Err(ApiError::invalid_param(format!(
            "{id:?} cannot be installed: author, name and version have 1 to 64 letters, digits, `.`, `_`, `-` or `+`"
        )));
    }
    let of_tools = package.providers.tools.iter().map(|provider| &provider.name);
    let of_models = package.providers.models.iter().map(|provider| &provider.name);
    let of_sources = package.providers.datasources.iter().map(|provider| &provider.name);
    let of_strategies = package.providers.agent_strategies.iter().map(|provider| &provider.name);
    let mut names = of_tools.chain(of_models).chain(of_sources).chain(of_strategies);
    if let Some(name) = names.find(|name| !fits(name)) {
        return Err(ApiError::invalid_param(format!(
            "{id} cannot be installed: its provider {name:?} needs a name of 1 to 64 letters, digits, `.`, `_`, `-` or `+`"
        )));
    }
    Ok(package)
}

async fn workers(state: &ApiState) -> Result<Vec<LiveWorker>, ApiError> {
    let now = state.store.time().await?;
    fleet::living(state, now).await
}

fn shown(entry: &CatalogEntry, workers: &[LiveWorker]) -> Json {
    let sha256 = entry.fields.get("sha256").map(String::as_str).unwrap_or_default();
    let state = |worker: &LiveWorker| {
        let plugins = worker.about.iter().flat_map(|about| &about.plugins);
        let mut found = plugins.filter(|plugin| plugin.id == entry.id && plugin.sha256 == sha256);
        match found.next() {
            Some(plugin) => json!({"worker": worker.name, "state": plugin.state, "note": plugin.note}),
            None => json!({"worker": worker.name, "state": null, "note": ""}),
        }
    };
    let mut shown = public_form(KIND, entry);
    if let Some(version) = shown.shift_remove("plugin_version") {
        shown.insert("version".into(), version);
    }
    let mut shown = Json::Object(shown);
    shown["workers"] = workers.iter().map(state).collect();
    shown
}
