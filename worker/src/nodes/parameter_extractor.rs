//! The `parameter-extractor` node: one model call, and the values in its reply. The reply is not streamed.
//!
//! An unsuitable reply is not a failure but sets `__reason`. Only a failing call fails the node, with its own outputs
//! and without an error type (Dify).

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::llm::message::ToolSpec;
use tidemill_common::nodes::llm::turns;
use tidemill_common::nodes::llm::{prompt::Prompt, record, usage};
use tidemill_common::nodes::parameter_extractor::result::extract;
use tidemill_common::nodes::parameter_extractor::{ParameterExtractorData, prompt};
use tidemill_common::value::{JsonMap, Segment, Variables};
use tidemill_common::warning::Warning;

use super::llm::{bill, in_vain, lost, masked, note_asking, unresolved, usage_segment};
use crate::outside::providers::profile::ModelKind;
use crate::outside::providers::{Model, ModelReply, Providers, Question, Waiter};

/// Runs the node. A failure is part of the result; a failure before the call leaves no record (Dify). With
/// `requires_all` an absent optional parameter is reported, as on Dify.
pub async fn run(
    data: &ParameterExtractorData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    providers: &Providers,
    waiter: &dyn Waiter,
    warn: &(dyn Fn(Warning) + Send + Sync),
    requires_all: bool,
) -> NodeResult {
    let model = match providers.resolve_for(&data.model, ModelKind::Llm, waiter.run()).await {
        Ok(model) => model,
        Err(error) => return NodeResult::failed(unresolved(error)),
    };
    let (prompt, tool, inputs) = match prompt::assemble(data, variables, &model.facts()) {
        Ok(assembled) => assembled,
        Err(failure) => return NodeResult::failed(failure),
    };
    note_asking(node, &data.model, &prompt, warn);
    let process_data = process_data(data, &prompt, tool.as_ref());
    let result = NodeResult { inputs, process_data, ..NodeResult::default() };
    let tools = tool.into_iter().collect();
    let question = Question { tools, stream: false, ..Question::from(&prompt) };
    match model.for_job(waiter, "llm").ask(question, &mut |_| {}).await {
        Ok(reply) => {
            let said = node
                .gives_context
                .then(|| turns::build_context(&prompt.messages, &reply.text, &prompt.secrets));
            let mut result = succeeded(result, data, &model, reply, requires_all);
            result.outputs.extend(said.map(|said| (data.context_name().to_owned(), said)));
            result
        }
        Err(error) => {
            let wasted = in_vain(&data.model, &model, lost(&model, &error));
            NodeResult { wasted, ..failed(result, masked(error.into(), &prompt)) }
        }
    }
}

fn process_data(data: &ParameterExtractorData, prompt: &Prompt, tool: Option<&ToolSpec>) -> JsonMap {
    let function = |tool: &ToolSpec| json!({"name": tool.name, "description": tool.description, "parameters": tool.parameters});
    let mut process_data = JsonMap::new();
    for (key, value) in [
        ("model_mode", json!(data.model.mode.name())),
        ("prompts", prompt.record(data.model.mode)),
        ("usage", Json::Null),
        ("function", tool.map_or_else(|| json!({}), function)),
        ("tool_call", Json::Null),
        ("model_provider", json!(data.model.provider)),
        ("model_name", json!(data.model.name)),
    ] {
        process_data.insert(key.into(), value);
    }
    process_data
}

fn failed(result: NodeResult, failure: NodeFailure) -> NodeResult {
    let outputs = vec![
        ("__is_success".into(), Segment::infer(json!(0))),
        ("__reason".into(), Segment::string("Failed to invoke model")),
        ("__error".into(), Segment::string(&failure.message)),
    ];
    let failure = NodeFailure { error_type: String::new(), ..failure };
    NodeResult { outputs, failure: Some(failure), ..result }
}

fn succeeded(
    mut result: NodeResult,
    data: &ParameterExtractorData,
    model: &Model,
    reply: ModelReply,
    requires_all: bool,
) -> NodeResult {
    let usage = bill(model, &reply);
    let call = reply.tool_calls.first();
    let extracted = extract(&data.parameters, call, &reply.text, requires_all);
    let process_data = &mut result.process_data;
    process_data.insert("usage".into(), Json::Object(usage.record.clone()));
    process_data.insert("tool_call".into(), call.map_or(Json::Null, record::tool_call));
    process_data.insert("llm_text".into(), json!(reply.text));
    let mut outputs = vec![
        ("__is_success".to_owned(), Segment::infer(json!(i32::from(extracted.reason.is_none())))),
        ("__reason".to_owned(), Segment::infer(json!(extracted.reason))),
        ("__usage".to_owned(), usage_segment(&usage)),
    ];
    for (name, value) in extracted.values {
        // A parameter named like one of these (`__usage`) replaces it (Dify).
        match outputs.iter_mut().find(|(known, _)| *known == name) {
            Some((_, output)) => *output = value,
            None => outputs.push((name, value)),
        }
    }
    NodeResult { outputs, metadata: usage::metadata(&usage), usage: Some(usage), ..result }
}
