//! Caches the library nodes, Calls, services and datasources of Redis. They are read when a node first needs them, and
//! again when their version changed.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::config::{CallsConfig, HttpConfig};
use tidemill_common::dsl::SealingKey;
use tidemill_common::limits::CATALOG_ENTRIES_MAX;
use tidemill_common::need::Need;
use tidemill_common::nodes::step::CallError;
use tidemill_common::registry::calls::{
    DatasourceConfig, ServiceConfig, built_in, datasource_of, library_of, manifest_of, service_of,
};
use tidemill_common::store::{Catalog, CatalogEntry, CatalogKind, Jobs, StoreError};
use tokio::sync::Semaphore;

use crate::host::NodeExecutor;
use crate::outside::calls::api::{Document, Token};
use crate::outside::calls::custom::{Custom, LastCheck};
use crate::outside::calls::{Call, CallCatalog, LibraryNode};
use crate::outside::catalog::CatalogCopy;
use crate::outside::http::HttpSettingError;
use crate::outside::tools::operator_client::OperatorClient;

/// The error type of an entry that does not exist or cannot be used.
pub(super) const VALUE_ERROR: &str = "ValueError";

/// The beginning of every seal.
const SEALED: &str = "sealed:v";

type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The cache, with the clients and limits of calls.
pub struct Calls {
    /// `None` without a store.
    catalog: Option<CatalogCopy<Catalog>>,
    key: Option<SealingKey>,
    environment: Environment,
    pub(super) config: CallsConfig,
    /// The client for the operator's servers.
    operator_client: Option<OperatorClient>,
    /// Limits on connections, by datasource.
    connection_limits: Mutex<HashMap<String, Arc<Semaphore>>>,
    /// Temporary tokens, by service.
    tokens: Mutex<HashMap<String, Token>>,
    /// Cached OpenAPI documents, by service.
    documents: Mutex<HashMap<String, Document>>,
    /// Whether registered Calls can be used here, by id.
    checks: Mutex<HashMap<String, LastCheck>>,
    /// The Calls that the program around this worker runs.
    hosted: HashMap<String, Arc<dyn NodeExecutor>>,
}

/// An entry with its version, ready for use.
#[derive(Debug, Clone, PartialEq)]
pub struct Versioned<T> {
    /// The entry, with secrets opened.
    pub of: T,
    /// Changes with each update.
    pub version: u64,
}

impl Calls {
    /// Creates a cache that is at most `refresh` old. `key` opens secrets; `environment` reads variables of the
    /// process.
    pub fn new(
        jobs: Arc<dyn Jobs>,
        key: Option<SealingKey>,
        environment: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        refresh: Duration,
    ) -> Self {
        let set = move |name: &str| environment(name).filter(|value| !value.trim().is_empty());
        let catalog = Some(CatalogCopy::new(jobs, "calls", refresh));
        Self { catalog, key, environment: Arc::new(set), ..Self::empty() }
    }

    /// Adds limits and a client for the operator's servers.
    ///
    /// # Errors
    /// A setting of `[http]` that cannot be used.
    pub fn with_client(self, config: &CallsConfig, http: &HttpConfig) -> Result<Self, HttpSettingError> {
        Ok(Self { config: config.clone(), operator_client: Some(OperatorClient::new(http)?), ..self })
    }

    /// Creates an empty cache without a store.
    pub fn empty() -> Self {
        Self {
            catalog: None,
            key: None,
            environment: Arc::new(|_: &str| None),
            config: CallsConfig::default(),
            operator_client: None,
            connection_limits: Mutex::default(),
            tokens: Mutex::default(),
            documents: Mutex::default(),
            checks: Mutex::default(),
            hosted: HashMap::new(),
        }
    }

    /// Adds the Calls that the program around this worker runs.
    pub(crate) fn hosting(self, hosted: HashMap<String, Arc<dyn NodeExecutor>>) -> Self {
        Self { hosted, ..self }
    }

    /// The executor of a Call that the program around this worker runs.
    pub(super) fn hosted(&self, id: &str) -> Option<&Arc<dyn NodeExecutor>> {
        self.hosted.get(id)
    }

    /// Reads a variable of the worker's environment; `whose` names its user in errors.
    ///
    /// # Errors
    /// The variable is not set or empty.
    pub(super) fn variable(&self, name: &str, owner: &str) -> Result<String, CallError> {
        (self.environment)(name).ok_or_else(|| {
            let message =
                format!("{owner} names the environment variable {name}, which this worker does not have");
            CallError::of(VALUE_ERROR, message).lacking(Need::Variable { name: name.into() })
        })
    }

    /// Lists the variables of the environment that the catalog names, and whether they are set. None while the store
    /// does not answer.
    pub(crate) async fn variables(&self) -> Vec<(String, bool)> {
        let Ok(catalog) = self.read(false).await else { return Vec::new() };
        let entries = [&catalog.calls, &catalog.services, &catalog.datasources].into_iter().flatten();
        let mut names = BTreeSet::new();
        let credentials = catalog.plugin_credentials.iter().filter_map(|entry| entry.fields.get("env"));
        for text in credentials {
            // Like the fields below, under another name.
            variables_in("env_from", &serde_json::from_str(text).unwrap_or_default(), &mut names);
        }
        for text in entries.flat_map(|entry| entry.fields.iter()) {
            variables_in(
                text.0,
                &serde_json::from_str(text.1).unwrap_or_else(|_| text.1.as_str().into()),
                &mut names,
            );
        }
        let is_set = |name: String| ((self.environment)(&name).is_some(), name);
        names.into_iter().map(is_set).map(|(set, name)| (name, set)).collect()
    }

    /// The client for the operator's servers.
    pub(super) fn operator_client(&self) -> Result<&OperatorClient, CallError> {
        self.operator_client
            .as_ref()
            .ok_or_else(|| CallError::of(VALUE_ERROR, "this worker reaches no services"))
    }

    /// The temporary tokens. Hold the lock only briefly.
    pub(super) fn tokens(&self) -> MutexGuard<'_, HashMap<String, Token>> {
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The checks of registered Calls. Hold the lock only briefly.
    pub(super) fn checks(&self) -> MutexGuard<'_, HashMap<String, LastCheck>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The key that opens secrets of the catalog.
    pub(super) fn key(&self) -> Option<&SealingKey> {
        self.key.as_ref()
    }

    /// The cached documents. Hold the lock only briefly.
    pub(super) fn documents(&self) -> MutexGuard<'_, HashMap<String, Document>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The limit on connections to a datasource.
    pub(super) fn connection_limit(&self, datasource: &str) -> Arc<Semaphore> {
        let mut connection_limits = self.connection_limits.lock().unwrap_or_else(PoisonError::into_inner);
        if connection_limits.len() > CATALOG_ENTRIES_MAX {
            // Most entries are of removed datasources.
            connection_limits.retain(|_, connection_limit| Arc::strong_count(connection_limit) > 1);
        }
        let connection_limit = || Arc::new(Semaphore::new(self.config.sql_connections_max.max(1)));
        connection_limits.entry(datasource.to_owned()).or_insert_with(connection_limit).clone()
    }

    /// Returns the service of an id.
    ///
    /// # Errors
    /// It does not exist, or cannot be used.
    pub async fn service(&self, id: &str) -> Result<Versioned<ServiceConfig>, CallError> {
        let found = self.found(CatalogKind::Service, id, service_of).await?;
        found.ok_or_else(|| {
            CallError::of(VALUE_ERROR, format!("service {id} not found: `tidemill services ls`"))
        })
    }

    /// Returns the datasource of an id.
    ///
    /// # Errors
    /// It does not exist, or cannot be used.
    pub async fn datasource(&self, id: &str) -> Result<Versioned<DatasourceConfig>, CallError> {
        let found = self.found(CatalogKind::Datasource, id, datasource_of).await?;
        found.ok_or_else(|| {
            CallError::of(VALUE_ERROR, format!("datasource {id} not found: `tidemill datasources ls`"))
        })
    }

    async fn found<T>(
        &self,
        kind: CatalogKind,
        id: &str,
        read: impl FnOnce(&CatalogEntry, Option<&SealingKey>) -> Result<T, String>,
    ) -> Result<Option<Versioned<T>>, CallError> {
        let mut catalog = self.catalog(false).await?;
        // An unknown id may have been added a moment ago. Ids of built-in calls are mostly not registered.
        if catalog.find(kind, id).is_none() && built_in(id).is_none() {
            catalog = self.catalog(true).await?;
        }
        let Some(entry) = catalog.find(kind, id) else { return Ok(None) };
        let of = read(entry, self.key.as_ref()).map_err(|reason| {
            let error = CallError::of(VALUE_ERROR, format!("the {kind} {id} cannot be used: {reason}"));
            // Its secrets may be sealed with a key that another worker has.
            let is_sealed = entry.fields.values().any(|value| value.contains(SEALED));
            if is_sealed {
                error.lacking(Need::SecretKey { of: format!("{} {id}", kind.name()) })
            } else {
                error
            }
        })?;
        Ok(Some(Versioned { of, version: entry.version }))
    }

    /// With `newest`, always asks Redis.
    async fn catalog(&self, newest: bool) -> Result<Arc<Catalog>, CallError> {
        self.read(newest).await.map_err(|error| {
            CallError::of("ConnectionError", format!("the registered calls cannot be read: {error}"))
                .passing()
        })
    }

    pub(super) async fn read(&self, newest: bool) -> Result<Arc<Catalog>, StoreError> {
        let Some(catalog) = &self.catalog else { return Ok(Arc::default()) };
        let make = |catalog: Catalog, _: Option<&Catalog>| {
            let (library, calls) = (catalog.library.len(), catalog.calls.len());
            tracing::info!(version = catalog.version, library, calls, "the registered calls were read");
            catalog
        };
        catalog.get(newest, make).await
    }
}

/// Collects the names of environment variables in a field of an entry: the texts under names such as `value_env`,
/// `headers_env` and `env_from`.
fn variables_in(field: &str, value: &Json, names: &mut BTreeSet<String>) {
    let is_reference = field.ends_with("_env") || field == "env_from";
    match value {
        Json::String(name) if is_reference => {
            names.insert(name.clone());
        }
        Json::Object(map) => {
            map.iter()
                .for_each(|(key, value)| variables_in(if is_reference { field } else { key }, value, names));
        }
        Json::Array(list) => list.iter().for_each(|value| variables_in(field, value, names)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[async_trait::async_trait]
impl CallCatalog for Calls {
    async fn library(&self, id: &str) -> Result<Option<Arc<LibraryNode>>, CallError> {
        let found = self.found(CatalogKind::Library, id, |entry, _| library_of(entry)).await?;
        Ok(found.map(|Versioned { of, version }| {
            Arc::new(LibraryNode {
                id: id.into(),
                call_id: of.call_id,
                name: of.name,
                known_params: of.known_params,
                override_input: of.override_input,
                override_output: of.override_output,
                service_id: of.service_id,
                version,
            })
        }))
    }

    async fn call(&self, id: &str) -> Result<Option<(Arc<dyn Call>, u64)>, CallError> {
        let found = self.found(CatalogKind::Call, id, manifest_of).await?;
        Ok(found.map(|Versioned { of, version }| {
            let call: Arc<dyn Call> = Arc::new(Custom { id: id.into(), manifest: of });
            (call, version)
        }))
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls").field("catalog", &self.catalog).finish_non_exhaustive()
    }
}
