//! Asks a model one question with a journal entry: asked once, recorded, and charged once.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::need::Need;
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::llm::message::{Message, MessagePart};
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::profile::NOT_FOUND;
use tidemill_common::nodes::llm::{ModelMode, Role};
use tidemill_common::nodes::step::CallError;
use tidemill_common::value::JsonMap;

use crate::attempt::journal::{ChargeSource, EntryReport, EntryStart, Journal};
use crate::nodes::llm::{bill, lost};
use crate::outside::providers::profile::{ProfileError, Responder};
use crate::outside::providers::{DeltaSink, Model, Providers, Question};

/// A model, and the provider name it is charged under.
pub(crate) struct StepModel {
    model: Model,
    provider: String,
}

/// The text and cost of a model's reply.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) usage: Usage,
}

/// Returns the model of a profile, or of the default profile.
///
/// # Errors
/// The profile does not exist, or cannot be used.
pub(crate) async fn find(providers: &Providers, profile: Option<&str>) -> Result<StepModel, CallError> {
    let id = profile.unwrap_or("default");
    let named = providers.profile(id).await.map_err(|error| match error {
        ProfileError::NotFound { ref id } => {
            CallError::of(NOT_FOUND, error.to_string()).lacking(Need::Profile { id: id.clone() })
        }
        ProfileError::Unusable(error) => {
            let message = error.to_string();
            let (retryable, lacks) = (error.retryable, error.lacks);
            CallError { retryable, lacks, ..CallError::of("LLMProfileError", message) }
        }
    })?;
    let (profile, provider) = (named.id.clone(), named.profile.provider.clone());
    match named.responder {
        Responder::Model(model) => Ok(StepModel { model: *model, provider }),
        Responder::Person => {
            let message = format!("the profile {profile} is answered by a person and cannot serve a step");
            Err(CallError::of("LLMProfileError", message))
        }
    }
}

/// Builds a system and a user message.
pub(crate) fn messages(system: &str, user: &str) -> Vec<Message> {
    let message = |role, text: &str| Message {
        role,
        parts: vec![MessagePart::Text(text.to_owned())],
        tool_calls: Vec::new(),
        tool_call_id: None,
        verbatim: Vec::new(),
    };
    let system = Some(message(Role::System, system)).filter(|_| !system.is_empty());
    system.into_iter().chain([message(Role::User, user)]).collect()
}

/// The total size of a prompt's texts, in bytes.
fn bytes_of(messages: &[Message]) -> usize {
    let texts = messages.iter().flat_map(|message| &message.parts).map(|part| match part {
        MessagePart::Text(text) => text.len(),
        MessagePart::File(_) => 0,
    });
    texts.sum()
}

impl StepModel {
    /// Asks the model, or takes the recorded reply. Pieces go to `on_delta` as they arrive; a recorded reply goes there
    /// at once.
    ///
    /// # Errors
    /// An error of the provider.
    pub(crate) async fn ask(
        &self,
        journal: &Journal,
        step: &str,
        messages: Vec<Message>,
        params: JsonMap,
        on_delta: DeltaSink<'_>,
    ) -> Result<Reply, NodeFailure> {
        let the_try = match journal.begin(step).await {
            EntryStart::Known(known) => {
                let reply = Reply::read(&known);
                if !reply.text.is_empty() {
                    on_delta(&reply.text);
                }
                return Ok(reply);
            }
            EntryStart::Try(the_try) => the_try,
        };
        let (bytes, bytes_max) = (bytes_of(&messages), journal.prompt_bytes_max());
        if bytes > bytes_max {
            let message =
                format!("the prompt has {bytes} bytes, and may have {bytes_max} (worker.prompt_bytes_max)");
            return Err(NodeFailure::new("ValidationError", message));
        }
        let params = Params { values: params, stop: Vec::new() };
        let question = Question { messages, params, tools: Vec::new(), mode: ModelMode::Chat, stream: true };
        let answer = self.model.for_job(journal, step).ask(question, on_delta).await;
        let reply = answer.inspect_err(|error| {
            if let Some(usage) = lost(&self.model, error) {
                journal.add_wasted(&self.provider, self.model.name(), usage);
            }
        })?;
        let reply = Reply { usage: bill(&self.model, &reply), text: reply.text };
        let spender = ChargeSource::Model(self.provider.clone(), self.model.name().to_owned());
        let report = EntryReport { events: Vec::new(), charge: Some((reply.usage.clone(), spender)) };
        journal.record(step, the_try.number, &reply.kept(), report).await;
        Ok(reply)
    }
}

impl Reply {
    fn kept(&self) -> Json {
        json!({"text": self.text, "usage": self.usage.record})
    }
    fn read(kept: &Json) -> Self {
        let usage = kept.get("usage").and_then(Json::as_object).cloned().unwrap_or_default();
        let text = kept.get("text").and_then(Json::as_str).unwrap_or_default().to_owned();
        Self { text, usage: Usage::from_record(usage) }
    }
}
