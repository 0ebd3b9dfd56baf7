//! Notes warnings of a run: the run keeps each once, and emits an event for it.

use tidemill_base::warning::Warning;
use tidemill_workflow::graph::NodeIx;

use crate::order::events::EventKind;
use crate::state::warnings::Noted;
use crate::step::Step;

/// Notes a warning of a node, or of the whole run. A known one changes nothing.
#[inline(never)]
pub(crate) fn note(cx: &mut Step<'_>, node: Option<NodeIx>, warning: Warning) {
    let node = node.map(|ix| cx.run.graph.node(ix).id.clone());
    let max = cx.run.head.options.warnings_max;
    let Some(noted) = cx.run.control.warnings.add(Noted { node, warning }, max).cloned() else { return };
    cx.out.control = true;
    cx.emit(EventKind::RunWarning(Box::new(noted)));
}

/// Notes the warnings that a worker reports with the end of a node or of one of its attempts.
#[inline(always)]
pub(crate) fn note_all(cx: &mut Step<'_>, node: NodeIx, warnings: &mut Vec<Warning>) {
    if !warnings.is_empty() {
        take_all(cx, Some(node), std::mem::take(warnings));
    }
}

/// Notes the warnings that the run was submitted with.
pub(crate) fn begin(cx: &mut Step<'_>) {
    // They are taken out of the options, because every job carries the options.
    if !cx.run.head.options.warnings.is_empty() {
        let given = std::mem::take(&mut cx.run.head.options.warnings);
        take_all(cx, None, given);
    }
}

#[inline(never)]
fn take_all(cx: &mut Step<'_>, node: Option<NodeIx>, warnings: Vec<Warning>) {
    for warning in warnings {
        note(cx, node, warning);
    }
}
