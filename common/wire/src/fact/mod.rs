//! Facts: entries of a shard's inbox, with the fields `kind`, `run` and `fact` (JSON).
//!
//! | kind | from | fact |
//! | --- | --- | --- |
//! | `start` | submit | the head of the run |
//! | `started`, `chunk`, `done`, `failed` | worker | the job it is about, and what happened |
//! | `step` | worker, with the journal | the job, `events` as `[[type, data]]`, `charge` |
//! | `child_started`, `child_chunk`, `child_step`, `child_retry`, `child_ended` | worker; the last two with the journal | the job, the `child` within its node, its try, and what happened |
//! | `parked` | worker | the job, `wait_ms`, `reason`; `childs` when a node inside it waits; `call` when it waits for a run: its id, `app`, `given`; `pause` when it waits for an answer: its `id`, `step`, `request` |
//! | `called` | worker, with the journal | the job, and the `call` of a run beside it: its id, `app`, `given`; `childs` when a node inside it calls |
//! | `continue` | the owner | nothing |
//! | `stop`, `pause` | API | the reason |
//! | `resume` | API | nothing |
//! | `update` | API | `updates`: `[{"selector":["node","name"],"value":…}]` |
//! | `answer` | API | `pause`; of a form `action`, `inputs`, of all else `input`; `cancel` when it is called off |
//! | `over_budget` | the owner, for the key that pays | the reason |
//! | `call_ended` | the owner, or the service that creates sub-workflow runs | `node`, `frame`, and the `called` run that has ended |
//! | `parent_asked` | the owner, for a sub-workflow run | the caller's `node`, `frame`; `child`, `execution`, `child_node`, `child_frame`; `change` |
//! | `parent_answered` | the owner, for the caller | the child's `node`, `frame`; `outputs`, or `error` and `error_type` |
//! | `import` | API | a run to continue, see [`super::snapshot`] |
//!
//! An `import` with `rewind` (`frame`, `node`) continues an ended run from its state before that node.
//! Commands may carry the `key` under which a client sent them.
//!
//! Facts are read here. Workers write them in [`crate::fact::report`], runs in [`crate::fact::between_runs`].

pub mod between_runs;
pub(crate) mod child;
pub(crate) mod done;
pub mod report;

use std::sync::Arc;

use serde_json::Value as Json;

use super::state::{head_from_json, head_to_json};
use crate::codec::fields::Fields;
use crate::codec::value::stored_from_json;
use crate::fact::between_runs::{call_ended, parent_answered, parent_asked};
use crate::state::breakpoint::updates_from_json;
use crate::{WireError, read};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{JsonMap, Selector};
use tidemill_engine::Fact;
use tidemill_engine::fact::{
    Answer, AnswerContent, Call, Charge, JobCalled, JobChunk, JobParked, JobQuestion, JobRef, JobStarted,
    JobStepped, PauseCommand, Stop, UpdateVariables,
};
use tidemill_engine::state::run::RunHead;
use tidemill_engine::state::step_event::StepEvent;
use tidemill_workflow::graph::{Graph, NodeIx};
use tidemill_workflow::nodes::Usage;

pub(super) const WHAT: &str = "a fact";

/// The kinds of facts: the entry's field `kind`.
pub mod kind {
    /// A run was submitted.
    pub const START: &str = "start";
    /// An attempt began.
    pub const STARTED: &str = "started";
    /// A piece of text.
    pub const CHUNK: &str = "chunk";
    /// A journal entry of a job.
    pub const STEP: &str = "step";
    /// A child node inside a job began.
    pub const CHILD_STARTED: &str = "child_started";
    /// A piece of text of a child.
    pub const CHILD_CHUNK: &str = "child_chunk";
    /// A journal entry of a child.
    pub const CHILD_STEP: &str = "child_step";
    /// A try of a child failed, and another follows.
    pub const CHILD_RETRY: &str = "child_retry";
    /// A child ended.
    pub const CHILD_ENDED: &str = "child_ended";
    /// A job waits and no worker holds it.
    pub const PARKED: &str = "parked";
    /// A job calls a run and continues.
    pub const CALLED: &str = "called";
    /// A result.
    pub const DONE: &str = "done";
    /// A failure.
    pub const FAILED: &str = "failed";
    /// A bounded step continues.
    pub const CONTINUE: &str = "continue";
    /// The run is to stop.
    pub const STOP: &str = "stop";
    /// The run is to hand out no more jobs.
    pub const PAUSE: &str = "pause";
    /// A paused run is to continue.
    pub const RESUME: &str = "resume";
    /// Variables are to be written.
    pub const UPDATE: &str = "update";
    /// A pause was answered.
    pub const ANSWER: &str = "answer";
    /// The key that pays for the run is over its budget.
    pub const OVER_BUDGET: &str = "over_budget";
    /// A sub-workflow run has ended.
    pub const CALL_ENDED: &str = "call_ended";
    /// A sub-workflow run wants to change a message list of its caller.
    pub const PARENT_ASKED: &str = "parent_asked";
    /// The caller has handled that.
    pub const PARENT_ANSWERED: &str = "parent_answered";
    /// A run continues from another run's state.
    pub const IMPORT: &str = "import";
    /// All kinds.
    pub const ALL: [&str; 24] = [
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
        CALLED,
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

/// The body of a `start` fact.
pub fn start_body(head: &RunHead) -> String {
    head_to_json(head).to_string()
}

/// The stop reason of a sub-workflow run that its caller no longer waits for.
pub const NOBODY_WAITS: &str = "the node that called it no longer waits for it";

/// The body of a `stop` fact.
pub fn stop_body(reason: &str) -> String {
    serde_json::json!({ "reason": reason }).to_string()
}

/// Reads the body of a `start` fact, which needs no graph.
///
/// # Errors
/// A newer version, or invalid fields.
pub fn parse_start(body: &str) -> Result<Fact, WireError> {
    match read(WHAT, body)? {
        Json::Object(map) => Ok(Fact::Start(Box::new(head_from_json(map)?))),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            Err(WireError::malformed(WHAT, "its body is not an object"))
        }
    }
}

/// Reads an inbox entry as a fact of a run of this graph.
///
/// # Errors
/// A newer version, an unknown kind, a node that the graph does not have, or an invalid body.
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
            events: step_events(map.take_json("events"))?,
            charge: map.take_map("charge").map(charge).transpose()?.map(Box::new),
        })),
        of_child if child::KINDS.contains(&of_child) => child::read(of_child, job, &mut map, graph),
        kind::PARKED => Ok(Fact::JobParked(JobParked {
            job,
            started_at: time(&map, "started_at")?,
            parked_at: map.get("at").and_then(Json::as_i64).map(Timestamp::from_micros),
            wait_ms: map.get("wait_ms").and_then(Json::as_u64).unwrap_or(0),
            reason: map.take_text("reason").unwrap_or_default(),
            is_childs: map.get("childs").and_then(Json::as_bool).unwrap_or(false),
            call: map.take_map("call").map(read_call).transpose()?.map(Box::new),
            pause: map.take_map("pause").map(|map| read_asked(&map)).transpose()?.map(Box::new),
        })),
        kind::CALLED => Ok(Fact::JobCalled(JobCalled {
            job,
            started_at: time(&map, "started_at")?,
            is_childs: map.get("childs").and_then(Json::as_bool).unwrap_or(false),
            call: read_called(&mut map)?,
        })),
        other => Err(WireError::Unknown { what: WHAT, kind: other.to_string() }),
    }
}

fn read_called(map: &mut Fields<'_>) -> Result<Box<Call>, WireError> {
    let call = map.take_map("call").ok_or_else(|| WireError::malformed(WHAT, "call is missing"))?;
    read_call(call).map(Box::new)
}

fn read_call(mut map: JsonMap) -> Result<Call, WireError> {
    let text = |key: &str| map.get(key).and_then(Json::as_str).unwrap_or_default();
    let run = text("run").parse().map_err(|e| WireError::malformed(WHAT, e))?;
    let app = text("app").to_string();
    Ok(Call { run, app, given: map.remove("given").map(stored_from_json).transpose()? })
}

fn read_asked(map: &JsonMap) -> Result<JobQuestion, WireError> {
    let text = |key: &str| {
        let found = map.get(key).and_then(Json::as_str);
        found.map(Arc::from).ok_or_else(|| WireError::malformed(WHAT, format!("{key} of a pause is missing")))
    };
    let request = crate::state::pause::from_json(map.get("request").unwrap_or(&Json::Null))?;
    Ok(JobQuestion { pause: text("id")?, step: text("step")?, request })
}

/// The content of an `answer` fact. Presence of the key counts: the answer itself may be null.
fn read_answer(map: &mut Fields<'_>) -> AnswerContent {
    if map.get("cancel").and_then(Json::as_bool) == Some(true) {
        return AnswerContent::Cancel;
    }
    match map.take_json("input") {
        Some(input) => AnswerContent::Input(input),
        None => AnswerContent::Form {
            action: map.text("action").unwrap_or_default().to_string(),
            inputs: map.take_map("inputs").unwrap_or_default(),
        },
    }
}

/// Reads a fact about the run rather than a job.
fn command(kind: &str, map: &mut Fields<'_>) -> Result<Option<Fact>, WireError> {
    let text = |map: &Fields<'_>, key: &str| map.text(key).map(str::to_string);
    let reason = |map: &Fields<'_>, default: &str| map.text("reason").unwrap_or(default).into();
    Ok(Some(match kind {
        kind::STOP => Fact::Stop(Stop { reason: reason(map, "User requested abort") }),
        kind::PAUSE => Fact::Pause(PauseCommand { reason: reason(map, "User requested pause") }),
        kind::RESUME => Fact::Resume,
        kind::OVER_BUDGET => Fact::OverBudget(reason(map, "the key that pays for it is over its budget")),
        kind::UPDATE => Fact::Update(UpdateVariables {
            updates: updates_from_json(map.take_json("updates"))?,
            key: text(map, "key"),
        }),
        kind::ANSWER => Fact::Answer(Answer {
            pause: text(map, "pause").ok_or_else(|| WireError::malformed(WHAT, "pause is missing"))?.into(),
            content: read_answer(map),
        }),
        _ => return Ok(None),
    }))
}

pub(super) fn read_node(map: &Fields<'_>, graph: &Graph) -> Result<NodeIx, WireError> {
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
        delivery: number("delivery").ok_or_else(|| WireError::malformed(WHAT, "delivery is missing"))?,
        lost_at: map.get("lost_at").and_then(Json::as_i64).map(Timestamp::from_micros),
    })
}

pub(super) fn time(map: &Fields<'_>, key: &str) -> Result<Timestamp, WireError> {
    map.get(key)
        .and_then(Json::as_i64)
        .map(Timestamp::from_micros)
        .ok_or_else(|| WireError::malformed(WHAT, format!("{key} is missing")))
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

/// The events of a journal entry. Unknown types are skipped: a newer process wrote them, and the run can do
/// without.
pub(super) fn step_events(value: Option<Json>) -> Result<Vec<(StepEvent, JsonMap)>, WireError> {
    let Some(Json::Array(items)) = value else { return Ok(Vec::new()) };
    let one = |item: Json| {
        let Json::Array(pair) = item else {
            return Err(WireError::malformed(WHAT, "an event is not a pair"));
        };
        match <[Json; 2]>::try_from(pair) {
            Ok([Json::String(name), Json::Object(data)]) => {
                Ok(StepEvent::from_name(&name).map(|it| (it, data)))
            }
            Ok(_) | Err(_) => Err(WireError::malformed(WHAT, "an event is not a pair")),
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
