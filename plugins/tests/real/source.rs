//! The plugins `pick` and `source`: options, parameters at run time, and datasources; and the cache folder while they are used.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tidemill_plugins::cache::clean;
use tidemill_plugins::install::install;
use tidemill_plugins::limits::PackageLimits;
use tidemill_plugins::package::Package;
use tidemill_plugins::process::{NoAnswers, Offered, Origin};
use tidemill_plugins::settings::Settings;
use tidemill_plugins::tool::message::Message;
use tidemill_plugins::tool::{Call, Results, ToolError};

use crate::lab::{Bench, Lab, map};

#[allow(clippy::print_stdout, reason = "the results of tests")]
pub(crate) async fn all(lab: &Lab) {
    a_plugin_lists_options_and_parameters_at_run_time(lab).await;
    a_plugin_reads_pages_and_files_of_a_drive(lab).await;
    what_is_used_stays_in_the_cache(lab).await;
    println!("source: passed");
}

async fn a_plugin_lists_options_and_parameters_at_run_time(lab: &Lab) {
    let bench = lab.bench(&lab.pick, |_| {});
    let (call, tool) = bench.call("pick");
    let options = call.options("pick", "room").await.unwrap();
    assert_eq!((options.len(), &options[0]["value"]), (2, &json!("room-blue")));
    assert_eq!(options[0]["label"]["en_US"], "Blue");
    let found = call.runtime_parameters("pick").await.unwrap();
    assert!(tool.has_runtime_parameters);
    assert_eq!((&found[0]["name"], &found[0]["type"]), (&json!("persons"), &json!("number")));
    assert!(call.options("none", "room").await.is_err());
    bench.plugins.stop().await;
    // An SDK that cannot answer the question says nothing.
    let bench = lab.bench(&lab.many, |_| {});
    assert!(bench.call("say").0.runtime_parameters("say").await.unwrap().is_empty());
    bench.plugins.stop().await;
}

async fn a_plugin_reads_pages_and_files_of_a_drive(lab: &Lab) {
    let bench = lab.bench(&lab.source, |_| {});
    let providers = &lab.source.package.providers.datasources;
    assert_eq!(providers[0].source_kind.as_deref(), Some("online_document"));
    let (pages, drive) = (providers[0].as_tools(), providers[1].as_tools());
    let call = |provider, token: &str| of_source(&bench, provider, token);
    call(&pages, "the-right-token").validate_datasource_credentials().await.unwrap();
    let error = call(&pages, "another").validate_datasource_credentials().await.unwrap_err().to_string();
    assert!(
        error.contains("does not accept the credentials") && error.contains("the token is wrong"),
        "{error}"
    );
    let page = json!({"workspace_id": "w", "page_id": "p", "type": "page"});
    let read = taken(call(&pages, "the-right-token").page("pages", &page).await.unwrap()).await.unwrap();
    let content = Message::Variable { name: "content".into(), value: json!("page p of w"), is_piece: false };
    assert_eq!(read[0], content);
    let gone = json!({"workspace_id": "w", "page_id": "gone", "type": "page"});
    let error = taken(call(&pages, "t").page("pages", &gone).await.unwrap()).await.unwrap_err().to_string();
    assert!(error.contains("there is no such page"), "{error}");
    let file = json!({"id": "f", "bucket": "b"});
    let read = taken(call(&drive, "t").download("drive", &file).await.unwrap()).await.unwrap();
    assert!(matches!(&read[..], [Message::Blob { bytes, .. }] if bytes == b"b has f"), "{read:?}");
    bench.plugins.stop().await;
}

/// In a folder of its own: others may use that of all tests.
async fn what_is_used_stays_in_the_cache(lab: &Lab) {
    let cache = tempfile::tempdir().unwrap();
    std::fs::set_permissions(cache.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = Settings { cache: cache.path().into(), ..lab.settings.clone() };
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugins/pick");
    let package = Package::open(Path::new(folder), &PackageLimits::default(), None).await.unwrap();
    let installed = Arc::new(install(Arc::new(package), &settings, &|_| {}).await.unwrap());
    let bench = lab.bench(&installed, |_| {});
    let (folder, environment) = (installed.folder.clone(), installed.environment.clone());
    drop(installed);
    assert_eq!(bench.call("pick").0.options("pick", "room").await.unwrap().len(), 2);
    // From now on only its process uses it.
    let plugins = bench.plugins.clone();
    drop(bench);
    let cleaned = clean(cache.path(), Duration::ZERO).unwrap();
    assert_eq!((cleaned.removed.len(), cleaned.in_use, cleaned.failed.len()), (0, 2, 0), "{cleaned:?}");
    assert!(folder.is_dir() && environment.is_dir());
    plugins.stop().await;
    drop(plugins);
    let until = Instant::now() + Duration::from_secs(30);
    let mut removed = 0;
    while removed < 2 {
        assert!(Instant::now() < until, "{removed} removed");
        removed += clean(cache.path(), Duration::ZERO).unwrap().removed.len();
        tokio::task::yield_now().await;
    }
}

fn of_source<'a>(
    bench: &'a Bench,
    provider: &'a tidemill_plugins::package::ToolProvider,
    token: &str,
) -> Call<'a> {
    Call {
        plugins: &bench.plugins,
        installed: &bench.installed,
        provider,
        credentials: map(json!({"token": token})),
        user: "tester".into(),
        owner: bench.owner.clone(),
        answers: Arc::new(NoAnswers),
        offered: Offered::default(),
        origin: Origin::default(),
    }
}

async fn taken(mut results: Results) -> Result<Vec<Message>, ToolError> {
    let mut all = Vec::new();
    while let Some(message) = results.next().await? {
        all.push(message);
    }
    Ok(all)
}
