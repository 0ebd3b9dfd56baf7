//! Events that the workflow's author has defined, told before the node begins and behind its end. Each is a step of the
//! job, so that a job that is handed out again tells none of them twice.

use serde_json::{Value as Json, json};
use tidemill_common::machine::events::StepEvent;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::hooks::{Came, HookType};
use tidemill_common::value::JsonMap;

use super::{Flow, Stage, WorkContext};
use crate::steps::{Begun, Told};

/// The stage.
pub(super) struct Hooks;

/// On which way a node came to the end that its hooks are told of. What was told on one way is told on another all the same:
/// whoever told it may be gone, and the node has come to another end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    /// Through its stages.
    Own,
    /// While nobody had it.
    Kept,
    /// Its time is over.
    OutOfTime,
}

impl Way {
    /// What stands behind the key of a step.
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
        let came = Came { status: "running", ..Came::default() };
        match tell(cx, HookType::Before, &came, Way::Own).await {
            Ok(()) => Flow::On,
            Err(failure) => Flow::End(Box::new(NodeResult::failed(failure))),
        }
    }

    async fn after(&self, cx: &mut WorkContext<'_>, result: &mut NodeResult) {
        // What waits has no end yet.
        if result.pause.is_none() {
            ended(cx, result, Way::Own).await;
        }
    }
}

/// Tells the hooks behind the end of a node. A hook that fails makes its node fail.
pub(super) async fn ended(cx: &WorkContext<'_>, result: &mut NodeResult, way: Way) {
    let outputs = result.outputs.iter().map(|(name, value)| (name.clone(), value.value.clone()));
    let failure = result.failure.as_ref();
    let came = Came {
        output: outputs.collect(),
        status: if failure.is_some() { "failed" } else { "succeeded" },
        error: failure.map(|failure| failure.message.clone()).unwrap_or_default(),
    };
    if let Err(failure) = tell(cx, HookType::After, &came, way).await
        && result.failure.is_none()
    {
        let inputs = std::mem::take(&mut result.inputs);
        *result = NodeResult { inputs, usage: result.usage.take(), ..NodeResult::failed(failure) };
    }
}

async fn tell(
    cx: &WorkContext<'_>,
    hook_type: HookType,
    came: &Came,
    way: Way,
) -> Result<(), tidemill_common::failure::NodeFailure> {
    let Some(work) = cx.node().work.as_deref() else { return Ok(()) };
    let word = if hook_type == HookType::Before { "before" } else { "after" };
    for hook in work.hooks.of(hook_type) {
        let place = hook.place;
        // A further attempt has an end of its own.
        let attempt = cx.name.number;
        let mark = way.mark();
        let key = match hook_type {
            HookType::After if attempt > 1 => format!("hook:{word}:{place}:{attempt}{mark}"),
            HookType::Before | HookType::After => format!("hook:{word}:{place}{mark}"),
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
