//! A run's messages, runtime values (`rt`) and history: how results carry them and how the store keeps them.
//!
//! | place | form |
//! | --- | --- |
//! | `effects` of a result | `{"messages":[change],"runtime":{},"history":[{}]}` |
//! | a change | `{"list":"main","target":"parent","operation":"append", …}`, as in a node's configuration |
//! | list `messages:<list>` | a message per entry, in order: `{"role","content","tool_calls","tool_call_id","by"}` |
//! | field `m:<list>` of the state | its index: `version`, `count`, `bytes`, `visible`, and of each batch `visible` as ranges (`0-4,7`) |
//! | hash `rt` | a field per key, JSON |
//! | list `history` | a record per entry, in order |
//! | field `objects` of the run | the keys above that exist, by the ends of their names |

use serde_json::{Value as Json, json};

use crate::WireError;
use crate::codec::pairs::Pairs;
use tidemill_base::ids::ExecutionId;
use tidemill_base::value::JsonMap;
use tidemill_engine::order::changes::Changes;
use tidemill_engine::state::run::RunState;
use tidemill_workflow::messages::{
    Batch, Effects, Filter, HISTORY_HELD, Index, ListChange, Message, MessageChange, MessageList,
    StoredMessage, Target, TokenSum, Truncate, read_ranges, write_ranges,
};
use tidemill_workflow::nodes::llm::Role;

const WHAT: &str = "the messages and history of a run";

/// The field of the run hash that lists which of these keys exist.
pub const OBJECTS_FIELD: &str = "objects";
/// The end of the name of the `rt` key.
pub const RUNTIME_PART: &str = "rt";
/// The end of the name of the history key.
pub const HISTORY_PART: &str = "history";

/// The messages, runtime values and history that a commit writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessagesWrite {
    /// Messages to append, by list.
    pub messages: Vec<(String, Vec<String>)>,
    /// Fields of `rt`; `None` deletes the field.
    pub runtime: Vec<(String, Option<String>)>,
    /// Records to append to the history.
    pub history: Vec<String>,
    /// Parts that get a time to live, because the run has ended.
    pub expire: Vec<String>,
}

impl MessagesWrite {
    /// Estimated bytes that it sends.
    pub fn size(&self) -> usize {
        let messages = self.messages.iter().flat_map(|(_, messages)| messages).map(String::len);
        let runtime =
            self.runtime.iter().map(|(key, value)| key.len() + value.as_ref().map_or(0, String::len));
        messages.chain(runtime).chain(self.history.iter().map(String::len)).sum()
    }
}

/// Messages, runtime values and history as read from the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MessagesAtRest {
    /// Messages by list.
    pub messages: Vec<(String, Vec<String>)>,
    /// Fields of `rt`.
    pub runtime: Vec<(String, String)>,
    /// The last records of the history.
    pub history: Vec<String>,
}

impl MessagesAtRest {
    /// Whether nothing is stored.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.runtime.is_empty() && self.history.is_empty()
    }
}

/// The parts named by the field `objects`.
pub fn parts(field: &str) -> impl Iterator<Item = &str> {
    field.split(' ').filter(|part| !part.is_empty())
}

/// The name of the message list of a part; `None` for other parts.
pub fn list_of_part(part: &str) -> Option<&str> {
    part.strip_prefix("messages:")
}

/// The state field of a list's index.
pub fn index_field(list: &str) -> String {
    format!("m:{list}")
}

/// The write of a commit, and the fields of state and run that belong to it.
pub(crate) fn write(
    run: &RunState,
    changes: &Changes,
    state: &mut Pairs,
    fields: &mut Vec<(&'static str, String)>,
) -> Option<Box<MessagesWrite>> {
    let message_state = run.messages.as_ref()?;
    let is_over = run.status.is_over() && changes.status_from.is_some();
    let mut write = MessagesWrite::default();
    if is_over {
        write.expire = message_state.parts();
    }
    let Some(changed) = &changes.messages else { return is_over.then(|| Box::new(write)) };
    for (name, first) in &changed.lists {
        let Some(list) = message_state.lists.get(name) else { continue };
        state.add(&index_field(name), Some(&index_json(list).to_string()));
        let new = list.messages.get(*first as usize..).unwrap_or_default();
        if !new.is_empty() {
            write.messages.push((name.clone(), new.iter().map(message_text).collect()));
        }
    }
    for key in &changed.runtime {
        write.runtime.push((key.clone(), message_state.runtime.get(key).map(Json::to_string)));
    }
    write.history = changed.recorded.iter().map(|record| Json::Object(record.clone()).to_string()).collect();
    fields.push((OBJECTS_FIELD, message_state.parts().join(" ")));
    Some(Box::new(write))
}

/// Adds what the store has to the run. The indexes of the lists must be loaded already.
///
/// # Errors
/// Something is missing or invalid.
pub(crate) fn load(run: &mut RunState, rest: MessagesAtRest) -> Result<(), WireError> {
    if rest.is_empty() && run.messages.is_none() {
        return Ok(());
    }
    let message_state = run.messages.get_or_insert_default();
    for (name, texts) in rest.messages {
        let Some(list) = message_state.lists.get_mut(&name) else { continue };
        // Messages beyond the index were written by a later commit than this state.
        for text in texts.iter().take(list.index.count as usize) {
            list.messages.push(read_message(text)?);
        }
    }
    if let Some((name, list)) = message_state.lists.iter().find(|(_, list)| list.end() < list.index.count) {
        let missing = format!("list {name} has {} of its {} messages", list.end(), list.index.count);
        return Err(WireError::malformed(WHAT, missing));
    }
    for (key, text) in rest.runtime {
        message_state
            .runtime
            .insert(key, serde_json::from_str(&text).map_err(|e| WireError::malformed(WHAT, e))?);
    }
    message_state.runtime.sort_keys();
    for text in &rest.history {
        message_state
            .history
            .push_back(serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?);
    }
    let last = message_state.history.back().and_then(|record| record.get("seq")).and_then(Json::as_u64);
    message_state.recorded = last.unwrap_or(message_state.history.len() as u64);
    let surplus = message_state.history.len().saturating_sub(HISTORY_HELD);
    message_state.history.drain(..surplus);
    Ok(())
}

/// Reads an index into the run, without messages.
pub(crate) fn load_index(run: &mut RunState, name: &str, text: &str) -> Result<(), WireError> {
    let list = MessageList { messages: Vec::new(), index: read_index(text)? };
    run.messages.get_or_insert_default().lists.insert(name.to_string(), list);
    Ok(())
}

// ---- messages and indexes

/// Writes a message of a list.
pub fn message_text(kept: &StoredMessage) -> String {
    let mut map = kept.message.to_map();
    if !kept.by.is_empty() {
        map.insert("by".into(), (*kept.by).into());
    }
    Json::Object(map).to_string()
}

/// Reads a message of a list.
///
/// # Errors
/// The text is not a message.
pub fn read_message(text: &str) -> Result<StoredMessage, WireError> {
    let value: Json = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let message = Message::from_json(&value).ok_or_else(|| WireError::malformed(WHAT, "not a message"))?;
    Ok(StoredMessage { message, by: value.get("by").and_then(Json::as_str).unwrap_or_default().into() })
}

/// Writes a list's index.
pub fn index_json(list: &MessageList) -> Json {
    let index = &list.index;
    let batches: Vec<Json> = index.batches.iter().map(batch_json).collect();
    let mut map = json!({
        "version": index.version, "count": index.count, "bytes": index.bytes,
        "visible": write_ranges(&index.visible), "batches": batches,
    });
    for (key, sum) in [("current", index.current), ("lifetime", index.lifetime)] {
        if sum != TokenSum::default() {
            map[key] = tokens_json(sum);
        }
    }
    if !index.applied.is_empty() {
        map["applied"] =
            index.applied.iter().map(|(execution, version)| json!([execution, version])).collect();
    }
    map
}

fn batch_json(batch: &Batch) -> Json {
    let mut map = JsonMap::new();
    if !batch.operation.is_empty() {
        map.insert("operation".into(), batch.operation.as_str().into());
    }
    if let Some(execution) = &batch.opened_by {
        map.insert("opened_by".into(), json!(execution));
    }
    map.insert("boundary".into(), batch.boundary.into());
    if !batch.visible.is_empty() {
        map.insert("visible".into(), write_ranges(&batch.visible).into());
    }
    if batch.tokens != TokenSum::default() {
        map.insert("tokens".into(), tokens_json(batch.tokens));
    }
    Json::Object(map)
}

fn tokens_json(sum: TokenSum) -> Json {
    json!([sum.prompt, sum.completion, sum.total])
}

fn read_tokens(value: Option<&Json>) -> TokenSum {
    let number = |at: usize| value.and_then(|value| value.get(at)).and_then(Json::as_u64).unwrap_or(0);
    TokenSum { prompt: number(0), completion: number(1), total: number(2) }
}

/// Reads an index.
///
/// # Errors
/// The index is invalid.
pub fn read_index(text: &str) -> Result<Index, WireError> {
    let map: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let number = |key: &str| map.get(key).and_then(Json::as_u64).unwrap_or(0);
    let count = u32::try_from(number("count")).unwrap_or(u32::MAX);
    let ranges = |value: Option<&Json>| {
        let text = value.and_then(Json::as_str).unwrap_or_default();
        read_ranges(text, count)
            .ok_or_else(|| WireError::malformed(WHAT, format!("not a list of ranges: {text}")))
    };
    let list = |key: &str| map.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let batch = |value: &Json| -> Result<Batch, WireError> {
        Ok(Batch {
            operation: value.get("operation").and_then(Json::as_str).unwrap_or_default().to_string(),
            opened_by: value.get("opened_by").and_then(Json::as_str).and_then(|id| id.parse().ok()),
            boundary: value
                .get("boundary")
                .and_then(Json::as_u64)
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(0),
            visible: ranges(value.get("visible"))?,
            tokens: read_tokens(value.get("tokens")),
        })
    };
    let mut batches = list("batches").iter().map(batch).collect::<Result<Vec<Batch>, WireError>>()?;
    if batches.is_empty() {
        batches.push(Batch::default());
    }
    let applied = |value: &Json| -> Option<(ExecutionId, u64)> {
        Some((value.get(0)?.as_str()?.parse().ok()?, value.get(1)?.as_u64()?))
    };
    Ok(Index {
        version: number("version"),
        count,
        visible: ranges(map.get("visible"))?,
        batches,
        bytes: usize::try_from(number("bytes")).unwrap_or(usize::MAX),
        current: read_tokens(map.get("current")),
        lifetime: read_tokens(map.get("lifetime")),
        applied: list("applied").iter().filter_map(applied).collect(),
    })
}

// ---- effects

/// Writes effects as a result carries them.
pub fn effects_json(effects: &Effects) -> Json {
    let mut map = JsonMap::new();
    if !effects.messages.is_empty() {
        map.insert("messages".into(), effects.messages.iter().map(change_json).collect());
    }
    if !effects.runtime.is_empty() {
        map.insert("runtime".into(), Json::Object(effects.runtime.clone()));
    }
    if !effects.history.is_empty() {
        map.insert("history".into(), effects.history.iter().cloned().map(Json::Object).collect());
    }
    Json::Object(map)
}

/// Reads effects.
///
/// # Errors
/// A part is invalid.
pub fn read_effects(map: &JsonMap) -> Result<Effects, WireError> {
    let list = |key: &str| map.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    Ok(Effects {
        messages: list("messages").iter().map(read_change).collect::<Result<_, _>>()?,
        runtime: map.get("runtime").and_then(Json::as_object).cloned().unwrap_or_default(),
        history: list("history").iter().filter_map(|record| record.as_object().cloned()).collect(),
    })
}

/// Writes a change of a message list.
pub fn change_json(change: &MessageChange) -> Json {
    let mut map = JsonMap::new();
    map.insert("list".into(), change.list.as_str().into());
    if change.target == Target::Parent {
        map.insert("target".into(), "parent".into());
    }
    map.insert("operation".into(), change.change.name().into());
    let messages =
        |messages: &[Message]| -> Json { messages.iter().map(Message::to_map).map(Json::Object).collect() };
    let mut put = |key: &str, value: Json| {
        map.insert(key.to_string(), value);
    };
    let visible_only = match &change.change {
        ListChange::Append(added) => {
            put("messages", messages(added));
            true
        }
        ListChange::Truncate { by, visible_only } => {
            put("truncate", truncate_json(by));
            *visible_only
        }
        ListChange::Insert { position, messages: added, visible_only } => {
            put("position", (*position).into());
            put("messages", messages(added));
            *visible_only
        }
        ListChange::Replace { index, message, visible_only } => {
            put("index", (*index).into());
            put("message", Json::Object(message.to_map()));
            *visible_only
        }
        ListChange::Clear { keep_system_message, visible_only } => {
            put("keep_system_message", (*keep_system_message).into());
            *visible_only
        }
        ListChange::Filter { by, visible_only } => {
            let roles: Vec<&str> = by.roles.iter().map(|role| role.name()).collect();
            put(
                "filter",
                json!({"roles": roles, "contains": by.content_contains, "excludes": by.content_excludes}),
            );
            *visible_only
        }
        ListChange::StartBatch { boundary, visible_only } => {
            put("boundary", (*boundary).into());
            *visible_only
        }
        ListChange::Rollback { target_batch } => {
            put("target_batch", (*target_batch).into());
            true
        }
    };
    if !visible_only {
        put("visible_only", false.into());
    }
    Json::Object(map)
}

fn truncate_json(by: &Truncate) -> Json {
    let mut map = JsonMap::new();
    if let Some(role) = by.role {
        map.insert("role".into(), role.name().into());
    }
    for (key, count) in [
        ("keep_first", by.keep_first),
        ("keep_last", by.keep_last),
        ("remove_first", by.remove_first),
        ("remove_last", by.remove_last),
    ] {
        if let Some(count) = count {
            map.insert(key.into(), count.into());
        }
    }
    if let Some((start, end)) = by.range {
        map.insert("range".into(), json!([start, end]));
    }
    Json::Object(map)
}

/// Reads a change.
///
/// # Errors
/// An invalid field or an unknown kind of change.
pub fn read_change(value: &Json) -> Result<MessageChange, WireError> {
    let text = |key: &str| value.get(key).and_then(Json::as_str).unwrap_or_default();
    let number = |key: &str| value.get(key).and_then(Json::as_u64).unwrap_or(0);
    let message =
        |value: &Json| Message::from_json(value).ok_or_else(|| WireError::malformed(WHAT, "not a message"));
    let messages = || -> Result<Vec<Message>, WireError> {
        let items = value.get("messages").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().map(message).collect()
    };
    let visible_only = value.get("visible_only").and_then(Json::as_bool).unwrap_or(true);
    let change = match text("operation") {
        "append" => ListChange::Append(messages()?),
        "truncate" => ListChange::Truncate { by: read_truncate(&value["truncate"]), visible_only },
        "insert" => {
            let position = value.get("position").and_then(Json::as_i64).unwrap_or(-1);
            ListChange::Insert { position, messages: messages()?, visible_only }
        }
        "replace" => {
            ListChange::Replace { index: number("index"), message: message(&value["message"])?, visible_only }
        }
        "clear" => {
            let keep_system_message =
                value.get("keep_system_message").and_then(Json::as_bool).unwrap_or(true);
            ListChange::Clear { keep_system_message, visible_only }
        }
        "filter" => ListChange::Filter { by: read_filter(&value["filter"]), visible_only },
        "start_batch" => ListChange::StartBatch { boundary: number("boundary"), visible_only },
        "rollback" => ListChange::Rollback { target_batch: number("target_batch") },
        other => {
            return Err(WireError::Unknown {
                what: "a change of a list of messages",
                kind: other.to_string(),
            });
        }
    };
    let target = if text("target") == "parent" { Target::Parent } else { Target::Own };
    Ok(MessageChange { list: text("list").to_string(), target, change })
}

fn read_truncate(value: &Json) -> Truncate {
    let number = |key: &str| value.get(key).and_then(Json::as_u64);
    let range = value.get("range").and_then(|range| Some((range.get(0)?.as_u64()?, range.get(1)?.as_u64()?)));
    Truncate {
        role: value.get("role").and_then(Json::as_str).and_then(Role::from_name),
        keep_first: number("keep_first"),
        keep_last: number("keep_last"),
        remove_first: number("remove_first"),
        remove_last: number("remove_last"),
        range,
    }
}

fn read_filter(value: &Json) -> Filter {
    let texts = |key: &str| -> Vec<String> {
        let items = value.get(key).and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        items.iter().filter_map(|item| item.as_str().map(str::to_string)).collect()
    };
    Filter {
        roles: texts("roles").iter().filter_map(|name| Role::from_name(name)).collect(),
        content_contains: texts("contains"),
        content_excludes: texts("excludes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::ids::{FramePath, RunId, ShardId};
    use tidemill_workflow::messages::MessageLimits;

    fn user(text: &str) -> Message {
        Message::text(Role::User, text)
    }

    #[test]
    fn every_change_reads_back_as_it_was_written() {
        let by = Truncate {
            role: Some(Role::User),
            keep_first: Some(1),
            keep_last: Some(2),
            remove_first: Some(0),
            remove_last: Some(3),
            range: Some((1, 2)),
        };
        let filter = Filter {
            roles: vec![Role::User, Role::Tool],
            content_contains: vec!["a".into()],
            content_excludes: vec!["b".into()],
        };
        let calls = json!([{"id": "c"}]);
        let called = Message { tool_calls: Some(calls), ..Message::text(Role::Assistant, "") };
        let result = Message { tool_call_id: Some("c".into()), content: json!({"x": 1}), ..user("") };
        for change in [
            ListChange::Append(vec![user("a"), called, result]),
            ListChange::Truncate { by, visible_only: false },
            ListChange::Truncate { by: Truncate::default(), visible_only: true },
            ListChange::Insert { position: 2, messages: vec![user("b")], visible_only: true },
            ListChange::Replace { index: 3, message: user("c"), visible_only: false },
            ListChange::Clear { keep_system_message: false, visible_only: true },
            ListChange::Filter { by: filter, visible_only: true },
            ListChange::StartBatch { boundary: 4, visible_only: true },
            ListChange::Rollback { target_batch: 5 },
        ] {
            for target in [Target::Own, Target::Parent] {
                let change = MessageChange { list: "main".into(), target, change: change.clone() };
                assert_eq!(read_change(&change_json(&change)).unwrap(), change);
            }
        }
        assert!(read_change(&json!({"list": "main", "operation": "shuffle"})).is_err());
    }

    #[test]
    fn an_index_reads_back_as_it_was_written() {
        let execution = ExecutionId::derive(&RunId::new(1, 2, ShardId(3)), &FramePath::root(), &"n".into());
        let mut list = MessageList::beginning((0..5).map(|n| user(&n.to_string())).collect());
        let keep = Truncate { keep_last: Some(2), ..Truncate::default() };
        let change = ListChange::Truncate { by: keep, visible_only: true };
        list.apply("main", &change, ("/n", &execution), &MessageLimits::default()).unwrap();
        list.note(execution);
        let used = json!({"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7});
        list.count(&tidemill_workflow::nodes::Usage::from_record(used.as_object().cloned().unwrap()));
        assert_eq!(read_index(&index_json(&list).to_string()).unwrap(), list.index);
        for kept in &list.messages {
            assert_eq!(&read_message(&message_text(kept)).unwrap(), kept);
        }
    }
}
