//! Searches a service with Dify's External Knowledge API: `POST {endpoint}/retrieval` returns records. A search has no
//! side effects, so it is repeated after temporary failures.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Value as Json, json};
use sha2::{Digest as _, Sha256};
use tidemill_common::limits::MODEL_REST_MAX_MS;
use tidemill_common::mistakes::variable_shown;
use tidemill_common::nodes::knowledge_retrieval::config::DatasetConfig;
use tidemill_common::nodes::knowledge_retrieval::{ErrorType, Passage};

use crate::outside::hide::Hide;
use crate::outside::http::{Answer, CallError};
use crate::outside::knowledge::models::Models;
use crate::outside::knowledge::{Knowledge, KnowledgeError, SearchRequest, SearchSettings};
use crate::outside::providers::Waiter as _;
use crate::outside::providers::limiter::CallPermits;
use crate::outside::providers::retry::{Hints, pause};
use crate::outside::tools::operator_client::{OperatorClient, Request, address, bearer, excerpt};

/// Longest single wait; after it the service is tried again.
const WAIT_MAX: Duration = Duration::from_millis(MODEL_REST_MAX_MS);
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A dataset of an external service; see the module.
pub struct External {
    operator_client: Arc<OperatorClient>,
    id: String,
    name: String,
    url: Url,
    headers: HeaderMap,
    knowledge_id: String,
    silence: Duration,
    retries_max: u32,
    answer_bytes_max: u64,
    /// The store that counts failures; without it they are counted only here.
    permits: OnceLock<CallPermits>,
}

/// A failed try.
struct Failed {
    class: ErrorType,
    reason: String,
    /// Most retries after this kind of failure; `None` for a permanent failure.
    retries_max: Option<u32>,
    hints: Hints,
}

impl External {
    /// Creates the dataset `(id, name)`.
    ///
    /// # Errors
    /// A setting that cannot be used, with the reason.
    pub(super) fn new(
        (id, name): (&str, &str),
        config: &DatasetConfig,
        answer_bytes_max: u64,
        operator_client: Arc<OperatorClient>,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, (&'static str, String)> {
        let mut url = address("endpoint", &config.endpoint).map_err(|error| ("endpoint", error.reason))?;
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().push("retrieval");
        }
        if config.knowledge_id.is_empty() {
            return Err(("knowledge_id", "is missing: the knowledge base's name at the service".into()));
        }
        if !(0.0..=1.0).contains(&config.score_threshold) {
            return Err(("score_threshold", "must be from 0 to 1".into()));
        }
        let key = match config.api_key_env.as_str() {
            "" => config.api_key.0.clone(),
            name => variable(name).ok_or_else(|| {
                ("api_key_env", format!("the environment variable {} is not set", variable_shown(name)))
            })?,
        };
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, JSON), (ACCEPT, JSON)]);
        bearer(&mut headers, "api_key", &key).map_err(|error| ("api_key", error.reason))?;
        Ok(Self {
            operator_client,
            id: id.into(),
            name: name.into(),
            url,
            headers,
            knowledge_id: config.knowledge_id.clone(),
            silence: Duration::from_secs(config.read_seconds),
            retries_max: config.retries_max,
            answer_bytes_max,
            permits: OnceLock::new(),
        })
    }

    async fn ask(&self, body: &Bytes) -> Result<Vec<Passage>, Failed> {
        let request = Request {
            method: Method::POST,
            url: &self.url,
            headers: self.headers.clone(),
            body: body.clone(),
            silence: self.silence,
        };
        let mut answer = self.operator_client.send(request).await.map_err(|error| self.unreached(&error))?;
        let status = answer.response.status();
        let hints = Hints::of(answer.response.headers(), chrono::Utc::now().timestamp_millis());
        let body = self.whole(&mut answer).await?;
        if status.is_success() {
            return self.passages(&body);
        }
        Err(Failed {
            class: ErrorType::Value,
            reason: format!("HTTP {}: {}", status.as_u16(), excerpt(&body)),
            retries_max: may_pass(status.as_u16()).then_some(self.retries_max),
            hints,
        })
    }

    fn passages(&self, body: &[u8]) -> Result<Vec<Passage>, Failed> {
        let unread = || Failed {
            class: ErrorType::Value,
            reason: format!("its answer is not {{\"records\": […]}}: {}", excerpt(body)),
            retries_max: None,
            hints: Hints::default(),
        };
        let answer: Json = serde_json::from_slice(body).map_err(|_| unread())?;
        match answer.get("records") {
            None | Some(Json::Null) if answer.is_object() => Ok(Vec::new()),
            Some(Json::Array(records)) => {
                Ok(records.iter().map(|record| Passage::external(&self.id, &self.name, record)).collect())
            }
            Some(_) | None => Err(unread()),
        }
    }

    async fn whole(&self, answer: &mut Answer) -> Result<Vec<u8>, Failed> {
        let mut bytes = Vec::new();
        while let Some(piece) = answer.piece().await.map_err(|error| self.unreached(&error))? {
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > self.answer_bytes_max {
                let max = self.answer_bytes_max;
                let reason = format!("its answer has more than {max} bytes (knowledge.answer_bytes_max)");
                let (class, hints) = (ErrorType::Retrieval, Hints::default());
                return Err(Failed { class, reason, retries_max: None, hints });
            }
        }
        Ok(bytes)
    }

    fn unreached(&self, error: &CallError) -> Failed {
        let retries_max = match error {
            CallError::Transport(_) => Some(self.retries_max),
            // A service that timed out once will hardly answer at the third try.
            CallError::TimedOut(..) => Some(self.retries_max.min(1)),
            CallError::Blocked(_) | CallError::Redirects(_) | CallError::Location(_) => None,
        };
        let reason = format!("its service does not answer: {error}");
        Failed { class: ErrorType::Retrieval, reason, retries_max, hints: Hints::default() }
    }

    fn error(&self, failed: Failed) -> KnowledgeError {
        let Self { id, name, .. } = self;
        let message = format!("knowledge base {name:?} ([knowledge.datasets.\"{id}\"]): {}", failed.reason);
        KnowledgeError {
            class: failed.class,
            message: Hide::of_request(&self.headers, &self.url).text(&message),
            retryable: failed.retries_max.is_some(),
        }
    }
}

impl External {
    fn account(&self) -> String {
        format!("knowledge/{}", self.id)
    }

    /// The name of the search, the same when its job is delivered again.
    fn call(&self, models: &Models<'_>, body: &Bytes) -> String {
        let mark: String = Sha256::digest(body).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{}/search:{mark}", models.attempt())
    }
}

/// Returns true for statuses after which a retry may help.
fn may_pass(status: u16) -> bool {
    match status {
        408 | 425 | 429 => true,
        501 | 505 => false,
        other => other >= 500,
    }
}

#[async_trait::async_trait]
impl Knowledge for External {
    fn counted_in(&self, permits: CallPermits) {
        // Set once when the worker starts. A search whose job is parked continues its count.
        let _ = self.permits.set(permits);
    }

    async fn search(
        &self,
        search: SearchRequest<'_>,
        settings: &SearchSettings,
    ) -> Result<Vec<Passage>, KnowledgeError> {
        let SearchRequest { query, filters, models } = search;
        let setting = json!({
            "top_k": settings.top_k,
            "score_threshold": settings.score_threshold.unwrap_or(0.0),
        });
        let mut body =
            json!({"retrieval_setting": setting, "query": query, "knowledge_id": self.knowledge_id});
        if let Some(filters) = filters {
            body["metadata_condition"] = filters.to_json();
        }
        let body = Bytes::from(body.to_string());
        let mut tries = 0;
        loop {
            tries += 1;
            let failed = match self.ask(&body).await {
                Ok(passages) => return Ok(passages),
                Err(failed) => failed,
            };
            let again = models.leaves_tries() && failed.hints.retry.unwrap_or(failed.retries_max.is_some());
            let so_far = match self.permits.get() {
                Some(permits) if again => {
                    tries.max(permits.failed(&self.account(), &self.call(models, &body)).await)
                }
                Some(_) | None => tries,
            };
            if !again || so_far > failed.retries_max.unwrap_or(0) {
                return Err(self.error(failed));
            }
            let wait = failed.hints.after.filter(|after| !after.is_zero()).unwrap_or_else(|| pause(so_far));
            let reason = format!("the knowledge base {}: its service asks to wait, or has failed", self.name);
            models.rest(wait.min(WAIT_MAX), &reason).await;
        }
    }
}
