//! Registers the triggers of an app's new version. A trigger keeps its id from version to version, because a webhook's
//! id is part of a URL that other systems know.

use std::collections::HashSet;

use sha2::{Digest, Sha256};
use tidemill_common::clock::Timestamp;
use tidemill_common::graph::Graph;
use tidemill_common::nodes::trigger_schedule::Schedule;
use tidemill_common::nodes::{NodeData, NodeKind};
use tidemill_common::store::{App, Runs, StoreError, Trigger, TriggerChanges, TriggerKind};

/// The number of characters in an id.
const ID_CHARS: usize = 24;

/// The result of planning the triggers of a new version.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// Node and trigger id of each, stored with the app.
    pub triggers: Vec<(String, String)>,
    /// The changes to store.
    pub changes: TriggerChanges,
    /// Sentences for the publisher.
    pub warnings: Vec<String>,
}

/// Plans the triggers of `graph` as the next version of the app `id`. `earlier` is the version before.
///
/// # Errors
/// Errors of the store.
pub async fn plan(
    store: &dyn Runs,
    graph: &Graph,
    id: &str,
    earlier: Option<&App>,
    now: Timestamp,
) -> Result<Registration, StoreError> {
    let had: &[(String, String)] = earlier.map_or(&[], |app| &app.triggers);
    let mut plan = Registration::default();
    let mut taken = HashSet::new();
    for (node, kind) in wanted(graph) {
        let node = graph.node(node);
        let before = before(store, had, node.id.as_str(), kind).await?;
        let mut trigger = Trigger {
            id: String::new(),
            kind,
            app: id.to_string(),
            node: node.id.to_string(),
            name: graph.name.clone(),
            cron: String::new(),
            zone: String::new(),
        };
        let mut due = None;
        match &node.data {
            NodeData::TriggerWebhook(data) => {
                let chosen = webhook_id(store, data.webhook_id.as_deref(), before, id, &taken).await?;
                if let Some(wanted) = data.webhook_id.as_deref().filter(|wanted| *wanted != chosen) {
                    plan.warnings.push(format!(
                        "the webhook id {wanted} of node {} belongs to another trigger; this one has {chosen}",
                        node.id
                    ));
                }
                trigger.id = chosen;
            }
            NodeData::TriggerSchedule(data) => {
                trigger.id = before.unwrap_or_else(|| derived(id, node.id.as_str()));
                trigger.cron = data.schedule.expression().to_string();
                trigger.zone = data.schedule.zone().to_string();
                due = data.schedule.after(now);
                if is_unchanged(store, &trigger, &data.schedule).await? {
                    plan.changes.unchanged.push(trigger.id.clone());
                }
            }
            _ => trigger.id = before.unwrap_or_else(|| derived(id, node.id.as_str())),
        }
        taken.insert(trigger.id.clone());
        plan.triggers.push((trigger.node.clone(), trigger.id.clone()));
        plan.changes.put.push((trigger, due));
    }
    plan.changes.removed = had.iter().map(|(_, id)| id.clone()).filter(|id| !taken.contains(id)).collect();
    Ok(plan)
}

/// The id of the node's earlier trigger of the same kind. The id of a schedule cannot become a webhook's: it can be
/// computed, so it is no secret.
async fn before(
    store: &dyn Runs,
    had: &[(String, String)],
    node: &str,
    kind: TriggerKind,
) -> Result<Option<String>, StoreError> {
    let Some((_, id)) = had.iter().find(|(of, _)| of == node) else { return Ok(None) };
    let known = store.trigger(id).await?;
    Ok(known.filter(|known| known.trigger.kind == kind).map(|_| id.clone()))
}

/// The triggers of a workflow. Of several schedules only the first counts, as on Dify.
fn wanted(graph: &Graph) -> Vec<(tidemill_common::graph::NodeIx, TriggerKind)> {
    let mut found = Vec::new();
    for (at, node) in graph.nodes.iter().enumerate().filter(|(_, node)| node.parent.is_none()) {
        let kind = match node.kind {
            NodeKind::TriggerWebhook => TriggerKind::Webhook,
            NodeKind::TriggerSchedule => TriggerKind::Schedule,
            NodeKind::TriggerPlugin => TriggerKind::Plugin,
            _ => continue,
        };
        if kind == TriggerKind::Schedule && found.iter().any(|(_, known)| *known == kind) {
            continue;
        }
        found.push((tidemill_common::graph::NodeIx(u32::try_from(at).unwrap_or(u32::MAX)), kind));
    }
    found
}

/// Picks the id in the file unless another app has it, else the node's earlier id, else a new one.
async fn webhook_id(
    store: &dyn Runs,
    wanted: Option<&str>,
    before: Option<String>,
    app: &str,
    taken: &HashSet<String>,
) -> Result<String, StoreError> {
    if let Some(wanted) = wanted.filter(|wanted| !taken.contains(*wanted)) {
        let holder = store.trigger(wanted).await?;
        if holder.is_none_or(|holder| holder.trigger.app == app) {
            return Ok(wanted.to_string());
        }
    }
    Ok(before.filter(|before| !taken.contains(before)).unwrap_or_else(fresh))
}

/// A random id that cannot be guessed: a client that knows it can call the webhook.
fn fresh() -> String {
    let random =
        Sha256::digest([*uuid::Uuid::new_v4().as_bytes(), *uuid::Uuid::new_v4().as_bytes()].concat());
    hex(&random)
}

/// An id that always follows from app and node.
fn derived(app: &str, node: &str) -> String {
    hex(&Sha256::digest(format!("{app}/{node}")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(ID_CHARS / 2).map(|byte| format!("{byte:02x}")).collect()
}

async fn is_unchanged(store: &dyn Runs, trigger: &Trigger, schedule: &Schedule) -> Result<bool, StoreError> {
    let known = store.trigger(&trigger.id).await?;
    Ok(known.is_some_and(|known| {
        known.trigger.kind == TriggerKind::Schedule
            && known.trigger.cron == schedule.expression()
            && known.trigger.zone == schedule.zone()
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tidemill_common::clock::SystemClock;
    use tidemill_common::graph::import;
    use tidemill_common::store::memory::MemoryStore;

    use super::*;

    const OWN: &str = "abcdefghijklmnopqrstuvwx";

    fn graph(nodes: &str) -> Graph {
        let text = format!("{{\"nodes\": [{nodes}, {END}], \"edges\": [{EDGE}]}}");
        let imported = import(text.as_bytes());
        imported.graph.unwrap_or_else(|| panic!("{:?}", imported.diagnostics))
    }

    const END: &str = r#"{"id": "end", "data": {"type": "end", "outputs": []}}"#;
    const EDGE: &str = r#"{"source": "hook", "target": "end"}"#;

    fn hook(id: &str) -> String {
        format!(r#"{{"id": "hook", "data": {{"type": "trigger-webhook", "webhook_id": "{id}"}}}}"#)
    }

    struct Apps(MemoryStore);

    impl Apps {
        async fn publish(&self, id: &str, graph: &Graph) -> Registration {
            let earlier = self.0.app(id).await.unwrap();
            let now = Timestamp::from_millis(1_767_225_600_000);
            let plan = plan(&self.0, graph, id, earlier.as_ref(), now).await.unwrap();
            let app = App { id: id.into(), triggers: plan.triggers.clone(), ..App::default() };
            self.0.put_app(&app, None, &plan.changes).await.unwrap();
            plan
        }
    }

    fn apps() -> Apps {
        Apps(MemoryStore::new(Arc::new(SystemClock)))
    }

    #[tokio::test]
    async fn a_webhook_keeps_its_id_from_version_to_version() {
        let apps = apps();
        let first = apps.publish("a", &graph(&hook(""))).await;
        let id = first.triggers[0].1.clone();
        assert_eq!(id.len(), ID_CHARS);
        assert_eq!(apps.publish("a", &graph(&hook(""))).await.triggers, first.triggers);
        assert_ne!(apps.publish("b", &graph(&hook(""))).await.triggers[0].1, id);
        // The file names an id: it is used, and the earlier one is removed.
        let named = apps.publish("a", &graph(&hook(OWN))).await;
        assert_eq!((named.triggers[0].1.as_str(), named.changes.removed), (OWN, vec![id]));
    }

    #[tokio::test]
    async fn an_app_cannot_take_the_webhook_id_of_another_app() {
        let apps = apps();
        apps.publish("a", &graph(&hook(OWN))).await;
        let second = apps.publish("b", &graph(&hook(OWN))).await;
        assert_ne!(second.triggers[0].1, OWN);
        assert_eq!(second.warnings.len(), 1, "{:?}", second.warnings);
        assert_eq!(apps.publish("b", &graph(&hook(OWN))).await.triggers, second.triggers);
    }

    #[tokio::test]
    async fn a_schedule_gets_a_new_due_time_when_its_times_change_and_goes_with_its_node() {
        let apps = apps();
        let plan = |cron: &str| {
            let schedule = format!(
                r#"{{"id": "hook", "data": {{"type": "trigger-schedule", "mode": "cron", "cron_expression": "{cron}"}}}}"#
            );
            graph(&schedule)
        };
        let first = apps.publish("a", &plan("0 * * * *")).await;
        assert_eq!(first.changes.put[0].1, Some(Timestamp::from_millis(1_767_229_200_000)));
        assert_eq!(first.changes.unchanged, [""; 0]);
        let same = apps.publish("a", &plan("0 * * * *")).await;
        assert_eq!(same.changes.unchanged, [first.triggers[0].1.clone()]);
        assert_eq!(apps.publish("a", &plan("5 * * * *")).await.changes.unchanged, [""; 0]);
        let gone = apps.publish("a", &graph(&hook(""))).await;
        assert_eq!(
            gone.changes.removed,
            [first.triggers[0].1.clone()],
            "the node is a trigger of another kind"
        );
        assert_eq!(apps.0.due_schedules(&[]).await.unwrap().1, []);
    }
}
