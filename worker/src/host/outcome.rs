//! Makes the result of a node from what its executor returns, so that what follows (records, costs, conversations) is the
//! same as for the worker's own executors.

use serde_json::json;
use tidemill_common::graph::Node;
use tidemill_common::nodes::llm::{turns, usage};
use tidemill_common::nodes::{NodeResult, Usage};
use tidemill_common::value::{JsonMap, Segment};

use crate::host::NodeOutcome;
use crate::host::given::Asked;
use crate::host::listen::Said;

/// Adds the outcome to what the record shows already.
pub(super) fn result(
    node: &Node,
    mut result: NodeResult,
    outcome: NodeOutcome,
    said: &Said<'_>,
    asked: Option<Asked>,
) -> NodeResult {
    let NodeOutcome { outputs, process_data, metadata, tokens, handle } = outcome;
    result.outputs = outputs.into_iter().map(|(name, value)| (name, Segment::restore_files(value))).collect();
    for (name, text) in said.texts() {
        match result.outputs.iter().find(|(known, _)| known == name) {
            Some((_, value)) => said.complete(name, &value.text()),
            None => result.outputs.push((name.clone(), Segment::string(text.clone()))),
        }
    }
    result.usage = tokens.map(|tokens| spent(&metadata, tokens));
    if let Some(usage) = &result.usage {
        result.metadata.extend(usage::metadata(usage));
    }
    result.metadata.extend(metadata);
    result.process_data.extend(process_data);
    if let Some(handle) = handle {
        result.handle = handle;
    }
    match asked {
        Some(asked) => replied(node, result, asked),
        None => result,
    }
}

/// The cost: the tokens, with the prices that the metadata names.
fn spent(metadata: &JsonMap, (prompt, completion): (u64, u64)) -> Usage {
    let mut reported = metadata.clone();
    reported.insert("prompt_tokens".into(), json!(prompt));
    reported.insert("completion_tokens".into(), json!(completion));
    reported.insert("total_tokens".into(), json!(prompt.saturating_add(completion)));
    usage::reported(&reported)
}

/// Adds what follows the reply of an `llm` node: the conversation, if it is kept or if another node reads it.
fn replied(node: &Node, mut result: NodeResult, asked: Asked) -> NodeResult {
    let reply = result.outputs.iter().find(|(name, _)| name == "text");
    let reply = reply.map(|(_, value)| value.text().into_owned()).unwrap_or_default();
    let Asked { prompt, joined } = asked;
    if node.gives_context {
        let context = turns::build_context(&prompt.messages, &reply, &prompt.secrets);
        result.outputs.push((turns::CONTEXT.to_owned(), context));
    }
    result.effects = joined.map(|(conversation, own)| Box::new(conversation.effects(own, &reply)));
    result
}
