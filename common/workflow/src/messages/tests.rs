//! Tests of the list operations, by the cases of the design.

use serde_json::{Value as Json, json};

use super::Role;
use super::*;
use crate::usage::Usage;
use tidemill_base::ids::{FramePath, RunId, ShardId};

fn execution(node: &str) -> ExecutionId {
    ExecutionId::derive(&RunId::new(1, 2, ShardId(3)), &FramePath::root(), &node.into())
}
use tidemill_base::ids::ExecutionId;

/// The conversation of the cases: m0 to m4.
fn conversation() -> MessageList {
    MessageList::beginning(vec![
        Message::text(Role::System, "S"),
        Message::text(Role::User, "foo"),
        Message::text(Role::Assistant, "A1"),
        Message::text(Role::User, "bar baz"),
        Message::text(Role::Assistant, "A2"),
    ])
}

fn apply(list: &mut MessageList, change: ListChange) -> Result<Outcome, MessageError> {
    list.apply("main", &change, ("/cp", &execution("cp")), &MessageLimits::default())
}

fn texts(list: &MessageList) -> Vec<String> {
    list.visible().map(|(_, kept)| kept.message.words()).collect()
}

fn truncated(by: Truncate) -> (MessageList, Outcome) {
    let mut list = conversation();
    let outcome = apply(&mut list, ListChange::Truncate { by, visible_only: true }).unwrap();
    (list, outcome)
}

fn user(text: &str) -> Message {
    Message::text(Role::User, text)
}

#[test]
fn initial_messages_are_the_first_batch() {
    let map = conversation().mark_map().to_json();
    let begins = json!({
        "originalIndices": [0, 1, 2, 3, 4], "batchBoundaries": [0], "boundaryToBatch": [0], "currentBatch": 0,
    });
    assert_eq!(map, begins);
}

#[test]
fn cx_a01_keeping_the_last_two_opens_a_batch() {
    let (list, outcome) = truncated(Truncate { keep_last: Some(2), ..Truncate::default() });
    assert_eq!(list.index.visible, [3, 4]);
    assert_eq!((outcome.message_count, outcome.batch), (2, 1));
    let stats =
        json!({"original_message_count": 5, "visible_message_count": 2, "invisible_message_count": 3});
    assert_eq!(outcome.stats.to_json(), stats);
    let map = list.mark_map();
    assert_eq!((map.batch_boundaries, map.boundary_to_batch, map.current_batch), (vec![0, 5], vec![0, 1], 1));
    assert_eq!((list.messages.len(), list.index.version), (5, 1));
}

#[test]
fn cx_a02_options_apply_in_their_fixed_order() {
    let by = Truncate { keep_first: Some(4), remove_first: Some(1), ..Truncate::default() };
    assert_eq!(truncated(by).0.index.visible, [1, 2, 3]);
    let by = Truncate { role: Some(Role::User), keep_last: Some(1), ..Truncate::default() };
    assert_eq!(truncated(by).0.index.visible, [3]);
}

#[test]
fn cx_a03_a_range_is_half_open_and_cut_to_the_existing_messages() {
    for (range, left) in [((1, 3), &[1, 2][..]), ((1, 99), &[1, 2, 3, 4]), ((7, 9), &[])] {
        let by = Truncate { range: Some(range), ..Truncate::default() };
        assert_eq!(truncated(by).0.index.visible, left, "{range:?}");
    }
}

#[test]
fn cx_a04_keeping_none_hides_all_and_removing_none_hides_none() {
    let (list, outcome) = truncated(Truncate { keep_last: Some(0), ..Truncate::default() });
    assert_eq!((list.index.visible.len(), outcome.message_count), (0, 0));
    for by in [
        Truncate { remove_last: Some(0), ..Truncate::default() },
        Truncate { remove_first: Some(0), ..Truncate::default() },
        Truncate { keep_first: Some(99), ..Truncate::default() },
    ] {
        assert_eq!(truncated(by.clone()).1.message_count, 5, "{by:?}");
    }
    let by = Truncate { keep_first: Some(0), ..Truncate::default() };
    assert_eq!(truncated(by).1.message_count, 0);
}

#[test]
fn cx_a06_inserted_messages_are_at_their_position() {
    let mut list = conversation();
    let insert = |position| ListChange::Insert { position, messages: vec![user("X")], visible_only: true };
    let outcome = apply(&mut list, insert(1)).unwrap();
    assert_eq!(texts(&list), ["S", "X", "foo", "A1", "bar baz", "A2"]);
    assert_eq!((outcome.message_count, outcome.batch, outcome.added), (6, 1, 5..6));
    let mut list = conversation();
    let outcome = apply(&mut list, insert(-1)).unwrap();
    assert_eq!(texts(&list).last().map(String::as_str), Some("X"));
    assert_eq!((outcome.message_count, outcome.batch), (6, 0));
    assert_eq!(list.mark_map().batch_boundaries, [0]);
}

#[test]
fn cx_a07_an_insertion_after_the_end_changes_nothing() {
    let mut list = conversation();
    let before = list.clone();
    let insert = |position| ListChange::Insert { position, messages: vec![user("X")], visible_only: true };
    let error = apply(&mut list, insert(9)).unwrap_err();
    assert_eq!(error, MessageError::InsertPositionOutOfRange { position: 9, visible_count: 5 });
    assert_eq!(error.name(), "InsertPositionOutOfRange");
    assert_eq!(list, before);
    assert_eq!(apply(&mut list, insert(5)).unwrap().message_count, 6);
}

#[test]
fn cx_a08_a_replacement_keeps_the_place_and_the_count() {
    let mut list = conversation();
    let replace = |index| ListChange::Replace { index, message: user("Y"), visible_only: true };
    let outcome = apply(&mut list, replace(1)).unwrap();
    assert_eq!(texts(&list), ["S", "Y", "A1", "bar baz", "A2"]);
    assert_eq!((outcome.message_count, outcome.batch), (5, 1));
    assert_eq!(list.index.visible, [0, 5, 2, 3, 4]);
    let error = apply(&mut conversation(), replace(5)).unwrap_err();
    assert_eq!(error.to_string(), "Visible index 5 out of bounds. Visible messages count: 5");
}

#[test]
fn cx_a09_clearing_keeps_the_first_system_message_or_nothing() {
    for (keep_system_message, left) in [(true, &[0][..]), (false, &[])] {
        let mut list = conversation();
        apply(&mut list, ListChange::Clear { keep_system_message, visible_only: true }).unwrap();
        assert_eq!(list.index.visible, left);
    }
}

#[test]
fn cx_a10_conditions_of_a_filter_hold_together() {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    for (roles, contains, excludes, left) in [
        (vec![Role::User], words(&[]), words(&[]), &[1, 3][..]),
        (vec![], words(&["foo", "baz"]), words(&[]), &[1, 3]),
        (vec![], words(&[]), words(&["A"]), &[0, 1, 3]),
        (vec![Role::User], words(&[]), words(&["foo"]), &[3]),
        (vec![], words(&["FOO"]), words(&[]), &[]),
    ] {
        let mut list = conversation();
        let by = Filter { roles, content_contains: contains, content_excludes: excludes };
        apply(&mut list, ListChange::Filter { by: by.clone(), visible_only: true }).unwrap();
        assert_eq!(list.index.visible, left, "{by:?}");
    }
}

#[test]
fn contents_that_are_not_texts_are_filtered_by_their_json() {
    let mut list =
        MessageList::beginning(vec![Message { content: json!({"a": [1]}), ..user("") }, user("b")]);
    let by = Filter { content_contains: vec!["{\"a\":[1]".into()], ..Filter::default() };
    apply(&mut list, ListChange::Filter { by, visible_only: true }).unwrap();
    assert_eq!(list.index.visible, [0]);
}

#[test]
fn cx_a11_a_rollback_restores_the_visible_messages_and_keeps_the_lifetime_tokens() {
    let (mut list, _) = truncated(Truncate { keep_last: Some(1), ..Truncate::default() });
    apply(&mut list, ListChange::Append(vec![user("next"), Message::text(Role::Assistant, "r")])).unwrap();
    let used = json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7});
    list.count(&Usage::from_record(used.as_object().cloned().unwrap()));
    assert_eq!((texts(&list), list.index.current.total), (vec!["A2".into(), "next".into(), "r".into()], 7));
    let outcome = apply(&mut list, ListChange::Rollback { target_batch: 0 }).unwrap();
    assert_eq!(list.index.visible, [0, 1, 2, 3, 4]);
    assert_eq!((outcome.batch, outcome.stats.original), (0, 7));
    assert_eq!((list.index.current.total, list.index.lifetime.total), (0, 7));
    let error = apply(&mut list, ListChange::Rollback { target_batch: 1 }).unwrap_err();
    assert_eq!(error.to_string(), "Target batch 1 not found. Available batches: 0");
}

#[test]
fn going_back_by_several_batches_drops_them_all() {
    let mut list = conversation();
    let keep = |count| ListChange::Truncate {
        by: Truncate { keep_last: Some(count), ..Truncate::default() },
        visible_only: true,
    };
    for count in [4, 3, 2] {
        apply(&mut list, keep(count)).unwrap();
    }
    apply(&mut list, ListChange::Rollback { target_batch: 1 }).unwrap();
    assert_eq!(list.index.visible, [1, 2, 3, 4]);
    assert_eq!((list.mark_map().batch_boundaries, list.mark_map().current_batch), (vec![0, 5], 1));
}

#[test]
fn all_messages_can_be_chosen_from_and_those_that_stay_are_visible() {
    let (mut list, _) = truncated(Truncate { keep_last: Some(1), ..Truncate::default() });
    let by = Truncate { keep_first: Some(2), ..Truncate::default() };
    apply(&mut list, ListChange::Truncate { by, visible_only: false }).unwrap();
    assert_eq!(list.index.visible, [0, 1]);
}

#[test]
fn a_batch_begins_at_a_boundary_that_is_there() {
    let mut list = conversation();
    let start = |boundary| ListChange::StartBatch { boundary, visible_only: true };
    apply(&mut list, start(3)).unwrap();
    assert_eq!(list.index.visible, [3, 4]);
    let error = apply(&mut list, start(6)).unwrap_err();
    assert!(error.to_string().starts_with("Invalid boundary index: 6"), "{error}");
    let boundaries = list.mark_map().batch_boundaries;
    assert!(boundaries.is_sorted(), "{boundaries:?}");
}

#[test]
fn a_list_has_bounds_and_each_error_names_its_setting() {
    let limits = MessageLimits { messages_max: 6, messages_bytes_max: 1000, ..MessageLimits::default() };
    let by = ("/cp", &execution("cp"));
    let mut list = conversation();
    let two = ListChange::Append(vec![user("a"), user("b")]);
    let error = list.apply("main", &two, by, &limits).unwrap_err();
    assert!(error.to_string().contains("run.messages_max"), "{error}");
    let long = ListChange::Append(vec![user(&"x".repeat(1000))]);
    let error = list.apply("main", &long, by, &limits).unwrap_err();
    assert!(error.to_string().contains("run.messages_bytes_max"), "{error}");
    assert_eq!(list, conversation());
    let clear = ListChange::Clear { keep_system_message: true, visible_only: true };
    let errors = (0..6).filter_map(|_| list.apply("main", &clear, by, &limits).err());
    assert_eq!(errors.map(|error| error.name()).collect::<Vec<_>>(), ["TooManyBatches"]);
}

#[test]
fn xc_11_indexes_in_batches_count_towards_the_bytes_of_a_list() {
    let limits = MessageLimits { messages_bytes_max: 4000, ..MessageLimits::default() };
    let by = ("/cp", &execution("cp"));
    let mut list = conversation();
    let visible = list.index.visible.len();
    let same = ListChange::StartBatch { boundary: 0, visible_only: true };
    let error = loop {
        if let Err(error) = list.apply("main", &same, by, &limits) {
            break error;
        }
    };
    let batches = list.index.batches.len();
    assert_eq!(error.name(), "ConversationTooLarge");
    assert!(error.to_string().contains("run.messages_bytes_max"), "{error}");
    // Every batch takes a few bytes per visible message, so the limit bounds the number of batches.
    assert!(batches > 10 && batches * visible * 4 < 4000, "{batches} batches of {visible}");
    let grown =
        |list: &MessageList| list.index.batches.iter().map(|batch| batch.visible.len()).sum::<usize>();
    let before = grown(&list);
    assert!(list.apply("main", &same, by, &limits).is_err());
    assert_eq!(grown(&list), before, "a refused change changes nothing");
}

#[test]
fn nodes_read_messages_with_indexes_and_without_absent_fields() {
    let (list, _) = truncated(Truncate { keep_last: Some(1), ..Truncate::default() });
    assert_eq!(list.to_json(), json!([{"idx": 4, "role": "assistant", "content": "A2"}]));
    let message = Message::from_json(&list.to_json()[0]).unwrap();
    assert_eq!(message, Message::text(Role::Assistant, "A2"));
}

#[test]
fn a_message_reads_back_in_either_spelling() {
    let calls = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    let message = Message { tool_calls: Some(calls.clone()), ..Message::text(Role::Assistant, "") };
    assert_eq!(Message::from_json(&Json::Object(message.to_map())), Some(message.clone()));
    let camel = json!({"role": "assistant", "content": "", "toolCalls": calls});
    assert_eq!(Message::from_json(&camel), Some(message));
    for wrong in [json!({"role": "god", "content": ""}), json!({"role": "user"}), json!("x")] {
        assert_eq!(Message::from_json(&wrong), None);
    }
}

#[test]
fn names_of_lists_are_kept_simple() {
    for (name, is) in
        [("main", true), ("a-B_9", true), ("", false), ("a b", false), ("a/b", false), ("ä", false)]
    {
        assert_eq!(is_list_name(name), is, "{name}");
    }
    assert!(!is_list_name(&"x".repeat(65)));
}
