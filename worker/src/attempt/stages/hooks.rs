//! Sends the hook events that the workflow's author has defined before a node starts and after it has ended. Each has a
//! journal entry, so a job that is delivered again sends none twice.

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::hooks::{HookType, NodeOutcome};
use tidemill_common::value::JsonMap;

use crate::attempt::journal::{EntryReport, EntryStart};
use crate::attempt::stages::{Flow, Stage, WorkContext};

/// The stage that sends hook events.
pub(super) struct Hooks;

/// The way a node reached the end reported to its hooks. An event sent for one way is sent again for another: the
/// earlier worker may be gone, and the node has reached a different end.
#[derive(Debug, Clone, Copy)]
pub(super) enum EndedBy {
    /// Through its stages.
    Stages,
    /// While no worker held the job.
    NoWorker,
    /// By its time limit.
    TimeLimit,
}

impl EndedBy {
    /// The suffix of the journal key.
    const fn mark(self) -> &'static str {
        match self {
            Self::Stages => "",
            Self::NoWorker => ":kept",
            Self::TimeLimit => ":time",
        }
    }
}

#[async_trait::async_trait]
impl Stage for Hooks {
    async fn before(&self, cx: &mut WorkContext<'_>) -> Flow {
        let outcome = NodeOutcome { status: "running", ..NodeOutcome::default() };
        match emit(cx, HookType::Before, &outcome, EndedBy::Stages).await {
            Ok(()) => Flow::On,
            Err(failure) => Flow::End(Box::new(NodeResult::failed(failure))),
        }
    }

    async fn after(&self, cx: &mut WorkContext<'_>, result: &mut NodeResult) {
        // A waiting node has not ended.
        if result.pause.is_none() {
            ended(cx, result, EndedBy::Stages).await;
        }
    }
}

/// Sends the events of hooks after the end of a node. A failing hook fails its node.
pub(super) async fn ended(cx: &WorkContext<'_>, result: &mut NodeResult, ended_by: EndedBy) {
    let outputs = result.outputs.iter().map(|(name, value)| (name.clone(), value.value.clone()));
    let failure = result.failure.as_ref();
    let outcome = NodeOutcome {
        output: outputs.collect(),
        status: if failure.is_some() { "failed" } else { "succeeded" },
        error: failure.map(|failure| failure.message.clone()).unwrap_or_default(),
    };
    if let Err(failure) = emit(cx, HookType::After, &outcome, ended_by).await
        && result.failure.is_none()
    {
        let inputs = std::mem::take(&mut result.inputs);
        *result = NodeResult { inputs, usage: result.usage.take(), ..NodeResult::failed(failure) };
    }
}

async fn emit(
    cx: &WorkContext<'_>,
    hook_type: HookType,
    outcome: &NodeOutcome,
    ended_by: EndedBy,
) -> Result<(), tidemill_common::failure::NodeFailure> {
    let Some(work) = cx.node().work.as_deref() else { return Ok(()) };
    let word = if hook_type == HookType::Before { "before" } else { "after" };
    for hook in work.hooks.of(hook_type) {
        let place = hook.place;
        // Each attempt has its own end.
        let attempt = cx.name.number;
        let mark = ended_by.mark();
        let key = match hook_type {
            HookType::After if attempt > 1 => format!("hook:{word}:{place}:{attempt}{mark}"),
            HookType::Before | HookType::After => format!("hook:{word}:{place}{mark}"),
        };
        let EntryStart::Try(the_try) = cx.journal.begin(&key).await else { continue };
        let event = hook.event(&cx.variables, outcome)?;
        let events: Vec<(StepEvent, JsonMap)> =
            event.into_iter().map(|event| (StepEvent::NodeCustomEvent, event)).collect();
        let kept: Json = json!(!events.is_empty());
        cx.journal.record(&key, the_try.number, &kept, EntryReport { events, charge: None }).await;
    }
    Ok(())
}
