//! Workflows with several start nodes: a run begins at the trigger that fired, and the others emit no events.

use serde_json::json;

use super::play::Play;
use tidemill_engine::state::run::{NodeStatus, RunHead, RunStatus};

/// Two triggers with a branch each, and a branch after both.
const TWO: &str = r#"
nodes:
- {id: hook, data: {type: trigger-webhook, title: Hook, body: [{name: who}]}}
- {id: plan, data: {type: trigger-schedule, title: Plan, mode: cron, cron_expression: "0 0 * * *"}}
- {id: only, data: {type: template-transform, title: Only, template: "plan", variables: []}}
- {id: both, data: {type: template-transform, title: Both, template: "{{ who }}", variables: [{variable: who, value_selector: [hook, who]}]}}
- {id: end, data: {type: end, title: End, outputs: [{variable: out, value_selector: [both, output]}]}}
edges:
- {source: hook, target: both}
- {source: plan, target: only}
- {source: plan, target: both}
- {source: only, target: end}
- {source: both, target: end}
"#;

fn played(root: Option<&str>) -> Play {
    let mut play =
        Play::headed(TWO, json!({"who": "Ada"}), |head: &mut RunHead| head.root = root.map(Into::into));
    play.start();
    play
}

fn statuses(play: &Play) -> Vec<(&str, NodeStatus)> {
    let root = &play.run.frames.get(&tidemill_base::ids::FramePath::root()).unwrap();
    play.run
        .graph
        .nodes
        .iter()
        .zip(&root.nodes)
        .map(|(node, state)| (node.id.as_str(), state.status))
        .collect()
}

#[test]
fn the_trigger_that_fired_begins_and_the_others_are_skipped_without_events() {
    let (done, skipped) = (NodeStatus::Succeeded, NodeStatus::Skipped);
    for (root, expected, out) in [
        (None, [("hook", done), ("plan", skipped), ("only", skipped), ("both", done), ("end", done)], "Ada"),
        (
            Some("hook"),
            [("hook", done), ("plan", skipped), ("only", skipped), ("both", done), ("end", done)],
            "Ada",
        ),
        (
            Some("plan"),
            [("hook", skipped), ("plan", done), ("only", done), ("both", done), ("end", done)],
            "None",
        ),
    ] {
        let play = played(root);
        assert_eq!(play.run.status, RunStatus::Succeeded, "{root:?}");
        assert_eq!(statuses(&play), expected, "{root:?}");
        assert_eq!(play.value("end.out"), json!(out), "{root:?}");
        let skips = play.words().into_iter().filter(|words| words.contains("skip")).collect::<Vec<_>>();
        assert_eq!(skips, [""; 0], "{root:?}");
    }
}

#[test]
fn an_unknown_root_is_replaced_by_the_default_one() {
    assert_eq!(played(Some("gone")).value("end.out"), json!("Ada"));
}
