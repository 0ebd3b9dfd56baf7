//! A person instead of a model: the person sees the request, and their answer is the reply.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::failure::{EngineErrorType, NodeFailure};
use tidemill_common::graph::Node;
use tidemill_common::ids::ExecutionId;
use tidemill_common::machine::state::pause::id_in_job;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::messages::{self, Effects};
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::llm::message::Message;
use tidemill_common::nodes::llm::profile::ProfileData;
use tidemill_common::nodes::llm::record::{self, Secrets};
use tidemill_common::nodes::llm::{ModelMode, Role};
use tidemill_common::nodes::pause::{PauseKind, PauseRequest, called_off};
use tidemill_common::registry::ProfileConfig;
use tidemill_common::value::{JsonMap, Segment};

use super::failed::Failed;
use super::reply::Reply;
use super::{conversation, failed, list, outcome};
use crate::attempt::journal::{EntryReport, EntryStart, Journal, PauseEnd};
use crate::jobs::shared::now;
use crate::nodes::llm::no_bill;

/// Default time for the answer, in milliseconds.
const TIMEOUT_MS: u64 = 300_000;
/// The journal key of the person's answer.
const STEP: &str = "human_relay";

/// The question to a person.
pub(super) struct HumanRelay<'a> {
    pub(super) data: &'a ProfileData,
    pub(super) node: &'a Node,
    pub(super) profile: Arc<ProfileConfig>,
    pub(super) secrets: Secrets,
    pub(super) journal: &'a Journal,
    pub(super) execution: ExecutionId,
    pub(super) before: Vec<messages::Message>,
}

impl HumanRelay<'_> {
    /// Parks the job until the answer comes, then ends the node with it.
    pub(super) async fn answers(self, mut result: NodeResult, prompt: &str) -> NodeResult {
        if self.node.child.is_some() {
            let why =
                "a profile that a person answers (HUMAN_RELAY) cannot be asked by a node inside another";
            return failed(result, &Failed::validation(why));
        }
        let journal = self.journal;
        let timeout = self.profile.timeout.unwrap_or(TIMEOUT_MS);
        let masked = self.secrets.masked(prompt);
        let mut shown: Vec<Message> =
            messages::sendable(&self.before).iter().map(conversation::sent).collect();
        shown.push(Message::text(Role::User, prompt));
        let count = shown.len();
        let messages = record::prompts(&shown, ModelMode::Chat, &self.secrets);
        // Sent once, however often the job is delivered.
        let asked = json!({"prompt": masked, "message_count": count, "timeout": timeout});
        let asked_at =
            self.emit_once("asked", vec![(StepEvent::HumanRelayRequested, self.about(asked))]).await;
        let details = JsonMap::from_iter([
            ("message_count".to_owned(), json!(count)),
            ("messages".to_owned(), messages.clone()),
        ]);
        let schema = json!({"type": ["string", "object"]});
        let question = PauseRequest::asking(PauseKind::HumanRelay, masked.clone(), schema);
        let request = PauseRequest { timeout_ms: Some(timeout), details, ..question };
        result.process_data.insert("prompts".into(), messages);
        let answer = match journal.pause(STEP, request).await {
            PauseEnd::Answered(answer) => answer,
            PauseEnd::Expired => {
                let reason = format!("Human relay timeout after {timeout}ms");
                self.emit_failed(&reason).await;
                let failure = NodeFailure::new(EngineErrorType::Timeout.name(), reason);
                let effects = self.history(&result, &masked, Err(failure.clone()));
                return NodeResult { effects: Some(effects), ..failed(result, &failure.into()) };
            }
            PauseEnd::Cancelled => {
                let reason = "Human relay cancelled";
                self.emit_failed(reason).await;
                return called_off(reason);
            }
        };
        let content = answer.get("content").unwrap_or(&answer);
        let content = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        let message = json!({"role": self.role().name(), "content": content});
        let waited_ms = (now().micros() - asked_at).max(0) / 1000;
        let answered = vec![
            (StepEvent::HumanRelayResponded, self.about(json!({"content": content}))),
            (
                StepEvent::HumanRelayProcessed,
                self.about(json!({"message": message, "execution_time": waited_ms})),
            ),
        ];
        self.emit_once("answered", answered).await;
        self.ended(result, prompt, content)
    }

    fn about(&self, more: Json) -> JsonMap {
        let request_id = id_in_job(&self.execution, STEP);
        let mut told = JsonMap::from_iter([("request_id".to_owned(), json!(&*request_id))]);
        told.extend(more.as_object().cloned().unwrap_or_default());
        told
    }

    async fn emit_failed(&self, reason: &str) {
        let told = self.about(json!({"reason": reason}));
        self.emit_once("failed", vec![(StepEvent::HumanRelayFailed, told)]).await;
    }

    /// Sends events once, and returns the time they were sent (µs).
    async fn emit_once(&self, part: &str, events: Vec<(StepEvent, JsonMap)>) -> i64 {
        let (journal, step, at) = (self.journal, format!("{STEP}:{part}"), now().micros());
        match journal.begin(&step).await {
            // An earlier version did not record the time.
            EntryStart::Known(told) => told.as_i64().unwrap_or(at),
            EntryStart::Try(the_try) => {
                journal.record(&step, the_try.number, &json!(at), EntryReport { events, charge: None }).await;
                at
            }
        }
    }

    /// The role of the answer in the message list.
    fn role(&self) -> Role {
        self.data.conversation.as_ref().map_or(Role::Assistant, |conversation| conversation.output_as)
    }

    /// Builds the result with the answer as a model's reply.
    fn ended(self, result: NodeResult, prompt: &str, content: String) -> NodeResult {
        let reply = Reply {
            text: content.clone(),
            tool_calls: Vec::new(),
            files: Vec::new(),
            verbatim: Vec::new(),
            finish_reason: Some("stop".into()),
            usage: no_bill(),
            possible_duplicate: false,
        };
        let said = [Message::text(Role::User, prompt), reply.message()];
        let said = conversation::said(&said, &self.secrets, self.data.conversation.as_ref());
        let context = (self.data.emits_context || self.node.gives_context)
            .then(|| messages::context_of(self.before.iter().chain(&said)));
        let mut outputs = vec![
            ("content".to_owned(), Segment::string(content.clone())),
            ("text".to_owned(), Segment::string(content)),
            ("tool_calls".to_owned(), list(Vec::new())),
            ("tool_results".to_owned(), list(Vec::new())),
            ("usage".to_owned(), Segment::none()),
            ("finish_reason".to_owned(), Segment::string("stop")),
            ("reasoning_content".to_owned(), Segment::string("")),
        ];
        outputs.extend(context.map(|context| ("context".to_owned(), Segment::infer(context))));
        let mut effects = self.history(&result, &self.secrets.masked(prompt), Ok(reply));
        if let Some(conversation) = &self.data.conversation {
            effects.messages = Effects::appending(conversation.id.clone(), said).messages;
        }
        NodeResult { outputs, effects: Some(effects), ..result }
    }

    fn history(&self, result: &NodeResult, prompt: &str, ended: Result<Reply, NodeFailure>) -> Box<Effects> {
        let profile_id = result.process_data.get("profile_id").cloned().unwrap_or_default();
        let asked = outcome::Question { profile_id, prompt: prompt.to_owned(), usage: None, calls: &[] };
        let record = outcome::history(&asked, &ended.map_err(Failed::from));
        Box::new(Effects { history: vec![record], ..Effects::default() })
    }
}
