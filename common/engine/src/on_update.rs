//! Sets variables that a client sends. They are written in the root frame; open items keep the values that they saw.

use super::events::EventKind;
use super::fact::UpdateVariables;
use super::run::RunStatus;
use super::{Step, variables};
use tidemill_base::ids::FramePath;

#[inline(never)]
pub(super) fn step(cx: &mut Step<'_>, it: UpdateVariables) {
    let root = FramePath::root();
    let mut selectors = Vec::with_capacity(it.updates.len());
    for (node, name, value) in it.updates {
        variables::assign(cx, &root, &node, &name, value);
        selectors.push((node, name));
    }
    // A run that has not begun emits no events.
    if cx.run.status != RunStatus::Scheduled {
        cx.tell(EventKind::GraphRunVariablesUpdated { selectors, key: it.key });
        cx.close_entry();
    }
}
