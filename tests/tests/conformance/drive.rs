//! Runs a case: submits it, follows it to its stops, resumes it, and has the state at each stop compared.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tidemill_tests::check::Transcript;
use tidemill_tests::client::Client;
use tidemill_tests::workspace;

use crate::case::Case;
use crate::compare::{differences, refusal_differences};
use crate::embedded::Embedded;
use crate::fleet::Fleet;
use crate::forwarder::Forwarder;
use crate::mock::Mock;
use crate::observed::Observed;
use crate::python::Python;

/// Selects where the values of a run are stored: `inline`, `apart`, or `both`, side by side; `all` adds an embedded engine.
const VALUES: &str = "CONFORMANCE_VALUES";
/// Selects what runs the cases: `fleet`; `embed` for an embedded engine; `python` for one in the Python package, and
/// `python-llm` for one whose `llm` nodes are executed by a function in Python.
const ENGINE: &str = "CONFORMANCE_ENGINE";

/// Where the values of a run are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// In the run, unless they are large.
    Inline,
    /// Each as a blob, also small ones, so that nodes that read one run on a worker.
    Apart,
    /// In the memory of an embedded engine.
    Embedded,
    /// In the memory of an engine in Python.
    Python,
    /// The same, with a function in Python for `llm` nodes.
    PythonModel,
}

impl Values {
    /// The ways of storing values to run the cases with.
    ///
    /// # Panics
    /// When the value of the variable is unknown.
    pub(crate) fn of_environment() -> Vec<Self> {
        match std::env::var(ENGINE).as_deref() {
            Err(_) | Ok("fleet") => {}
            Ok("embed") => return vec![Self::Embedded],
            Ok("python") => return vec![Self::Python],
            Ok("python-llm") => return vec![Self::PythonModel],
            Ok(other) => panic!("{ENGINE} is fleet, embed, python or python-llm, not {other:?}"),
        }
        match std::env::var(VALUES).as_deref() {
            Err(_) | Ok("inline") => vec![Self::Inline],
            Ok("apart") => vec![Self::Apart],
            Ok("both") => vec![Self::Inline, Self::Apart],
            Ok("all") => vec![Self::Inline, Self::Apart, Self::Embedded],
            Ok(other) => panic!("{VALUES} is inline, apart, both or all, not {other:?}"),
        }
    }

    /// Printed after the name of a case.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Inline => "",
            Self::Apart => " (values apart)",
            Self::Embedded => " (embedded)",
            Self::Python => " (Python)",
            Self::PythonModel => " (llm in Python)",
        }
    }
}

/// What runs the cases.
enum Runner {
    Fleet(Box<Fleet>),
    Embedded(Box<Embedded>),
    Python(Box<Python>),
}

/// One system for all cases.
pub(crate) struct System {
    runner: Runner,
    forwarder: Forwarder,
    folder: TempDir,
    /// The common settings of all cases; tables of models are added to them.
    settings: String,
    models: BTreeMap<String, Vec<String>>,
}

impl System {
    /// Starts it with the common settings, and with the models of these cases.
    pub(crate) async fn start(values: Values, cases: impl Iterator<Item = &Case>) -> Self {
        let forwarder = Forwarder::start().await.expect("a free port");
        let settings = std::fs::read_to_string(workspace().join("tests/conformance/tidemill.toml"));
        let settings = settings.expect("the settings are beside the cases");
        let folder = tempfile::tempdir().expect("there is room for a temporary folder");
        let file = folder.path().join("conformance.toml");
        let settings = settings.replace("${FORWARDER}", &forwarder.base_url);
        // When two cases give one model different features, the worker is restarted for the second one.
        let mut models = BTreeMap::new();
        for (name, features) in cases.flat_map(Case::models) {
            models.entry(name).or_insert(features);
        }
        std::fs::write(&file, with_models(&settings, &models)).expect("it can be written");
        let runner = match values {
            Values::Inline => Runner::Fleet(Box::new(Fleet::start(&file, false).await)),
            Values::Apart => Runner::Fleet(Box::new(Fleet::start(&file, true).await)),
            Values::Embedded => Runner::Embedded(Box::new(Embedded::start(&file).await)),
            Values::Python => Runner::Python(Box::new(Python::start(&file, false))),
            Values::PythonModel => Runner::Python(Box::new(Python::start(&file, true))),
        };
        Self { runner, forwarder, folder, settings, models }
    }

    fn client(&self) -> Client {
        match &self.runner {
            Runner::Fleet(fleet) => fleet.client(),
            Runner::Embedded(engine) => engine.client(),
            Runner::Python(engine) => engine.client(),
        }
    }

    /// Makes the worker know the models of a case; restarts it if necessary.
    async fn know(&mut self, models: BTreeMap<String, Vec<String>>) {
        if models.iter().all(|(name, features)| self.models.get(name) == Some(features)) {
            return;
        }
        self.models.extend(models);
        let file = self.folder.path().join("conformance.toml");
        std::fs::write(&file, with_models(&self.settings, &self.models)).expect("it can be written");
        match &mut self.runner {
            Runner::Fleet(fleet) => fleet.restart_worker().await,
            Runner::Embedded(engine) => engine.restart().await,
            Runner::Python(engine) => engine.restart(),
        }
    }

    /// Makes a form expire: time passes.
    async fn expire(&mut self, run: &str, pause: &Json) {
        match &mut self.runner {
            Runner::Fleet(fleet) => fleet.expire(run, pause["pause_id"].as_str().unwrap_or_default()).await,
            Runner::Embedded(engine) => engine.expire(pause),
            Runner::Python(engine) => engine.expire(pause).await,
        }
    }

    /// Removes everything of a conversation: cases share ids, and none may begin with the data of another.
    async fn forget(&mut self, conversation: &str) {
        match &mut self.runner {
            Runner::Fleet(fleet) => fleet.forget(conversation).await,
            Runner::Embedded(engine) => engine.restart().await,
            Runner::Python(engine) => engine.restart(),
        }
    }

    /// Starts again what a case has brought down.
    pub(crate) async fn look_after(&mut self) {
        match &mut self.runner {
            Runner::Fleet(fleet) => fleet.look_after().await,
            Runner::Embedded(engine) => engine.restart().await,
            Runner::Python(engine) => engine.restart(),
        }
    }
}

/// The settings, with a table for each model.
fn with_models(settings: &str, models: &BTreeMap<String, Vec<String>>) -> String {
    let table = |(name, features): (&String, &Vec<String>)| {
        format!("\n[providers.default.models.{name:?}]\nfeatures = {features:?}\n")
    };
    std::iter::once(settings.to_owned()).chain(models.iter().map(table)).collect()
}

/// Runs a case.
///
/// # Errors
/// The reason of the failure; `details` gets the observations.
pub(crate) async fn run(system: &mut System, case: &Case, details: &mut String) -> Result<(), String> {
    system.know(case.models()).await;
    let mock = Mock::start(&case.file)?;
    system.forwarder.lead_to(&mock.base_url);
    if let Some(conversation) = case.conversation() {
        system.forget(conversation).await;
    }
    let client = system.client();
    let expected = case.expected(&mock.base_url);
    let answer = client.post("/api/v1/runs", &case.submission(&mock.base_url)).await;
    note(details, "submission answered", &answer.body);
    if expected["status"] == "invalid" {
        return verdict(refusal_differences(&expected, answer.status, &answer.body));
    }
    if answer.status != 201 {
        return Err(format!("refused with {}: {}", answer.status, refusal_text(&answer.body)));
    }
    let run = answer.body["id"].as_str().ok_or("the run has no id")?.to_string();
    let outcome = stops(system, &run, case, &expected, &mock.base_url, details).await;
    if outcome.is_err() {
        // A run that has not ended must not disturb the next case. The stop does no harm to one that has ended.
        let client = system.client();
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
    let mut transcript = Transcript::default();
    let observed = stop(&system.client(), run, &mut transcript, details).await?;
    verdict(differences(expected, &observed))?;
    for (index, step) in case.resumptions(base_url).iter().enumerate() {
        let what = |problem: String| format!("resume {}: {problem}", index + 1);
        let several = step.get("human_inputs").and_then(Json::as_array).cloned();
        let mut observed = None;
        // When a case answers several forms, each is answered when it appears; the expected result is that after the
        // last.
        for answer in several.unwrap_or_else(|| vec![step.get("human_input").cloned().unwrap_or_default()]) {
            let client = resume(system, run, &answer).await.map_err(what)?;
            observed = Some(stop(&client, run, &mut transcript, details).await.map_err(what)?);
        }
        let observed = observed.ok_or_else(|| what("human_inputs is empty".into()))?;
        verdict(differences(&step["expect"], &observed)).map_err(what)?;
    }
    Ok(())
}

/// Follows a run from the last stop to the next.
async fn stop(
    client: &Client,
    run: &str,
    transcript: &mut Transcript,
    details: &mut String,
) -> Result<Observed, String> {
    let after = transcript.last_id().map(str::to_string);
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
    transcript.append(since.clone());
    let detail = client.run(run).await;
    note(details, "run", &detail);
    for event in &since.events {
        let _ = writeln!(details, "{} {} {}", event.seq, event.kind, event.data);
    }
    Ok(Observed { all: transcript.clone(), since, detail })
}

/// Continues a run: answers a form, lets it expire, or only resumes. Returns the client to continue with.
async fn resume(system: &mut System, run: &str, answer: &Json) -> Result<Client, String> {
    let client = system.client();
    let Some(node) = answer["node_id"].as_str() else {
        let path = format!("/api/v1/runs/{run}/commands");
        let answered = client.post(&path, &json!({"command": "resume"})).await;
        return if answered.status == 202 { Ok(client) } else { Err(refusal_text(&answered.body)) };
    };
    let detail = client.run(run).await;
    let pauses = detail["pauses"].as_array().into_iter().flatten();
    let pause = pauses.clone().find(|pause| pause["status"] == "pending" && pause["node_id"] == node);
    let pause = pause.ok_or(format!("{node} does not wait"))?;
    let id = pause["pause_id"].as_str().ok_or("the pause has no id")?;
    if answer["timeout"] == true {
        system.expire(run, pause).await;
        return Ok(system.client());
    }
    let body = json!({"action": answer["action"], "inputs": answer["inputs"]});
    let answered = client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &body).await;
    if answered.status < 300 { Ok(client) } else { Err(refusal_text(&answered.body)) }
}

fn verdict(differences: Vec<String>) -> Result<(), String> {
    if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
}

/// The text of a refusal.
fn refusal_text(body: &Json) -> String {
    format!("{}: {}", body["code"].as_str().unwrap_or("?"), body["message"].as_str().unwrap_or("?"))
}

fn note(details: &mut String, what: &str, value: &Json) {
    // Writing to a string cannot fail.
    let _ = writeln!(details, "---- {what}\n{value:#}");
}
