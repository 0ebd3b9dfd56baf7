//! Explains the failure of a step in plain words, for runs with `on_error.use_llm`: a model receives the error, and its
//! text goes to the user. The run still ends as failed. If the model fails too, nothing is sent.

use serde_json::json;
use tidemill_common::graph::Node;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::pause::CALLED_OFF;
use tidemill_common::nodes::step::texts::{EXPLAIN_PROMPT, Text};
use tidemill_common::value::JsonMap;

use crate::attempt::executor::AttemptName;
use crate::attempt::journal::Journal;
use crate::outside::calls::model;
use crate::outside::calls::model::messages;
use crate::outside::calls::run::step_text::StepText;
use crate::outside::calls::step_events::{Status, StepEvents, Took, emit};
use crate::outside::providers::Providers;

/// The name of the explaining step.
const TITLE: Text = Text { zh: "错误处理", en: "Error" };

/// The context of the failed step.
pub(crate) struct Explaining<'a> {
    pub(crate) node: &'a Node,
    pub(crate) options: &'a RunOptions,
    pub(crate) providers: &'a Providers,
    pub(crate) journal: &'a Journal,
    pub(crate) name: AttemptName,
    pub(crate) profile: Option<&'a str>,
}

impl Explaining<'_> {
    /// Explains a failure that ends the run, if the run asks for that.
    pub(crate) async fn explain(&self, result: &mut NodeResult) {
        let choices = self.options.choices();
        let Some(failure) = result.failure.as_ref().filter(|_| choices.explains_errors) else { return };
        let (node, retry) = (self.node, &self.node.retry);
        let again = failure.retryable && retry.enabled && self.name.number <= retry.retries_max;
        if again || failure.error_type == CALLED_OFF || node.error_strategy.is_some() || node.child.is_some()
        {
            return;
        }
        let (said, language) = (failure.message.clone(), choices.language);
        let step_events = StepEvents {
            id: format!("{}_error", node.id),
            name: TITLE.of(language).to_owned(),
            description: String::new(),
            ty: "llm".to_owned(),
            attempt: self.name.number,
        };
        let Ok(model) = model::find(self.providers, self.profile).await else { return };
        let asked = json!({"step": node.title, "error_type": failure.error_type, "error": said});
        emit(self.journal, step_events.event(StepEvent::StepInput, Status::Running, asked.clone()));
        let asked = messages(EXPLAIN_PROMPT.of(language), &asked.to_string());
        let stream = StepText::new(self.journal, &step_events);
        let mut on_delta = |text: &str| stream.push(text);
        let asking = model.ask(self.journal, "explain:1", asked, JsonMap::new(), &mut on_delta);
        match stream.of(asking).await {
            Ok(reply) => {
                let (input_tokens, output_tokens) =
                    (reply.usage.prompt_tokens, reply.usage.completion_tokens);
                let took = Took { input_tokens, output_tokens, ..Took::default() };
                emit(self.journal, step_events.output(Status::Success, json!({"text": reply.text}), took));
                result.process_data.insert("explanation".into(), json!(reply.text));
            }
            Err(error) => {
                // The error may contain the question, which must not be logged.
                let error_type = error.error_type;
                tracing::info!(node = %node.id, error_type, "the model that explains a failure failed");
                emit(self.journal, step_events.output(Status::Error, json!({}), Took::default()));
            }
        }
    }
}
