//! The order in which nodes run and are skipped.

use super::play::Play;

#[test]
fn a_chain_runs_node_after_node() {
    let mut play = Play::of("start s\njob a\njob b\nend e b.output\ns > a > b > e");
    play.start().tells(&["begin", "s starts", "s ok"]);
    assert_eq!(play.waiting(), ["a"]);
    play.done("a", "1").tells(&["a starts", "a ok"]);
    assert_eq!(play.waiting(), ["b"]);
    play.done("b", "2").tells(&[
        "b starts",
        "b.output + \"2\" last",
        "b ok",
        "e starts",
        "e ok",
        "succeeded [b.output=\"2\"]",
    ]);
}

#[test]
fn a_graph_of_two_nodes_ends_within_its_first_step() {
    let mut play = Play::given("hi", "start s\nend e s.x\ns > e");
    play.start().tells(&[
        "begin",
        "s.x + \"hi\" last",
        "s starts",
        "s ok",
        "e starts",
        "e ok",
        "succeeded [s.x=\"hi\"]",
    ]);
}

#[test]
fn the_edge_that_is_not_selected_is_skipped_first() {
    let graph = "start s\nif g s.x\njob a\njob b\njob c\nend e\n\
                 s > g\ng:true > a > e\ng:false > b > c > e";
    let mut play = Play::given("yes", graph);
    play.start()
        .tells(&["begin", "s starts", "s ok", "g starts", "skip g>b", "skip b>c", "skip c>e", "g ok"]);
    assert_eq!(play.waiting(), ["a"]);
    play.done("a", "1").tells(&["a starts", "a ok", "e starts", "e ok", "succeeded []"]);
    let mut play = Play::given("no", graph);
    play.start().tells(&["begin", "s starts", "s ok", "g starts", "skip g>a", "skip a>e", "g ok"]);
    assert_eq!(play.waiting(), ["b"]);
}

#[test]
fn skips_go_depth_first_in_file_order_and_stop_at_joins_that_wait() {
    let mut play = Play::given(
        "yes",
        "start s\nif g s.x\njob k\njob a\njob b\njob c\njob d\njob join\n\
         s > g\ns > k > join\ng:true > d\n\
         g:false > a > b > c\na > c\nc > join",
    );
    play.start().tells(&[
        "begin",
        "s starts",
        "s ok",
        "g starts",
        "skip g>a",
        "skip a>b",
        "skip b>c",
        "skip a>c",
        "skip c>join",
        "g ok",
    ]);
    assert_eq!(play.waiting(), ["k", "d"]);
    play.done("k", "").tells(&["k starts", "k ok"]);
    assert_eq!(play.waiting(), ["d", "join"]);
}

#[test]
fn a_join_waits_for_all_edges_and_runs_when_the_last_is_a_skip() {
    let mut play = Play::of("start s\njob a\njob b\njob join\ns > a > join\ns > b > join");
    play.start().done("a", "1");
    assert_eq!(play.waiting(), ["b"]);
    play.done("b", "2");
    assert_eq!(play.waiting(), ["join"]);
    let mut play = Play::of(
        "start s\njob k\njob slow\nif g slow.output\njob join\ns > k > join\ns > slow > g\ng:true > join",
    );
    play.start().done("k", "");
    play.skim().done("slow", "no").tells(&[
        "slow starts",
        "slow ok",
        "g starts",
        "skip g>join",
        "g warns run.branch_without_edge",
        "g ok",
    ]);
    assert_eq!(play.waiting(), ["join"]);
}

#[test]
fn a_branch_that_leads_nowhere_succeeds() {
    let mut play = Play::given("no", "start s\nif g s.x\njob a\ns > g\ng:true > a");
    play.start().tells(&[
        "begin",
        "s starts",
        "s ok",
        "g starts",
        "skip g>a",
        "g warns run.branch_without_edge",
        "g ok",
        "succeeded []",
    ]);
}

#[test]
fn parallel_nodes_get_their_jobs_in_file_order() {
    let mut play = Play::of("start s\njob c\njob a\njob b\ns > c\ns > a\ns > b");
    play.start();
    assert_eq!(play.waiting(), ["c", "a", "b"]);
    play.done("b", "").done("c", "").skim().done("a", "").tells(&["a starts", "a ok", "succeeded []"]);
}

#[test]
fn all_edges_of_the_selected_handle_are_taken() {
    let mut play = Play::given("yes", "start s\nif g s.x\njob a\njob b\ns > g\ng:true > a\ng:true > b");
    play.start();
    assert_eq!(play.waiting(), ["a", "b"]);
}

#[test]
fn outputs_of_several_end_nodes_are_merged_and_answers_are_joined() {
    let mut play = Play::of(
        "start s\njob a\njob b\nanswer y A {{#a.output#}}\nanswer z B {{#b.output#}}\ns > a > y\ns > b > z",
    );
    play.start().done("b", "2").skim().done("a", "1");
    let last = play.events.last().cloned().unwrap();
    assert_eq!(super::describe::words(&play.run.graph, &last), "succeeded [answer=\"B 2\"+\"A 1\"]");
    let mut play = Play::of(
        "start s\njob a\njob b\nend y a.output b.output\nend z b.output\ns > a\ns > b\na > y\nb > y\nb > z",
    );
    play.start().done("a", "1").done("b", "2");
    let last = play.events.last().cloned().unwrap();
    let words = super::describe::words(&play.run.graph, &last);
    assert_eq!(words, "succeeded [a.output=\"1\" b.output=\"2\"]");
}

#[test]
fn the_order_of_outputs_survives_a_reload() {
    let names: Vec<String> = (0..9).map(|n| format!("s.{}", (b'z' - n) as char)).collect();
    let drawing = format!("start s\njob slow\nend e {}\ns > e\ns > slow", names.join(" "));
    let mut play = Play::of(&drawing);
    play.start().reload().skim().done("slow", "");
    let outputs: Vec<String> = names.iter().map(|name| format!("{name}=null")).collect();
    play.tells(&["slow starts", "slow ok", &format!("succeeded [{}]", outputs.join(" "))]);
}
