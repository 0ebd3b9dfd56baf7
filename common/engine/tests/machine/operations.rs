//! Operations of items on conversation variables: each is applied once, in the order in which the items end, also when
//! the items run in parallel, fail, are nested, or when the values are large.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::play::Play;
use super::sheet::sheet;
use tidemill_base::warning::OPERATION_DROPPED;
use tidemill_engine::state::options::compat::ConversationWrites;
use tidemill_engine::state::warnings::Noted;

const APPEND: &str =
    "{variable_selector: [conversation, c], input_type: variable, operation: append, value: [it, item]}";
const SET: &str =
    "{variable_selector: [conversation, c], input_type: variable, operation: over-write, value: [it, row]}";
const REMOVE: &str = "{variable_selector: [conversation, c], input_type: variable, operation: remove-first}";

/// An iteration over `s.l` with a job before and after an assigner with these items. `c` is a list of texts.
fn iteration(options: &str, items: &str) -> String {
    sheet(&format!(
        "conversation c, value_type: 'array[string]', value: []\n\
         it iteration iterator_selector: [s, l], output_selector: [k, output]{options}\n\
         it/a job\n\
         it/w assigner version: '2', items: [{items}]\n\
         it/k job\n\
         e end outputs: [{{variable: c, value_selector: [conversation, c]}}]\n\
         s > it > e\nits > a > w > k"
    ))
}

const PARALLEL: &str = ", is_parallel: true, parallel_nums: 4";

fn play(text: &str, list: Json, inline_max: usize) -> Play {
    let mut play = Play::headed(text, json!({"l": list}), |head| {
        head.conversation_id = Some("c".into());
        head.options.inline_bytes_max = inline_max;
    });
    play.restless = true;
    play.start();
    play
}

/// Does the jobs of assigners: those that read large values.
fn assigns(play: &mut Play) {
    while let Some(place) = play.waiting().into_iter().find(|place| place.ends_with("/w")) {
        play.works(&place);
    }
}

/// What the conversation keeps of a variable.
fn kept(play: &Play, name: &str) -> Json {
    let text = &play.kept.conversation[&format!("v:{name}")];
    let value: Json = serde_json::from_str(text).unwrap();
    match value.get("value") {
        Some(inner) => inner.clone(),
        None => value,
    }
}

/// The warnings of the run about operations: variable and operation.
fn dropped(play: &Play) -> Vec<(String, String)> {
    let about = |at: usize| move |noted: &Noted| noted.warning.about[at].1.clone();
    let noted = play.run.control.warnings.iter().filter(|noted| noted.warning.code == OPERATION_DROPPED);
    noted.map(|noted| (about(0)(noted), about(1)(noted))).collect()
}

#[test]
fn items_in_parallel_append_in_the_order_in_which_they_end() {
    let mut play = play(&iteration(PARALLEL, APPEND), json!(["x", "y", "z"]), 8_192);
    play.done("it#0/a", "").done("it#1/a", "").done("it#2/a", "");
    assert_eq!(play.kept.conversation.get("v:c"), None, "nothing is handed over yet");
    play.done("it#2/k", "").done("it#0/k", "").done("it#1/k", "");
    assert_eq!(play.last(), r#"succeeded [c=["z","x","y"]]"#);
    assert_eq!(kept(&play, "c"), json!(["z", "x", "y"]));
    assert!(dropped(&play).is_empty());
}

#[test]
fn a_whole_value_replaces_what_is_there_and_later_operations_follow_it() {
    // An item with the text `set` appends, replaces and appends; the others only append.
    let gate = "cases: [{case_id: 'true', logical_operator: and, conditions: [{comparison_operator: is, variable_selector: [it, item], value: set}]}]";
    let set = SET.replace("[it, row]", "[s, row]");
    let text = sheet(&format!(
        "conversation c, value_type: 'array[string]', value: []\n\
         it iteration iterator_selector: [s, l], output_selector: [k, output]{PARALLEL}\n\
         it/g if-else {gate}\n\
         it/w assigner version: '2', items: [{APPEND}]\n\
         it/v assigner version: '2', items: [{APPEND}, {set}, {APPEND}]\n\
         it/k job\n\
         it/h job\n\
         e end outputs: [{{variable: c, value_selector: [conversation, c]}}]\n\
         s > it > e\nits > g\ng:false > w > k\ng:true > v > h"
    ));
    let mut play = Play::headed(&text, json!({"l": ["x", "set", "z"], "row": ["r"]}), |_| {});
    play.restless = true;
    play.start().done("it#0/k", "");
    assert_eq!(play.value("conversation.c"), json!(["x"]));
    play.done("it#1/h", "");
    assert_eq!(play.value("conversation.c"), json!(["r", "set"]));
    play.done("it#2/k", "");
    assert_eq!(play.last(), r#"succeeded [c=["r","set","z"]]"#);
}

#[test]
fn operations_of_failed_items_count_in_each_error_mode() {
    for (mode, last) in [
        ("continue-on-error", r#"partial 1 [c=["x","y","z"]]"#),
        ("remove-abnormal-output", r#"partial 1 [c=["x","y","z"]]"#),
    ] {
        let options = format!("{PARALLEL}, error_handle_mode: {mode}");
        let mut play = play(&iteration(&options, APPEND), json!(["x", "y", "z"]), 8_192);
        play.done("it#0/a", "").done("it#1/a", "").done("it#2/a", "");
        play.done("it#0/k", "").failed("it#1/k", "broken").done("it#2/k", "");
        assert_eq!((play.last(), kept(&play, "c")), (last.to_string(), json!(["x", "y", "z"])), "{mode}");
    }
    let options = format!("{PARALLEL}, error_handle_mode: terminated");
    let mut play = play(&iteration(&options, APPEND), json!(["x", "y", "z"]), 8_192);
    play.done("it#0/a", "").done("it#1/a", "").done("it#2/a", "");
    play.done("it#0/k", "").failed("it#1/k", "broken").done("it#2/k", "");
    assert!(play.last().starts_with("run failed"), "{}", play.last());
    assert_eq!(kept(&play, "c"), json!(["x", "y", "z"]));
}

#[test]
fn an_operation_on_an_empty_list_does_nothing_and_is_no_misfit() {
    let mut play = play(&iteration(PARALLEL, REMOVE), json!(["x", "y"]), 8_192);
    play.done("it#0/a", "").done("it#1/a", "").done("it#0/k", "").done("it#1/k", "");
    assert_eq!((play.last(), dropped(&play)), ("succeeded [c=[]]".into(), vec![]));
}

#[test]
fn items_within_items_and_rounds_within_items_lose_nothing() {
    let add = "{variable_selector: [conversation, n], input_type: constant, operation: +=, value: 1}";
    let text = sheet(&format!(
        "conversation c, value_type: 'array[string]', value: []\n\
         conversation n, value_type: integer, value: 100\n\
         it iteration iterator_selector: [s, l], output_selector: [in, output], is_parallel: true, parallel_nums: 3\n\
         it/in iteration iterator_selector: [s, l], output_selector: [k, output], is_parallel: true, parallel_nums: 3\n\
         in/k job\n\
         in/w assigner version: '2', items: [{}, {add}]\n\
         it/lp loop loop_count: 2, logical_operator: and, break_conditions: []\n\
         lp/u assigner version: '2', items: [{add}]\n\
         e end outputs: [{{variable: c, value_selector: [conversation, c]}}, {{variable: n, value_selector: [conversation, n]}}]\n\
         s > it > e\nits > in > lp\nins > w > k\nlps > u",
        APPEND.replace("[it, item]", "[in, item]")
    ));
    let mut play = play(&text, json!(["x", "y"]), 8_192);
    play.done("it#1/in#1/k", "").done("it#0/in#1/k", "").done("it#1/in#0/k", "").done("it#0/in#0/k", "");
    // Each inner item hands over to its outer item, and each outer item to the run.
    assert_eq!(play.last(), r#"succeeded [c=["y","x","y","x"] n=108]"#);
    assert_eq!((kept(&play, "c"), kept(&play, "n")), (json!(["y", "x", "y", "x"]), json!(108)));
}

#[test]
fn an_operation_that_no_longer_fits_is_left_out_with_a_warning() {
    let mut play = play(&iteration(PARALLEL, APPEND), json!(["x", "y"]), 8_192);
    play.done("it#0/a", "").done("it#1/a", "").done("it#0/k", "");
    play.update("conversation.c", json!("a text now")).done("it#1/k", "");
    assert_eq!(
        (play.last(), dropped(&play)),
        (r#"succeeded [c="a text now"]"#.into(), vec![("c".into(), "append".into())])
    );
    let warning = &play.records.last().unwrap().data["warnings"][0];
    assert_eq!((&warning["code"], &warning["variable"]), (&json!("run.operation_dropped"), &json!("c")));
    assert!(warning["message"].as_str().unwrap().contains("append"), "{warning}");
}

/// The iteration beside a job `o` whose output the run itself appends.
fn with_outer_append() -> String {
    sheet(&format!(
        "conversation c, value_type: 'array[string]', value: []\n\
         it iteration iterator_selector: [s, l], output_selector: [k, output]{PARALLEL}\n\
         it/a job\n\
         it/w assigner version: '2', items: [{APPEND}]\n\
         it/k job\n\
         o job\n\
         p assigner version: '2', items: [{}]\n\
         e end outputs: [{{variable: c, value_selector: [conversation, c]}}]\n\
         s > it > e\ns > o > p\nits > a > w > k",
        APPEND.replace("[it, item]", "[o, output]")
    ))
}

#[test]
fn what_the_run_writes_meanwhile_is_kept() {
    let mut play = play(&with_outer_append(), json!(["x", "y"]), 8_192);
    play.done("it#0/a", "").done("it#1/a", "").done("it#0/k", "").done("o", "outer").done("it#1/k", "");
    assert_eq!(play.last(), r#"succeeded [c=["x","outer","y"]]"#);
}

#[test]
fn operations_on_large_lists_are_applied_when_the_iteration_ends() {
    // Larger values than 20 bytes are blobs, so a worker applies the operations.
    let mut play = play(&iteration(PARALLEL, APPEND), json!(["x", "y with some more text", "z"]), 20);
    play.done("it#0/a", "").done("it#1/a", "").done("it#2/a", "");
    assigns(&mut play);
    play.done("it#1/k", "").done("it#2/k", "").done("it#0/k", "");
    assert_eq!(play.waiting(), ["it"]);
    play.works("it");
    assert_eq!(play.value("conversation.c"), json!(["y with some more text", "z", "x"]));
    assert!(dropped(&play).is_empty());
    assert!(!play.kept_text().contains("pending"), "{}", play.kept_text());
    assert!(play.words().iter().all(|words| !words.contains("+c=")), "{:?}", play.words());
}

#[test]
fn a_large_list_that_is_written_while_a_worker_applies_operations_is_kept() {
    let mut play = play(&with_outer_append(), json!(["x", "y with some more text", "z"]), 20);
    play.done("it#0/a", "").done("it#1/a", "").done("it#2/a", "");
    assigns(&mut play);
    play.done("it#0/k", "").done("it#1/k", "").done("it#2/k", "");
    assert!(play.waiting().contains(&"it".to_string()), "{:?}", play.waiting());
    // The job of the iteration has read the list; then the run appends to it.
    play.done("o", "outer");
    while let Some(place) = play.waiting().first().cloned() {
        play.works(&place);
    }
    let mut list: Vec<String> = serde_json::from_value(play.value("conversation.c")).unwrap();
    list.sort_unstable();
    assert_eq!(list, ["outer", "x", "y with some more text", "z"]);
}

#[test]
fn items_one_after_the_other_see_large_lists_of_those_before() {
    let text = iteration("", APPEND).replace("[k, output]", "[t, output]").replace(
        "    - {id: k,",
        "    - {id: t, parentId: it, data: {type: template-transform, title: t, template: '{{ x | join }}', variables: [{variable: x, value_selector: [conversation, c]}]}}\n    - {id: k,",
    );
    let text = text.replace("    edges:\n", "    edges:\n    - {source: k, target: t}\n");
    for inline_max in [10, 20, 60, 8_192] {
        let list = json!(["a first long text", "b", "a third long text", "d"]);
        let mut play = play(&text, list.clone(), inline_max);
        play.goes_on(|_, _| false);
        assert_eq!(play.value("conversation.c"), list);
        let texts = play.value("it.output");
        assert_eq!(texts[3], "a first long textba third long textd");
    }
}

#[test]
fn a_stopped_run_leaves_the_operations_of_closed_and_of_open_items() {
    let mut play = play(&iteration(PARALLEL, APPEND), json!(["x", "y", "z"]), 8_192);
    play.done("it#0/a", "").done("it#1/a", "").done("it#2/a", "").done("it#1/k", "");
    play.stop("enough");
    assert_eq!(kept(&play, "c"), json!(["y", "x", "z"]));
    assert!(dropped(&play).is_empty());
}

#[test]
fn a_run_stopped_with_waiting_operations_on_a_large_list_says_that_some_are_lost() {
    let mut play = play(&iteration(PARALLEL, APPEND), json!(["x", "y with some more text", "z"]), 20);
    play.done("it#0/a", "").done("it#1/a", "");
    assigns(&mut play);
    play.done("it#1/k", "").done("it#0/k", "");
    play.stop("enough");
    assert_eq!(dropped(&play), [("c".to_owned(), String::new())]);
    let warning = &play.records.last().unwrap().data["warnings"][0];
    assert!(warning["message"].as_str().unwrap().contains("ended before"), "{warning}");
}

#[test]
fn writes_that_stay_in_their_items_are_stored_at_once_and_merged_nowhere() {
    let text = iteration(PARALLEL, APPEND);
    let mut play = Play::headed(&text, json!({"l": ["x", "y"]}), |head| {
        head.conversation_id = Some("c".into());
        head.options.iteration_conversation_writes = ConversationWrites::Local;
    });
    play.start().done("it#0/a", "");
    assert_eq!(kept(&play, "c"), json!(["x"]));
    play.done("it#1/a", "").done("it#0/k", "").done("it#1/k", "");
    assert_eq!((play.last(), kept(&play, "c")), ("succeeded [c=[]]".into(), json!(["y"])));
    assert!(!play.kept_text().contains("changes"));
}

#[test]
fn an_item_with_many_operations_stores_them_in_pages() {
    let text = sheet(
        "conversation c, value_type: 'array[string]', value: []\n\
         it iteration iterator_selector: [s, l], output_selector: [k, output], is_parallel: true, parallel_nums: 2\n\
         it/lp loop loop_count: 40, logical_operator: and, break_conditions: []\n\
         lp/w assigner version: '2', items: [{variable_selector: [conversation, c], input_type: variable, operation: append, value: [it, item]}]\n\
         it/k job\n\
         s > it\nits > lp > k\nlps > w",
    );
    let mut play = play(&text, json!(["x", "y"]), 40);
    play.goes_on(|_, _| false);
    let list: Vec<String> = serde_json::from_value(play.value("conversation.c")).unwrap();
    assert_eq!(list.iter().filter(|it| *it == "x").count(), 40);
    assert_eq!(list.iter().filter(|it| *it == "y").count(), 40);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn in_any_order_of_jobs_each_operation_is_applied_once(
        items in 2usize..7,
        lanes in 1usize..5,
        inline_max in prop::sample::select(vec![12usize, 40, 8_192]),
        picks in prop::collection::vec(any::<usize>(), 0..60),
        fails in prop::collection::vec(any::<bool>(), 7),
    ) {
        let options = format!(
            ", is_parallel: true, parallel_nums: {lanes}, error_handle_mode: continue-on-error"
        );
        let list: Vec<String> = (0..items).map(|at| format!("item{at}")).collect();
        let mut play = play(&iteration(&options, APPEND), json!(list), inline_max);
        let mut picks = picks.into_iter();
        while !play.run.status.is_over() {
            while play.continue_due > 0 {
                play.continues();
            }
            let waiting = play.waiting();
            let Some(place) = waiting.get(picks.next().unwrap_or(0) % waiting.len().max(1)).cloned() else { break };
            let number = place.strip_prefix("it#").and_then(|rest| rest.split('/').next()?.parse::<usize>().ok());
            match number {
                Some(at) if place.ends_with("/k") && fails[at] => play.failed(&place, "broken"),
                _ => play.works(&place),
            };
        }
        let mut left: Vec<String> = serde_json::from_value(play.value("conversation.c")).unwrap();
        left.sort_unstable();
        prop_assert_eq!(left, list);
        prop_assert!(dropped(&play).is_empty());
    }
}
