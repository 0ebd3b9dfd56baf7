//! TC-G: graphs. The nodes that run, and their order.

use super::play::Play;
use tidemill_engine::state::run::{NodeStatus, RunStatus};

#[test]
fn tc_g_001_a_linear_graph_runs_in_order() {
    let mut play = Play::of("start s\njob a\njob b\nend e b.output\ns > a > b > e");
    play.start().done("a", "1").done("b", "2").tells(&[
        "begin",
        "s starts",
        "s ok",
        "a starts",
        "a ok",
        "b starts",
        "b.output + \"2\" last",
        "b ok",
        "e starts",
        "e ok",
        "succeeded [b.output=\"2\"]",
    ]);
}

const BRANCH: &str = "start s\nif g s.x\njob yes\njob no\nend y yes.output\nend n no.output\n\
                      s > g\ng:true > yes > y\ng:false > no > n";

#[test]
fn tc_g_002_a_true_condition_takes_the_true_side_and_skips_the_other() {
    let mut play = Play::given("yes", BRANCH);
    play.start();
    assert_eq!(play.waiting(), ["yes"]);
    play.done("yes", "1");
    assert_eq!(play.last(), "succeeded [yes.output=\"1\"]");
    for skipped in ["no", "n"] {
        assert_eq!(play.node(skipped).status, NodeStatus::Skipped, "{skipped}");
    }
}

#[test]
fn tc_g_003_a_false_condition_takes_the_false_side_and_skips_the_other() {
    let mut play = Play::given("maybe", BRANCH);
    play.start();
    assert_eq!(play.waiting(), ["no"]);
    play.done("no", "0");
    assert_eq!(play.last(), "succeeded [no.output=\"0\"]");
    for skipped in ["yes", "y"] {
        assert_eq!(play.node(skipped).status, NodeStatus::Skipped, "{skipped}");
    }
}

const PARALLEL: &str = "start s\njob a\njob b\njob c\njob join\nend e a.output b.output c.output\n\
                        s > a > join\ns > b > join\ns > c > join\njoin > e";

#[test]
fn tc_g_004_branches_run_in_parallel() {
    let mut play = Play::of(PARALLEL);
    play.start();
    assert_eq!(play.waiting(), ["a", "b", "c"], "all have their jobs at once");
    play.started("a", 1).started("b", 1).started("c", 1);
    for node in ["a", "b", "c"] {
        assert_eq!(play.node(node).status, NodeStatus::Running, "{node}");
    }
}

#[test]
fn tc_g_005_a_join_waits_for_all_branches_in_any_order() {
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let mut play = Play::of(PARALLEL);
        play.start();
        for (at, node) in order.iter().enumerate() {
            assert_eq!(play.node("join").status, NodeStatus::Unknown, "{order:?} before {node}");
            play.done(node, node);
            assert_eq!(play.waiting().len(), if at == 2 { 1 } else { 2 - at });
        }
        play.done("join", "");
        assert_eq!(play.last(), "succeeded [a.output=\"a\" b.output=\"b\" c.output=\"c\"]");
    }
}

#[test]
fn tc_g_006_a_graph_of_only_start_and_end_succeeds() {
    let mut play = Play::given("hi", "start s\nend e s.x\ns > e");
    play.start();
    assert_eq!((play.run.status, play.last()), (RunStatus::Succeeded, "succeeded [s.x=\"hi\"]".into()));
    assert_eq!(play.run.root_steps(), 2);
}

/// Two branches that fan out and join, with one side of each skipped, and a node after all of them.
#[test]
fn tc_g_007_a_complex_graph_runs_each_node_once_after_everything_it_depends_on() {
    let drawing = "start s\njob a\nif g s.x\njob b\njob c\njob d\nif h b.output\njob i\njob k\njob join\njob tail\n\
                   end e tail.output\n\
                   s > a\ns > g\na > join\ng:true > b > h\ng:false > c > join\nb > d > join\n\
                   h:true > i > join\nh:false > k > join\njoin > tail > e";
    for (x, of_b, expected) in [
        ("yes", "yes", ["a", "b", "d", "i", "join", "tail"].as_slice()),
        ("yes", "no", &["a", "b", "d", "k", "join", "tail"]),
        ("no", "", &["a", "c", "join", "tail"]),
    ] {
        let mut play = Play::given(x, drawing);
        play.start();
        let mut done = Vec::new();
        while let Some(node) = play.waiting().last().cloned() {
            play.done(&node, if node == "b" { of_b } else { &node });
            done.push(node);
        }
        assert_eq!(play.last(), "succeeded [tail.output=\"tail\"]");
        assert_eq!(done.iter().rev().take(2).collect::<Vec<_>>(), ["tail", "join"]);
        done.sort();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(done, expected, "x={x} b={of_b}");
    }
}
