//! Rules for workflows that begin with triggers: allowed combinations, and required settings.

use super::{Draft, Report};
use crate::nodes::{NodeData, NodeKind};
use tidemill_base::value::SegmentType;

/// Most webhooks of a workflow. Dify's limit.
const WEBHOOKS_MAX: usize = 5;

/// True when a node is a trigger; false for an unknown type.
pub(super) fn is_trigger(draft: &Draft<'_>, at: usize) -> bool {
    draft.nodes[at].kind.is_some_and(NodeKind::is_trigger)
}

/// Reports triggers next to a start node, with Dify's message: Dify refuses to publish such a workflow.
pub(super) fn beside_a_start_node(draft: &Draft<'_>, roots: &[usize], report: &mut Report<'_>) -> bool {
    let starts = roots.iter().any(|&at| draft.nodes[at].kind == Some(NodeKind::Start));
    let Some(&trigger) = roots.iter().find(|&&at| is_trigger(draft, at)).filter(|_| starts) else {
        return false;
    };
    let message = "Start node and trigger nodes cannot coexist in the same workflow".to_string();
    report.node(draft, trigger, "data.type", message, None);
    true
}

/// Allows at most five webhooks, and warns about all schedules but the first, since only the first is used.
pub(super) fn few_enough(draft: &Draft<'_>, report: &mut Report<'_>) {
    let of = |kind: NodeKind| {
        let roots = draft.roots().into_iter();
        roots.filter(move |&at| draft.nodes[at].kind == Some(kind))
    };
    if let Some(at) = of(NodeKind::TriggerWebhook).nth(WEBHOOKS_MAX) {
        let message = format!("a workflow can have at most {WEBHOOKS_MAX} nodes of type trigger-webhook");
        report.node(draft, at, "data.type", message, None);
    }
    for at in of(NodeKind::TriggerSchedule).skip(1) {
        let message = format!(
            "{:?} starts no run: of several nodes of type trigger-schedule only the first is used",
            draft.nodes[at].source.id
        );
        draft.at_node(at, report.problems, |problems| {
            problems.within("data.type", |problems| problems.warning("graph.schedule_unused", message));
        });
    }
}

/// A webhook's secret must be a secret environment variable of the workflow, so that Redis holds it only
/// sealed.
pub(super) fn secrets_are_secret(draft: &Draft<'_>, report: &mut Report<'_>) {
    for (at, node) in draft.nodes.iter().enumerate() {
        let Some(NodeData::TriggerWebhook(data)) = &node.data else { continue };
        let Some(name) = &data.secret else { continue };
        let variable = draft.document.environment.iter().find(|variable| *variable.name == **name);
        let wrong = match variable {
            None => "is not an environment variable of the workflow",
            Some(variable) if variable.value.ty != SegmentType::Secret => {
                "is not a secret: its type must be secret"
            }
            Some(variable) if variable.value.is_falsy() => "is empty: exported files contain no secrets",
            Some(_) => continue,
        };
        let message = format!("the webhook's secret {name:?} {wrong}");
        report.node(draft, at, "data.tidemill.secret", message, None);
    }
}
