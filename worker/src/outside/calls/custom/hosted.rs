//! Runs a Call by an executor of the program around this worker. Each operation is one execution: its `config` names the
//! operation, its inputs are the parameters or the input.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::need::Need;
use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::registry::calls::Operation;
use tidemill_common::value::JsonMap;

use crate::host::listen::{End, Said, follow};
use crate::host::pauses::Questions;
use crate::host::{NodeCall, NodeOutcome};
use crate::outside::calls::catalog::VALUE_ERROR;
use crate::outside::calls::custom::Custom;
use crate::outside::calls::{CallContext, ChunkSink};

/// Builds the input: the outputs of the operation `init`.
pub(super) async fn init(
    call: &Custom,
    cx: CallContext<'_>,
    params: JsonMap,
    call_vars: Json,
) -> Result<JsonMap, CallError> {
    let config = json!({"call": &*call.id, "operation": Operation::Init.name(), "call_vars": call_vars});
    Ok(run(call, cx, params, (Operation::Init, config), &mut |_| {}).await?.outputs)
}

/// Runs the Call. Its pieces are texts; its outputs, if it has any, are an object that replaces them.
pub(super) async fn exec(
    call: &Custom,
    cx: CallContext<'_>,
    input: JsonMap,
    out: ChunkSink<'_>,
) -> Result<(), CallError> {
    let config = |operation: Operation| json!({"call": &*call.id, "operation": operation.name()});
    let operation = Operation::Exec;
    let done = run(call, cx, input.clone(), (operation, config(operation)), out).await?;
    if !done.outputs.is_empty() {
        out(Chunk::Data(done.outputs));
    }
    let after = Operation::AfterExec;
    if call.manifest.has(after) {
        run(call, cx, input, (after, config(after)), &mut |_| {}).await?;
    }
    Ok(())
}

/// Runs one operation.
async fn run(
    call: &Custom,
    cx: CallContext<'_>,
    inputs: JsonMap,
    (operation, config): (Operation, Json),
    out: ChunkSink<'_>,
) -> Result<NodeOutcome, CallError> {
    let id = &*call.id;
    let executor = cx.calls.hosted(id).ok_or_else(|| {
        let message = format!("the program around a worker runs the Call {id}, and not that of this worker");
        CallError::of(VALUE_ERROR, message).lacking(Need::Call { id: id.into() })
    })?;
    let key = format!("host:{}", operation.name());
    let questions = Questions { journal: cx.journal, node: cx.node, options: cx.options, key: &key };
    let mut answers = questions.answered().await;
    let out = Mutex::new(out);
    let on_piece = &|_: &str, text: &str| {
        if let Ok(mut out) = out.lock() {
            (*out)(Chunk::Text(text.to_owned()));
        }
    };
    let (bytes_max, most) = (
        (usize::try_from(cx.calls.config.answer_bytes_max).unwrap_or(usize::MAX), "calls.answer_bytes_max"),
        Duration::from_secs(cx.calls.config.seconds_max),
    );
    loop {
        let attempt = NodeCall {
            config: config.as_object().cloned().unwrap_or_default(),
            inputs: inputs.clone(),
            answer: answers.last().cloned(),
            answers: answers.clone(),
            ..about(cx)
        };
        let mut said = Said::new(bytes_max, on_piece);
        let end = tokio::time::timeout(most, follow(&**executor, attempt, &mut said)).await;
        match end {
            Ok(End::Succeeded(outcome)) => return Ok(outcome),
            Ok(End::Failed(failure)) => return Err(failure.into()),
            Ok(End::Asks { message, schema }) => {
                answers.push(questions.ask(answers.len(), message, schema).await?);
            }
            Err(_) => {
                let message =
                    format!("the Call {id} has not ended within {} s (calls.seconds_max)", most.as_secs());
                return Err(CallError::of("TimeoutError", message));
            }
        }
    }
}

fn about(cx: CallContext<'_>) -> NodeCall {
    NodeCall {
        run: cx.name.run.to_string(),
        execution: cx.name.execution.to_string(),
        attempt: cx.name.number,
        node: cx.node.id.as_str().to_owned(),
        node_type: cx.node.kind.wire().to_owned(),
        title: cx.node.title.clone(),
        ..NodeCall::default()
    }
}
