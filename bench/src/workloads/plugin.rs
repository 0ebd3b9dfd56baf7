//! plugin: what the invocation of a tool of a running plugin costs beside a tool that is a part of Tidemill. It needs an environment
//! with the SDK of Dify's plugins, so it is measured only where `TIDEMILL_PLUGINS_CACHE` names its folder (`make bench-plugins`).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde_json::{Value as Json, json};
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::registry::plugins::InstalledPlugin;
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{CatalogKind, EntryPut, Expected, PutEntry, Runs};
use tidemill_common::wire::worker::PluginState;
use tidemill_plugins::limits::PackageLimits;
use tidemill_plugins::package::Package;

use super::{Workload, workflow};
use crate::engine::Job;
use crate::error::Error;
use crate::fleet::Plan;
use crate::lab::Lab;
use crate::measure::{Load, median};
use crate::report::Row;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "plugin",
    about: "a tool of a running plugin beside a built-in one; left out without TIDEMILL_PLUGINS_CACHE",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

/// The setting of the workers whose folder has the environment.
const CACHE: &str = "TIDEMILL_PLUGINS_CACHE";
/// A plugin of the tests.
const PLUGIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/tests/plugins/many");
/// Tool nodes of a run, one after the other.
const TOOLS: usize = 20;
/// Turns of both, each with so many runs.
const TURNS: usize = 5;
const RUNS: usize = 10;
/// The longest wait until the worker has made the environment.
const PATIENCE: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(200);

async fn measure(lab: &Lab) -> Result<(), Error> {
    if std::env::var_os(CACHE).is_none_or(|folder| folder.is_empty()) {
        return Ok(());
    }
    let (turns, runs) = if lab.is_quick { (1, 2) } else { (TURNS, RUNS) };
    let (own, of_plugin) = (job(&built_in()), job(&plugged_in()));
    let server = lab.server().await?;
    let mut engine = lab.engine(&server, &Plan::of(&server, 1, 1), own.clone()).await?;
    install(&engine.store).await?;
    let load = Load::one_by_one(runs).warmed_by(2);
    let (mut by_own, mut by_plugin) = (Vec::new(), Vec::new());
    // In turns, so that a slow minute of the machine is slow for both. The warm-up starts the process of the plugin.
    for _ in 0..turns {
        for (job, seconds) in [(&own, &mut by_own), (&of_plugin, &mut by_plugin)] {
            engine.change(job.clone())?;
            engine.warm_up(&load).await?;
            seconds.push(engine.measure(&load).await?.seconds);
        }
    }
    let each = |seconds: &mut Vec<f64>| median(seconds) * 1e3 / TOOLS as f64;
    let (own, plugin) = (each(&mut by_own), each(&mut by_plugin));
    lab.add_row(Row::bare(
        "plugin/builtin",
        own,
        "ms",
        "a node with the built-in tool `time`, one after the other",
    ));
    lab.add_row(Row::bare("plugin/tool", plugin, "ms", "a node with a tool of a plugin whose process runs"));
    lab.add_row(Row {
        targets: &[Target::AtMost(5.0)],
        ..Row::bare("plugin/added", plugin - own, "ms", "the second without the first")
    });
    Ok(())
}

fn job(tool: &Json) -> Job {
    Job {
        workflow: workflow::chain_of_tools(TOOLS, tool),
        inputs: Vec::new(),
        options: RunOptions::default(),
        steps: TOOLS,
        // The start node and the end node also count as steps.
        counted: TOOLS + 2,
    }
}

fn built_in() -> Json {
    json!({
        "type": "tool", "title": "Time", "provider_type": "builtin", "provider_id": "time", "provider_name": "time",
        "tool_name": "current_time", "tool_label": "current_time", "tool_configurations": {},
        "tool_parameters": {}, "tool_node_version": "2",
    })
}

fn plugged_in() -> Json {
    json!({
        "type": "tool", "title": "Wait", "provider_type": "builtin", "provider_id": "tidemill/many/many",
        "provider_name": "many", "tool_name": "wait", "tool_label": "wait", "tool_configurations": {},
        "tool_parameters": {"seconds": {"type": "constant", "value": "0"}}, "tool_node_version": "2",
    })
}

/// Installs the plugin as the API does, and waits until the worker has prepared it.
async fn install(store: &RedisStore) -> Result<(), Error> {
    let wrong = |error: String| Error::Wrong(format!("the plugin {PLUGIN}: {error}"));
    let package = Package::open(Path::new(PLUGIN), &PackageLimits::default(), None).await;
    let package = package.map_err(|error| wrong(error.to_string()))?;
    let bytes = package.files.packed().map_err(|error| wrong(error.to_string()))?;
    let plugin: InstalledPlugin = package.record(bytes.len() as u64);
    let (id, fields): (String, BTreeMap<String, String>) = (plugin.id(), plugin.fields());
    store.put_package(&plugin.sha256, &bytes).await?;
    let put = PutEntry {
        kind: CatalogKind::Plugin,
        id: &id,
        fields: &fields,
        expected: Expected::Absent,
        make_default: false,
    };
    if !matches!(store.put_entry(put).await?, EntryPut::Stored(_)) {
        return Err(wrong("it is not stored".into()));
    }
    store.keep_package(&plugin.sha256).await?;
    let begun = Instant::now();
    loop {
        let workers = Runs::fleet(store).workers().await?;
        let about = workers.iter().filter_map(|worker| worker.about.as_ref());
        let states: Vec<PluginState> = about.filter_map(|about| about.plugin(&id, &plugin.sha256)).collect();
        if states.contains(&PluginState::Ready) {
            return Ok(());
        }
        if states.contains(&PluginState::Failed) || begun.elapsed() > PATIENCE {
            return Err(wrong(format!("no worker has prepared it within {PATIENCE:?}: {states:?}")));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
