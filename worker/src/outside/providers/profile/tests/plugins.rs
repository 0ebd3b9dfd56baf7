//! Tests of models of installed plugins on a worker that runs no plugins.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::config::{Config, Prefer};
use tidemill_common::registry::plugins::{InstalledPlugin, PluginModels};
use tidemill_common::store::CatalogEntry;

use crate::outside::http::Http;
use crate::outside::plugins::PluginHost;
use crate::outside::providers::profile::Providers;
use crate::outside::providers::profile::catalog::ProviderCatalog;
use crate::tests::fake::FakeJobs;

const PROVIDER: &str = "acme/brain/brain";
const REFRESH: Duration = Duration::from_secs(5);

/// A worker with these tables; the plugin is installed.
fn worker(tables: Json, prefer: Prefer) -> (Arc<FakeJobs>, Providers) {
    let jobs = FakeJobs::new();
    let models = PluginModels { name: "brain".into(), kinds: vec!["llm".into()], ..PluginModels::default() };
    let plugin = InstalledPlugin {
        author: "acme".into(),
        name: "brain".into(),
        version: "1".into(),
        sha256: "ab".into(),
        models: vec![models],
        ..InstalledPlugin::default()
    };
    let at = Timestamp::from_millis(0);
    let entry =
        CatalogEntry { id: plugin.id(), version: 1, created_at: at, updated_at: at, fields: plugin.fields() };
    jobs.state().catalog.plugins.push(entry);
    let mut config = Config::default();
    config.plugins.enabled = false;
    let http = Arc::new(Http::new(&config.http).expect("the defaults are right"));
    let host = Arc::new(PluginHost::new(&config, jobs.clone(), http, None, "w"));
    let providers = Providers::new(&serde_json::from_value(tables).unwrap(), &|_| None).unwrap();
    let catalog = ProviderCatalog::new(jobs.clone(), None, |_| None, REFRESH);
    (jobs, providers.with_catalog(catalog).with_plugins(host, prefer))
}

#[tokio::test]
async fn the_default_provider_serves_what_the_plugin_cannot_unless_plugins_are_preferred() {
    let default = json!({"default": {"base_url": "http://h/v1"}});
    let (_, providers) = worker(default.clone(), Prefer::Own);
    assert!(providers.model(PROVIDER, "m").await.is_ok());
    let (_, providers) = worker(default, Prefer::Plugin);
    let error = providers.model(PROVIDER, "m").await.unwrap_err();
    assert!(error.lacks.is_some() && error.message.contains("does not run the plugin"), "{error}");
}

#[tokio::test]
async fn a_provider_that_only_a_plugin_has_is_not_looked_for_in_the_store_at_each_call() {
    let (jobs, providers) = worker(json!({}), Prefer::Own);
    for _ in 0..3 {
        assert!(providers.model(PROVIDER, "m").await.unwrap_err().lacks.is_some());
    }
    // Once for providers, once for plugins.
    assert_eq!(jobs.state().catalog_asked, (0, 2));
    // What nothing has is looked for again.
    let error = providers.model("acme/other/other", "m").await.unwrap_err();
    assert!(error.message.contains("No provider acme/other/other"), "{error}");
    assert_eq!(jobs.state().catalog_asked, (2, 2));
}
