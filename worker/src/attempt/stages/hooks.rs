//! Sends the hook events that the workflow's author has defined before a node starts and after it has ended. Each has a
//! journal entry, so a job that is delivered again sends none twice.

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::hooks::{HookType, NodeOutcome};
use tidemill_common::value::JsonMap;

use crate::attempt::journal::{Begun, Told};
use crate::attempt::stages::{Flow, Stage, WorkContext};

/// The stage that sends hook events.
pub(super) struct Hooks;

/// The way a node reached the end reported to its hooks. An event sent for one way is sent again for another: the
/// earlier worker may be gone, and the node has reached a different end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// Through its stages.
    Own,
    /// While no worker held the job.
    Kept,
    /// By its time limit.
    OutOfTime,
}

impl Way {
    /// The suffix of the journal key.
    const fn mark(self) -> &'static str {
        match self {
            Self::Own => "",
            Self::Kept => ":kept",
            Self::OutOfTime => ":time",
        }
    }
}

#[async_trait::async_trait]
impl Stage for Hooks {
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        let outcome = NodeOutcome { status: "running", ..NodeOutcome::default() };
        match tell(cx, HookType::Before, &outcome, Way::Own).await {
            Ok(()) => Flow::On,
            Err(failure) => Flow::End(Box::new(NodeResult::failed(failure))),
        }
    }

    async fn after(&self, cx: &mut WorkContext<'_>, result: &mut NodeResult) {
        // A waiting node has not ended.
        if result.pause.is_none() {
            ended(cx, result, Way::Own).await;
        }
    }
}

/// Sends the events of hooks after the end of a node. A failing hook fails its node.
pub(super) async fn ended(cx: &WorkContext<'_>, result: &mut NodeResult, way: Way) {
    let outputs = result.outputs.iter().map(|(name, value)| (name.clone(), value.value.clone()));
    let failure = result.failure.as_ref();
    let outcome = NodeOutcome {
        output: outputs.collect(),
        status: if failure.is_some() { "failed" } else { "succeeded" },
        error: failure.map(|failure| failure.message.clone()).unwrap_or_default(),
    };
    if let Err(failure) = tell(cx, HookType::After, &outcome, way).await
        && result.failure.is_none()
    {
        let inputs = std::mem::take(&mut result.inputs);
        *result = NodeResult { inputs, usage: result.usage.take(), ..NodeResult::failed(failure) };
    }
}

async fn tell(
    cx: &WorkContext<'_>,
    hook_type: HookType,
    outcome: &NodeOutcome,
    way: Way,
) -> Result<(), tidemill_common::failure::NodeFailure> {
    let Some(work) = cx.node().work.as_deref() else { return Ok(()) };
    let word = if hook_type == HookType::Before { "before" } else { "after" };
    for hook in work.hooks.of(hook_type) {
        let place = hook.place;
        // Each attempt has its own end.
        let attempt = cx.name.number;
        let mark = way.mark();
        let key = match hook_type {
            HookType::After if attempt > 1 => format!("hook:{word}:{place}:{attempt}{mark}"),
            HookType::Before | HookType::After => format!("hook:{word}:{place}{mark}"),
        };
        let Begun::Try(the_try) = cx.steps.begin(&key).await else { continue };
        let event = hook.event(&cx.variables, outcome)?;
        let events: Vec<(StepEvent, JsonMap)> =
            event.into_iter().map(|event| (StepEvent::NodeCustomEvent, event)).collect();
        let kept: Json = json!(!events.is_empty());
        cx.steps.record(&key, the_try.number, &kept, Told { events, charge: None }).await;
    }
    Ok(())
}
