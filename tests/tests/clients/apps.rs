//! The fleet that clients talk to: a scheduler, two workers, and the apps with their keys.

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running as Model;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler, Worker};
use tidemill_tests::wait::{LONG, until};

use crate::install::sources;

/// The apps; each is a file in `apps/`.
const APPS: [&str; 4] = ["chat", "flow", "completion", "form"];

/// The answers of the model: a text with "slowly" takes some seconds, and it can suggest questions.
pub(crate) fn model_rules() -> Json {
    let slow: Vec<String> = (1..=60).map(|n| format!("<{n}> ")).collect();
    json!([
        {"match": {"contains": "slowly"}, "chunks": slow, "chunk_delay_ms": 100},
        {"match": {"contains": "questions that the person"}, "reply": "[\"Who built it?\", \"How old is it?\"]"},
        {"match": {}, "chunks": ["The mill ", "turns with ", "the tide."]},
    ])
}

/// The running fleet.
pub(crate) struct Served {
    cluster: Cluster,
    scheduler: Scheduler,
    _workers: [Worker; 2],
    /// The keys of the apps, by the name of the app.
    pub(crate) keys: Vec<(&'static str, String)>,
}

impl Served {
    /// Starts the fleet and publishes the apps.
    ///
    /// # Panics
    /// When an app is refused.
    pub(crate) async fn start(model: &Model) -> Self {
        let settings = [
            ("scheduler.shard_lease_ms", "1000"),
            ("scheduler.shard_renew_ms", "300"),
            ("features.suggested_model", "openai/gpt-4o-mini"),
            ("features.speech_to_text", "openai/whisper-1"),
            ("features.text_to_speech", "openai/tts-1"),
        ];
        let cluster = Cluster::start(&settings, Some(model)).await;
        let scheduler = cluster.scheduler().await;
        let workers = [cluster.worker().await, cluster.worker().await];
        let client = scheduler.client();
        let mut keys = Vec::new();
        for name in APPS {
            let file = std::fs::read_to_string(sources().join(format!("apps/{name}.yml")));
            let file = file.expect("the file of an app can be read");
            let answer = client.post("/api/v1/apps", &json!({"workflow": file})).await;
            assert!(answer.status < 300, "{name} is refused: {}", answer.text);
            keys.push((name, answer.body["key"].as_str().expect("a new app has a key").to_owned()));
        }
        Self { cluster, scheduler, _workers: workers, keys }
    }

    /// The address of `/v1`.
    pub(crate) fn v1(&self) -> String {
        format!("http://{}/v1", self.scheduler.address)
    }

    /// The folder of the cluster, for the files of scripts.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.cluster.logs()
    }

    /// Kills the scheduler and starts another one at the same address.
    pub(crate) async fn restart_scheduler(&mut self) {
        let address = self.scheduler.address.clone();
        self.scheduler.process.kill();
        let mut command = self.cluster.command("tidemill-scheduler");
        command.args(["--listen", &address]);
        self.scheduler = self.cluster.scheduler_of(command).await;
        let client = Client::new(&address, Some(ADMIN_KEY));
        until("the scheduler is ready", LONG, async || match client.get("/readyz").await {
            ready if ready.status == 200 => Ok(()),
            other => Err(other.text),
        })
        .await;
    }
}
