//! Triggers: webhooks get another address here, and events of plugins need a host that starts the run.

use super::{Found, NodeView, Requirement};
use crate::kinds::NodeKind;

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    let id = match node.kind {
        NodeKind::TriggerWebhook => node.text("webhook_id"),
        NodeKind::TriggerSchedule => "",
        NodeKind::TriggerPlugin => node.text("event_name"),
        _ => return,
    };
    found.add(Requirement::Trigger { kind: node.kind, node: node.id.into(), id: id.into() });
}
