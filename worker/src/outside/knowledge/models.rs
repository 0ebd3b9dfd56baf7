//! Model calls of searches. Each call has an entry in the node's journal, so it is charged once, and a later worker
//! takes the recorded result. A call to a model with limits waits for a permit.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};
use tidemill_common::files::FilesError;
use tidemill_common::ids::RunId;
use tidemill_common::knowledge::vectors::{from_text, to_text};
use tidemill_common::nodes::knowledge_retrieval::ErrorType;
use tidemill_common::nodes::llm::ModelConfig;
use tidemill_common::nodes::llm::usage::{self, Timing, Tokens};
use tidemill_common::nodes::{Usage, Wasted};
use tidemill_common::warning::Warning;
use tidemill_common::wire::knowledge::ModelName;
use tokio::sync::watch;

use crate::attempt::journal::{ChargeSource, EntryReport, EntryStart, Journal};
use crate::nodes::llm::{bill, lost, no_bill};
use crate::outside::knowledge::KnowledgeError;
use crate::outside::providers::profile::ModelKind;
use crate::outside::providers::{Model, ModelError, Providers, Question, Waiter};

/// The models for one job; see the module.
pub struct Models<'a> {
    providers: &'a Providers,
    journal: &'a Journal,
    spent: Mutex<Usage>,
    /// The number of running calls that only wait for their answer.
    under_way: watch::Sender<usize>,
}

impl<'a> Models<'a> {
    /// The models of a node's job, with no cost so far.
    pub fn new(providers: &'a Providers, journal: &'a Journal) -> Self {
        Self { providers, journal, spent: Mutex::new(no_bill()), under_way: watch::Sender::new(0) }
    }

    /// Waits for a service other than a model. If the job will be parked, first waits until the running model calls
    /// have ended.
    pub async fn rest(&self, wait: Duration, reason: &str) {
        if self.journal.parks_for(wait) {
            // It cannot be closed while this holds it.
            drop(self.under_way.subscribe().wait_for(|calls| *calls == 0).await);
        }
        self.journal.wait(wait, reason).await;
    }

    /// The cost of all calls, including those that earlier workers made for this job.
    pub fn spent(&self) -> Usage {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Warns the author of the workflow.
    pub fn warn(&self, warning: Warning) {
        self.journal.warn(warning);
    }

    /// The cost of replies that broke off.
    pub fn wasted(&self) -> Option<Box<Wasted>> {
        self.journal.take_wasted()
    }

    /// Finds a model by its names.
    ///
    /// # Errors
    /// As [`Providers::model`].
    pub async fn find(&self, name: &ModelName, kind: ModelKind) -> Result<Model, ModelError> {
        self.providers.model_for((&name.provider, &name.model), kind, self.journal.run()).await
    }

    /// Asks a model and returns its reply.
    ///
    /// # Errors
    /// The model does not exist, or its provider reports an error.
    pub async fn ask(
        &self,
        step: &str,
        config: &ModelConfig,
        question: Question,
    ) -> Result<String, CallError> {
        let model = self.providers.resolve_for(config, ModelKind::Llm, self.journal.run()).await?;
        let call = async {
            let reply = model.for_job(self, step).ask(question, &mut |_| {}).await?;
            Ok((json!(reply.text), bill(&model, &reply)))
        };
        let said = self.once(step, &config.provider, &model, call).await?;
        said.as_str().map(str::to_owned).ok_or_else(|| CallError::unreadable(step))
    }

    /// Returns the vector of a text.
    ///
    /// # Errors
    /// The provider reports an error, or returns no vector.
    pub async fn vector(&self, step: &str, name: &ModelName, text: &str) -> Result<Vec<f32>, CallError> {
        let model = self.find(name, ModelKind::TextEmbedding).await?.for_queries();
        let call = async {
            let (vectors, tokens) = model.for_job(self, step).embed(&[text.to_owned()]).await?;
            Ok((json!(vectors.first().map(|vector| to_text(vector))), billed(&model, tokens)))
        };
        match self.once(step, &name.provider, &model, call).await? {
            Json::Null => Err(CallError::Nothing),
            kept => kept.as_str().and_then(from_text).ok_or_else(|| CallError::unreadable(step)),
        }
    }

    /// Returns the indices of the most relevant texts with their relevance, best first. The journal key includes a hash
    /// of the texts, because the indices are valid only for them.
    ///
    /// # Errors
    /// The provider reports an error.
    pub async fn ranking(
        &self,
        step: &str,
        (name, model): (&ModelName, &Model),
        query: &str,
        (texts, top_n): (&[String], usize),
    ) -> Result<Vec<(usize, f64)>, CallError> {
        if texts.is_empty() || top_n == 0 {
            return Ok(Vec::new());
        }
        let step = format!("{step}:{}", mark(texts));
        let call = async {
            let (ranking, tokens) = model.for_job(self, &step).rerank(query, texts, top_n).await?;
            Ok((json!(ranking), billed(model, tokens)))
        };
        let kept = self.once(&step, &name.provider, model, call).await?;
        serde_json::from_value(kept).map_err(|_| CallError::unreadable(&step))
    }

    /// Returns the recorded result of a call, or makes the call and records it.
    async fn once(
        &self,
        step: &str,
        provider: &str,
        model: &Model,
        call: impl Future<Output = Result<(Json, Usage), ModelError>>,
    ) -> Result<Json, CallError> {
        let the_try = match self.journal.begin(step).await {
            EntryStart::Known(mut known) => {
                let usage = known.get("usage").and_then(Json::as_object).cloned().unwrap_or_default();
                self.spend(&Usage::from_record(usage));
                return Ok(known.get_mut("result").map(Json::take).unwrap_or_default());
            }
            EntryStart::Try(the_try) => the_try,
        };
        let _under_way = UnderWay::new(&self.under_way);
        let (result, usage) = call.await.inspect_err(|error| {
            if let Some(usage) = lost(model, error) {
                self.journal.add_wasted(provider, model.name(), usage);
            }
        })?;
        let kept = json!({"result": result, "usage": usage.record});
        let who = ChargeSource::Model(provider.to_owned(), model.name().to_owned());
        let report = EntryReport { events: Vec::new(), charge: Some((usage.clone(), who)) };
        self.journal.record(step, the_try.number, &kept, report).await;
        self.spend(&usage);
        Ok(result)
    }

    fn spend(&self, usage: &Usage) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = usage::sum(&spent, usage);
    }
}

/// Datasets are searched in parallel, and a long wait parks the whole job. So it first waits for the other running
/// calls; otherwise they would be interrupted and paid twice.
#[async_trait::async_trait]
impl Waiter for Models<'_> {
    fn attempt(&self) -> String {
        self.journal.attempt()
    }
    async fn wait(&self, wait: Duration, reason: &str) {
        self.under_way.send_modify(|calls| *calls = calls.saturating_sub(1));
        self.rest(wait, reason).await;
        self.under_way.send_modify(|calls| *calls += 1);
    }
    fn run(&self) -> Option<RunId> {
        self.journal.run()
    }
    async fn check_file(&self, reference: &str) -> Result<(), FilesError> {
        self.journal.check_file(reference).await
    }
    fn leaves_tries(&self) -> bool {
        self.journal.leaves_tries()
    }
}

/// Counts as a running call until dropped.
struct UnderWay<'a>(&'a watch::Sender<usize>);

impl<'a> UnderWay<'a> {
    fn new(calls: &'a watch::Sender<usize>) -> Self {
        calls.send_modify(|calls| *calls += 1);
        Self(calls)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|calls| *calls = calls.saturating_sub(1));
    }
}

/// The failure of a model call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The model cannot be called, or refuses.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The model returned no vector.
    #[error("its model gave no vector")]
    Nothing,
    /// The recorded result is unreadable.
    #[error("the journal has a result of {0} that cannot be read; a newer version may have written it")]
    Unreadable(String),
}

impl CallError {
    fn unreadable(step: &str) -> Self {
        Self::Unreadable(step.to_owned())
    }

    /// Returns true if a retry could help.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::Model(error) => error.retryable,
            Self::Nothing | Self::Unreadable(_) => false,
        }
    }
}

impl From<CallError> for tidemill_common::failure::NodeFailure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Model(error) => error.into(),
            other @ (CallError::Nothing | CallError::Unreadable(_)) => {
                let message = other.to_string();
                KnowledgeError { class: ErrorType::Retrieval, message, retryable: false }.into()
            }
        }
    }
}

fn billed(model: &Model, tokens: Tokens) -> Usage {
    usage::bill(tokens, model.pricing.as_ref(), Timing::default())
}

/// A hash that identifies a list of texts.
fn mark(texts: &[String]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
