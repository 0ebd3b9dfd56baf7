//! The state that all parts of one worker share. One process can run several workers, so nothing here is global.

use std::sync::Arc;
use std::time::Duration;

use tidemill_common::clock::{Clock, SystemClock, Timestamp};
use tidemill_common::config::Config;
use tidemill_common::dsl::SealingKey;
use tidemill_common::store::Jobs;
use tokio::sync::{Semaphore, watch};

use crate::attempt::list_cache::ListCache;
use crate::host::Hosts;
use crate::host::configs::NodeConfigs;
use crate::jobs::backoff::Condition;
use crate::jobs::cancel::Remembered;
use crate::jobs::in_flight::InFlight;
use crate::jobs::liveness::Liveness;
use crate::jobs::reporter::Reporter;
use crate::jobs::takeover::HandedBack;
use crate::jobs::workflows::WorkflowLoader;
use crate::nodes::code::CodeNodes;
use crate::nodes::document_extractor::DocumentNodes;
use crate::nodes::http_request::AnswerRules;
use crate::outside::Outside;
use crate::setup::Setup;

/// The worker's settings, converted to the types the code uses.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) queues: Vec<Arc<str>>,
    pub(crate) permits: usize,
    pub(crate) lease: Duration,
    pub(crate) deliveries_max: u32,
    pub(crate) execution_max: Duration,
    pub(crate) chunk_gather: Duration,
    pub(crate) value_bytes_max: usize,
    /// Longest wait inside a job; for longer waits the job is parked.
    pub(crate) job_wait_max: Duration,
    /// Most times a person is asked for missing input of one step.
    pub(crate) parameter_rounds_max: u32,
    /// Longest prompt of an `llm` node in its profile form, in bytes.
    pub(crate) prompt_bytes_max: usize,
    /// How `http-request` nodes read answers.
    pub(crate) answers: AnswerRules,
    /// Most apps whose runs a job waits for at once.
    pub(crate) app_calls_max: usize,
}

impl Settings {
    pub(crate) fn of(config: &Config) -> Self {
        let worker = &config.worker;
        Self {
            queues: worker.queues.iter().map(|queue| queue.as_str().into()).collect(),
            permits: worker.permits.clamp(1, Semaphore::MAX_PERMITS),
            lease: Duration::from_millis(worker.job_lease_ms),
            deliveries_max: worker.deliveries_max,
            execution_max: Duration::from_secs(worker.execution_seconds_max),
            chunk_gather: Duration::from_millis(worker.chunk_gather_ms),
            value_bytes_max: config.run.value_bytes_max,
            job_wait_max: Duration::from_millis(worker.job_wait_max_ms),
            parameter_rounds_max: worker.parameter_rounds_max,
            prompt_bytes_max: worker.prompt_bytes_max,
            answers: AnswerRules::of(&config.compat),
            app_calls_max: config.plugins.app_calls_max,
        }
    }
}

/// The shared state of one worker.
pub(crate) struct Core {
    pub(crate) jobs: Arc<dyn Jobs>,
    /// The name under which this worker holds jobs.
    pub(crate) consumer: Arc<str>,
    pub(crate) settings: Settings,
    pub(crate) outside: Outside,
    pub(crate) code: CodeNodes,
    pub(crate) documents: DocumentNodes,
    pub(crate) workflows: WorkflowLoader,
    pub(crate) list_cache: ListCache,
    pub(crate) in_flight: Arc<InFlight>,
    pub(crate) reporter: Reporter,
    /// One permit per running job.
    pub(crate) permits: Arc<Semaphore>,
    pub(crate) remembered: Remembered,
    pub(crate) handed_back: Arc<HandedBack>,
    pub(crate) liveness: Liveness,
    /// Becomes true when the worker takes no more jobs.
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) reading: Condition,
    pub(crate) beating: Condition,
    pub(crate) listening: Condition,
    pub(crate) recording: Condition,
    pub(crate) setup: Setup,
    /// The executors of the host program; mostly none.
    pub(crate) hosts: Hosts,
    /// The data of nodes, for those executors.
    pub(crate) configs: Arc<NodeConfigs>,
}

impl Core {
    /// `key` opens secrets that are sealed in Redis.
    pub(crate) fn new(
        config: &Config,
        jobs: Arc<dyn Jobs>,
        consumer: Arc<str>,
        key: Option<SealingKey>,
        outside: Outside,
    ) -> Self {
        let settings = Settings::of(config);
        let in_flight = Arc::new(InFlight::default());
        let handed_back = Arc::new(HandedBack::default());
        Self {
            workflows: WorkflowLoader::new(jobs.clone(), key.clone(), config.compat.secrets_in_outputs),
            list_cache: ListCache::default(),
            reporter: Reporter::new(jobs.clone(), consumer.clone(), in_flight.clone(), handed_back.clone()),
            permits: Arc::new(Semaphore::new(settings.permits)),
            remembered: Remembered::new(settings.lease),
            handed_back,
            liveness: Liveness::new(),
            stopping: watch::Sender::new(false),
            reading: Condition::new("reading jobs"),
            beating: Condition::new("keeping jobs"),
            listening: Condition::new("listening for hints"),
            recording: Condition::new("writing the record of this worker"),
            setup: Setup::new(key),
            jobs,
            consumer,
            settings,
            code: CodeNodes::new(&config.code, outside.http.clone()),
            outside,
            documents: DocumentNodes::new(config),
            in_flight,
            hosts: Hosts::default(),
            configs: Arc::default(),
        }
    }
}

impl Core {
    /// Adds the executors of a host program, and the queues that they name.
    #[must_use]
    pub(crate) fn hosting(mut self, hosts: Hosts) -> Self {
        for queue in hosts.queues() {
            if !self.settings.queues.iter().any(|known| &**known == queue) {
                self.settings.queues.push(queue.into());
            }
        }
        Self { hosts, ..self }
    }
}

/// The current time of this machine. The scheduler compares it with its own clock.
pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}
