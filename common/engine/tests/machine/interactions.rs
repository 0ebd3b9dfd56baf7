//! Questions to the user: how they are asked, answered, cancelled and expire, what an answer changes, and how the run
//! continues.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::play::Play;
use super::sheet::sheet;
use tidemill_engine::order::events::EventKind;
use tidemill_engine::state::options::choices::Choices;
use tidemill_engine::state::run::{NodeStatus, RunStatus};

const APPROVAL: &str = "q user-interaction interaction_type: ask_for_approval, show_message: 'Ship it?'\na job\nb job\n\
                        s > q\nq:approved > a\nq:rejected > b";
const HOUR: Duration = Duration::from_secs(3600);

fn asking(settings: &str) -> String {
    format!("q user-interaction {settings}\na job\ns > q > a")
}

/// The data of the events of this kind, in order.
fn events_of(play: &Play, name: &str) -> Vec<Json> {
    let data = |event: &tidemill_engine::order::events::Event| match &event.kind {
        EventKind::NodeStep { what, data, .. } if what.name() == name => Some(Json::Object(data.clone())),
        _ => None,
    };
    play.events.iter().filter_map(data).collect()
}

#[test]
fn cx_a17_an_approval_takes_its_edge() {
    let mut play = Play::sheet(APPROVAL, json!({}));
    play.restless = true;
    play.start();
    play.tells(&[
        "begin",
        "s starts",
        "s ok",
        "q starts",
        "q waits",
        "q user_interaction_requested",
        "paused q []",
    ]);
    assert_eq!((play.run.status, play.node("q").status), (RunStatus::Paused, NodeStatus::Waiting));
    assert!(play.waiting().is_empty() && play.timers.is_empty(), "no process holds it: {:?}", play.timers);
    let reason = &play.records.last().unwrap().data["reasons"][0];
    let id = play.pause_of("q").id;
    let expected = json!({"TYPE": "hitl_required", "session_id": &*id, "node_id": "q", "node_title": ""});
    assert_eq!(reason["TYPE"], expected["TYPE"]);
    assert_eq!(reason.as_object().unwrap().len(), 4, "Dify takes no other keys: {reason}");
    let pause = &play.records.last().unwrap().data["pauses"][0];
    assert_eq!((&pause["kind"], &pause["prompt"]), (&json!("user_interaction"), &json!("Ship it?")));
    play.say("q", json!({"approved": true, "comment": "fine"}));
    play.tells(&[
        "resume",
        "q user_interaction_responded",
        "q user_interaction_processed",
        "skip q>b",
        "q ok",
    ]);
    assert_eq!((play.waiting(), play.node("b").status), (vec!["a".to_string()], NodeStatus::Skipped));
    assert_eq!((play.value("q.approved"), play.value("q.content")), (json!(true), json!("fine")));
    assert_eq!(play.value("q.interaction_type"), json!("ask_for_approval"));
    play.done("a", "");
    assert_eq!(play.run.status, RunStatus::Succeeded);
}

#[test]
fn cx_a18_a_refusal_takes_the_other_edge_and_a_second_answer_changes_nothing() {
    let mut play = Play::sheet(APPROVAL, json!({}));
    play.start();
    let again = play.pause_of("q");
    play.say("q", json!(false));
    assert_eq!((play.waiting(), play.value("q.approved")), (vec!["b".to_string()], json!(false)));
    let seq = play.run.seq;
    let body = json!({"pause": &*again.id, "input": true});
    let fact = tidemill_wire::fact::parse("answer", &body.to_string(), &play.run.graph).unwrap();
    play.feed(vec![fact]);
    assert_eq!((play.run.seq, play.waiting()), (seq, vec!["b".to_string()]));
}

#[test]
fn a_node_ends_by_source_when_no_edge_has_the_handle_of_its_answer() {
    let half =
        "q user-interaction interaction_type: ask_for_approval\na job\nc job\ns > q > c\nq:approved > a";
    let mut play = Play::sheet(half, json!({}));
    play.start().say("q", json!(false));
    assert_eq!(play.waiting(), ["c"]);
    let mut play = Play::sheet(half, json!({}));
    play.start().say("q", json!(true));
    assert_eq!(play.waiting(), ["a"]);
    let mut play = Play::sheet(&asking("interaction_type: ask_for_approval"), json!({}));
    play.start().say("q", json!(false));
    assert_eq!(play.waiting(), ["a"], "without such an edge, the node is not a branch");
}

#[test]
fn cx_a19_a_value_keeps_its_type() {
    let mut play =
        Play::sheet(&asking("interaction_type: ask_for_input, input_schema: {type: integer}"), json!({}));
    play.start();
    assert_eq!(play.pause_of("q").request.schema, json!({"type": "integer"}));
    play.say("q", json!(7));
    assert_eq!((play.value("q.input"), play.value("q.content")), (json!(7), json!("7")));
    assert_eq!(play.waiting(), ["a"]);
}

#[test]
fn a_choice_takes_the_edge_of_its_option() {
    let text = "q user-interaction interaction_type: ask_for_selection, options: [red, {id: blue, label: Blue}]\n\
                a job\nb job\ns > q\nq:red > a\nq:blue > b";
    let mut play = Play::sheet(text, json!({}));
    play.start();
    let options = json!([{"id": "red", "label": "red"}, {"id": "blue", "label": "Blue"}]);
    assert_eq!(play.pause_of("q").request.options, options);
    play.say("q", json!("blue"));
    assert_eq!((play.waiting(), play.value("q.selection")), (vec!["b".to_string()], json!("blue")));
}

#[test]
fn cx_a20_an_answer_sets_variables_with_their_types() {
    let settings = "operationType: UPDATE_VARIABLES, prompt: 'Approved?', variables: [\
                    {variableName: approved, expression: '{{input}}', scope: thread}, \
                    {variableName: said, expression: 'v={{input}}'}, \
                    {variableName: mine, expression: '{{input}}', scope: subgraph}, \
                    {variableName: ours, expression: 5, scope: global}]";
    let mut play = Play::sheet(&asking(settings), json!({}));
    play.restless = true;
    play.start().skim().say("q", json!(true));
    assert_eq!((play.value("run.approved"), play.value("run.said")), (json!(true), json!("v=true")));
    assert_eq!((play.value("local.mine"), play.value("conversation.ours")), (json!(true), json!(5)));
    let processed = &events_of(&play, "user_interaction_processed")[0];
    assert_eq!(processed["operation_type"], "UPDATE_VARIABLES");
    let set = json!({"selector": ["run", "approved"], "value": true});
    assert_eq!(processed["results"]["variables"][0], set);
    assert_eq!(play.value("q.results"), processed["results"]);
}

#[test]
fn cx_a21_an_answer_is_added_to_the_conversation() {
    let settings = "operationType: ADD_MESSAGE, prompt: 'Ask me', message: {role: user, contentTemplate: 'Q: {{input}}'}";
    let mut play = Play::sheet(&asking(settings), json!({}));
    play.restless = true;
    play.start().say("q", json!("why"));
    let list = &play.run.messages.as_ref().unwrap().lists["main"];
    let last = list.visible().last().unwrap().1.message.words();
    assert_eq!(last, "Q: why");
    let id = play.value("q.interaction_id");
    let names = ["user_interaction_requested", "user_interaction_responded", "user_interaction_processed"];
    let words = play.words();
    let places: Vec<usize> =
        names.iter().map(|name| words.iter().position(|word| word.ends_with(name)).unwrap()).collect();
    assert!(places.is_sorted(), "{words:?}");
    for name in names {
        assert_eq!(events_of(&play, name)[0]["interaction_id"], id);
    }
}

#[test]
fn loop_variables_can_be_set_only_inside_a_loop() {
    let set = "on_answer: {update_variables: [{name: n, scope: loop}]}";
    let settings = format!("interaction_type: ask_for_input, {set}");
    let mut play = Play::sheet(&asking(&settings), json!({}));
    play.start().say("q", json!(3));
    assert_eq!(play.run.status, RunStatus::Failed);
    assert!(
        play.run.error.as_deref().is_some_and(|error| error.contains("is not in a loop")),
        "{:?}",
        play.run.error
    );
    assert_eq!(events_of(&play, "user_interaction_failed").len(), 1);
}

#[test]
pub(super) fn cx_a23_a_question_that_is_not_answered_in_time() {
    let timed = |rest: &str| format!("interaction_type: ask_for_input, timeout: 200, {rest}");
    let mut play = Play::sheet(&asking(&timed("on_timeout: fail")), json!({}));
    play.start().after(Duration::from_millis(199)).fire();
    assert_eq!(play.run.status, RunStatus::Paused);
    play.after(Duration::from_millis(1)).fire();
    assert_eq!(play.run.status, RunStatus::Failed);
    assert_eq!(play.run.error.as_deref(), Some("User interaction timeout after 200ms"));
    assert_eq!(
        events_of(&play, "user_interaction_failed")[0]["reason"],
        "User interaction timeout after 200ms"
    );
    assert!(play.kept_text().contains("expired") && play.timers.is_empty());

    let branch = "q user-interaction interaction_type: ask_for_input, timeout: 200, on_timeout: branch\na job\nb job\n\
                  s > q > a\nq:timeout > b";
    let mut play = Play::sheet(branch, json!({}));
    play.start().after(HOUR).fire();
    assert_eq!((play.waiting(), play.value("q.input")), (vec!["b".to_string()], Json::Null));

    let mut play = Play::sheet(&asking(&timed("on_timeout: default, defaults: 9")), json!({}));
    play.start().after(HOUR).fire();
    assert_eq!((play.waiting(), play.value("q.input")), (vec!["a".to_string()], json!(9)));
    assert_eq!(events_of(&play, "user_interaction_responded")[0]["by_timeout"], true);

    let handled = timed("error_strategy: fail-branch");
    let mut play =
        Play::sheet(&format!("q user-interaction {handled}\na job\ns > q\nq:fail-branch > a"), json!({}));
    play.start().after(HOUR).fire();
    assert_eq!((play.waiting(), play.value("q.error_type")), (vec!["a".to_string()], json!("TimeoutError")));
}

#[test]
fn a_cancelled_question_stops_the_run() {
    let mut play = Play::sheet(APPROVAL, json!({}));
    play.start();
    let pause = play.pause_of("q").id;
    let body = json!({"pause": &*pause, "cancel": true});
    let fact = tidemill_wire::fact::parse("answer", &body.to_string(), &play.run.graph).unwrap();
    play.feed(vec![fact]);
    assert_eq!((play.run.status, play.node("q").status), (RunStatus::Stopped, NodeStatus::Stopped));
    assert_eq!(events_of(&play, "user_interaction_failed")[0]["reason"], "User interaction cancelled");
    assert!(play.kept_text().contains("cancelled"));
}

#[test]
fn cx_a24_a_message_is_shown_and_the_run_continues() {
    let settings = "userInteractionType: show_message, showMessage: 'Hello {{#s.name#}}'";
    let mut play = Play::sheet(&asking(settings), json!({"name": "Ann"}));
    play.start();
    assert_eq!((play.waiting(), play.value("q.content")), (vec!["a".to_string()], json!("Hello Ann")));
    let requested = &events_of(&play, "user_interaction_requested")[0];
    assert_eq!(
        (&requested["prompt"], &events_of(&play, "text_add")[0]["text"]),
        (&json!("Hello Ann"), &json!("Hello Ann"))
    );
    let mut play = Play::sheet(&asking(&format!("{settings}, requireAck: true")), json!({"name": "Ann"}));
    play.start();
    assert_eq!(play.run.status, RunStatus::Paused);
    play.say("q", json!(null));
    assert_eq!(play.value("q.content"), json!("Hello Ann"));
}

#[test]
fn cx_a25_a_preset_answer_asks_no_question() {
    let mut play = Play::sheet(&asking("userInteractionType: ask_for_input, userInput: preset"), json!({}));
    play.start();
    assert_eq!((play.waiting(), play.value("q.input")), (vec!["a".to_string()], json!("preset")));
    assert!(events_of(&play, "user_interaction_requested").is_empty());
    let wrong = "interaction_type: ask_for_selection, options: [a], user_input: b";
    let mut play = Play::sheet(&asking(wrong), json!({}));
    play.start();
    assert_eq!(play.run.status, RunStatus::Failed);
}

#[test]
fn cx_a27_an_answer_counts_an_hour_and_several_owners_later() {
    let text = "set user-interaction interaction_type: ask_for_input, user_input: kept, \
                on_answer: {update_variables: [{name: v}]}\n\
                q user-interaction interaction_type: ask_for_approval\na job\ns > set > q > a";
    let mut play = Play::sheet(text, json!({}));
    play.start().reload().after(HOUR).reload();
    assert!(play.due().is_empty(), "no timer ends the wait");
    play.say("q", json!(true)).reload();
    assert_eq!((play.waiting(), play.value("run.v")), (vec!["a".to_string()], json!("kept")));
    play.done("a", "");
    assert_eq!(play.run.status, RunStatus::Succeeded);
}

#[test]
fn a_run_variable_that_an_item_sets_is_visible_in_the_item_and_after_it() {
    let text = "it iteration iterator_selector: [s, xs], output_selector: [q, input]\n\
                it/q user-interaction interaction_type: ask_for_input, on_answer: {update_variables: [{name: v}]}\n\
                it/t text template: '{{ v }}', variables: [{variable: v, value_selector: [run, v]}]\n\
                a job\ns > it > a\nits > q > t";
    let mut play = Play::sheet(text, json!({"xs": ["one"]}));
    play.start();
    play.say("it#0/q", json!("x"));
    assert_eq!((play.waiting(), play.value("run.v")), (vec!["a".to_string()], json!("x")));
}

#[test]
fn without_interaction_a_question_fails_and_a_message_does_not() {
    let quiet = |head: &mut tidemill_engine::state::run::RunHead| {
        head.options.choices = Some(Box::new(Choices { interactive: false, ..Choices::default() }));
    };
    let mut play = Play::headed(&sheet(APPROVAL), json!({}), quiet);
    play.start();
    assert_eq!(play.run.status, RunStatus::Failed);
    assert!(events_of(&play, "user_interaction_requested").is_empty(), "no question was asked");
    let preset = sheet(&asking("interaction_type: ask_for_input, user_input: preset"));
    let mut play = Play::headed(&preset, json!({}), quiet);
    play.start();
    assert_eq!(play.waiting(), ["a"]);
}

#[test]
fn xc_10_a_stop_cancels_open_questions() {
    let mut play = Play::sheet(APPROVAL, json!({}));
    play.start();
    let pause = play.pause_of("q");
    play.stop("enough");
    assert_eq!((play.run.status, play.run.pauses.len()), (RunStatus::Stopped, 0));
    assert!(play.kept_text().contains("cancelled"));
    let body = json!({"pause": &*pause.id, "input": true});
    let fact = tidemill_wire::fact::parse("answer", &body.to_string(), &play.run.graph).unwrap();
    play.feed(vec![fact]);
    assert!(play.waiting().is_empty(), "a late answer makes no job");
}
