//! The lines of `tidemill show` about queues and workers: what a node waits for, and where it failed.

use crate::client::view::{NodeView, RunView};
use crate::output::text;

/// Formats the waits of nodes in queues, one line each.
pub(super) fn waits(run: &RunView) -> Option<String> {
    let line = |node: &NodeView| {
        let wait = node.waits.as_ref()?;
        let queue = text::one_line(&wait.queue);
        let time =
            wait.seconds.map(|seconds| format!(" for {}", text::duration(seconds))).unwrap_or_default();
        if let Some(worker) = &wait.held_by {
            return Some(format!("{} is held by {}\n", path_of(node), text::one_line(worker)));
        }
        let before = match (wait.before, wait.before_is_least) {
            (0, false) => "no job before it".to_owned(),
            (1, false) => "1 job before it".to_owned(),
            (count, false) => format!("{count} jobs before it"),
            (count, true) => format!("at least {count} jobs before it"),
        };
        let served = if wait.served == Some(false) { ", no living worker serves it" } else { "" };
        Some(format!("{} waits in queue \"{queue}\"{time}{served}, {before}\n", path_of(node)))
    };
    Some(run.nodes.iter().filter_map(line).collect::<String>()).filter(|lines| !lines.is_empty())
}

/// Formats the workers of failed nodes, one line each.
pub(super) fn failed_at(run: &RunView) -> Option<String> {
    let line = |node: &NodeView| {
        Some(format!("{} failed on worker {}\n", path_of(node), text::one_line(node.worker.as_deref()?)))
    };
    Some(run.nodes.iter().filter_map(line).collect::<String>()).filter(|lines| !lines.is_empty())
}

/// The frame and id of a node.
pub(super) fn path_of(node: &NodeView) -> String {
    let frame = node.frame.as_deref().filter(|frame| !frame.is_empty());
    frame.map_or_else(|| node.id.clone(), |frame| format!("{frame}/{}", node.id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value as Json, json};

    #[test]
    fn a_wait_and_the_worker_of_a_failure_are_lines() {
        let wait = |served: Json, before: u64, least: bool| json!({"queue": "gpu", "seconds": 125.0, "served": served, "before": before, "before_is_least": least});
        let run = json!({"id": "r1", "status": "running", "nodes": [
            {"id": "a", "status": "queued", "waits": wait(json!(false), 0, false)},
            {"id": "b", "frame": "it#1", "status": "queued", "waits": wait(json!(true), 1812, false)},
            {"id": "c", "status": "queued", "waits": wait(Json::Null, 5000, true)},
            {"id": "d", "status": "queued", "waits": {"queue": "gpu", "held_by": "w-1"}},
            {"id": "e", "status": "failed", "worker": "w-2"},
        ]});
        let run = RunView::read(&run);
        let expected = "\
a waits in queue \"gpu\" for 2m05s, no living worker serves it, no job before it
it#1/b waits in queue \"gpu\" for 2m05s, 1812 jobs before it
c waits in queue \"gpu\" for 2m05s, at least 5000 jobs before it
d is held by w-1
";
        assert_eq!(waits(&run).unwrap(), expected);
        assert_eq!(failed_at(&run).unwrap(), "e failed on worker w-2\n");
    }
}
