//! The `llm` node: prompt, call, record. The prompt itself is made in `tidemill-common`.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::nodes::evaluate::UndefinedNames;
use tidemill_common::nodes::llm::prompt::{self, Prompt};
use tidemill_common::nodes::llm::usage::{self, Timing};
use tidemill_common::nodes::llm::{LlmData, ModelConfig};
use tidemill_common::nodes::{NodeResult, Usage};
use tidemill_common::value::{JsonMap, Segment, SegmentType, Variables};

use crate::providers::{DeltaSink, Model, ModelReply, Providers};

/// Runs the node. Pieces of text go to `on_delta` as they arrive, none of them empty; the empty chunk that ends a stream
/// is the caller's. A failure is part of the result, with the inputs as far as they were known. Every variable that the
/// node mentions must be at hand. Dropping the future ends the call.
pub async fn run(
    data: &LlmData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    undefined: UndefinedNames,
    providers: &Providers,
    on_delta: DeltaSink<'_>,
) -> NodeResult {
    let mut result = NodeResult::default();
    let prompt = match prompt::assemble(data, variables, undefined, &mut result.inputs) {
        Ok(prompt) => prompt,
        Err(failure) => return NodeResult { failure: Some(failure), ..result },
    };
    tracing::debug!(node = %node.id, model = %data.model.name, messages = prompt.messages.len(), "asking the model");
    match ask(&data.model, &prompt, providers, on_delta).await {
        Ok((model, reply)) => succeeded(result, data, &prompt, &model, reply),
        Err(failure) => {
            // A provider may repeat the prompt in its complaint.
            let message = prompt.secrets.masked(&failure.message);
            NodeResult { failure: Some(NodeFailure { message, ..failure }), ..result }
        }
    }
}

async fn ask(
    config: &ModelConfig,
    prompt: &Prompt,
    providers: &Providers,
    on_delta: DeltaSink<'_>,
) -> Result<(Model, ModelReply), NodeFailure> {
    let model = providers.resolve(config)?;
    let reply = model.ask(prompt.into(), on_delta).await?;
    Ok((model, reply))
}

fn succeeded(
    result: NodeResult,
    data: &LlmData,
    prompt: &Prompt,
    model: &Model,
    reply: ModelReply,
) -> NodeResult {
    let usage = bill(model, &reply);
    let finish_reason = reply.finish_reason.map_or(Json::Null, Json::String);
    let mut process_data = JsonMap::new();
    for (key, value) in [
        ("model_mode", json!(data.model.mode.name())),
        ("prompts", prompt.record(data.model.mode)),
        ("usage", Json::Object(usage.record.clone())),
        ("finish_reason", finish_reason.clone()),
        ("model_provider", json!(data.model.provider)),
        ("model_name", json!(data.model.name)),
    ] {
        process_data.insert(key.into(), value);
    }
    let outputs = vec![
        ("text".into(), Segment::string(reply.text)),
        // The reasoning stays within the text, but the output is always there.
        ("reasoning_content".into(), Segment::string("")),
        ("usage".into(), Segment::new(SegmentType::Object, Json::Object(usage.record.clone()))),
        ("finish_reason".into(), Segment::infer(finish_reason)),
    ];
    NodeResult { process_data, outputs, metadata: usage::metadata(&usage), usage: Some(usage), ..result }
}

fn bill(model: &Model, reply: &ModelReply) -> Usage {
    let first_token = reply.first_token.map(|first| first.as_secs_f64());
    let timing = Timing {
        latency: reply.latency.as_secs_f64(),
        first_token,
        generate: first_token.map(|first| (reply.latency.as_secs_f64() - first).max(0.0)),
    };
    usage::bill(reply.tokens, model.pricing.as_ref(), timing)
}
