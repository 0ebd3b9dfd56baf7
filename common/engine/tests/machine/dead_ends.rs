//! Branches that are chosen and lead nowhere: the run goes on without them, and keeps a warning.

use serde_json::{Value as Json, json};

use super::play::Play;

/// Node and handle of each warning: those of the state, which must be those of the run's last event.
fn warned(play: &Play) -> Vec<(String, String)> {
    let of_state: Vec<(String, String)> = play
        .run
        .control
        .warnings
        .iter()
        .map(|noted| (noted.node.as_ref().unwrap().to_string(), noted.warning.about[0].1.clone()))
        .collect();
    let last = &play.records.last().unwrap().data;
    let told = last.get("warnings").and_then(Json::as_array).cloned().unwrap_or_default();
    let text = |warning: &Json, key: &str| warning[key].as_str().unwrap().to_owned();
    let of_event: Vec<_> = told.iter().map(|one| (text(one, "node_id"), text(one, "handle"))).collect();
    assert_eq!(of_event, of_state);
    of_state
}

fn pair(node: &str, handle: &str) -> (String, String) {
    (node.to_owned(), handle.to_owned())
}

#[test]
fn a_chosen_branch_without_an_edge_is_kept_over_a_take_over_and_told_at_the_end() {
    let graph = "start s\nif g s.x\njob k\njob a\nend e\ns > g\ns > k\ng:true > a > e";
    let mut play = Play::given("no", graph);
    play.start().reload();
    assert!(play.kept_text().contains("run.branch_without_edge"));
    play.done("k", "").reload();
    assert_eq!((play.last(), warned(&play)), ("succeeded []".into(), vec![pair("g", "false")]));
    let warning = &play.records.last().unwrap().data["warnings"][0];
    assert_eq!(warning["code"], "run.branch_without_edge");
    assert!(warning["message"].as_str().unwrap().contains("no edge has this handle"), "{warning}");
}

#[test]
fn a_run_whose_branches_lead_on_stores_and_tells_nothing() {
    let mut play = Play::given("yes", "start s\nif g s.x\njob a\ns > g\ng:true > a");
    play.start();
    play.done("a", "");
    assert_eq!(warned(&play), []);
    assert!(!play.kept_text().contains("warnings"));
}

#[test]
fn a_handled_failure_without_an_edge_is_a_dead_end_and_a_success_is_none() {
    let graph = "start s\njob a fail-branch\njob b fail-branch\njob c\ns > a\ns > b\nb:fail-branch > c";
    let mut play = Play::of(graph);
    play.start().failed("a", "broken").done("b", "");
    assert_eq!((play.last(), warned(&play)), ("partial 1 []".into(), vec![pair("a", "fail-branch")]));
}

#[test]
fn a_failed_and_a_stopped_run_tell_their_dead_ends_too() {
    let graph = "start s\nif g s.x\njob k\njob a\ns > g\ns > k\ng:true > a";
    let mut play = Play::given("no", graph);
    play.start().failed("k", "broken");
    assert_eq!(warned(&play), [pair("g", "false")]);
    let mut play = Play::given("no", graph);
    play.start().stop("enough");
    assert_eq!(warned(&play), [pair("g", "false")]);
}

/// A branch of the iteration's body is a dead end, noted once for all items. In a loop, an end without an edge is how a
/// round goes on to the next.
#[test]
fn items_note_a_dead_end_once_and_rounds_note_none() {
    let gate = "if-else cases: [{case_id: 'true', logical_operator: and, conditions: [{comparison_operator: is, variable_selector: [s, q], value: x}]}]";
    let iteration = format!(
        "it iteration iterator_selector: [s, l], output_selector: [t, output]\nit/g {gate}\nit/t text template: x, variables: []\ne end outputs: []\ns > it > e\nits > g\ng:true > t"
    );
    let mut play = Play::sheet(&iteration, json!({"l": ["a", "b", "c"], "q": "y"}));
    play.start().goes_on(|_, _| false);
    assert_eq!(warned(&play), [pair("g", "false")]);
    let rounds = format!(
        "lp loop loop_count: 3, logical_operator: and, break_conditions: []\nlp/g {gate}\nlp/t text template: x, variables: []\ne end outputs: []\ns > lp > e\nlps > g\ng:true > t"
    );
    let mut play = Play::sheet(&rounds, json!({"q": "y"}));
    play.start().goes_on(|_, _| false);
    assert_eq!(warned(&play), []);
}
