//! Facts: entries of a shard's inbox, with the fields `kind`, `run` and `fact` (JSON).
//!
//! | kind | from | fact |
//! | --- | --- | --- |
//! | `start` | submit | the head of the run |
//! | `started`, `chunk`, `done`, `failed` | worker | the job it is about, and what happened |
//! | `step` | worker, with the journal | the job, `events` as `[[type, data]]`, `charge` |
//! | `child_started`, `child_chunk`, `child_step`, `child_retry`, `child_ended` | worker; the last two with the journal | the job, the `child` within its node, its try, and what happened |
//! | `parked` | worker | the job, `wait_ms`, `reason`; `childs` when a node inside it waits; `call` when it waits for a run: its id, `app`, `given`; `pause` when it waits for an answer: its `id`, `step`, `request` |
//! | `continue` | the owner | nothing |
//! | `stop`, `pause` | API | the reason |
//! | `resume` | API | nothing |
//! | `update` | API | `updates`: `[{"selector":["node","name"],"value":…}]` |
//! | `answer` | API | `pause`; of a form `action`, `inputs`, of all else `input`; `cancel` when it is called off |
//! | `over_budget` | the owner, for the key that pays | the reason |
//! | `call_ended` | the owner, or whoever makes called runs | `node`, `frame`, and the `called` run that is over |
//! | `parent_asked` | the owner, for a called run | the caller's `node`, `frame`; `child`, `execution`, `child_node`, `child_frame`; `change` |
//! | `parent_answered` | the owner, for the caller | the child's `node`, `frame`; `outputs`, or `error` and `error_type` |
//! | `import` | API | a run to go on with, see [`super::snapshot`] |
//!
//! An `import` with `rewind` (`frame`, `node`) goes on from a run that is over, as it stood before that node.
//! Commands may carry the `key` under which they were given.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::breakpoint::updates_from_json;
use super::fields::Fields;
use super::objects::{change_json, read_change};
use super::record::write_record;
use super::state::{head_from_json, head_to_json};
use super::text::ObjectText;
use super::value::{StoredJson, named_from_field, stored_from_json};
use super::{WireError, child, done, read};
use crate::clock::Timestamp;
use crate::graph::{Graph, NodeIx};
use crate::ids::{Delivery, EntryId, FramePath, NodeId, RunId};
use crate::machine::Fact;
use crate::machine::changes::{Record, StepEvent};
use crate::machine::fact::{
    Answer, Asked, Call, CallEnded, Charge, ChildEvent, JobChunk, JobParked, JobRef, JobStarted, JobStepped,
    ParentAnswered, ParentAsked, PauseCommand, Said, Stop, UpdateVariables,
};
use crate::machine::run::{Caller, RunHead};
use crate::nodes::{PauseRequest, Usage};
use crate::value::{JsonMap, Selector};

pub(super) const WHAT: &str = "a fact";

/// The kinds of facts, as the entry's field `kind` has them.
pub mod kind {
    /// A run was submitted.
    pub const START: &str = "start";
    /// An attempt began.
    pub const STARTED: &str = "started";
    /// A piece of text.
    pub const CHUNK: &str = "chunk";
    /// A step of a job.
    pub const STEP: &str = "step";
    /// A node that runs inside a job began.
    pub const CHILD_STARTED: &str = "child_started";
    /// A piece of its text.
    pub const CHILD_CHUNK: &str = "child_chunk";
    /// A step of it.
    pub const CHILD_STEP: &str = "child_step";
    /// A try of it has failed, and another follows.
    pub const CHILD_RETRY: &str = "child_retry";
    /// It has ended.
    pub const CHILD_ENDED: &str = "child_ended";
    /// A job waits in nobody's hands.
    pub const PARKED: &str = "parked";
    /// A result.
    pub const DONE: &str = "done";
    /// A failure.
    pub const FAILED: &str = "failed";
    /// A bounded step goes on.
    pub const CONTINUE: &str = "continue";
    /// An end is wanted.
    pub const STOP: &str = "stop";
    /// The run is to hand out no further job.
    pub const PAUSE: &str = "pause";
    /// A paused run is to go on.
    pub const RESUME: &str = "resume";
    /// Variables are to be written.
    pub const UPDATE: &str = "update";
    /// A pause was answered.
    pub const ANSWER: &str = "answer";
    /// Whoever pays for the run has spent too much.
    pub const OVER_BUDGET: &str = "over_budget";
    /// A called run is over.
    pub const CALL_ENDED: &str = "call_ended";
    /// A called run wants to change a list of messages of its caller.
    pub const PARENT_ASKED: &str = "parent_asked";
    /// The caller has dealt with that.
    pub const PARENT_ANSWERED: &str = "parent_answered";
    /// A run goes on where another one stood.
    pub const IMPORT: &str = "import";
    /// All of them.
    pub const ALL: [&str; 23] = [
        START,
        STARTED,
        CHUNK,
        STEP,
        CHILD_STARTED,
        CHILD_CHUNK,
        CHILD_STEP,
        CHILD_RETRY,
        CHILD_ENDED,
        PARKED,
        DONE,
        FAILED,
        CONTINUE,
        STOP,
        PAUSE,
        RESUME,
        UPDATE,
        ANSWER,
        CALL_ENDED,
        OVER_BUDGET,
        PARENT_ASKED,
        PARENT_ANSWERED,
        IMPORT,
    ];
}

/// A job as its worker names it.
#[derive(Debug, Clone, PartialEq)]
pub struct JobName {
    /// The frame.
    pub frame: FramePath,
    /// The node.
    pub node: NodeId,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The entry it was delivered under.
    pub entry: EntryId,
    /// The holder.
    pub holder: Delivery,
}

/// What a worker has to say of a job.
#[derive(Debug, Clone)]
pub enum Report {
    /// It has begun, and goes on.
    Started {
        /// When.
        at: Timestamp,
    },
    /// A piece of text.
    Chunk {
        /// When the attempt began.
        started_at: Timestamp,
        /// Which text.
        selector: Selector,
        /// Bytes before this piece.
        offset: u64,
        /// The piece.
        text: String,
    },
    /// A step was done, or something is to be told of it.
    Step {
        /// When the attempt began.
        started_at: Timestamp,
        /// What it tells.
        events: Vec<(StepEvent, JsonMap)>,
        /// What it cost.
        charge: Option<Box<Charge>>,
    },
    /// Something happened to a node inside it.
    Child {
        /// When the try began.
        started_at: Timestamp,
        /// Which node.
        child: NodeId,
        /// Which try of it, from 1.
        number: u32,
        /// What.
        what: ChildEvent,
    },
    /// It waits for a time to come; nobody holds it any more.
    Parked {
        /// When the attempt began.
        started_at: Timestamp,
        /// How long, in milliseconds.
        wait_ms: u64,
        /// What for.
        reason: String,
        /// Whether it is a node inside it that waits.
        is_childs: bool,
        /// The run whose end it waits for, if it is one.
        call: Option<Box<Call>>,
        /// What somebody is asked, if it waits for an answer.
        pause: Option<Box<Asked>>,
    },
    /// It has ended; it failed when the record holds an error or `failed` is set.
    Ended {
        /// When it began.
        started_at: Timestamp,
        /// When it ended.
        finished_at: Timestamp,
        /// Whether it failed.
        failed: bool,
        /// What it left.
        record: Box<Record>,
        /// How many bytes of which text were streamed.
        streamed: Vec<(Selector, u64)>,
    },
}

impl Report {
    /// The entry's field `kind`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Started { .. } => kind::STARTED,
            Self::Chunk { .. } => kind::CHUNK,
            Self::Step { .. } => kind::STEP,
            Self::Child { what, .. } => child::kind_of(what),
            Self::Parked { .. } => kind::PARKED,
            Self::Ended { failed: false, .. } => kind::DONE,
            Self::Ended { failed: true, .. } => kind::FAILED,
        }
    }
    /// The entry's field `fact`.
    pub fn to_json(&self, job: &JobName) -> String {
        let mut object = ObjectText::with_capacity(512);
        object.text("node", job.node.as_str());
        if !job.frame.is_root() {
            object.text("frame", job.frame.as_str());
        }
        object.number("attempt", job.attempt);
        object.entry("job", job.entry);
        object.text("holder", &job.holder.consumer);
        object.number("delivery", job.holder.number);
        self.write(&mut object);
        object.end()
    }

    fn write(&self, object: &mut ObjectText) {
        match self {
            Self::Started { at } => object.number("at", at.micros()),
            Self::Chunk { started_at, selector, offset, text } => {
                object.number("started_at", started_at.micros());
                object.value("selector", selector);
                object.number("offset", *offset);
                object.text("text", text);
            }
            Self::Step { started_at, events, charge } => {
                object.number("started_at", started_at.micros());
                write_step(object, events, charge.as_deref());
            }
            Self::Child { started_at, child, number, what } => {
                object.number("started_at", started_at.micros());
                object.text("child", child.as_str());
                object.number("try", *number);
                child::write(object, what);
            }
            Self::Parked { started_at, wait_ms, reason, is_childs, call, pause } => {
                object.number("started_at", started_at.micros());
                object.number("wait_ms", *wait_ms);
                object.text("reason", reason);
                if *is_childs {
                    object.value("childs", &true);
                }
                if let Some(call) = call {
                    object.value("call", &call_json(call));
                }
                if let Some(asked) = pause {
                    object.value("pause", &asked_json(asked));
                }
            }
            Self::Ended { started_at, finished_at, record, streamed, failed: _ } => {
                object.number("started_at", started_at.micros());
                object.number("finished_at", finished_at.micros());
                if !streamed.is_empty() {
                    object.value("streamed", streamed);
                }
                write_record(object, record);
            }
        }
    }
}

pub(super) fn write_step(object: &mut ObjectText, events: &[(StepEvent, JsonMap)], charge: Option<&Charge>) {
    if !events.is_empty() {
        let told: Vec<_> = events.iter().map(|(what, data)| (what.name(), data)).collect();
        object.value("events", &told);
    }
    if let Some(charge) = charge {
        object.value("charge", &charge_json(charge));
    }
}

/// The body of a `start` fact.
pub fn start_body(head: &RunHead) -> String {
    head_to_json(head).to_string()
}

/// Why a called run is stopped.
pub const NOBODY_WAITS: &str = "the node that called it does not wait for it any more";

/// The body of a `stop` fact.
pub fn stop_body(reason: &str) -> String {
    serde_json::json!({ "reason": reason }).to_string()
}

/// Reads the body of a `start` fact, which needs no graph.
///
/// # Errors
/// A newer version, or fields that do not fit.
pub fn parse_start(body: &str) -> Result<Fact, WireError> {
    match read(WHAT, body)? {
        Json::Object(map) => Ok(Fact::Start(Box::new(head_from_json(map)?))),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Err(WireError::malformed(WHAT, "its body is no object"))
        }
    }
}

/// Reads an entry of the inbox, as a fact of a run of this graph.
///
/// # Errors
/// A newer version, an unknown kind, a node that the graph does not have, or a body that does not fit.
pub fn parse(kind: &str, body: &str, graph: &Graph) -> Result<Fact, WireError> {
    // Nearly every fact is one of these.
    if kind == kind::DONE {
        return done::read(body, graph).map(Fact::JobSucceeded);
    }
    if kind == kind::FAILED {
        return done::read(body, graph).map(Fact::JobFailed);
    }
    if !kind::ALL.contains(&kind) {
        return Err(WireError::Unknown { what: WHAT, kind: kind.chars().take(80).collect() });
    }
    if kind == kind::CONTINUE {
        return Ok(Fact::Continue);
    }
    if kind == kind::START {
        return parse_start(body);
    }
    let mut map = Fields::read(WHAT, body)?;
    if kind == kind::CALL_ENDED {
        return call_ended(&map, graph);
    }
    if kind == kind::PARENT_ASKED {
        return parent_asked(&mut map);
    }
    if kind == kind::PARENT_ANSWERED {
        return parent_answered(&mut map);
    }
    if let Some(fact) = command(kind, &mut map)? {
        return Ok(fact);
    }
    let job = read_job(&map, graph)?;
    match kind {
        kind::STARTED => Ok(Fact::JobStarted(JobStarted { job, at: time(&map, "at")? })),
        kind::CHUNK => Ok(Fact::JobChunk(JobChunk {
            job,
            started_at: time(&map, "started_at")?,
            selector: selector(map.get("selector"))?,
            offset: map.get("offset").and_then(Json::as_u64).unwrap_or(0),
            text: map.take_text("text").ok_or_else(|| WireError::malformed(WHAT, "text is missing"))?,
        })),
        kind::STEP => Ok(Fact::JobStepped(JobStepped {
            job,
            started_at: time(&map, "started_at")?,
            events: told(map.take_json("events"))?,
            charge: map.take_map("charge").map(charge).transpose()?.map(Box::new),
        })),
        of_child if child::KINDS.contains(&of_child) => child::read(of_child, job, &mut map, graph),
        kind::PARKED => Ok(Fact::JobParked(JobParked {
            job,
            started_at: time(&map, "started_at")?,
            wait_ms: map.get("wait_ms").and_then(Json::as_u64).unwrap_or(0),
            reason: map.take_text("reason").unwrap_or_default(),
            is_childs: map.get("childs").and_then(Json::as_bool).unwrap_or(false),
            call: map.take_map("call").map(read_call).transpose()?.map(Box::new),
            pause: map.take_map("pause").map(|map| read_asked(&map)).transpose()?.map(Box::new),
        })),
        other => Err(WireError::Unknown { what: WHAT, kind: other.to_string() }),
    }
}

/// The body of a `call_ended` fact: what it tells the caller's node of a run that it has called.
pub fn call_ended_body(caller: &Caller, called: RunId) -> String {
    let mut body = json!({"node": caller.node, "called": called});
    if !caller.frame.is_root() {
        body["frame"] = json!(caller.frame);
    }
    body.to_string()
}

fn call_ended(map: &Fields<'_>, graph: &Graph) -> Result<Fact, WireError> {
    let run = map.text("called").ok_or_else(|| WireError::malformed(WHAT, "called is missing"))?;
    Ok(Fact::CallEnded(CallEnded {
        frame: map.text("frame").map(FramePath::from).unwrap_or_default(),
        node: read_node(map, graph)?,
        run: run.parse().map_err(|e| WireError::malformed(WHAT, e))?,
    }))
}

/// The body of a `parent_asked` fact.
pub fn parent_asked_body(asked: &ParentAsked) -> String {
    let mut body = json!({
        "node": asked.node, "child": asked.child, "execution": asked.execution, "child_node": asked.child_node,
        "change": change_json(&asked.change),
    });
    for (key, frame) in [("frame", &asked.frame), ("child_frame", &asked.child_frame)] {
        if !frame.is_root() {
            body[key] = json!(frame);
        }
    }
    body.to_string()
}

fn parent_asked(map: &mut Fields<'_>) -> Result<Fact, WireError> {
    let change = map.take_json("change").unwrap_or_default();
    let text = |key: &str| map.text(key);
    let missing = |key: &str| WireError::malformed(WHAT, format!("{key} is missing"));
    let child = text("child").ok_or_else(|| missing("child"))?;
    let execution = text("execution").ok_or_else(|| missing("execution"))?;
    let frame = |key: &str| text(key).map(FramePath::from).unwrap_or_default();
    let node = |key: &str| text(key).map(NodeId::from).ok_or_else(|| missing(key));
    Ok(Fact::ParentAsked(Box::new(ParentAsked {
        frame: frame("frame"),
        node: node("node")?,
        child: child.parse().map_err(|e| WireError::malformed(WHAT, e))?,
        execution: execution.parse().map_err(|e| WireError::malformed(WHAT, e))?,
        child_frame: frame("child_frame"),
        child_node: node("child_node")?,
        change: read_change(&change)?,
    })))
}

/// The body of a `parent_answered` fact.
pub fn parent_answered_body(answered: &ParentAnswered) -> String {
    let mut object = ObjectText::with_capacity(256);
    object.text("node", answered.node.as_str());
    if !answered.frame.is_root() {
        object.text("frame", answered.frame.as_str());
    }
    match &answered.answer {
        Ok(outputs) => object.named("outputs", outputs),
        Err((error_type, error)) => {
            object.text("error_type", error_type);
            object.text("error", error);
        }
    }
    object.end()
}

fn parent_answered(map: &mut Fields<'_>) -> Result<Fact, WireError> {
    let missing = || WireError::malformed(WHAT, "node is missing");
    let (node, frame) = (map.text("node").map(NodeId::from), map.text("frame").map(FramePath::from));
    let error = map.take_text("error");
    let error_type = map.take_text("error_type").unwrap_or_default();
    let answer = match error {
        Some(error) => Err((error_type, error)),
        None => Ok(named_from_field(map.take("outputs"))?),
    };
    let (node, frame) = (node.ok_or_else(missing)?, frame.unwrap_or_default());
    Ok(Fact::ParentAnswered(Box::new(ParentAnswered { frame, node, answer })))
}

fn call_json(call: &Call) -> Json {
    let mut value = json!({"run": call.run, "app": call.app});
    if let Some(given) = &call.given {
        value["given"] = serde_json::to_value(StoredJson(given)).unwrap_or_default();
    }
    value
}

fn read_call(mut map: JsonMap) -> Result<Call, WireError> {
    let text = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or_default();
    let run = text("run").parse().map_err(|e| WireError::malformed(WHAT, e))?;
    let app = text("app").to_string();
    Ok(Call { run, app, given: map.remove("given").map(stored_from_json).transpose()? })
}

fn asked_json(asked: &Asked) -> Json {
    json!({"id": &*asked.pause, "step": &*asked.step, "request": asked.request.to_json()})
}

fn read_asked(map: &JsonMap) -> Result<Asked, WireError> {
    let text = |key: &str| {
        let found = map.get(key).and_then(Json::as_str);
        found.map(Arc::from).ok_or_else(|| WireError::malformed(WHAT, format!("{key} of a pause is missing")))
    };
    let request = PauseRequest::from_json(map.get("request").unwrap_or(&Json::Null))?;
    Ok(Asked { pause: text("id")?, step: text("step")?, request })
}

/// What an `answer` fact says. Only what is there was said: the answer may be null.
fn said(map: &mut Fields<'_>) -> Said {
    if map.get("cancel").and_then(Json::as_bool) == Some(true) {
        return Said::Cancel;
    }
    match map.take_json("input") {
        Some(input) => Said::Input(input),
        None => Said::Form {
            action: map.text("action").unwrap_or_default().to_string(),
            inputs: map.take_map("inputs").unwrap_or_default(),
        },
    }
}

/// A fact that is about the run and not about a job.
fn command(kind: &str, map: &mut Fields<'_>) -> Result<Option<Fact>, WireError> {
    let text = |map: &Fields<'_>, key: &str| map.text(key).map(str::to_string);
    let reason = |map: &Fields<'_>, default: &str| map.text("reason").unwrap_or(default).into();
    Ok(Some(match kind {
        kind::STOP => Fact::Stop(Stop { reason: reason(map, "User requested abort") }),
        kind::PAUSE => Fact::Pause(PauseCommand { reason: reason(map, "User requested pause") }),
        kind::RESUME => Fact::Resume,
        kind::OVER_BUDGET => Fact::OverBudget(reason(map, "whoever pays for it has spent too much")),
        kind::UPDATE => Fact::Update(UpdateVariables {
            updates: updates_from_json(map.take_json("updates"))?,
            key: text(map, "key"),
        }),
        kind::ANSWER => Fact::Answer(Answer {
            pause: text(map, "pause").ok_or_else(|| WireError::malformed(WHAT, "pause is missing"))?.into(),
            said: said(map),
        }),
        _ => return Ok(None),
    }))
}

fn read_node(map: &Fields<'_>, graph: &Graph) -> Result<NodeIx, WireError> {
    let node = map.text("node").ok_or_else(|| WireError::malformed(WHAT, "node is missing"))?;
    graph.find(node).ok_or_else(|| WireError::UnknownNode { what: WHAT, node: node.to_string() })
}

pub(super) fn read_job(map: &Fields<'_>, graph: &Graph) -> Result<JobRef, WireError> {
    let (text, number) = (|key| map.text(key), |key| map.number(key));
    Ok(JobRef {
        frame: text("frame").map(FramePath::from).unwrap_or_default(),
        node: read_node(map, graph)?,
        attempt: number("attempt").ok_or_else(|| WireError::malformed(WHAT, "attempt is missing"))?,
        entry: text("job")
            .ok_or_else(|| WireError::malformed(WHAT, "job is missing"))?
            .parse()
            .map_err(|e| WireError::malformed(WHAT, e))?,
        holder: Delivery {
            consumer: text("holder").unwrap_or("").into(),
            number: number("delivery").ok_or_else(|| WireError::malformed(WHAT, "delivery is missing"))?,
        },
    })
}

pub(super) fn time(map: &Fields<'_>, key: &str) -> Result<Timestamp, WireError> {
    map.get(key)
        .and_then(Json::as_i64)
        .map(Timestamp::from_micros)
        .ok_or_else(|| WireError::malformed(WHAT, format!("{key} is missing")))
}

fn charge_json(charge: &Charge) -> Json {
    let (provider, model) = &charge.model;
    let mut value =
        json!({"key": charge.key, "provider": provider, "model": model, "usage": charge.usage.record});
    if let Some(run) = charge.run {
        value["run"] = json!(run);
    }
    value
}

pub(super) fn charge(mut map: JsonMap) -> Result<Charge, WireError> {
    let text = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or_default().to_string();
    let (key, model) = (text("key"), (text("provider"), text("model")));
    let run = map.get("run").and_then(Json::as_str).and_then(|id| id.parse().ok());
    match map.remove("usage") {
        Some(Json::Object(usage)) => Ok(Charge { key, usage: Usage::from_record(usage), model, run }),
        _ => Err(WireError::malformed(WHAT, "a charge has no usage")),
    }
}

/// What a step tells. A type that is not known is passed over: whoever wrote it is newer, and the run can do without.
pub(super) fn told(value: Option<Json>) -> Result<Vec<(StepEvent, JsonMap)>, WireError> {
    let Some(Json::Array(items)) = value else { return Ok(Vec::new()) };
    let one = |item: Json| {
        let Json::Array(pair) = item else { return Err(WireError::malformed(WHAT, "an event is no pair")) };
        match <[Json; 2]>::try_from(pair) {
            Ok([Json::String(name), Json::Object(data)]) => {
                Ok(StepEvent::from_name(&name).map(|it| (it, data)))
            }
            Ok(_) | Err(_) => Err(WireError::malformed(WHAT, "an event is no pair")),
        }
    };
    items.into_iter().map(one).filter_map(Result::transpose).collect()
}

pub(super) fn selector(value: Option<&Json>) -> Result<Selector, WireError> {
    let parts =
        value.and_then(Json::as_array).ok_or_else(|| WireError::malformed(WHAT, "selector is missing"))?;
    Ok(parts.iter().map(|p| p.as_str().unwrap_or("").to_string()).collect())
}

pub(super) fn streamed(value: Option<&Json>) -> Result<Vec<(Selector, u64)>, WireError> {
    let Some(Json::Array(items)) = value else { return Ok(Vec::new()) };
    items
        .iter()
        .map(|item| Ok((selector(item.get(0))?, item.get(1).and_then(Json::as_u64).unwrap_or(0))))
        .collect()
}
