//! Rewinding an ended run to one of its nodes.

use serde_json::json;

use super::draw;
use super::play::Play;
use tidemill_base::ids::{FramePath, NodeId};
use tidemill_engine::rewind::{RewindError, rewind};
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_engine::{Fact, RunState};

/// Lists the nodes with their statuses, with the path of their frame before them. Nodes in status `unknown` are left
/// out.
fn statuses(run: &RunState) -> String {
    let mut found = Vec::new();
    for (path, frame) in &run.frames {
        for (state, node) in frame.nodes.iter().zip(&run.graph.nodes) {
            if state.status != NodeStatus::Unknown {
                found.push(format!("{path} {} {}", node.id, state.status.name()).trim().to_string());
            }
        }
    }
    found.join(", ")
}

fn rewound(play: &Play, frame: &str, node: &str) -> RunState {
    let stored = play.kept.load(&play.run);
    rewind(&stored, &FramePath::from(frame), &NodeId::from(node)).unwrap()
}

/// Starts a new run with the rewound state.
fn continued(play: &Play, frame: &str, node: &str) -> Play {
    let mut next = Play::with(play.run.graph.0.clone(), &[], RunOptions::default());
    next.feed(vec![Fact::Import(Box::new(rewound(play, frame, node)))]);
    next
}

/// Plays the first run: in `happens`, `a` succeeds and `!a` fails.
fn played(x: &str, drawing: &str, happens: &str) -> Play {
    let mut play = Play::given(x, drawing);
    play.start();
    for node in happens.split_whitespace() {
        match node.strip_prefix('!') {
            Some(node) => play.failed(node, "worker lost"),
            None => play.done(node, node),
        };
    }
    play
}

#[test]
fn only_the_node_and_later_nodes_are_reset() {
    let fork = "start s\njob a\njob b\nend e a.output b.output\ns > a > e\ns > b > e";
    let handled = "start s\njob a fail-branch\njob x\njob y\nend e\ns > a > x > e\na:fail-branch > y > e";
    let branch = "start s\nif g s.x\njob a\njob b\nend e\ns > g\ng:true > a > e\ng:false > b > e";
    for (drawing, happens, node, stands) in [
        ("start s\njob a\njob b\nend e\ns > a > b > e", "a !b", "b", "s succeeded, a succeeded, b ready"),
        (fork, "!a", "a", "s succeeded, a ready, b ready"),
        (fork, "b !a", "a", "s succeeded, a ready, b succeeded"),
        (
            "start s\njob a\njob b\njob j\nend e\ns > a > j\ns > b > j\nj > e",
            "a b !j",
            "j",
            "s succeeded, a succeeded, b succeeded, j ready",
        ),
        (handled, "!a y", "a", "s succeeded, a ready"),
        (handled, "!a !y", "y", "s succeeded, a exception, x skipped, y ready"),
        (handled, "!a !y", "a", "s succeeded, a ready"),
        (branch, "!a", "a", "s succeeded, g succeeded, a ready, b skipped"),
    ] {
        let play = played("yes", drawing, happens);
        assert!(play.run.status.is_over(), "{drawing}: {}", statuses(&play.run));
        assert_eq!(statuses(&rewound(&play, "", node)), stands, "{drawing}\n{happens}");
    }
}

#[test]
fn a_rewound_run_ends_as_if_nothing_had_failed() {
    let play = played(
        "",
        "start s\njob a\njob b\nanswer z {{#a.output#}} and {{#b.output#}}\ns > a > b > z",
        "a !b",
    );
    let mut next = continued(&play, "", "b");
    assert_eq!(statuses(&next.run), "s succeeded, a succeeded, b queued");
    next.done("b", "two");
    assert_eq!((next.run.status, next.run.exceptions()), (RunStatus::Succeeded, 0));
    let words: Vec<_> =
        next.events.iter().map(|event| super::describe::words(&next.run.graph, event)).collect();
    let text = words.join("\n");
    assert!(text.contains("\"a\"") && text.contains("two"), "the whole answer is sent: {text}");
}

#[test]
fn other_failed_nodes_begin_again_too() {
    // The failure of `b` ended the run. It is rewound to `a`, whose failure was handled.
    let play = played("", "start s\njob a default\njob b\nend e\ns > a > e\ns > b > e", "!a !b");
    assert_eq!(statuses(&rewound(&play, "", "a")), "s succeeded, a ready, b ready");
}

fn iterating(mode: &str) -> Play {
    let data = json!({"type": "iteration", "start_node_id": "begin", "iterator_selector": ["c", "list"],
        "output_selector": ["in", "output"], "error_handle_mode": mode, "is_parallel": false});
    let nodes = [
        json!({"id": "s", "data": draw::data("start", "")}),
        json!({"id": "c", "data": draw::data("job", "")}),
        json!({"id": "it", "data": data}),
        json!({"id": "begin", "parentId": "it", "data": {"type": "iteration-start", "isInIteration": true}}),
        json!({"id": "in", "parentId": "it", "data": draw::data("job", "")}),
        json!({"id": "beside", "data": draw::data("job", "")}),
        json!({"id": "e", "data": draw::data("end", "it.output")}),
    ];
    let edges = [
        draw::edge("s", "source", "c"),
        draw::edge("s", "source", "beside"),
        draw::edge("c", "source", "it"),
        draw::edge("begin", "source", "in"),
        draw::edge("it", "source", "e"),
        draw::edge("beside", "source", "e"),
    ];
    let mut play = Play::with(draw::build(&nodes, &edges), &[], RunOptions::default());
    play.start();
    play.done_with("c", "list", json!(["x", "y"]));
    play
}

#[test]
fn a_container_whose_item_failed_begins_from_its_start() {
    let mut play = iterating("terminated");
    play.done("it#0/in", "1").failed("it#1/in", "worker lost");
    assert_eq!(play.run.status, RunStatus::Failed);
    let state = rewound(&play, "it#1", "in");
    assert_eq!(statuses(&state), "s succeeded, c succeeded, it ready, beside ready");
    let mut next = continued(&play, "it#1", "in");
    next.done("it#0/in", "1").done("it#1/in", "2").done("beside", "");
    assert_eq!(next.run.status, RunStatus::Succeeded, "{}", statuses(&next.run));
}

#[test]
fn an_open_container_continues_where_it_was() {
    let mut play = iterating("terminated");
    play.done("it#0/in", "1").failed("beside", "worker lost");
    assert_eq!(play.run.status, RunStatus::Failed);
    assert_eq!(
        statuses(&rewound(&play, "", "beside")),
        "s succeeded, c succeeded, it body, beside ready, it#1 begin succeeded, it#1 in ready"
    );
    let mut next = continued(&play, "", "beside");
    next.done("it#1/in", "2").done("beside", "");
    assert_eq!(next.run.status, RunStatus::Succeeded, "{}", statuses(&next.run));
    // A node of the item gives the same state, because its frame is still open.
    assert_eq!(statuses(&rewound(&play, "it#1", "in")), statuses(&rewound(&play, "", "beside")));
}

/// Loads the stored state.
fn stored(play: &Play) -> RunState {
    play.kept.load(&play.run)
}

/// A loop of three rounds with a job, a counter and another job.
fn counting() -> Play {
    let text = "lp loop loop_count: 3, logical_operator: and, break_conditions: [], loop_variables: [{label: n, var_type: number, value_type: constant, value: 0}]\n\
                lp/a job\n\
                lp/inc assigner version: '2', items: [{variable_selector: [lp, n], input_type: constant, operation: '+=', value: 1}]\n\
                lp/b job\n\
                e end outputs: [{variable: n, value_selector: [lp, n]}, {variable: rounds, value_selector: [lp, loop_round]}]\n\
                s > lp > e\nlps > a > inc > b";
    Play::sheet(text, json!({}))
}

#[test]
fn a_stopped_loop_continues_in_its_round_with_its_variables() {
    let mut play = counting();
    play.start().done("lp#0/a", "").done("lp#0/b", "").done("lp#1/a", "").stop("enough");
    assert_eq!(
        statuses(&rewound(&play, "lp#1", "b")),
        "s succeeded, lp body, lp#1 lps succeeded, lp#1 a succeeded, lp#1 inc succeeded, lp#1 b ready"
    );
    let mut next = continued(&play, "lp#1", "b");
    next.done("lp#1/b", "").done("lp#2/a", "").done("lp#2/b", "");
    assert_eq!(next.last(), "succeeded [n=3 rounds=3]");
}

#[test]
fn a_node_of_a_closed_round_begins_its_loop_from_the_start() {
    let mut play = counting();
    play.start().done("lp#0/a", "").done("lp#0/b", "").done("lp#1/a", "").stop("enough");
    for (frame, node) in [("lp#0", "b"), ("", "lp")] {
        assert_eq!(statuses(&rewound(&play, frame, node)), "s succeeded, lp ready", "{frame}/{node}");
        let mut next = continued(&play, frame, node);
        for round in 0..3 {
            next.done(&format!("lp#{round}/a"), "").done(&format!("lp#{round}/b"), "");
        }
        assert_eq!(next.last(), "succeeded [n=3 rounds=3]", "it counts from the beginning");
    }
}

#[test]
fn a_failed_round_begins_its_loop_from_the_start() {
    let mut play = counting();
    play.start().done("lp#0/a", "").done("lp#0/b", "").failed("lp#1/a", "worker lost");
    assert_eq!(play.run.status, RunStatus::Failed);
    assert_eq!(statuses(&rewound(&play, "lp#1", "a")), "s succeeded, lp ready");
}

#[test]
fn a_loop_end_that_is_reset_has_ended_no_loop() {
    let text = "lp loop loop_count: 3, logical_operator: and, break_conditions: []\n\
                lp/a job error_strategy: fail-branch\nlp/x loop-end\nlp/b job\n\
                e end outputs: [{variable: rounds, value_selector: [lp, loop_round]}]\n\
                s > lp > e\nlps > a\nlps > b\na:fail-branch > x";
    let mut play = Play::sheet(text, json!({}));
    play.start().failed("lp#0/a", "broken").stop("enough");
    let round = FramePath::from("lp#0");
    assert!(stored(&play).frames.get(&round).unwrap().loop_end);

    let state = rewound(&play, "lp#0", "a");
    assert!(!state.frames.get(&round).unwrap().loop_end);
    assert_eq!(statuses(&state), "s succeeded, lp body, lp#0 lps succeeded, lp#0 a ready, lp#0 b ready");
    let mut next = continued(&play, "lp#0", "a");
    next.done("lp#0/a", "").done("lp#0/b", "");
    assert_eq!(next.waiting(), ["lp#1/a", "lp#1/b"], "the loop continues");

    // A loop-end in a parallel branch is not reset.
    let mut next = continued(&play, "lp#0", "b");
    next.done("lp#0/b", "");
    assert_eq!(next.last().split(' ').next_back(), Some("[rounds=1]"), "{}", next.last());
}

/// A loop around an iteration in which an item whose job fails ends the loop.
fn ending_from_within() -> Play {
    let text = "lp loop loop_count: 3, logical_operator: and, break_conditions: []\n\
                lp/it iteration iterator_selector: [s, l], output_selector: [a, output], is_parallel: true\n\
                it/a job error_strategy: fail-branch\nit/x loop-end\nit/c job\n\
                s > lp\nlps > it\nits > a\nits > c\na:fail-branch > x";
    let mut play = Play::sheet(text, json!({"l": [1, 2]}));
    play.start();
    play
}

#[test]
fn a_loop_ends_as_long_as_one_item_has_reached_a_loop_end() {
    let round = FramePath::from("lp#0");
    let ends = |play: &Play, frame: &str, node: &str| {
        rewound(play, frame, node).frames.get(&round).unwrap().loop_end
    };

    let mut one = ending_from_within();
    one.failed("lp#0/it#0/a", "broken").done("lp#0/it#1/a", "").stop("enough");
    assert!(!ends(&one, "lp#0/it#0", "a"), "the only loop-end is reset");
    assert!(ends(&one, "lp#0/it#1", "c"), "no loop-end is reset");
    assert!(!ends(&one, "lp#0", "it"), "the whole iteration is reset");

    let mut both = ending_from_within();
    both.failed("lp#0/it#0/a", "broken").failed("lp#0/it#1/a", "broken").stop("enough");
    assert!(ends(&both, "lp#0/it#0", "a"), "the other item has reached it too");

    let mut other = ending_from_within();
    other.failed("lp#0/it#0/a", "broken").stop("enough");
    assert!(ends(&other, "lp#0/it#1", "a"), "this item had not reached it");
    let mut next = continued(&other, "lp#0/it#1", "a");
    next.done("lp#0/it#1/a", "").done("lp#0/it#0/c", "").done("lp#0/it#1/c", "");
    assert_eq!(next.run.frames.len(), 1, "the loop has ended: {}", statuses(&next.run));
}

#[test]
fn only_the_loop_of_the_node_begins_from_the_start() {
    let text = "it iteration iterator_selector: [s, l], output_selector: [lp, n], is_parallel: true\n\
                it/lp loop loop_count: 2, logical_operator: and, break_conditions: [], loop_variables: [{label: n, var_type: number, value_type: variable, value: [it, item]}]\n\
                lp/a job\n\
                lp/inc assigner version: '2', items: [{variable_selector: [lp, n], input_type: constant, operation: '+=', value: 1}]\n\
                e end outputs: [{variable: r, value_selector: [it, output]}]\n\
                s > it > e\nits > lp\nlps > a > inc";
    let mut play = Play::sheet(text, json!({"l": [10, 20]}));
    play.start().done("it#0/lp#0/a", "").done("it#1/lp#0/a", "").stop("enough");
    // The first round of the second item has closed.
    let mut next = continued(&play, "it#1/lp#0", "a");
    assert_eq!(next.waiting(), ["it#0/lp#1/a", "it#1/lp#0/a"]);
    next.done("it#1/lp#0/a", "").done("it#0/lp#1/a", "").done("it#1/lp#1/a", "");
    assert_eq!(next.last(), "succeeded [r=[12,22]]");
}

#[test]
fn a_run_that_cannot_be_rewound_gives_the_reason() {
    let drawing = "start s\njob a\njob b\nend e\ns > a > b > e";
    let (under_way, over) = (played("", drawing, "a"), played("", drawing, "a !b"));
    let ask = |play: &Play, node: &str| {
        rewind(&play.run, &FramePath::root(), &NodeId::from(node)).map(|run| statuses(&run)).unwrap_err()
    };
    assert_eq!(ask(&under_way, "b"), RewindError::Open);
    assert_eq!(ask(&over, "ghost"), RewindError::UnknownNode("ghost".into()));
    assert_eq!(ask(&over, "e"), RewindError::NeverBegan("e".into()));
    assert_eq!(ask(&over, "a"), RewindError::Succeeded("a".into()));
}
