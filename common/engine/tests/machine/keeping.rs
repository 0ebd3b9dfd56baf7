//! Changes of messages, `rt` and history: applied with the ends of nodes, once, one after the other.

use serde_json::{Value as Json, json};

use super::draw;
use super::play::Play;
use tidemill_base::value::{JsonMap, Segment, Stored};
use tidemill_engine::fact::Fact;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::record::Record;
use tidemill_engine::state::run::{NodeStatus, RunStatus};
use tidemill_workflow::messages::{
    Effects, HISTORY, ListChange, MESSAGES, Message, MessageChange, MessageLimits, RUNTIME, Target, Truncate,
};
use tidemill_workflow::nodes::Usage;
use tidemill_workflow::nodes::llm::Role;

const TWO: &str = "start s\njob a\njob b\nend e\ns > a > e\ns > b > e";
const CHAIN: &str = "start s\njob a\njob b\nend e\ns > a > b > e";

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

fn change(change: ListChange) -> Effects {
    let change = MessageChange { list: "main".into(), target: Target::Own, change };
    Effects { messages: vec![change], ..Effects::default() }
}

fn keep_last(count: u64) -> Effects {
    let by = Truncate { keep_last: Some(count), ..Truncate::default() };
    change(ListChange::Truncate { by, visible_only: true })
}

fn map(value: Json) -> JsonMap {
    value.as_object().cloned().unwrap()
}

fn record(effects: Effects) -> Record {
    Record { effects: Some(Box::new(effects)), ..Record::default() }
}

fn ending(play: &Play, node: &str, record: Record) -> Fact {
    play.fact(&play.job_of(node), 1, &play.ended(record, Vec::new()))
}

/// The job of a node succeeds with these effects.
fn does(play: &mut Play, node: &str, effects: Effects) {
    let fact = ending(play, node, record(effects));
    play.finish(node, fact);
}

fn reads(play: &Play, node: &str, name: &str) -> Json {
    let frame = tidemill_base::ids::FramePath::root();
    match play.run.pool(&frame).stored(node, name).map(std::borrow::Cow::into_owned) {
        Some(Stored::Inline(Segment { value, .. })) => value,
        other => panic!("{node}.{name} is {other:?}"),
    }
}

fn events_of(play: &Play, kind: &str) -> Vec<Json> {
    let of_kind = play.records.iter().filter(|record| record.kind == kind);
    of_kind.map(|record| record.data["data"].clone()).collect()
}

#[test]
fn cx_a15_messages_of_parallel_branches_are_added_one_after_the_other() {
    for order in [["a", "b"], ["b", "a"]] {
        let mut play = Play::of(TWO);
        play.restless = true;
        play.start();
        let facts =
            order.map(|node| ending(&play, node, record(Effects::appending("main", vec![user(node)]))));
        play.jobs.clear();
        // Both in one commit.
        play.feed(facts.to_vec());
        let list = &play.run.messages.as_ref().unwrap().lists["main"];
        assert_eq!((list.messages.len(), list.index.version), (2, 2));
        let said = |at: usize| list.messages[at].message.words();
        assert_eq!([said(0), said(1)], order);
        assert_eq!(&*list.messages[0].by, format!("/{}", order[0]));
        assert_eq!(play.run.status, RunStatus::Succeeded);
    }
}

#[test]
fn a_new_message_is_sent_before_its_node_succeeds_and_later_nodes_read_it() {
    let mut play = Play::of(CHAIN);
    play.restless = true;
    play.start().skim();
    assert_eq!(reads(&play, MESSAGES, "main"), json!([]));
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let reply = Message { tool_calls: Some(calls.clone()), ..Message::text(Role::Assistant, "r") };
    does(&mut play, "a", Effects::appending("main", vec![user("q"), reply]));
    play.tells(&[
        "a starts",
        "a conversation_message_added",
        "a conversation_message_added",
        "a conversation_updated",
        "a ok",
    ]);
    let visible = json!([
        {"idx": 0, "role": "user", "content": "q"},
        {"idx": 1, "role": "assistant", "content": "r", "tool_calls": calls},
    ]);
    assert_eq!(reads(&play, MESSAGES, "main"), visible);
    assert_eq!(
        events_of(&play, "conversation_message_added")[0],
        json!({"conversation_id": "main", "idx": 0, "role": "user", "content": "q"})
    );
    does(&mut play, "b", keep_last(1));
    assert_eq!(
        events_of(&play, "conversation_updated")[1],
        json!({
            "conversation_id": "main", "operation": "truncate", "batch": 1, "message_count": 1, "tokens_after": 21,
            "stats": {"original_message_count": 2, "visible_message_count": 1, "invisible_message_count": 1},
        })
    );
}

#[test]
fn only_new_messages_are_written() {
    let mut play = Play::of(CHAIN);
    play.start();
    does(&mut play, "a", Effects::appending("main", (0..100).map(|n| user(&n.to_string())).collect()));
    let before = play.kept_text().len();
    does(&mut play, "b", Effects::appending("main", vec![user("one more")]));
    let grown = play.kept_text().len() - before;
    assert!(grown < 1500, "one message adds {grown} bytes");
}

#[test]
fn cx_a16_a_result_that_comes_twice_changes_a_list_once() {
    let mut play = Play::of(CHAIN);
    play.start();
    let fact = ending(&play, "a", record(Effects::appending("main", vec![user("q")])));
    play.finish("a", fact.clone()).reload().feed(vec![fact]);
    let list = &play.run.messages.as_ref().unwrap().lists["main"];
    assert_eq!((list.messages.len(), list.index.version), (1, 1));
    assert_eq!(events_of(&play, "conversation_updated").len(), 1);
    let execution = play.job_of("b");
    assert!(!list.has_applied(&execution.execution));
}

#[test]
fn cx_a07_an_invalid_change_fails_its_node_and_changes_nothing() {
    let mut play =
        Play::of("start s\njob a fail-branch\njob b\nend e\ns > a\na:fail-branch > b > e\na:source > e");
    play.restless = true;
    play.start();
    let insert = |position| ListChange::Insert { position, messages: vec![user("X")], visible_only: true };
    let mut effects = Effects::appending("main", vec![user("q")]);
    effects.messages.extend(change(insert(9)).messages);
    effects.runtime = map(json!({"answer": "a"}));
    does(&mut play, "a", effects);
    assert_eq!(play.node("a").status, NodeStatus::Exception);
    assert_eq!(reads(&play, "a", "error_type"), json!("InsertPositionOutOfRange"));
    assert_eq!(play.run.messages, None, "neither the list nor rt is there");
    assert_eq!(events_of(&play, "conversation_message_added"), Vec::<Json>::new());
}

#[test]
fn an_invalid_change_is_not_retried() {
    let mut play = Play::of("start s\nllm m retry=3\nend e m.text\ns > m > e");
    play.start();
    does(&mut play, "m", change(ListChange::Rollback { target_batch: 7 }));
    assert_eq!(play.run.status, RunStatus::Failed);
    let error = play.run.error.clone().unwrap_or_default();
    assert!(error.contains("Target batch 7 not found. Available batches: 0"), "{error}");
}

#[test]
fn a_run_without_a_caller_has_no_parent_list() {
    let mut play = Play::of(CHAIN);
    play.start();
    let mut effects = keep_last(1);
    effects.messages[0].target = Target::Parent;
    does(&mut play, "a", effects);
    assert!(play.last().contains("fail"), "{}", play.last());
    assert!(play.run.error.clone().unwrap_or_default().contains("no parent conversation"));
}

#[test]
fn fields_of_rt_are_merged_and_read() {
    let mut play = Play::of(CHAIN);
    play.restless = true;
    play.start();
    let runtime = |value| Effects { runtime: map(value), ..Effects::default() };
    assert_eq!(reads(&play, RUNTIME, "rt"), json!({}));
    does(&mut play, "a", runtime(json!({"answer": "a", "filled": {"x": 1}, "facts": ["f"]})));
    does(&mut play, "b", runtime(json!({"answer": null, "filled": {"y": 2}})));
    assert_eq!(reads(&play, RUNTIME, "rt"), json!({"filled": {"x": 1, "y": 2}, "facts": ["f"]}));
}

#[test]
fn history_records_name_their_nodes_and_include_failures() {
    let mut play =
        Play::of("start s\njob a fail-branch\njob b\nend e\ns > a\na:fail-branch > b > e\na:source > e");
    play.restless = true;
    play.start();
    let history = |value| Some(Box::new(Effects { history: vec![map(value)], ..Effects::default() }));
    let failed = Record {
        error: "broken".into(),
        error_type: "TestError".into(),
        effects: history(json!({"action": "llm", "details": {"prompt": "p"}})),
        ..Record::default()
    };
    let fact = ending(&play, "a", failed);
    play.finish("a", fact);
    let outputs = vec![("output".to_string(), Stored::Inline(Segment::string("o")))];
    let fact = ending(&play, "b", Record { outputs, effects: history(json!({})), ..Record::default() });
    play.finish("b", fact);
    let records = reads(&play, HISTORY, "5");
    let of = |at: usize, key: &str| records[at][key].clone();
    assert_eq!([of(0, "step_status"), of(0, "action"), of(0, "error")], ["error", "llm", "broken"]);
    assert_eq!([of(1, "step_status"), of(1, "node_id")], ["success", "b"]);
    assert_eq!((of(1, "seq"), of(1, "output_data")), (json!(2), json!({"output": "o"})));
    assert_eq!(reads(&play, HISTORY, "1"), json!([records[1]]));
    assert_eq!(reads(&play, HISTORY, "0"), json!([]));
}

#[test]
fn a_long_list_is_reported_once_until_it_is_shortened() {
    let limits = MessageLimits { tokens_limit: 10, tokens_warning: 100, ..MessageLimits::default() };
    let options = RunOptions { message_limits: Some(Box::new(limits)), ..RunOptions::default() };
    let drawing = "start s\njob a\njob b\njob c\njob d\nend e\ns > a > b > c > d > e";
    let mut play = Play::with(draw::draw(drawing), &[], options);
    play.start();
    let long = || Effects::appending("main", vec![user(&"x".repeat(42))]);
    does(&mut play, "a", long());
    let exceeded = |play: &Play| events_of(play, "token_limit_exceeded").len();
    assert_eq!((exceeded(&play), events_of(&play, "context_compression_requested").len()), (1, 1));
    assert_eq!(
        events_of(&play, "token_limit_exceeded")[0],
        json!({"conversation_id": "main", "tokens_used": 12, "token_limit": 10, "usage_percentage": 120.0})
    );
    does(&mut play, "b", long());
    assert_eq!(exceeded(&play), 1);
    does(&mut play, "c", keep_last(0));
    let many = Effects::appending("main", (0..8).map(|_| user(&"x".repeat(42))).collect());
    does(&mut play, "d", many);
    assert_eq!((exceeded(&play), events_of(&play, "token_usage_warning").len()), (2, 1));
}

#[test]
fn cx_a11_tokens_count_for_the_list_that_was_sent_to_the_model() {
    let mut play = Play::of("start s\nllm m\nend e m.text\ns > m > e");
    play.start();
    let used = json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7});
    let usage = Some(Usage::from_record(map(used)));
    let effects = Effects::appending("main", vec![user("q"), Message::text(Role::Assistant, "r")]);
    let fact = ending(&play, "m", Record { usage: usage.map(Box::new), ..record(effects) });
    play.finish("m", fact);
    let index = &play.run.messages.as_ref().unwrap().lists["main"].index;
    assert_eq!((index.current.total, index.lifetime.total), (7, 7));
}
