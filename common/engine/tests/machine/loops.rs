//! Variables of a loop that nodes after it see.

use serde_json::{Value as Json, json};

use super::draw;
use super::play::Play;
use tidemill_base::value::{Lookup, Variables};
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::run::RunStatus;

/// A loop over `inner`, with an end node after it.
pub(super) fn looping(data: &Json, inner: &str) -> Play {
    let mut looping = json!({"type": "loop", "start_node_id": "begin", "loop_count": 2, "logical_operator": "or",
        "break_conditions": [], "loop_variables": [
            {"label": "kept", "var_type": "string", "value_type": "constant", "value": "v"}]});
    for (key, value) in data.as_object().into_iter().flatten() {
        looping[key.as_str()] = value.clone();
    }
    let nodes = [
        json!({"id": "s", "data": draw::data("start", "")}),
        json!({"id": "lp", "data": looping}),
        json!({"id": "begin", "parentId": "lp", "data": {"type": "loop-start", "isInLoop": true}}),
        json!({"id": "in", "parentId": "lp", "data": draw::data(inner, "made")}),
        json!({"id": "e", "data": draw::data("end", "lp.kept lp.loop_round in.output")}),
    ];
    let edges = [
        draw::edge("s", "source", "lp"),
        draw::edge("begin", "source", "in"),
        draw::edge("lp", "source", "e"),
    ];
    Play::with(draw::build(&nodes, &edges), &[], RunOptions::default())
}

/// The variable as seen in the root frame.
fn seen(play: &Play, node: &str, name: &str) -> Json {
    let root = tidemill_base::ids::FramePath::root();
    match play.run.pool(&root).variable(node, name) {
        Lookup::Found(segment) => segment.value.clone(),
        Lookup::Missing | Lookup::Blob(_) => Json::Null,
    }
}

#[test]
fn nodes_after_a_loop_see_its_variables_and_no_outputs_of_its_body() {
    let breaks = json!({"break_conditions": [{"id": "c", "varType": "string",
        "variable_selector": ["in", "output"], "comparison_operator": "is", "value": "made"}]});
    for (data, rounds) in [(json!({}), 2), (breaks, 1)] {
        let mut play = looping(&data, "text");
        play.start();
        assert_eq!(play.run.status, RunStatus::Succeeded, "{:?}", play.run.error);
        assert_eq!(seen(&play, "lp", "kept"), json!("v"));
        assert_eq!(seen(&play, "lp", "loop_round"), json!(rounds));
        assert_eq!(seen(&play, "in", "output"), Json::Null, "{data}");
    }
}

#[test]
fn a_loop_that_fails_after_a_round_leaves_no_outputs_of_its_body_either() {
    let data = json!({"error_strategy": "fail-branch", "break_conditions": [{"id": "c", "varType": "string",
        "variable_selector": ["ghost", "v"], "comparison_operator": "is", "value": "x"}]});
    let mut play = looping(&data, "job");
    play.start();
    play.done("lp#0/in", "made");
    assert_eq!(play.run.status, RunStatus::PartialSucceeded, "{:?}", play.run.error);
    assert_eq!(seen(&play, "in", "output"), Json::Null);
}
