//! Applies the changes of nodes to messages, `rt` and history. They are applied in the step of the node's end, so that
//! both become durable together, and changes of parallel branches follow one after the other.

use serde_json::{Value as Json, json};

use crate::flow::values::records;
use crate::order::events::{EventKind, NodeEnd};
use crate::state::step_event::StepEvent;
use crate::step::Step;
use tidemill_base::ids::{ExecutionId, FramePath};
use tidemill_base::limits;
use tidemill_base::value::{JsonMap, Stored, json_size};
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::messages::{
    Effects, HISTORY_HELD, Index, MessageChange, MessageError, MessageLimits, MessageList, Outcome,
    TOKENS_WARNING_PERCENT, Target, history_status, runtime,
};
use tidemill_workflow::nodes::{NodeKind, Usage, context_processor};

/// Creates the lists of messages that the run begins with. A list that exists already is not changed.
pub(crate) fn begin(cx: &mut Step<'_>) {
    // They are taken out of the options, because every job carries the options.
    let Some(given) = cx.run.head.options.messages.take() else { return };
    for (name, messages) in *given {
        let lists = &mut cx.run.messages.get_or_insert_default().lists;
        if !lists.contains_key(&name) {
            lists.insert(name.clone(), MessageList::beginning(messages));
            cx.out.messages.get_or_insert_default().lists.insert(name, 0);
        }
    }
}

/// The author of a change: the node that its events are about, and the execution that changes.
#[derive(Clone, Copy)]
pub(crate) struct Author<'a> {
    pub(crate) frame: &'a FramePath,
    pub(crate) node: NodeIx,
    pub(crate) execution: ExecutionId,
}

/// Applies all effects of a node's success, or none of them. Returns the outcome of the last change of messages.
///
/// # Errors
/// A change is refused. The node has to fail with this error.
pub(crate) fn apply(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    effects: &Effects,
    usage: Option<&Usage>,
) -> Result<Option<Outcome>, MessageError> {
    let execution = cx.execution(frame, node);
    apply_by(cx, Author { frame, node, execution }, effects, usage)
}

/// Applies effects like [`apply`], in the name of any author.
///
/// # Errors
/// As [`apply`].
pub(crate) fn apply_by(
    cx: &mut Step<'_>,
    author: Author<'_>,
    effects: &Effects,
    usage: Option<&Usage>,
) -> Result<Option<Outcome>, MessageError> {
    let Author { frame, node, execution } = author;
    let limits = cx.run.head.options.object_limits();
    check_runtime(cx, effects, &limits)?;
    check_history(cx, effects, &limits)?;
    let mut before: Vec<(String, Option<Index>)> = Vec::new();
    let mut done = Vec::with_capacity(effects.messages.len());
    for change in &effects.messages {
        match apply_one(cx, author, change, &limits, &mut before) {
            Ok(None) => {}
            Ok(Some(outcome)) => done.push((change, outcome)),
            Err(error) => {
                undo(cx, before);
                return Err(error);
            }
        }
    }
    let changed = cx.run.messages.as_mut().map(|messages| &mut messages.lists);
    let mut usage = usage.filter(|usage| usage.total_tokens > 0);
    let mut tokens_before = std::collections::HashMap::new();
    if let Some(lists) = changed {
        for (name, index) in &before {
            let Some(list) = lists.get_mut(name) else { continue };
            list.note(execution);
            if let Some(usage) = usage.take() {
                list.count(usage);
            }
            let first = index.as_ref().map_or(0, |index| index.count);
            tokens_before.insert(name.clone(), index.as_ref().map_or(0, |index| tokens_of(list, index)));
            let written = &mut cx.out.messages.get_or_insert_default().lists;
            let known = written.entry(name.clone()).or_insert(first);
            *known = first.min(*known);
        }
    }
    for (change, outcome) in &done {
        emit_changes(cx, frame, node, change, outcome);
        let before = tokens_before.insert(change.list.clone(), outcome.tokens).unwrap_or(0);
        emit_tokens(cx, frame, node, &change.list, (before, outcome.tokens), &limits);
    }
    apply_runtime(cx, effects);
    Ok(done.pop().map(|(_, outcome)| outcome))
}

/// Counts the tokens that were visible under an earlier index. That works because messages are never removed.
fn tokens_of(list: &MessageList, index: &Index) -> u64 {
    let visible = index.visible.iter().filter_map(|idx| list.messages.get(*idx as usize));
    visible.map(|kept| kept.message.tokens()).sum()
}

/// Applies one change. Returns `None` when this execution has applied it before.
fn apply_one(
    cx: &mut Step<'_>,
    Author { frame, node, execution }: Author<'_>,
    change: &MessageChange,
    limits: &MessageLimits,
    before: &mut Vec<(String, Option<Index>)>,
) -> Result<Option<Outcome>, MessageError> {
    if !tidemill_workflow::messages::is_list_name(&change.list) {
        return Err(MessageError::InvalidConversationId(change.list.clone()));
    }
    if change.target == Target::Parent && frame.is_root() {
        return Err(MessageError::ParentConversationNotFound);
    }
    let by = format!("{frame}/{}", cx.run.graph.node(node).id);
    let lists = &mut cx.run.messages.get_or_insert_default().lists;
    let is_first = !before.iter().any(|(name, _)| *name == change.list);
    if is_first {
        let known = lists.get(&change.list);
        if known.is_some_and(|list| list.has_applied(&execution)) {
            return Ok(None);
        }
        let count = lists.len() + 1;
        if known.is_none() && count > limits::LISTS_MAX {
            return Err(MessageError::TooManyConversations { count, max: limits::LISTS_MAX });
        }
        before.push((change.list.clone(), known.map(|list| list.index.clone())));
    }
    let list = lists.entry(change.list.clone()).or_default();
    list.apply(&change.list, &change.change, (&by, &execution), limits).map(Some)
}

fn undo(cx: &mut Step<'_>, before: Vec<(String, Option<Index>)>) {
    let Some(messages) = cx.run.messages.as_mut() else { return };
    for (name, index) in before {
        match (index, messages.lists.get_mut(&name)) {
            (Some(index), Some(list)) => list.restore(index),
            (None, _) | (_, None) => _ = messages.lists.remove(&name),
        }
    }
    if messages.parts().is_empty() {
        cx.run.messages = None;
    }
}

fn emit_changes(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    change: &MessageChange,
    outcome: &Outcome,
) {
    for idx in outcome.added.clone() {
        let lists = cx.run.messages.as_ref().map(|messages| &messages.lists);
        let kept = lists.and_then(|lists| lists.get(&change.list)?.messages.get(idx as usize));
        let Some(message) = kept.map(|kept| kept.message.to_map()) else { continue };
        let mut data = JsonMap::from_iter([
            ("conversation_id".to_string(), change.list.as_str().into()),
            ("idx".to_string(), idx.into()),
        ]);
        data.extend(message);
        let about = cx.about(frame, node);
        cx.emit(EventKind::NodeStep { about, what: StepEvent::ConversationMessageAdded, data });
    }
    let data = JsonMap::from_iter([
        ("conversation_id".to_string(), Json::from(change.list.as_str())),
        ("operation".to_string(), outcome.operation.into()),
        ("batch".to_string(), outcome.batch.into()),
        ("message_count".to_string(), outcome.message_count.into()),
        ("stats".to_string(), outcome.stats.to_json()),
        ("tokens_after".to_string(), outcome.tokens.into()),
    ]);
    let about = cx.about(frame, node);
    cx.emit(EventKind::NodeStep { about, what: StepEvent::ConversationUpdated, data });
}

/// Emits events when the tokens of a list go above a limit. They are not repeated while the list stays above it.
fn emit_tokens(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    list: &str,
    (before, now): (u64, u64),
    limits: &MessageLimits,
) {
    let mut emit = |limit: u64, what: &[StepEvent]| {
        for what in what {
            let data = JsonMap::from_iter([
                ("conversation_id".to_string(), Json::from(list)),
                ("tokens_used".to_string(), now.into()),
                ("token_limit".to_string(), limit.into()),
                ("usage_percentage".to_string(), json!(now as f64 * 100.0 / limit as f64)),
            ]);
            let about = cx.about(frame, node);
            cx.emit(EventKind::NodeStep { about, what: *what, data });
        }
    };
    let mark = limits.tokens_warning / 100 * TOKENS_WARNING_PERCENT;
    if limits.tokens_warning > 0 && before <= mark && now > mark {
        emit(limits.tokens_warning, &[StepEvent::TokenUsageWarning]);
    }
    if limits.tokens_limit > 0 && before <= limits.tokens_limit && now > limits.tokens_limit {
        emit(limits.tokens_limit, &[StepEvent::TokenLimitExceeded, StepEvent::ContextCompressionRequested]);
    }
}

/// Makes the outputs of a node that only changes a list of messages.
pub(crate) fn outputs(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    effects: &Effects,
    outcome: &Outcome,
) -> Vec<(String, Stored)> {
    let Some(change) = effects.messages.last() else { return Vec::new() };
    let list = cx.run.messages.as_ref().and_then(|messages| messages.lists.get(&change.list));
    let visible = list.into_iter().flat_map(|list| list.visible().map(|(_, kept)| &kept.message));
    let made = context_processor::outputs(&change.list, outcome, visible);
    made.into_iter()
        .map(|(name, value)| {
            let stored = records::stored(cx, frame, node, &name, value);
            (name, stored)
        })
        .collect()
}

// ---- rt

fn check_runtime(cx: &Step<'_>, effects: &Effects, limits: &MessageLimits) -> Result<(), MessageError> {
    if effects.runtime.is_empty() {
        return Ok(());
    }
    let nothing = JsonMap::new();
    let runtime = cx.run.messages.as_ref().map_or(&nothing, |messages| &messages.runtime);
    let bytes = runtime::bytes_with(runtime, &effects.runtime);
    let max = limits.runtime_bytes_max;
    if bytes as u64 > max { Err(MessageError::RuntimeTooLarge { bytes, max }) } else { Ok(()) }
}

fn apply_runtime(cx: &mut Step<'_>, effects: &Effects) {
    if effects.runtime.is_empty() {
        return;
    }
    // Half of the limit of all other fields.
    let answer_bytes_max = usize::try_from(cx.run.head.options.object_limits().runtime_bytes_max / 2);
    let runtime = &mut cx.run.messages.get_or_insert_default().runtime;
    let changed = runtime::apply(runtime, &effects.runtime, answer_bytes_max.unwrap_or(usize::MAX));
    // Sorted, because a loaded state is sorted too: a hash in Redis has no order.
    runtime.sort_keys();
    let written = cx.out.messages.get_or_insert_default();
    written.runtime.extend(changed);
}

// ---- history

fn check_history(cx: &Step<'_>, effects: &Effects, limits: &MessageLimits) -> Result<(), MessageError> {
    let max = limits.history_record_bytes_max;
    for record in &effects.history {
        let bytes = record.iter().map(|(key, value)| key.len() + 4 + json_size(value)).sum::<usize>();
        if bytes as u64 > max {
            return Err(MessageError::HistoryRecordTooLarge { bytes, max });
        }
    }
    let recorded = cx.run.messages.as_ref().map_or(0, |messages| messages.recorded);
    let count = recorded + effects.history.len() as u64;
    let max = limits.history_records_max;
    let is_too_long = !effects.history.is_empty() && count > max;
    if is_too_long { Err(MessageError::HistoryTooLong { count, max }) } else { Ok(()) }
}

/// True for kinds of nodes that always leave a record in the history, also without their own effects.
const fn is_recorded(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::ContextProcessor | NodeKind::UserInteraction)
}

/// Adds the records of a node's end to the history: its own, or one derived from its inputs and outputs. Records that
/// exceed the limits are left out here, because only a success may fail for them (see [`apply`]).
pub(crate) fn record(cx: &mut Step<'_>, frame: &FramePath, end: &NodeEnd, effects: Option<Box<Effects>>) {
    let node = end.about.node;
    let kind = cx.run.graph.node(node).kind;
    if effects.is_none() && !is_recorded(kind) {
        return;
    }
    let limits = cx.run.head.options.object_limits();
    let within = |effects: &Effects| check_history(cx, effects, &limits).is_ok();
    let own = effects.filter(|effects| within(effects)).map(|effects| effects.history).unwrap_or_default();
    let records = match own.is_empty() {
        true if is_recorded(kind) => vec![JsonMap::new()],
        true => return,
        false => own,
    };
    let recorded = cx.run.messages.as_ref().map_or(0, |messages| messages.recorded);
    if recorded + records.len() as u64 > limits.history_records_max {
        return;
    }
    for own in records {
        let mut filled = filled(cx, frame, end, own);
        let messages = cx.run.messages.get_or_insert_default();
        messages.recorded += 1;
        filled.insert("seq".into(), messages.recorded.into());
        messages.history.push_back(filled.clone());
        if messages.history.len() > HISTORY_HELD {
            messages.history.pop_front();
        }
        cx.out.messages.get_or_insert_default().recorded.push(filled);
    }
}

fn filled(cx: &Step<'_>, frame: &FramePath, end: &NodeEnd, own: JsonMap) -> JsonMap {
    let (run, record) = (&*cx.run, &*end.record);
    let spec = run.graph.node(end.about.node);
    let failed = !record.error.is_empty() || !record.error_type.is_empty();
    let took = (end.finished_at.micros() - end.started_at.micros()).max(0) / 1000;
    let mut filled = JsonMap::new();
    let mut put = |key: &str, value: Json| {
        filled.insert(key.to_string(), value);
    };
    put("run_id", json!(run.id));
    put("executor_id", run.head.app.clone().unwrap_or_else(|| run.graph.hash.to_string()).into());
    put("executor_name", run.graph.name.as_str().into());
    put("executor_status", run.status.name().into());
    put("node_id", spec.id.as_str().into());
    put("node_execution_id", json!(end.about.execution));
    put("step_name", spec.title.as_str().into());
    put("step_type", spec.kind.wire().into());
    put("step_status", history_status(failed).into());
    put("action", spec.kind.wire().into());
    put("timestamp", end.finished_at.millis().into());
    put("execution_time", took.into());
    put("input_data", shown(&record.inputs));
    put("output_data", shown(&record.outputs));
    put("extra_data", json!({}));
    if !record.metadata.is_empty() {
        put("metadata", record.metadata.clone().into());
    }
    if failed {
        put("error", record.error.as_str().into());
        put("error_type", record.error_type.as_str().into());
    }
    if !frame.is_root() {
        put("frame", frame.as_str().into());
    }
    // Fields of the node's own record replace the derived ones.
    filled.extend(own);
    filled
}

/// Shows values in a record of the history. For a blob, it shows only id and size.
fn shown(values: &[(String, Stored)]) -> Json {
    let value = |stored: &Stored| match stored {
        Stored::Inline(segment) => segment.value.clone(),
        Stored::Blob(blob) | Stored::Item { list: blob, .. } => {
            json!({"blob": blob.id.as_str(), "bytes": blob.size})
        }
        Stored::Secret(_) => Json::from("***"),
    };
    Json::Object(values.iter().map(|(name, stored)| (name.clone(), value(stored))).collect())
}
