//! Takes a case through the system: submits it, follows it to its stops, resumes it, and has each stop compared.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tidemill_tests::check::Transcript;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{Cluster, Scheduler, Worker};
use tidemill_tests::workspace;

use crate::case::Case;
use crate::compare::{differences, refusal_differences};
use crate::forwarder::Forwarder;
use crate::mock::Mock;
use crate::observed::Observed;

/// Shards of the system.
const SHARDS: u16 = 2;

/// Names where the values of a run are stored: `inline`, `apart`, or `both`, one after the other.
const VALUES: &str = "CONFORMANCE_VALUES";

/// Where the values of a run are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// In the run, unless they are large.
    Inline,
    /// Each by itself, however small, so that what reads one goes to a worker.
    Apart,
}

impl Values {
    /// What is to be played.
    ///
    /// # Panics
    /// At a word that does not exist.
    pub(crate) fn of_environment() -> Vec<Self> {
        match std::env::var(VALUES).as_deref() {
            Err(_) | Ok("inline") => vec![Self::Inline],
            Ok("apart") => vec![Self::Apart],
            Ok("both") => vec![Self::Inline, Self::Apart],
            Ok(other) => panic!("{VALUES} is inline, apart or both, not {other:?}"),
        }
    }

    /// What is printed after a case's name.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Inline => "",
            Self::Apart => " (values apart)",
        }
    }
}

/// One system for all cases.
pub(crate) struct System {
    scheduler: Scheduler,
    worker: Worker,
    cluster: Cluster,
    forwarder: Forwarder,
    folder: TempDir,
    /// The settings of the corpus, and the models that the worker knows beside.
    settings: String,
    models: BTreeMap<String, Vec<String>>,
}

impl System {
    /// Starts it with the settings of the corpus, and with the models of these cases.
    pub(crate) async fn start(values: Values, cases: impl Iterator<Item = &Case>) -> Self {
        let forwarder = Forwarder::start().await.expect("a free port");
        let settings = std::fs::read_to_string(workspace().join("tests/conformance/tidemill.toml"));
        let settings = settings.expect("the settings lie beside the cases");
        let folder = tempfile::tempdir().expect("there is room for a temporary folder");
        let file = folder.path().join("conformance.toml");
        let settings = settings.replace("${FORWARDER}", &forwarder.base_url);
        // Of two cases that say different things about a model, the later one has the worker started again.
        let mut models = BTreeMap::new();
        for (name, features) in cases.flat_map(Case::models) {
            models.entry(name).or_insert(features);
        }
        std::fs::write(&file, with_models(&settings, &models)).expect("it can be written");
        let mut own = vec![("scheduler.secret_key", "seals the secrets of the cases")];
        if values == Values::Apart {
            own.push(("run.inline_bytes_max", "1"));
        }
        let cluster = Cluster::start(&own, None).await;
        let config = ["--config", file.to_str().expect("temporary paths are text")];
        let scheduler = cluster.scheduler_with(&config).await;
        let worker = cluster.worker_with(&config).await;
        Self { scheduler, worker, cluster, forwarder, folder, settings, models }
    }

    /// Lets the worker know the models of a case; one that knows others is started anew.
    async fn know(&mut self, models: BTreeMap<String, Vec<String>>) {
        if models.iter().all(|(name, features)| self.models.get(name) == Some(features)) {
            return;
        }
        self.models.extend(models);
        let file = self.folder.path().join("conformance.toml");
        std::fs::write(&file, with_models(&self.settings, &self.models)).expect("it can be written");
        self.worker.process.kill();
        self.look_after().await;
    }

    /// Lets a form's time be over: days pass while no scheduler runs.
    async fn expire(&mut self, run: &str, pause: &str) {
        self.scheduler.process.kill();
        let member = format!("{run} form {pause}");
        for shard in 0..SHARDS {
            let key = format!("tm:{{{shard}}}:timers");
            self.cluster.redis.cli(&["ZADD", &key, "XX", "1", &member]);
        }
        self.look_after().await;
    }

    /// Lets nothing remain of a conversation: cases share ids, and none begins with what another left.
    fn forget(&self, conversation: &str) {
        for shard in 0..SHARDS {
            self.cluster.redis.cli(&["DEL", &format!("tm:{{{shard}}}:conversation:{conversation}")]);
        }
    }

    /// Starts anew what a case has brought down.
    pub(crate) async fn look_after(&mut self) {
        let file = self.folder.path().join("conformance.toml");
        let config = ["--config", file.to_str().expect("temporary paths are text")];
        if self.scheduler.process.end().is_some() {
            self.scheduler = self.cluster.scheduler_with(&config).await;
        }
        if self.worker.process.end().is_some() {
            self.worker = self.cluster.worker_with(&config).await;
        }
    }
}

/// These settings, and a table for each model.
fn with_models(settings: &str, models: &BTreeMap<String, Vec<String>>) -> String {
    let table = |(name, features): (&String, &Vec<String>)| {
        format!("\n[providers.default.models.{name:?}]\nfeatures = {features:?}\n")
    };
    std::iter::once(settings.to_owned()).chain(models.iter().map(table)).collect()
}

/// Runs a case.
///
/// # Errors
/// Why it fails; `details` gets what was seen.
pub(crate) async fn run(system: &mut System, case: &Case, details: &mut String) -> Result<(), String> {
    system.know(case.models()).await;
    let mock = Mock::start(&case.file)?;
    system.forwarder.lead_to(&mock.base_url);
    if let Some(conversation) = case.conversation() {
        system.forget(conversation);
    }
    let client = system.scheduler.client();
    let expected = case.expected(&mock.base_url);
    let answer = client.post("/api/v1/runs", &case.submission(&mock.base_url)).await;
    note(details, "submission answered", &answer.body);
    if expected["status"] == "invalid" {
        return verdict(refusal_differences(&expected, answer.status, &answer.body));
    }
    if answer.status != 201 {
        return Err(format!("refused with {}: {}", answer.status, told(&answer.body)));
    }
    let run = answer.body["id"].as_str().ok_or("the run has no id")?.to_string();
    let outcome = stops(system, &run, case, &expected, &mock.base_url, details).await;
    if outcome.is_err() {
        // What is still running must not disturb the next case; it may be over as well.
        let client = system.scheduler.client();
        client.post(&format!("/api/v1/runs/{run}/commands"), &json!({"command": "stop"})).await;
    }
    outcome
}

async fn stops(
    system: &mut System,
    run: &str,
    case: &Case,
    expected: &Json,
    base_url: &str,
    details: &mut String,
) -> Result<(), String> {
    let mut told = Transcript::default();
    let observed = stop(&system.scheduler.client(), run, &mut told, details).await?;
    verdict(differences(expected, &observed))?;
    for (index, step) in case.resumptions(base_url).iter().enumerate() {
        let what = |problem: String| format!("resume {}: {problem}", index + 1);
        let several = step.get("human_inputs").and_then(Json::as_array).cloned();
        let mut observed = None;
        // Of several forms each is answered as it comes up; what is expected holds after the last.
        for answer in several.unwrap_or_else(|| vec![step.get("human_input").cloned().unwrap_or_default()]) {
            let client = resume(system, run, &answer).await.map_err(what)?;
            observed = Some(stop(&client, run, &mut told, details).await.map_err(what)?);
        }
        let observed = observed.ok_or_else(|| what("there is nothing to do".into()))?;
        verdict(differences(&step["expect"], &observed)).map_err(what)?;
    }
    Ok(())
}

/// Follows a run from where it stood to its next stop.
async fn stop(
    client: &Client,
    run: &str,
    told: &mut Transcript,
    details: &mut String,
) -> Result<Observed, String> {
    let after = told.last_id().map(str::to_string);
    let mut follower = client.follow(run, after.as_deref()).await;
    let is_stop = |kind: &str| {
        kind == "graph_run_paused" || tidemill_common::wire::event::kind::TERMINAL.contains(&kind)
    };
    loop {
        match follower.next().await {
            Some(event) if is_stop(&event.kind) => break,
            Some(_) => {}
            None => {
                note(details, "events", &json!(format!("{:#?}", follower.transcript.events)));
                return Err("the event stream ended before the run".into());
            }
        }
    }
    let since = follower.transcript;
    told.append(since.clone());
    let detail = client.run(run).await;
    note(details, "run", &detail);
    for event in &since.events {
        let _ = writeln!(details, "{} {} {}", event.seq, event.kind, event.data);
    }
    Ok(Observed { all: told.clone(), since, detail })
}

/// Lets a run go on: answers a form, lets it expire, or just resumes. Answers the client to go on with.
async fn resume(system: &mut System, run: &str, answer: &Json) -> Result<Client, String> {
    let client = system.scheduler.client();
    let Some(node) = answer["node_id"].as_str() else {
        let path = format!("/api/v1/runs/{run}/commands");
        let answered = client.post(&path, &json!({"command": "resume"})).await;
        return if answered.status == 202 { Ok(client) } else { Err(told(&answered.body)) };
    };
    let detail = client.run(run).await;
    let pauses = detail["pauses"].as_array().into_iter().flatten();
    let pause = pauses.clone().find(|pause| pause["status"] == "pending" && pause["node_id"] == node);
    let id = pause.and_then(|pause| pause["pause_id"].as_str()).ok_or(format!("{node} does not wait"))?;
    if answer["timeout"] == true {
        system.expire(run, id).await;
        return Ok(system.scheduler.client());
    }
    let body = json!({"action": answer["action"], "inputs": answer["inputs"]});
    let answered = client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &body).await;
    if answered.status < 300 { Ok(client) } else { Err(told(&answered.body)) }
}

fn verdict(differences: Vec<String>) -> Result<(), String> {
    if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
}

/// What a refusal says.
fn told(body: &Json) -> String {
    format!("{}: {}", body["code"].as_str().unwrap_or("?"), body["message"].as_str().unwrap_or("?"))
}

fn note(details: &mut String, what: &str, value: &Json) {
    // Writing to a text cannot fail.
    let _ = writeln!(details, "---- {what}\n{value:#}");
}
