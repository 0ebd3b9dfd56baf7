//! The model of a campaign: it answers every workflow and remembers every call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::{llm, workspace};
use tokio::task::JoinHandle;

/// The number of runs of a round for which the model may refuse the first calls.
const FLAKY_MAX: usize = 600;
/// The number of calls that it refuses.
const REFUSALS: usize = 2;
/// Short enough that the mock still has all calls in its memory.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The model and the list of its calls.
pub(crate) struct Model {
    /// The mock.
    pub(crate) running: Arc<Running>,
    calls: Arc<Mutex<Vec<String>>>,
    looking: JoinHandle<()>,
}

impl Model {
    /// Starts it.
    pub(crate) async fn start() -> Self {
        let running = Arc::new(llm::rules(rules()).await);
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let (asked, ledger) = (running.clone(), calls.clone());
        let looking = tokio::spawn(async move {
            loop {
                note(&asked, &ledger);
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        Self { running, calls, looking }
    }

    /// The messages of every call so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        note(&self.running, &self.calls);
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

fn note(model: &Running, ledger: &Mutex<Vec<String>>) {
    let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
    ledger.extend(model.take_requests().iter().map(|request| request["messages"].to_string()));
}

fn rules() -> Json {
    let pieces = |count| llm::many_pieces(count);
    let mut rules = vec![
        json!({"match": {"contains": "stream slowly"}, "chunks": pieces(40), "chunk_delay_ms": 30}),
        json!({"match": {"contains": "stream quickly"}, "chunks": pieces(20), "chunk_delay_ms": 20}),
        json!({"match": {"contains": "about "}, "echo": "last_user", "delay_ms": 150}),
    ];
    let examples =
        std::fs::read_to_string(workspace().join("examples/mock-rules.json")).expect("the examples' rules");
    let examples: Vec<Json> = serde_json::from_str(&examples).expect("they are JSON");
    let catches_all = |rule: &Json| rule["match"].as_object().is_some_and(serde_json::Map::is_empty);
    rules.extend(examples.into_iter().filter(|rule| !catches_all(rule)));
    let tags =
        (0..FLAKY_MAX).map(|n| super::load::tag('r', n)).chain((0..100).map(|n| super::load::tag('q', n)));
    // A status that the worker does not retry: the node must retry it.
    rules.extend(tags.map(|tag| {
        json!({"match": {"equals": format!("flaky {tag}")}, "reply": "at last", "status": 400, "fail_times": REFUSALS})
    }));
    rules.push(json!({"match": {}, "echo": "last_user", "delay_ms": 50}));
    Json::Array(rules)
}
