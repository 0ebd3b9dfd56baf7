//! A run that is over, begun again at one of its nodes.

use serde_json::json;

use super::draw;
use super::play::Play;
use crate::ids::{FramePath, NodeId};
use crate::machine::rewind::{RewindError, rewind};
use crate::machine::run::{NodeStatus, RunOptions, RunStatus};
use crate::machine::{Fact, RunState};

/// Nodes with where they stand, those of other frames behind their path; nothing of those that nobody has decided for.
fn stand(run: &RunState) -> String {
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

/// A new run that begins there.
fn again(play: &Play, frame: &str, node: &str) -> Play {
    let mut next = Play::with(play.run.graph.0.clone(), &[], RunOptions::default());
    next.feed(vec![Fact::Import(Box::new(rewound(play, frame, node)))]);
    next
}

/// What happened in the first run: `a` is done, `!a` has failed.
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
fn what_lies_behind_the_node_is_undone_and_nothing_else() {
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
        assert!(play.run.status.is_over(), "{drawing}: {}", stand(&play.run));
        assert_eq!(stand(&rewound(&play, "", node)), stands, "{drawing}\n{happens}");
    }
}

#[test]
fn a_run_begun_again_ends_as_if_nothing_had_happened() {
    let play = played(
        "",
        "start s\njob a\njob b\nanswer z {{#a.output#}} and {{#b.output#}}\ns > a > b > z",
        "a !b",
    );
    let mut next = again(&play, "", "b");
    assert_eq!(stand(&next.run), "s succeeded, a succeeded, b queued");
    next.done("b", "two");
    assert_eq!((next.run.status, next.run.exceptions()), (RunStatus::Succeeded, 0));
    let told: Vec<_> = next.events.iter().map(|event| super::tell::words(&next.run.graph, event)).collect();
    let text = told.join("\n");
    assert!(text.contains("\"a\"") && text.contains("two"), "the answer is told whole: {text}");
}

#[test]
fn what_failed_elsewhere_begins_again_as_well() {
    // The run ended by `b`; asked for is `a`, whose failure was handled.
    let play = played("", "start s\njob a default\njob b\nend e\ns > a > e\ns > b > e", "!a !b");
    assert_eq!(stand(&rewound(&play, "", "a")), "s succeeded, a ready, b ready");
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
fn a_container_whose_item_failed_begins_anew_as_a_whole() {
    let mut play = iterating("terminated");
    play.done("it#0/in", "1").failed("it#1/in", "worker lost");
    assert_eq!(play.run.status, RunStatus::Failed);
    let state = rewound(&play, "it#1", "in");
    assert_eq!(stand(&state), "s succeeded, c succeeded, it ready, beside ready");
    let mut next = again(&play, "it#1", "in");
    next.done("it#0/in", "1").done("it#1/in", "2").done("beside", "");
    assert_eq!(next.run.status, RunStatus::Succeeded, "{}", stand(&next.run));
}

#[test]
fn an_open_container_goes_on_where_it_stood() {
    let mut play = iterating("terminated");
    play.done("it#0/in", "1").failed("beside", "worker lost");
    assert_eq!(play.run.status, RunStatus::Failed);
    assert_eq!(
        stand(&rewound(&play, "", "beside")),
        "s succeeded, c succeeded, it body, beside ready, it#1 begin succeeded, it#1 in ready"
    );
    let mut next = again(&play, "", "beside");
    next.done("it#1/in", "2").done("beside", "");
    assert_eq!(next.run.status, RunStatus::Succeeded, "{}", stand(&next.run));
    // The same by a node within: its frame is still there.
    assert_eq!(stand(&rewound(&play, "it#1", "in")), stand(&rewound(&play, "", "beside")));
}

#[test]
fn what_cannot_be_rewound_says_why() {
    let drawing = "start s\njob a\njob b\nend e\ns > a > b > e";
    let (under_way, over) = (played("", drawing, "a"), played("", drawing, "a !b"));
    let ask = |play: &Play, node: &str| {
        rewind(&play.run, &FramePath::root(), &NodeId::from(node)).map(|run| stand(&run)).unwrap_err()
    };
    assert_eq!(ask(&under_way, "b"), RewindError::Open);
    assert_eq!(ask(&over, "ghost"), RewindError::UnknownNode("ghost".into()));
    assert_eq!(ask(&over, "e"), RewindError::NeverBegan("e".into()));
    assert_eq!(ask(&over, "a"), RewindError::Succeeded("a".into()));
}
