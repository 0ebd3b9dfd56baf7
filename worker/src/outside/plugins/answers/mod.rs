//! What plugins ask back while they work, answered by this worker: [`storage`], models ([`llm`], [`models`]), [`tool`], files that
//! they upload ([`upload`]), nodes ([`node`]), and apps ([`app`]). A question without its permission never comes here.
//!
//! A process hands its questions to the future of the invocation ([`Relay`]), which answers them beside its own work
//! ([`Answering::during`]). So an answer ends with its invocation: at its time limit, at a stop of the run, or when the job is
//! lost. An invocation is one step of its job; if it runs again on another worker, it asks again.

mod app;
mod llm;
mod models;
mod node;
mod prompt;
mod running;
mod storage;
mod tool;
mod upload;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value as Json;
use tidemill_common::files::{Files, FilesError};
use tidemill_common::ids::RunId;
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::llm::usage;
use tidemill_plugins::install::Installed;
use tidemill_plugins::process::{Answers, Intake, Offered, Parts, Question, Upload, nested};
use tokio::sync::{mpsc, oneshot};
use uuid::Uuid;

use self::app::OwnPlace;
use super::GivenTool;
use super::host::PluginHost;
use crate::attempt::journal::{ChargeSource, Journal};
use crate::jobs::shared::Core;
use crate::outside::http::Http;
use crate::outside::providers::Waiter;

pub(super) use self::app::AppRoom;

/// Questions of one invocation that wait until they are looked at.
const QUESTIONS_WAITING_MAX: usize = 32;
/// The reason for questions that come too late.
const OVER: &str = "the invocation has ended";

/// The run and the node that an invocation works for.
#[derive(Clone, Copy)]
pub(crate) struct Asker<'a> {
    /// The run that owns the files.
    pub(crate) run: &'a RunId,
    pub(crate) http: &'a Http,
    pub(crate) files: &'a dyn Files,
    pub(crate) journal: Option<&'a Journal>,
    /// How many calls of tools by plugins are around this invocation.
    pub(crate) nested: u32,
    /// Tools that it may call without approval; `None` if no tool needs one.
    pub(crate) auto_approved: Option<&'a [Arc<str>]>,
    /// The tools that an agent's strategy was given.
    pub(crate) given: &'a [GivenTool],
}

/// Something that a process asks.
enum Asked {
    Question { question: Question, parts: Parts, done: oneshot::Sender<Result<(), String>> },
    Upload { upload: Upload, done: oneshot::Sender<Result<Json, String>> },
}

/// Hands questions to the future of their invocation.
struct Relay {
    to: mpsc::Sender<Asked>,
    /// Largest file, and most bytes of all files of the invocation.
    file_max: (u64, u64),
    /// The bytes of files that were stored for it.
    kept: Arc<AtomicU64>,
}

#[async_trait::async_trait]
impl Answers for Relay {
    async fn answer(&self, question: Question, parts: Parts) -> Result<(), String> {
        let (done, answered) = oneshot::channel();
        let sent = self.to.send(Asked::Question { question, parts, done }).await;
        sent.map_err(|_| OVER.to_owned())?;
        answered.await.unwrap_or_else(|_| Err(OVER.into()))
    }
}

#[async_trait::async_trait]
impl Intake for Relay {
    async fn take(&self, upload: Upload) -> Result<Json, String> {
        let (done, taken) = oneshot::channel();
        let sent = self.to.send(Asked::Upload { upload, done }).await;
        sent.map_err(|_| OVER.to_owned())?;
        taken.await.unwrap_or_else(|_| Err(OVER.into()))
    }

    fn most(&self) -> (u64, &'static str) {
        let (each, all) = self.file_max;
        let left = all.saturating_sub(self.kept.load(Ordering::Relaxed));
        if left < each {
            (left, "what is left of http.upload_bytes_max")
        } else {
            (each, "http.file_bytes_max")
        }
    }
}

/// Answers the questions of one invocation.
pub(super) struct Answering<'a> {
    host: &'a PluginHost,
    asker: Asker<'a>,
    /// This worker; `None` while it starts or ends.
    worker: Option<Arc<Core>>,
    /// The name of the plugin's storage: `author/name`.
    storage: String,
    /// Most bytes of it in Redis.
    storage_max: u64,
    /// The secret part of the address for uploads.
    place: String,
    relay: Arc<Relay>,
    /// The bytes of files that were stored for it.
    kept: Arc<AtomicU64>,
    /// The cost of what was asked.
    spent: Mutex<Option<Usage>>,
    /// Its place while it waits for apps.
    app_place: OwnPlace,
}

/// The questions that were not looked at.
pub(super) struct Questions(mpsc::Receiver<Asked>);

impl<'a> Answering<'a> {
    pub(super) fn new(host: &'a PluginHost, installed: &Installed, asker: Asker<'a>) -> (Self, Questions) {
        let (to, questions) = mpsc::channel(QUESTIONS_WAITING_MAX);
        let manifest = &installed.package.manifest;
        let (bounds, kept) = (&asker.http.bounds, Arc::new(AtomicU64::new(0)));
        let file_max = (bounds.file_bytes_max, bounds.upload_bytes_max);
        let own = Self {
            host,
            asker,
            worker: host.worker(),
            storage: format!("{}/{}", manifest.author, manifest.name),
            storage_max: storage::bytes_max(manifest.permissions.storage_bytes, host.storage_max),
            place: Uuid::new_v4().simple().to_string(),
            relay: Arc::new(Relay { to, file_max, kept: kept.clone() }),
            kept,
            spent: Mutex::default(),
            app_place: OwnPlace::default(),
        };
        (own, Questions(questions))
    }

    /// Receives the questions of the process.
    pub(super) fn answers(&self) -> Arc<dyn Answers> {
        self.relay.clone()
    }

    /// Adds the place for uploads.
    pub(super) fn offering(&self, offered: Offered) -> Offered {
        offered.taking(self.place.clone(), self.relay.clone())
    }

    /// The cost of what was asked, which is charged already.
    pub(super) fn spent(&self) -> Option<Usage> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers questions until `work` ends. Dropping this ends all answers.
    pub(super) async fn during<T>(&self, questions: Questions, work: impl Future<Output = T>) -> T {
        let Questions(mut questions) = questions;
        let mut running = FuturesUnordered::new();
        tokio::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                Some(asked) = questions.recv() => running.push(nested(self.one(asked))),
                Some(()) = running.next(), if !running.is_empty() => {}
            }
        }
    }

    async fn one(&self, asked: Asked) {
        match asked {
            Asked::Question { question, parts, done } => {
                let Question { kind, request } = question;
                tracing::debug!(plugin = self.storage, kind, "a plugin asks back");
                // The plugin may have ended the session.
                let _ = done.send(Box::pin(self.answer(&kind, request, &parts)).await);
            }
            Asked::Upload { upload, done } => {
                let _ = done.send(self.keep(upload).await);
            }
        }
    }

    async fn answer(&self, kind: &str, request: Json, parts: &Parts) -> Result<(), String> {
        match kind {
            "storage" => parts.send(self.stored(&request).await?).await,
            "llm" | "llm_structured_output" => self.chat(&request, parts).await,
            "system_summary" => parts.send(self.summary(&request).await?).await,
            "text_embedding" => parts.send(self.embedding(&request).await?).await,
            "rerank" => parts.send(self.ranking(&request).await?).await,
            "moderation" => parts.send(self.moderation(&request).await?).await,
            "speech2text" => parts.send(self.transcript(&request).await?).await,
            "tts" => self.sound(&request, parts).await,
            "tool" => self.tool(request, parts).await,
            "upload_file" => parts.send(self.upload_address()).await,
            "node_parameter_extractor" => parts.send(self.extracted(&request).await?).await,
            "node_question_classifier" => parts.send(self.classified(&request).await?).await,
            "app" => self.app(request, parts).await,
            "fetch_app" => parts.send(self.app_info(&request).await?).await,
            other => Err(format!("Tidemill does not answer plugins that ask for {other:?}")),
        }
    }

    fn worker(&self) -> Result<&Core, String> {
        self.worker.as_deref().ok_or_else(|| "this worker is starting or ending".to_owned())
    }

    /// The name of a new call, unique among all of the job.
    fn call_name() -> String {
        format!("ask/{}", Uuid::new_v4().simple())
    }

    /// Counts the cost of a call at once: also if the invocation fails, it was paid.
    fn charge(&self, call: &str, cost: &Usage, by: ChargeSource) {
        if let Some(journal) = self.asker.journal.filter(|_| cost.is_any()) {
            journal.charge(call, cost.clone(), by);
        }
        self.add(cost);
    }

    /// Adds a cost that is charged.
    fn add(&self, cost: &Usage) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = Some(match spent.take() {
            Some(before) => usage::sum(&before, cost),
            None => cost.clone(),
        });
    }

    fn waiter<'c>(&self, call: &'c str) -> InPlace<'c>
    where
        'a: 'c,
    {
        InPlace { asker: self.asker, call, waits: AtomicBool::new(false) }
    }
}

/// Waits without parking the job: an invocation that is parked would have to begin again.
struct InPlace<'a> {
    asker: Asker<'a>,
    call: &'a str,
    /// True while the call waits for a limit.
    waits: AtomicBool,
}

impl InPlace<'_> {
    fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }
}

#[async_trait::async_trait]
impl Waiter for InPlace<'_> {
    fn attempt(&self) -> String {
        // Each question has calls of its own.
        let of = self.asker.journal.map_or_else(|| self.asker.run.to_string(), Waiter::attempt);
        format!("{of}/{}", self.call)
    }

    async fn wait(&self, wait: Duration, _: &str) {
        self.waits.store(true, Ordering::Relaxed);
        tokio::time::sleep(wait).await;
        self.waits.store(false, Ordering::Relaxed);
    }

    fn run(&self) -> Option<RunId> {
        Some(*self.asker.run)
    }

    async fn check_file(&self, reference: &str) -> Result<(), FilesError> {
        match self.asker.journal {
            Some(journal) => journal.check_file(reference).await,
            None => Ok(()),
        }
    }
}

/// This worker, once it has started.
pub(super) type ThisWorker = OnceLock<std::sync::Weak<Core>>;

/// A text of a request.
fn text<'r>(request: &'r Json, key: &str) -> Result<&'r str, String> {
    request[key].as_str().ok_or_else(|| format!("the request has no text {key:?}"))
}
