//! Events that the workflow's author has defined, told before the node begins and behind its end. Each is a step of the
//! job, so that a job that is handed out again tells none of them twice.

use serde_json::{Value as Json, json};
use tidemill_common::machine::changes::StepEvent;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::hooks::{Came, HookType};
use tidemill_common::value::JsonMap;

use super::{Flow, Stage, WorkContext};
use crate::steps::{Begun, Told};

/// The stage.
pub(super) struct Hooks;

#[async_trait::async_trait]
impl Stage for Hooks {
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        let came = Came { status: "running", ..Came::default() };
        match tell(cx, HookType::Before, &came).await {
            Ok(()) => Flow::On,
            Err(failure) => Flow::End(Box::new(NodeResult::failed(failure))),
        }
    }

    async fn after(&self, cx: &mut WorkContext<'_>, result: &mut NodeResult) {
        // What waits has no end yet.
        if result.pause.is_some() {
            return;
        }
        let outputs = result.outputs.iter().map(|(name, value)| (name.clone(), value.value.clone()));
        let failure = result.failure.as_ref();
        let came = Came {
            output: outputs.collect(),
            status: if failure.is_some() { "failed" } else { "succeeded" },
            error: failure.map(|failure| failure.message.clone()).unwrap_or_default(),
        };
        if let Err(failure) = tell(cx, HookType::After, &came).await
            && result.failure.is_none()
        {
            let inputs = std::mem::take(&mut result.inputs);
            *result = NodeResult { inputs, usage: result.usage.take(), ..NodeResult::failed(failure) };
        }
    }
}

async fn tell(
    cx: &WorkContext<'_>,
    hook_type: HookType,
    came: &Came,
) -> Result<(), tidemill_common::failure::NodeFailure> {
    let Some(work) = cx.node().work.as_deref() else { return Ok(()) };
    let word = if hook_type == HookType::Before { "before" } else { "after" };
    for hook in work.hooks.of(hook_type) {
        let place = hook.place;
        // A further attempt has an end of its own.
        let attempt = cx.name.number;
        let key = match hook_type {
            HookType::After if attempt > 1 => format!("hook:{word}:{place}:{attempt}"),
            HookType::Before | HookType::After => format!("hook:{word}:{place}"),
        };
        let Begun::Try(the_try) = cx.steps.begin(&key).await else { continue };
        let event = hook.event(&cx.variables, came)?;
        let events: Vec<(StepEvent, JsonMap)> =
            event.into_iter().map(|event| (StepEvent::NodeCustomEvent, event)).collect();
        let kept: Json = json!(!events.is_empty());
        cx.steps.record(&key, the_try.number, &kept, Told { events, charge: None }).await;
    }
    Ok(())
}
