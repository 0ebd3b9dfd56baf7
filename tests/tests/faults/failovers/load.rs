//! The load during fail-overs: clients that submit runs and answer their forms, and remember what was acknowledged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value as Json, json};
use tidemill_tests::cluster::ADMIN_KEY;
use tidemill_tests::fleet::reqwest_client;

/// A form, and after it a node that a worker executes.
pub(super) const FORM: &str = include_str!("../workflows/form_then_worker.yml");
/// How long a client waits for an answer, and between two requests.
const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(40);
/// How long the client of runs in memory waits between two of them: each stays, so they would slow every replica that copies
/// the whole master.
const PAUSE_IN_MEMORY: Duration = Duration::from_millis(250);

/// What the clients were told.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Runs that were accepted as `replicated`.
    pub(super) replicated: Vec<String>,
    /// Those whose answer was accepted as `replicated`.
    pub(super) answered: Vec<String>,
    /// Runs that were accepted as `memory`.
    pub(super) memory: Vec<String>,
    /// Requests that were told that it is unknown.
    pub(super) unknown: usize,
    /// Requests that failed otherwise.
    pub(super) failed: usize,
}

pub(super) struct Load {
    told: Arc<Mutex<Told>>,
    is_over: Arc<AtomicBool>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    /// Starts clients of this scheduler: some that want replicas, one that is content with memory.
    pub(super) fn start(address: &str) -> Self {
        let (told, is_over) = (Arc::<Mutex<Told>>::default(), Arc::new(AtomicBool::new(false)));
        let clients = (0..4).map(|number| {
            let client = Submitter {
                http: reqwest_client(),
                base: format!("http://{address}"),
                told: told.clone(),
                is_over: is_over.clone(),
            };
            tokio::spawn(async move {
                if number == 0 { client.with_memory().await } else { client.with_replicas(number).await }
            })
        });
        Self { clients: clients.collect(), told, is_over }
    }

    /// The number of runs that were accepted as `replicated` so far.
    pub(super) fn accepted(&self) -> usize {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).replicated.len()
    }

    /// Ends the load; each client first finishes what it has begun.
    pub(super) async fn end(self) -> Told {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("a client does not panic");
        }
        std::mem::take(&mut *self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Submitter {
    http: Client,
    base: String,
    told: Arc<Mutex<Told>>,
    is_over: Arc<AtomicBool>,
}

impl Submitter {
    fn note(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner));
    }

    async fn with_memory(&self) {
        let mut count = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            count += 1;
            let body = json!({"workflow": FORM, "inputs": {}, "durability": "memory"});
            let request = self.post("/api/v1/runs").header("idempotency-key", format!("memory-{count}"));
            if let Some(run) = self.send(request, &body).await.and_then(|answer| id(&answer)) {
                self.note(|told| told.memory.push(run));
            }
            tokio::time::sleep(PAUSE_IN_MEMORY).await;
        }
    }

    async fn with_replicas(&self, number: usize) {
        let mut count = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            count += 1;
            let body = json!({"workflow": FORM, "inputs": {}, "durability": "replicated"});
            let key = format!("replicated-{number}-{count}");
            let ask = || self.post("/api/v1/runs").header("idempotency-key", &key);
            let Some(run) = self.until_accepted(ask, &body).await.and_then(|answer| id(&answer)) else {
                continue;
            };
            self.note(|told| told.replicated.push(run.clone()));
            if self.answer(&run).await {
                self.note(|told| told.answered.push(run));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Answers the form of a run, when it has one.
    async fn answer(&self, run: &str) -> bool {
        let Some(pause) = self.pause(run).await else { return false };
        let body =
            json!({"action": "ok", "inputs": {"word": run}, "key": "once", "durability": "replicated"});
        let path = format!("/api/v1/runs/{run}/pauses/{pause}/answer");
        self.until_accepted(|| self.post(&path), &body).await.is_some()
    }

    async fn pause(&self, run: &str) -> Option<String> {
        // A step that was acknowledged may be lost and done again, so the form may come late.
        for _ in 0..200 {
            let request = self.http.get(format!("{}/api/v1/runs/{run}", self.base));
            let shown = request.bearer_auth(ADMIN_KEY).timeout(PATIENCE).send().await;
            let shown = match shown {
                Ok(answer) => answer.json::<Json>().await.unwrap_or_default(),
                Err(_) => Json::Null,
            };
            if let Some(pause) = shown["pauses"][0]["pause_id"].as_str() {
                return Some(pause.to_string());
            }
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    /// Repeats a request under its key until it is accepted. `None` when that does not happen.
    async fn until_accepted(&self, request: impl Fn() -> RequestBuilder, body: &Json) -> Option<Json> {
        for _ in 0..400 {
            if let Some(answer) = self.send(request(), body).await {
                return Some(answer);
            }
            tokio::time::sleep(PAUSE).await;
        }
        None
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.base))
    }

    /// The answer if the request was accepted.
    async fn send(&self, request: RequestBuilder, body: &Json) -> Option<Json> {
        let request = request.bearer_auth(ADMIN_KEY).header("content-type", "application/json");
        let sent = request.timeout(PATIENCE).body(body.to_string()).send().await;
        let Ok(answer) = sent else {
            self.note(|told| told.failed += 1);
            return None;
        };
        let status = answer.status().as_u16();
        let answer: Json = answer.json().await.unwrap_or_default();
        match status {
            200..300 => return Some(answer),
            503 if answer["durability"] == "unknown" => self.note(|told| told.unknown += 1),
            _ => self.note(|told| told.failed += 1),
        }
        None
    }
}

fn id(answer: &Json) -> Option<String> {
    answer["id"].as_str().map(str::to_string)
}
