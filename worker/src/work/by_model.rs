//! A question to the user that a model answers instead (`execution: llm`): asked within the job, and the reply is the answer.

use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::user_interaction::{ByModel, UserInteractionData};
use tidemill_common::nodes::{NodeData, NodeResult};
use tidemill_common::value::Segment;

use super::{Flow, Stage, WorkContext};
use crate::calls::ask;
use crate::core::now;

/// The only step.
const STEP: &str = "llm:1";

/// The stage.
pub(super) struct Answering;

#[async_trait::async_trait]
impl Stage for Answering {
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        let graph = cx.graph.clone();
        let NodeData::UserInteraction(data) = &graph.node(cx.ix).data else { return Flow::On };
        let Some(by) = &data.by_model else { return Flow::On };
        Flow::End(Box::new(answer(cx, data, by).await.unwrap_or_else(NodeResult::failed)))
    }
}

async fn answer(
    cx: &WorkContext<'_>,
    data: &UserInteractionData,
    by: &ByModel,
) -> Result<NodeResult, NodeFailure> {
    let began = now();
    let prompt = data.model_prompt(&cx.variables);
    let providers = &cx.hand.core.outside.providers;
    let model = ask::model(providers, Some(&by.profile)).await;
    let model = model.map_err(|error| error.failure())?;
    let messages = ask::messages("", &prompt);
    let reply = model.ask(cx.steps, STEP, messages, by.parameters.clone(), &mut |_| {}).await?;
    let waited_ms = (now().micros() - began.micros()).max(0).unsigned_abs() / 1000;
    let outputs = vec![
        ("interaction_type".to_string(), Segment::string(data.interaction.name())),
        ("input".into(), Segment::string(reply.text.clone())),
        ("content".into(), Segment::string(reply.text)),
        ("execution_time".into(), Segment::infer(waited_ms.into())),
    ];
    Ok(NodeResult {
        inputs: vec![("prompt".into(), Segment::string(prompt))],
        usage: Some(reply.usage),
        ..NodeResult::outputs(outputs)
    })
}
