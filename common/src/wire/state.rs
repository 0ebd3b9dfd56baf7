//! A run at rest: the fields of its two hashes.
//!
//! | hash | field | holds |
//! | --- | --- | --- |
//! | run | `status`, `version`, `mode`, `workflow`, `app`, `user` | words |
//! | run | `inputs`, `sys`, `conversation`, `commands`, `options`, `outputs` | JSON |
//! | run | `turn` | `true` when what is said becomes a turn of its conversation |
//! | run | `history` | the turns of the conversation before it |
//! | run | `messages` | `true` when it goes on with the message list of its conversation |
//! | run | `objects` | what else there is of it, see [`super::objects`] |
//! | run | `conversation_id` | the conversation it belongs to |
//! | run | `key` | the id of the API key that pays for it |
//! | run | `caller`, `call_depth` | the node that has called it, as JSON, and how many workflows deep that is |
//! | run | `created_at`, `started_at`, `finished_at` | Unix microseconds |
//! | run | `error`, `steps`, `tokens`, `price`, `currency`, `exceptions` | written at the end |
//! | state | `n:<frame>/<node>` | JSON of a node's state |
//! | state | `v:<frame>/<node>.<name>` | a variable |
//! | state | `s:<node>.<name>` | a text that comes in pieces |
//! | state | `m:<list>` | the index of a message list |
//! | state | `response` | who may stream, and where the cursor stands |
//!
//! In field names `%`, `/` and `.` of node ids and names are written `%25`, `%2F`, `%2E`.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::breakpoint::{breakpoints_from_json, breakpoints_json};
use super::fields::Fields;
use super::objects::{self, ObjectsAtRest};
use super::record::{read_record, write_record};
use super::text::{ObjectText, named_text, put_stored, stored_text};
use super::value::{NamedJson, StoredJson, named_from_json, stored_from_json};
use super::{WireError, check_version, open};
use crate::clock::Timestamp;
use crate::graph::DEFAULT_QUEUE;
use crate::graph::{Graph, GraphHash, NodeIx};
use crate::ids::{FramePath, NodeId, RunId};
use crate::machine::body::Spent;
use crate::machine::budget::{self, Budget, SetBy};
use crate::machine::changes::Held;
use crate::machine::choices::Choices;
use crate::machine::compat::{ConversationWrites, NestedAnswers};
use crate::machine::response::{ResponseState, Stream};
use crate::machine::run::{
    Caller, Ended, Frame, NodeState, NodeStatus, OpenCall, Responder, RunHead, RunOptions, RunState,
    RunStatus,
};
use crate::nodes::evaluate::UndefinedNames;
use crate::objects::{Message, ObjectLimits, given_messages};
use crate::value::{JsonMap, Stored};

const WHAT: &str = "the state of a run";

/// A variable of the frames around that an item must not see.
const HIDDEN: &str = r#"{"$tm":"hidden"}"#;

/// The field of the response cursor.
pub const RESPONSE_FIELD: &str = "response";

// ---- options and head

/// Options that differ from their defaults.
pub fn options_to_json(options: &RunOptions) -> JsonMap {
    let default = RunOptions::default();
    let mut map = JsonMap::new();
    if options.steps_max != default.steps_max {
        map.insert("max_steps".into(), options.steps_max.into());
    }
    if options.seconds_max != default.seconds_max {
        map.insert("max_execution_time_s".into(), options.seconds_max.into());
    }
    if let Some(ms) = options.deadline_ms {
        map.insert("deadline_ms".into(), ms.into());
    }
    if options.template_undefined == UndefinedNames::Strict {
        map.insert("template_undefined".into(), "strict".into());
    }
    if options.template_chars_max != default.template_chars_max {
        map.insert("template_chars_max".into(), options.template_chars_max.into());
    }
    if options.inline_bytes_max != default.inline_bytes_max {
        map.insert("inline_bytes_max".into(), options.inline_bytes_max.into());
    }
    if options.iteration_conversation_writes != default.iteration_conversation_writes {
        let word = options.iteration_conversation_writes.name();
        map.insert("iteration_conversation_writes".into(), word.into());
    }
    if options.nested_answer_stream != default.nested_answer_stream {
        map.insert("nested_answer_stream".into(), options.nested_answer_stream.name().into());
    }
    if options.iteration_failures_count != default.iteration_failures_count {
        map.insert("iteration_failures_count".into(), options.iteration_failures_count.into());
    }
    if options.loop_next_after_last != default.loop_next_after_last {
        map.insert("loop_next_after_last".into(), options.loop_next_after_last.into());
    }
    if options.human_input_timeout_s != default.human_input_timeout_s {
        map.insert("human_input_timeout_s".into(), options.human_input_timeout_s.into());
    }
    if options.container_rounds_max != default.container_rounds_max {
        map.insert("container_rounds_max".into(), options.container_rounds_max.into());
    }
    if let Some(choices) = &options.choices {
        choices.write(&mut map);
    }
    if let Some(budget) = &options.budget {
        write_budget(&mut map, budget);
    }
    if let Some(given) = &options.messages {
        let list = |messages: &Vec<Message>| messages.iter().map(Message::to_map).map(Json::Object).collect();
        let lists = given.iter().map(|(name, messages)| (name.clone(), list(messages)));
        map.insert("messages".into(), Json::Object(lists.collect()));
    }
    if let Some(limits) = &options.objects {
        let (mut limits, mut default) = (**limits, ObjectLimits::default());
        for key in ObjectLimits::KEYS {
            if let (Some(limit), Some(default)) = (limits.of(key), default.of(key))
                && limit != default
            {
                map.insert(key.into(), (*limit).into());
            }
        }
    }
    map
}

pub(super) fn write_budget(map: &mut JsonMap, budget: &Budget) {
    if let Some((tokens, by)) = &budget.tokens {
        map.insert("budget_tokens".into(), (*tokens).into());
        map.insert("budget_tokens_by".into(), by.name().into());
    }
    if let Some((price, by)) = &budget.price {
        map.insert("budget_price".into(), budget::price_text(price).into());
        map.insert("budget_price_by".into(), by.name().into());
    }
}

/// What a run may spend, as its options or the order of a call say it.
pub fn read_budget(map: &JsonMap) -> Option<Box<Budget>> {
    let words = |key: &str| map.get(key).and_then(Json::as_str);
    let by = |key: &str| words(key).and_then(SetBy::from_name).unwrap_or(SetBy::Request);
    let tokens = map.get("budget_tokens").and_then(Json::as_u64);
    let tokens = tokens.map(|tokens| (tokens, by("budget_tokens_by")));
    let price = words("budget_price").and_then(budget::price).map(|price| (price, by("budget_price_by")));
    (tokens.is_some() || price.is_some()).then(|| Box::new(Budget { tokens, price }))
}

/// Choices; what cannot be read is at its default, as with every option.
fn read_choices(map: &JsonMap) -> Option<Box<Choices>> {
    let mut choices = Choices::default();
    choices.take(map).ok()?;
    (choices != Choices::default()).then(|| Box::new(choices))
}

fn read_limits(map: &JsonMap) -> Option<Box<ObjectLimits>> {
    let mut limits = ObjectLimits::default();
    for key in ObjectLimits::KEYS {
        if let (Some(limit), Some(given)) = (limits.of(key), map.get(key).and_then(Json::as_u64)) {
            *limit = given;
        }
    }
    (limits != ObjectLimits::default()).then(|| Box::new(limits))
}

/// Options from JSON; what is absent or of a wrong shape is at its default.
pub fn options_from_json(map: &JsonMap) -> RunOptions {
    let default = RunOptions::default();
    let number = |key: &str| map.get(key).and_then(Json::as_u64);
    let size = |key: &str| number(key).and_then(|n| usize::try_from(n).ok());
    let words = |key: &str| map.get(key).and_then(Json::as_str);
    let truth = |key: &str| map.get(key).and_then(Json::as_bool);
    RunOptions {
        steps_max: number("max_steps").unwrap_or(default.steps_max),
        seconds_max: number("max_execution_time_s").unwrap_or(default.seconds_max),
        deadline_ms: number("deadline_ms"),
        template_undefined: match map.get("template_undefined").and_then(Json::as_str) {
            Some("strict") => UndefinedNames::Strict,
            Some(_) | None => UndefinedNames::Empty,
        },
        template_chars_max: size("template_chars_max").unwrap_or(default.template_chars_max),
        inline_bytes_max: size("inline_bytes_max").unwrap_or(default.inline_bytes_max),
        iteration_conversation_writes: words("iteration_conversation_writes")
            .and_then(ConversationWrites::from_name)
            .unwrap_or(default.iteration_conversation_writes),
        nested_answer_stream: words("nested_answer_stream")
            .and_then(NestedAnswers::from_name)
            .unwrap_or(default.nested_answer_stream),
        iteration_failures_count: truth("iteration_failures_count")
            .unwrap_or(default.iteration_failures_count),
        loop_next_after_last: truth("loop_next_after_last").unwrap_or(default.loop_next_after_last),
        container_rounds_max: number("container_rounds_max").unwrap_or(default.container_rounds_max),
        human_input_timeout_s: number("human_input_timeout_s").unwrap_or(default.human_input_timeout_s),
        budget: read_budget(map),
        choices: read_choices(map),
        objects: read_limits(map),
        messages: map.get("messages").and_then(given_messages).map(Box::new),
    }
}

/// The head of a run, as a `start` fact carries it.
pub fn head_to_json(head: &RunHead) -> Json {
    let named = |values| serde_json::to_value(NamedJson(values)).unwrap_or_default();
    let mut map = JsonMap::new();
    map.insert("graph".into(), (*head.graph.0).into());
    if let Some(app) = &head.app {
        map.insert("app".into(), app.as_str().into());
    }
    if let Some(root) = &head.root {
        map.insert("root".into(), root.as_str().into());
    }
    map.insert("user".into(), head.user.as_str().into());
    map.insert("created_at".into(), head.created_at.micros().into());
    for (key, values) in [("inputs", &head.inputs), ("sys", &head.sys), ("conversation", &head.conversation)]
    {
        if !values.is_empty() {
            map.insert(key.into(), named(values));
        }
    }
    if let Some(history) = &head.history {
        map.insert("history".into(), serde_json::to_value(StoredJson(history)).unwrap_or_default());
    }
    if head.leaves_turn {
        map.insert("turn".into(), true.into());
    }
    if head.takes_messages {
        map.insert("messages".into(), true.into());
    }
    if let Some(id) = &head.conversation_id {
        map.insert("conversation_id".into(), id.as_str().into());
    }
    if let Some(caller) = &head.caller {
        map.insert("caller".into(), caller_json(caller));
    }
    if head.call_depth > 0 {
        map.insert("call_depth".into(), head.call_depth.into());
    }
    if let Some(key) = &head.key {
        map.insert("key".into(), key.as_str().into());
    }
    if !head.commands.is_empty() {
        map.insert("commands".into(), breakpoints_json(&head.commands));
    }
    let options = options_to_json(&head.options);
    if !options.is_empty() {
        map.insert("options".into(), Json::Object(options));
    }
    Json::Object(map)
}

/// Reads the head of a run from a `start` fact.
///
/// # Errors
/// Fields that are missing or do not fit.
pub fn head_from_json(mut map: JsonMap) -> Result<RunHead, WireError> {
    let text = |map: &JsonMap, key: &str| map.get(key).and_then(Json::as_str).map(str::to_string);
    let options = match map.remove("options") {
        Some(Json::Object(options)) => options_from_json(&options),
        _ => RunOptions::default(),
    };
    Ok(RunHead {
        graph: GraphHash(
            text(&map, "graph").ok_or_else(|| WireError::malformed(WHAT, "graph is missing"))?.into(),
        ),
        app: text(&map, "app"),
        root: text(&map, "root").map(NodeId::from),
        user: text(&map, "user").unwrap_or_default(),
        created_at: Timestamp::from_micros(map.get("created_at").and_then(Json::as_i64).unwrap_or(0)),
        inputs: named_from_json(map.remove("inputs"))?,
        sys: named_from_json(map.remove("sys"))?,
        conversation: named_from_json(map.remove("conversation"))?,
        history: map.remove("history").map(stored_from_json).transpose()?,
        leaves_turn: map.get("turn").and_then(Json::as_bool).unwrap_or(false),
        takes_messages: map.get("messages").and_then(Json::as_bool).unwrap_or(false),
        conversation_id: text(&map, "conversation_id"),
        caller: map.get("caller").map(read_caller).transpose()?,
        call_depth: map.get("call_depth").and_then(Json::as_u64).unwrap_or(0),
        key: text(&map, "key"),
        commands: breakpoints_from_json(map.remove("commands"))?,
        options,
    })
}

/// The fields of the run hash at submit.
pub fn head_fields(head: &RunHead, graph: &Graph) -> Vec<(&'static str, String)> {
    let named = |values| named_text(values);
    let mut fields = vec![
        ("status", RunStatus::Scheduled.name().to_string()),
        ("workflow", graph.name.clone()),
        ("mode", graph.mode.name().to_string()),
        ("version", head.graph.to_string()),
        ("user", head.user.clone()),
        ("created_at", head.created_at.micros().to_string()),
        ("inputs", named(&head.inputs)),
        ("sys", named(&head.sys)),
    ];
    if let Some(app) = &head.app {
        fields.push(("app", app.clone()));
    }
    if let Some(root) = &head.root {
        fields.push(("root", root.to_string()));
    }
    if !head.conversation.is_empty() {
        fields.push(("conversation", named(&head.conversation)));
    }
    if let Some(history) = &head.history {
        fields.push(("history", stored_text(history)));
    }
    if head.leaves_turn {
        fields.push(("turn", "true".into()));
    }
    if head.takes_messages {
        fields.push(("messages", "true".into()));
    }
    if let Some(id) = &head.conversation_id {
        fields.push(("conversation_id", id.clone()));
    }
    if let Some(caller) = &head.caller {
        fields.push(("caller", caller_json(caller).to_string()));
    }
    if head.call_depth > 0 {
        fields.push(("call_depth", head.call_depth.to_string()));
    }
    if let Some(key) = &head.key {
        fields.push(("key", key.clone()));
    }
    if !head.commands.is_empty() {
        fields.push(("commands", breakpoints_json(&head.commands).to_string()));
    }
    let mut options = options_to_json(&head.options);
    // The fact that begins it brings its messages, and the state has them from then on.
    options.remove("messages");
    if !options.is_empty() {
        fields.push(("options", Json::Object(options).to_string()));
    }
    fields
}

/// Reads the head back from the fields of the run hash.
///
/// # Errors
/// Fields that are missing or do not fit.
pub fn head_from_fields(fields: &HashMap<String, String>) -> Result<RunHead, WireError> {
    let json = |key: &str| -> Result<Option<Json>, WireError> {
        fields
            .get(key)
            .map(|t| serde_json::from_str(t).map_err(|e| WireError::malformed(WHAT, e)))
            .transpose()
    };
    check_version(WHAT, json("v").ok().flatten().as_ref())?;
    let version = fields.get("version").ok_or_else(|| WireError::malformed(WHAT, "version is missing"))?;
    Ok(RunHead {
        graph: GraphHash(version.as_str().into()),
        app: fields.get("app").cloned(),
        root: fields.get("root").map(|id| id.as_str().into()),
        user: fields.get("user").cloned().unwrap_or_default(),
        inputs: named_from_json(json("inputs")?)?,
        sys: named_from_json(json("sys")?)?,
        conversation: named_from_json(json("conversation")?)?,
        history: json("history")?.map(stored_from_json).transpose()?,
        leaves_turn: fields.get("turn").is_some_and(|text| text == "true"),
        takes_messages: fields.get("messages").is_some_and(|text| text == "true"),
        conversation_id: fields.get("conversation_id").cloned(),
        caller: json("caller")?.as_ref().map(read_caller).transpose()?,
        call_depth: fields.get("call_depth").and_then(|text| text.parse().ok()).unwrap_or(0),
        key: fields.get("key").cloned(),
        commands: breakpoints_from_json(json("commands")?)?,
        options: match json("options")? {
            Some(Json::Object(map)) => options_from_json(&map),
            _ => RunOptions::default(),
        },
        created_at: time(fields, "created_at").unwrap_or_default(),
    })
}

fn caller_json(caller: &Caller) -> Json {
    let mut value = json!({"run": caller.run, "node": caller.node});
    if !caller.frame.is_root() {
        value["frame"] = json!(caller.frame);
    }
    value
}

/// Reads who has called a run, as its hash has it.
///
/// # Errors
/// Something is missing.
pub fn read_caller(value: &Json) -> Result<Box<Caller>, WireError> {
    let text = |key: &str| value.get(key).and_then(Json::as_str);
    let missing = |key: &str| WireError::malformed(WHAT, format!("a caller has no {key}"));
    Ok(Box::new(Caller {
        run: text("run").ok_or_else(|| missing("run"))?.parse().map_err(|e| WireError::malformed(WHAT, e))?,
        frame: text("frame").map(FramePath::from).unwrap_or_default(),
        node: text("node").ok_or_else(|| missing("node"))?.into(),
    }))
}

fn time(fields: &HashMap<String, String>, key: &str) -> Option<Timestamp> {
    fields.get(key).and_then(|t| t.parse().ok()).map(Timestamp::from_micros)
}

// ---- names of fields

fn escape(name: &str) -> std::borrow::Cow<'_, str> {
    if name.bytes().any(|byte| matches!(byte, b'%' | b'/' | b'.')) {
        name.replace('%', "%25").replace('/', "%2F").replace('.', "%2E").into()
    } else {
        name.into()
    }
}

fn unescape(name: &str) -> String {
    name.replace("%2E", ".").replace("%2F", "/").replace("%25", "%")
}

/// Puts the field of a node behind what is there of a text.
pub(super) fn put_node_field(text: &mut String, frame: &FramePath, node: &str) {
    put_field(text, "n:", frame, node);
}

fn put_field(text: &mut String, kind: &str, frame: &FramePath, node: &str) {
    text.push_str(kind);
    text.push_str(frame.as_str());
    text.push('/');
    text.push_str(&escape(node));
}

/// The frame and the node of such a field.
pub fn node_of_field(field: &str) -> Option<(FramePath, NodeId)> {
    let (frame, node) = field.strip_prefix("n:")?.rsplit_once('/')?;
    Some((FramePath::from(frame), NodeId::from(unescape(node).as_str())))
}

/// The field of a variable.
pub fn variable_field(frame: &FramePath, node: &str, name: &str) -> String {
    let mut field = String::new();
    put_variable_field(&mut field, frame, node, name);
    field
}

/// Puts the field of a variable behind what is there of a text.
pub(super) fn put_variable_field(text: &mut String, frame: &FramePath, node: &str, name: &str) {
    put_field(text, "v:", frame, node);
    text.push('.');
    text.push_str(&escape(name));
}

/// The field of a stream.
pub fn stream_field(key: &str) -> String {
    format!("s:{key}")
}

// ---- contents of fields

/// Writes a node's state; its job, if it has one, lies in this queue.
pub(super) fn write_node(object: &mut ObjectText, node: &NodeState, queue: &str) {
    object.text("status", node.status.name());
    if node.attempt != 1 {
        object.number("attempt", node.attempt);
    }
    if let Some(job) = node.job {
        object.entry("job", job);
        // So that the job can be found even when the workflow cannot be read any more.
        if queue != DEFAULT_QUEUE {
            object.text("queue", queue);
        }
    }
    if node.delivery > 0 {
        object.number("delivery", node.delivery);
    }
    if let Some(at) = node.started_at {
        object.number("started_at", at.micros());
    }
    if let Some(at) = node.finished_at {
        object.number("finished_at", at.micros());
    }
    if let Some(handle) = &node.handle {
        object.text("handle", handle);
    }
    if let Some(error) = &node.error {
        object.text("error", error);
    }
    if node.failures > 0 {
        object.number("failures", node.failures);
    }
    if let Some(reason) = &node.parked {
        object.text("parked", reason);
    }
    if let Some(call) = &node.call {
        object.text(if call.ended { "called" } else { "calls" }, &call.run.to_string());
    }
    if let Some(ended) = &node.ended {
        object.open("ended");
        if ended.failed {
            object.value("failed", &true);
        }
        write_record(object, &ended.record);
        object.close();
    }
    open::write_spent(object, &node.spent);
    if node.charged != Spent::default() {
        object.open("charged");
        open::write_spent(object, &node.charged);
        object.close();
    }
    if let Some(body) = &node.body {
        open::write_body(object, body);
    }
    open::write_tally(object, &node.inside);
}

/// Reads a node's state.
///
/// # Errors
/// Not JSON, or a status this process does not know.
pub fn node_from_json(text: &str) -> Result<NodeState, WireError> {
    let map: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let number = |key: &str| map.get(key).and_then(Json::as_u64);
    let small = |key: &str| number(key).and_then(|n| u32::try_from(n).ok());
    let words = |key: &str| map.get(key).and_then(Json::as_str);
    let time = |key: &str| map.get(key).and_then(Json::as_i64).map(Timestamp::from_micros);
    let status = words("status").unwrap_or("");
    Ok(NodeState {
        status: NodeStatus::from_name(status)
            .ok_or_else(|| WireError::Unknown { what: "a node's status", kind: status.to_string() })?,
        attempt: small("attempt").unwrap_or(1),
        job: words("job").and_then(|t| t.parse().ok()),
        delivery: small("delivery").unwrap_or(0),
        started_at: time("started_at"),
        finished_at: time("finished_at"),
        handle: words("handle").map(Arc::from),
        error: words("error").map(Arc::from),
        failures: small("failures").unwrap_or(0),
        spent: open::read_spent(&map),
        charged: map.get("charged").and_then(Json::as_object).map(open::read_spent).unwrap_or_default(),
        parked: words("parked").map(Arc::from),
        call: open_call(&map),
        ended: map.get("ended").and_then(Json::as_object).map(ended).transpose()?,
        body: open::read_body(map.get("body"))?,
        inside: open::read_tally(map.get("inside")),
    })
}

/// The end that the node has come to, and that its hooks are still to be told of.
fn ended(map: &JsonMap) -> Result<Box<Ended>, WireError> {
    let failed = map.get("failed").and_then(Json::as_bool).unwrap_or(false);
    let record = Box::new(read_record(&mut Fields::from(map.clone()))?);
    Ok(Box::new(Ended { failed, record }))
}

/// The run that the node has called: under `calls` while it is not over.
fn open_call(map: &JsonMap) -> Option<Box<OpenCall>> {
    let of = |key: &str, ended| Some(OpenCall { run: map.get(key)?.as_str()?.parse().ok()?, ended });
    of("calls", false).or_else(|| of("called", true)).map(Box::new)
}

/// A stream, without what it holds back: that is in the list of held chunks.
pub fn stream_json(stream: &Stream) -> String {
    let mut object = ObjectText::with_capacity(128);
    object.number("attempt", stream.attempt);
    object.number("delivery", stream.delivery);
    object.number("length", stream.length);
    object.value("told", &stream.told);
    object.value("closed", &stream.closed);
    object.value("ended", &stream.ended);
    object.end()
}

fn stream_from_json(text: &str) -> Result<Stream, WireError> {
    let map: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let number = |key: &str| map.get(key).and_then(Json::as_u64).unwrap_or(0);
    let truth = |key: &str| map.get(key).and_then(Json::as_bool).unwrap_or(false);
    Ok(Stream {
        attempt: u32::try_from(number("attempt")).unwrap_or(u32::MAX),
        delivery: u32::try_from(number("delivery")).unwrap_or(u32::MAX),
        length: number("length"),
        told: truth("told"),
        closed: truth("closed"),
        ended: truth("ended"),
        held: Vec::new(),
    })
}

/// A held chunk.
pub fn held_json(held: &Held) -> String {
    json!({"stream": held.stream, "attempt": held.attempt, "delivery": held.delivery, "text": held.text})
        .to_string()
}

/// The response cursor and the order of finished responses. Of those that made several values the order of their names
/// as well: the run's outputs show it, and a hash forgets it.
pub fn response_json(run: &RunState) -> String {
    let graph = &run.graph;
    let id = |ix: NodeIx| graph.node(ix).id.as_str();
    let reached: Vec<&str> = run.response.reached.iter().map(|at| id(graph.responses[*at].node)).collect();
    let root = run.frames.root();
    let responded = &root.responded;
    let mut map = JsonMap::new();
    map.insert("reached".into(), reached.into());
    map.insert("done".into(), run.response.done.into());
    map.insert("at".into(), run.response.at.into());
    map.insert("responded".into(), open::responded_json(responded, graph));
    let several = responded.iter().filter_map(|responder| {
        let Responder::Root(node) = responder else { return None };
        let node = id(*node);
        let values = root.variables.get(node).filter(|values| values.len() > 1)?;
        Some((node.to_string(), values.iter().map(|(name, _)| name.as_str()).collect()))
    });
    let names: JsonMap = several.collect();
    if !names.is_empty() {
        map.insert("names".into(), Json::Object(names));
    }
    Json::Object(map).to_string()
}

/// The field of an open container.
pub fn container_field(frame: &FramePath, node: &str) -> String {
    format!("c:{frame}/{}", escape(node))
}

/// What stands in the state for a variable.
pub(super) enum VariableText<'a> {
    /// Its value.
    Stored(&'a Stored),
    /// An item must not see it.
    Hidden,
}

impl VariableText<'_> {
    /// Puts its JSON behind what is there of a text.
    pub(super) fn put(self, text: &mut String) {
        match self {
            Self::Stored(stored) => put_stored(text, stored),
            Self::Hidden => text.push_str(HIDDEN),
        }
    }
}

/// A variable as it stands in the state.
pub(super) fn variable_text<'a>(
    run: &'a RunState,
    frame: &FramePath,
    node: &str,
    name: &str,
) -> Option<VariableText<'a>> {
    let open = run.frames.get(frame)?;
    match open.get(node, name) {
        Some(stored) => Some(VariableText::Stored(stored)),
        None if open.hidden.contains(&(node.to_string(), name.to_string())) => Some(VariableText::Hidden),
        None => None,
    }
}

/// A run as the store has it.
#[derive(Debug, Clone, Default)]
pub struct AtRest {
    /// Fields of the run hash.
    pub run: HashMap<String, String>,
    /// Fields of the state hash.
    pub state: Vec<(String, String)>,
    /// The list of held chunks.
    pub held: Vec<String>,
    /// The number of the last event; 0 for none.
    pub seq: u64,
    /// What closed frames of open containers left.
    pub collected: Vec<(String, String)>,
    /// Its pauses, and the answers to them.
    pub pauses: Vec<(String, String)>,
    /// What it keeps beside its variables.
    pub objects: ObjectsAtRest,
}

/// Puts a run together from what the store has of it.
///
/// # Errors
/// A newer version, or fields that do not fit.
pub fn load(id: RunId, graph: Arc<Graph>, rest: AtRest) -> Result<RunState, WireError> {
    let head = head_from_fields(&rest.run)?;
    let mut run = RunState::new(id, graph, head);
    let status = rest.run.get("status").map_or("", String::as_str);
    run.status = RunStatus::from_name(status)
        .ok_or_else(|| WireError::Unknown { what: "a run's status", kind: status.to_string() })?;
    run.started_at = time(&rest.run, "started_at");
    run.finished_at = time(&rest.run, "finished_at");
    run.error = rest.run.get("error").map(|e| e.as_str().into());
    run.seq = rest.seq;
    // The response cursor puts other things in order, so these are loaded first.
    let (cursor, parts): (Vec<_>, Vec<_>) = rest.state.iter().partition(|(field, _)| field == RESPONSE_FIELD);
    for (field, text) in parts {
        load_field(&mut run, field, text)?;
    }
    for (_, text) in cursor {
        load_response(&mut run, text)?;
    }
    for text in &rest.held {
        load_held(&mut run, text)?;
    }
    let graph = run.graph.clone();
    for (field, text) in &rest.collected {
        let (frame, node, index) = open::placed(&FramePath::from(field.as_str()), &graph)?;
        // What was left to a container that has ended meanwhile is about to be removed.
        if let Some(container) = run.containers.get_mut(&(frame, node)) {
            container.keep(index, open::read_collected(text)?);
        }
    }
    for (_, text) in rest.pauses.iter().filter(|(field, _)| !field.contains(':')) {
        if let Some(pause) = open::read_pause(text, &graph)? {
            run.pauses.insert(pause.id.clone(), pause);
        }
    }
    objects::load(&mut run, rest.objects)?;
    run.derive();
    let ready = |(path, frame): (&FramePath, &Frame)| {
        let at = |(at, _): (usize, &NodeState)| (path.clone(), NodeIx(u32::try_from(at).unwrap_or(u32::MAX)));
        let is_ready = |(_, node): &(usize, &NodeState)| node.status == NodeStatus::Ready;
        frame.nodes.iter().enumerate().filter(is_ready).map(at).collect::<Vec<_>>()
    };
    run.ready = run.frames.iter().flat_map(ready).collect();
    Ok(run)
}

fn load_field(run: &mut RunState, field: &str, text: &str) -> Result<(), WireError> {
    let graph = run.graph.clone();
    let unknown = |node: &str| WireError::UnknownNode { what: WHAT, node: node.to_string() };
    let placed = |rest: &str| -> Option<(FramePath, String)> {
        let (frame, name) = rest.rsplit_once('/')?;
        Some((FramePath::from(frame), name.to_string()))
    };
    match field.split_once(':') {
        Some(("n", rest)) => {
            let (frame, node) = placed(rest).ok_or_else(|| unknown(rest))?;
            let node = unescape(&node);
            let ix = graph.find(&node).ok_or_else(|| unknown(&node))?;
            let open = run.frames.get_or_insert_with(frame, || Frame::new(&graph));
            open.nodes[ix.at()] = node_from_json(text)?;
        }
        Some(("v", rest)) => {
            let (frame, name) = placed(rest).ok_or_else(|| unknown(rest))?;
            let (node, name) = name.split_once('.').ok_or_else(|| unknown(&name))?;
            let value = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
            let open = run.frames.get_or_insert_with(frame, || Frame::new(&graph));
            if text == HIDDEN {
                open.hidden.insert((unescape(node), unescape(name)));
            } else {
                open.set(&unescape(node), &unescape(name), stored_from_json(value)?);
            }
        }
        Some(("f", path)) => {
            let frame = run.frames.get_or_insert_with(FramePath::from(path), || Frame::new(&graph));
            open::read_frame(frame, text)?;
        }
        Some(("c", rest)) => {
            let (frame, node) = placed(rest).ok_or_else(|| unknown(rest))?;
            let node = unescape(&node);
            let ix = graph.find(&node).ok_or_else(|| unknown(&node))?;
            run.containers.insert((frame, ix), open::read_container(text)?);
        }
        Some(("r", key)) => {
            let values = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
            run.nested.insert(key.into(), named_from_json(Some(values))?);
        }
        None if field == open::CONTROL_FIELD => run.control = open::read_control(text)?,
        Some(("m", name)) => objects::load_index(run, name, text)?,
        Some(("s", key)) => {
            run.response.streams.insert(key.to_string(), stream_from_json(text)?);
        }
        _ => return Err(WireError::Unknown { what: "a field of a run's state", kind: field.to_string() }),
    }
    Ok(())
}

fn load_response(run: &mut RunState, text: &str) -> Result<(), WireError> {
    let map: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let graph = run.graph.clone();
    let nodes = |key: &str| -> Result<Vec<NodeIx>, WireError> {
        let ids = map.get(key).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
        let find = |id: &Json| {
            let id = id.as_str().unwrap_or("");
            graph.find(id).ok_or_else(|| WireError::UnknownNode { what: WHAT, node: id.to_string() })
        };
        ids.iter().map(find).collect()
    };
    let number =
        |key: &str| map.get(key).and_then(Json::as_u64).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let reached = nodes("reached")?
        .into_iter()
        .filter_map(|ix| graph.responses.iter().position(|r| r.node == ix))
        .collect();
    let responded = open::read_responded(map.get("responded"), &graph)?;
    run.frames.root_mut().responded = responded;
    let streams = std::mem::take(&mut run.response.streams);
    run.response = ResponseState { reached, done: number("done"), at: number("at"), streams };
    if let Some(Json::Object(names)) = map.get("names") {
        names.iter().for_each(|(node, names)| order_variables(run, node, names));
    }
    Ok(())
}

/// Brings a node's variables into the order of these names.
fn order_variables(run: &mut RunState, node: &str, names: &Json) {
    let names = names.as_array().map_or(&[][..], Vec::as_slice);
    // A name that was written later comes last, as it does in memory.
    let place =
        |name: &String| names.iter().position(|known| known.as_str() == Some(name)).unwrap_or(usize::MAX);
    if let Some(values) = run.frames.root_mut().variables.get_mut(node) {
        values.sort_by_key(|(name, _)| place(name));
    }
}

/// A held chunk counts while its stream is still that of the same holder and none of it has been told.
fn load_held(run: &mut RunState, text: &str) -> Result<(), WireError> {
    let map: JsonMap = serde_json::from_str(text).map_err(|e| WireError::malformed(WHAT, e))?;
    let words = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or("");
    let number =
        |key: &str| map.get(key).and_then(Json::as_u64).and_then(|n| u32::try_from(n).ok()).unwrap_or(0);
    if let Some(stream) = run.response.streams.get_mut(words("stream"))
        && !stream.told
        && (stream.attempt, stream.delivery) == (number("attempt"), number("delivery"))
    {
        stream.held.push(words("text").to_string());
    }
    Ok(())
}
