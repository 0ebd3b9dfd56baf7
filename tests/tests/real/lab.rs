//! What the tests share: a fleet with a folder of plugins, the command that installs them, and short workflows.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running as Model;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler, Worker};
use tidemill_tests::wait::until;
use tidemill_tests::workspace;

/// The longest time to make an environment: packages come from an index.
const PREPARED_WITHIN: Duration = Duration::from_secs(300);

/// The longest time of a run: the first one starts the processes of its plugin.
pub(crate) const ENDED_WITHIN: Duration = Duration::from_secs(120);

pub(crate) struct Lab {
    pub(crate) cluster: Cluster,
    pub(crate) scheduler: Scheduler,
    pub(crate) client: Client,
    pub(crate) workers: Vec<Worker>,
}

/// A node of a workflow.
pub(crate) struct Tool<'a> {
    pub(crate) id: &'a str,
    pub(crate) tool: &'a str,
    /// Its parameters as the file has them: `{"type": …, "value": …}`.
    pub(crate) parameters: Json,
    /// The version of the plugin that the file names.
    pub(crate) version: &'a str,
    /// More fields of the node.
    pub(crate) more: Json,
}

impl<'a> Tool<'a> {
    pub(crate) fn new(id: &'a str, tool: &'a str, parameters: Json) -> Self {
        Self { id, tool, parameters, version: "0.1.0", more: json!({}) }
    }
}

impl Lab {
    /// A fleet of two workers; `None` if the tests are left out.
    pub(crate) async fn start(more: &[(&str, &str)]) -> Option<Self> {
        Self::with_model(more, None).await
    }

    /// As [`Self::start`], with a model.
    pub(crate) async fn with_model(more: &[(&str, &str)], model: Option<&Model>) -> Option<Self> {
        let Ok(cache) = std::env::var("PLUGINS_CACHE") else {
            println!(
                "LEFT OUT: the tests with the SDK of Dify's plugins need PLUGINS_CACHE; `make plugins-test` sets it"
            );
            return None;
        };
        let wheels = std::env::var("PLUGINS_WHEELS").unwrap_or_default();
        let python = std::env::var("PLUGINS_PYTHON").ok();
        let mut settings = vec![
            ("scheduler.secret_key", "open sesame, open wide"),
            ("worker.job_lease_ms", "1500"),
            ("plugins.cache", cache.as_str()),
            ("plugins.wheels", wheels.as_str()),
        ];
        if let Some(python) = &python {
            settings.push(("plugins.python", python.as_str()));
        }
        settings.extend(more);
        let cluster = Cluster::start(&settings, model).await;
        let scheduler = cluster.scheduler().await;
        let workers = vec![cluster.worker().await, cluster.worker().await];
        let client = scheduler.client();
        Some(Self { cluster, scheduler, client, workers })
    }

    /// Runs `tidemill` with these arguments and this standard input.
    pub(crate) async fn tidemill(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = self.cluster.command("tidemill");
        command.args(arguments);
        command.env("TIDEMILL_URL", format!("http://{}", self.scheduler.address));
        command.env("TIDEMILL_KEY", ADMIN_KEY);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        let done = tokio::task::spawn_blocking(move || {
            let mut child = command.spawn().expect("it starts");
            // A command that needs no input may have ended before it is written.
            let _ = child.stdin.take().expect("it was asked for").write_all(input.as_bytes());
            child.wait_with_output().expect("it ends")
        });
        done.await.expect("it does not panic")
    }

    /// Runs a command that must succeed; returns what it says.
    pub(crate) async fn well(&self, arguments: &[&str], input: &str) -> String {
        let output = self.tidemill(arguments, input).await;
        let all = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&all).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    }

    /// Installs a folder, and waits until both workers have prepared it.
    pub(crate) async fn install(&self, folder: &Path, id: &str) {
        let folder = folder.display().to_string();
        let said = self.well(&["plugins", "add", &folder, "--yes"], "").await;
        assert!(said.contains("may store 1024 bytes"), "{said}");
        self.ready(id, self.workers.len()).await;
    }

    /// Waits until a plugin is ready on so many workers.
    pub(crate) async fn ready(&self, id: &str, workers: usize) {
        until(&format!("{id} to be ready on {workers} workers"), PREPARED_WITHIN, async || {
            let shown = self.client.get("/api/v1/plugins").await.body;
            let all = shown["data"].as_array().into_iter().flatten();
            let states = all.filter(|one| one["id"] == id).flat_map(|one| one["workers"].as_array().cloned());
            let ready = states.flatten().filter(|worker| worker["state"] == "ready").count();
            if ready == workers { Ok(()) } else { Err(shown.to_string()) }
        })
        .await;
    }

    /// Runs tools one after the other, and returns the run when it has ended.
    pub(crate) async fn run(&self, tools: &[Tool<'_>]) -> Json {
        let run = self.begin(tools).await;
        self.client.ended_within(&run, ENDED_WITHIN).await
    }

    pub(crate) async fn begin(&self, tools: &[Tool<'_>]) -> String {
        self.begin_with(&workflow(tools)).await
    }

    pub(crate) async fn begin_with(&self, workflow: &Json) -> String {
        let body = json!({"workflow": workflow.to_string(), "inputs": {}, "user": "tester"});
        self.client.submit(&body).await
    }
}

/// The folder of the plugin `many`.
pub(crate) fn many() -> PathBuf {
    workspace().join("plugins/tests/plugins/many")
}

/// The folder of the plugin `asks`.
pub(crate) fn asks() -> PathBuf {
    workspace().join("plugins/tests/plugins/asks")
}

/// A copy of the plugin `many` in another version, with other files.
pub(crate) fn many_as(version: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
    another(&many(), version, files)
}

/// A copy of a plugin in another version, with other files.
pub(crate) fn another(plugin: &Path, version: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    copy(plugin, folder.path());
    let manifest = folder.path().join("manifest.yaml");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    let text = text.replacen("version: 0.1.0", &format!("version: {version}"), 1);
    std::fs::write(&manifest, text).expect("it can be written");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("it can be written");
    }
    folder
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            std::fs::create_dir_all(&target).expect("a folder");
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("it can be copied");
        }
    }
}

/// A workflow of tools; its outputs are those of each, by its id.
pub(crate) fn workflow(tools: &[Tool<'_>]) -> Json {
    let mut nodes =
        vec![json!({"id": "start", "data": {"type": "start", "title": "Start", "variables": []}})];
    let (mut edges, mut outputs, mut last) = (Vec::new(), Vec::new(), "start");
    let edge = |from: &str, to: &str| json!({"id": format!("{from}-{to}"), "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"});
    for Tool { id, tool, parameters, version, more } in tools {
        let mut data = json!({
            "type": "tool", "title": id, "provider_type": "builtin", "provider_id": "tidemill/many/many",
            "provider_name": "tidemill/many/many", "tool_name": tool, "tool_label": tool,
            "tool_configurations": {}, "tool_parameters": parameters, "tool_node_version": "2",
            "plugin_unique_identifier": format!("tidemill/many:{version}@0000"),
        });
        for (key, value) in more.as_object().expect("an object") {
            data[key] = value.clone();
        }
        nodes.push(json!({"id": id, "data": data}));
        edges.push(edge(last, id));
        last = id;
        for name in ["text", "json", "files"] {
            outputs.push(json!({"variable": format!("{id}_{name}"), "value_selector": [id, name]}));
        }
    }
    nodes.push(json!({"id": "end", "data": {"type": "end", "title": "End", "outputs": outputs}}));
    edges.push(edge(last, "end"));
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Tools"},
        "workflow": {"environment_variables": [], "conversation_variables": [], "graph": {"nodes": nodes, "edges": edges}},
    })
}

/// A parameter with this value.
pub(crate) fn constant(value: impl Into<Json>) -> Json {
    json!({"type": "constant", "value": value.into()})
}
