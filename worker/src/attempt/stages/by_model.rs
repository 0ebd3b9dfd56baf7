//! Lets a model answer a question to the user (`execution: llm`). The model is asked within the job, and its reply is
//! the answer.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::machine::state::pause::id_in_job;
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::user_interaction::{ByModel, UserInteractionData};
use tidemill_common::nodes::{NodeData, NodeResult};
use tidemill_common::value::{JsonMap, Segment};

use crate::attempt::journal::{EntryReport, EntryStart};
use crate::attempt::stages::{Flow, Stage, WorkContext};
use crate::jobs::shared::now;
use crate::outside::calls::model;

/// The journal key of the call to the model.
const STEP: &str = "llm:1";

/// The stage that lets a model answer.
pub(super) struct Answering;

#[async_trait::async_trait]
impl Stage for Answering {
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        let graph = cx.graph.clone();
        let NodeData::UserInteraction(data) = &graph.node(cx.ix).data else { return Flow::On };
        let Some(by) = &data.by_model else { return Flow::On };
        let asking = Asking::new(cx, data);
        let result = match asking.answer(by).await {
            Ok(result) => result,
            Err(failure) => {
                let report_data = asking.report_data(json!({"reason": failure.message}));
                asking.emit("failed", vec![(StepEvent::UserInteractionFailed, report_data)]).await;
                NodeResult::failed(failure)
            }
        };
        Flow::End(Box::new(result))
    }
}

/// A question to a model.
struct Asking<'a> {
    cx: &'a WorkContext<'a>,
    data: &'a UserInteractionData,
    /// The question's id in events and outputs.
    id: String,
    prompt: String,
}

impl<'a> Asking<'a> {
    fn new(cx: &'a WorkContext<'a>, data: &'a UserInteractionData) -> Self {
        let id = id_in_job(&cx.name.execution, STEP).to_string();
        Self { cx, data, id, prompt: data.model_prompt(&cx.variables) }
    }

    async fn answer(&self, by: &ByModel) -> Result<NodeResult, NodeFailure> {
        let began = now();
        let asked = self.report_data(json!({
            "operation_type": self.data.operation(), "interaction_type": self.data.interaction.name(),
            "prompt": self.prompt, "timeout": null, "context_data": {"profile_id": by.profile},
        }));
        self.emit("asked", vec![(StepEvent::UserInteractionRequested, asked)]).await;
        let providers = &self.cx.handle.core.outside.providers;
        let model = model::find(providers, Some(&by.profile)).await;
        let model = model.map_err(|error| error.failure())?;
        let messages = model::messages("", &self.prompt);
        let reply = model.ask(self.cx.journal, STEP, messages, by.parameters.clone(), &mut |_| {}).await?;
        let responded = self.report_data(json!({"input_data": reply.text}));
        let processed = self.report_data(json!({"operation_type": self.data.operation(), "results": {}}));
        let events = vec![
            (StepEvent::UserInteractionResponded, responded),
            (StepEvent::UserInteractionProcessed, processed),
        ];
        self.emit("answered", events).await;
        let waited_ms = (now().micros() - began.micros()).max(0).unsigned_abs() / 1000;
        let outputs = vec![
            ("interaction_id".to_string(), Segment::string(&self.id)),
            ("interaction_type".into(), Segment::string(self.data.interaction.name())),
            ("input".into(), Segment::string(reply.text.clone())),
            ("content".into(), Segment::string(reply.text)),
            ("execution_time".into(), Segment::infer(waited_ms.into())),
        ];
        Ok(NodeResult {
            inputs: vec![("prompt".into(), Segment::string(&self.prompt))],
            usage: Some(reply.usage),
            ..NodeResult::outputs(outputs)
        })
    }

    fn report_data(&self, what: Json) -> JsonMap {
        let mut report_data = JsonMap::from_iter([("interaction_id".to_owned(), self.id.as_str().into())]);
        report_data.extend(what.as_object().cloned().unwrap_or_default());
        report_data
    }

    /// Sends events once per attempt, even if a worker dies meanwhile.
    async fn emit(&self, what: &str, events: Vec<(StepEvent, JsonMap)>) {
        let step = format!("interaction:{what}:{}", self.cx.name.number);
        if let EntryStart::Try(the_try) = self.cx.journal.begin(&step).await {
            let report_data = EntryReport { events, charge: None };
            self.cx.journal.record(&step, the_try.number, &Json::Null, report_data).await;
        }
    }
}
