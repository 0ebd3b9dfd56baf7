//! The `question-classifier` node: one model call, and the class its reply names. The reply is not streamed.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::nodes::llm::turns;
use tidemill_common::nodes::llm::{prompt::Prompt, usage};
use tidemill_common::nodes::question_classifier::answer::{Unread, choose};
use tidemill_common::nodes::question_classifier::{QuestionClassifierData, prompt};
use tidemill_common::nodes::{NodeResult, Usage};
use tidemill_common::value::template::Template;
use tidemill_common::value::{JsonMap, Segment, Variables};
use tidemill_common::warning::Warning;

use super::llm::{bill, in_vain, lost, masked, no_bill, note_asking, unresolved, usage_segment};
use crate::outside::providers::profile::ModelKind;
use crate::outside::providers::{ModelReply, Providers, Question, Waiter};

/// Runs the node. A failure is part of the result; a failure before the call leaves no record (Dify).
pub async fn run(
    data: &QuestionClassifierData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    providers: &Providers,
    waiter: &dyn Waiter,
    warn: &(dyn Fn(Warning) + Send + Sync),
) -> NodeResult {
    let model = match providers.resolve_for(&data.model, ModelKind::Llm, waiter.run()).await {
        Ok(model) => model,
        Err(error) => return NodeResult::failed(unresolved(error)),
    };
    let (prompt, inputs) = match prompt::assemble(data, variables, &model.facts()) {
        Ok(assembled) => assembled,
        Err(failure) => return NodeResult::failed(failure),
    };
    note_asking(node, &data.model, &prompt, warn);
    let result = NodeResult { inputs, ..NodeResult::default() };
    let reply = match model.for_job(waiter, "llm").ask(Question::from(&prompt), &mut |_| {}).await {
        Ok(reply) => reply,
        Err(error) => {
            let wasted = in_vain(&data.model, &model, lost(&model, &error));
            return NodeResult { wasted, ..failed(result, masked(error.into(), &prompt), no_bill()) };
        }
    };
    let usage = bill(&model, &reply);
    match choose(&reply.text, &data.classes) {
        Ok(at) => {
            let said = node
                .gives_context
                .then(|| turns::build_context(&prompt.messages, &reply.text, &prompt.secrets));
            let mut result = succeeded(result, data, variables, &prompt, &reply, usage, at);
            result.outputs.extend(said.map(|said| (turns::CONTEXT.to_owned(), said)));
            result
        }
        Err(Unread::Failed(failure)) => failed(result, masked(failure, &prompt), usage),
        // It is neither shown nor counted in the run's totals (Dify).
        Err(Unread::Escaped(failure)) => {
            let wasted = in_vain(&data.model, &model, Some(usage));
            NodeResult { wasted, ..NodeResult::failed(masked(failure, &prompt)) }
        }
    }
}

/// A failed call is charged too.
fn failed(result: NodeResult, failure: NodeFailure, usage: Usage) -> NodeResult {
    NodeResult { failure: Some(failure), metadata: usage::metadata(&usage), usage: Some(usage), ..result }
}

fn succeeded(
    result: NodeResult,
    data: &QuestionClassifierData,
    variables: &dyn Variables,
    prompt: &Prompt,
    reply: &ModelReply,
    usage: Usage,
    at: usize,
) -> NodeResult {
    let class = &data.classes[at];
    let mut process_data = JsonMap::new();
    for (key, value) in [
        ("model_mode", json!(data.model.mode.name())),
        ("prompts", prompt.record(data.model.mode)),
        ("usage", Json::Object(usage.record.clone())),
        ("finish_reason", json!(reply.finish_reason)),
        ("model_provider", json!(data.model.provider)),
        ("model_name", json!(data.model.name)),
    ] {
        process_data.insert(key.into(), value);
    }
    let name = Template::parse(&class.name).render_text(variables);
    let outputs = vec![
        ("class_name".into(), Segment::string(name)),
        ("class_label".into(), Segment::string(data.label(at))),
        ("class_id".into(), Segment::string(&class.id)),
        ("usage".into(), usage_segment(&usage)),
    ];
    NodeResult {
        process_data,
        outputs,
        handle: class.id.clone(),
        metadata: usage::metadata(&usage),
        usage: Some(usage),
        ..result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::providers::ModelError;
    use tidemill_common::need::Need;

    #[test]
    fn a_model_that_is_not_here_is_looked_for_on_other_workers_and_a_pause_is_kept() {
        let need = Need::Plugin { id: "a/b:1".into(), sha256: "ab".into() };
        let error = ModelError {
            retry_after_ms: Some(7),
            ..ModelError::value("no").for_want_of(need.clone()).passing()
        };
        let failure = unresolved(error);
        assert_eq!(failure.lacks, Some(Box::new(need)));
        assert_eq!((failure.retryable, failure.retry_after_ms), (true, Some(7)));
        assert_eq!(failure.error_type, NodeFailure::escaped("").error_type);
    }
}
