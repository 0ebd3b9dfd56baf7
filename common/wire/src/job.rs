//! Jobs: entries of a job stream with the fields `run` and `job` (JSON). A job carries all that its node
//! needs: the values that its configuration mentions, and the graph's hash; workers fetch the graph once and
//! cache it.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value as Json;

use super::{ENDS_ARE_KEPT, WireError};
use crate::codec::fields::{Field, Fields};
use crate::codec::scan::Scan;
use crate::codec::text::ObjectText;
use crate::codec::value::{named_from_field, stored_from_field};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{ExecutionId, FramePath, NodeId, RunId};
use tidemill_base::value::Stored;
use tidemill_engine::order::changes::JobOrder;
use tidemill_engine::state::NamedValues;
use tidemill_engine::state::options::RunOptions;
use tidemill_engine::state::run::{PendingEnd, RunHead};
use tidemill_workflow::graph::{Graph, GraphHash, Node};
use tidemill_workflow::nodes::{NodeKind, Phase};

const WHAT: &str = "a job";

/// A job as a worker reads it.
#[derive(Debug, Clone)]
pub struct Job {
    pub run: RunId,
    pub graph: GraphHash,
    pub frame: FramePath,
    pub node: NodeId,
    pub execution: ExecutionId,
    /// Counts from 1.
    pub attempt: u32,
    /// Deliveries under an earlier entry that was lost.
    pub delivered: u32,
    /// The variables it may read: node, name, value.
    pub inputs: Vec<(String, String, Stored)>,
    /// The app of the run, for node types whose slots apps share; `None` too when the run has no app, and from older
    /// schedulers.
    pub app: Option<Arc<str>>,
    /// Whether its streamed text is used.
    pub streams: bool,
    /// The part of a container to evaluate.
    pub phase: Option<Phase>,
    /// The working time that is left to the run, in milliseconds, or `None` for the whole.
    pub left_ms: Option<u64>,
    /// The node's result, when only its hooks are left to run.
    pub ended: Option<EndedBefore>,
    pub options: RunOptions,
}

impl Job {
    /// The working time that is left to the run. The worker ends an attempt that takes longer.
    pub fn time_left(&self) -> Duration {
        self.left_ms.map_or(Duration::from_secs(self.options.seconds_max), Duration::from_millis)
    }
}

/// The end of a node that no worker held, as far as its hooks may report it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EndedBefore {
    pub failed: bool,
    pub error: String,
    pub outputs: NamedValues,
}

/// Writes the entry's field `job`.
pub fn body(order: &JobOrder, graph: &Graph, head: &RunHead) -> String {
    // Most jobs carry one or two values.
    let mut object = ObjectText::with_capacity(512);
    if order.ended.is_some() {
        // An older worker would run the node again; with this version it leaves the job to others.
        object.number("v", ENDS_ARE_KEPT);
    }
    let node = graph.node(order.node);
    object.json("node", &node.quoted.id);
    object.word("type", node.kind.wire());
    if !order.frame.is_root() {
        object.text("frame", order.frame.as_str());
    }
    object.execution("execution", &order.execution);
    object.number("attempt", order.attempt);
    object.number("queued", order.queued_at.micros());
    if order.delivered > 0 {
        object.number("delivered", order.delivered);
    }
    object.hash("graph", &graph.hash.0);
    if let Some(app) = head.app.as_ref().filter(|_| shares_slots(node)) {
        object.text("app", app);
    }
    if order.streams {
        object.value("streams", &true);
    }
    if let Some(phase) = order.phase {
        object.text("phase", phase.name());
    }
    if let Some(left) = order.left_ms {
        object.number("left_ms", left);
    }
    if let Some(ended) = &order.ended {
        write_ended(&mut object, ended);
    }
    if !order.inputs.is_empty() {
        object.grouped("inputs", &order.inputs);
    }
    write_options(&mut object, &head.options);
    object.end()
}

/// Whether executions of the node, or of a node inside it, need one of the few slots of a worker.
fn shares_slots(node: &Node) -> bool {
    matches!(node.kind, NodeKind::Code | NodeKind::DocumentExtractor) || !node.children.is_empty()
}

/// Returns the time at which a job was queued, from its body; `None` for a job of an older version.
pub fn queued_at(body: &str) -> Option<Timestamp> {
    // No need to read all of it: only texts of users come later, and in them quotes are escaped.
    let (_, rest) = body.split_once("\"queued\":")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok().map(Timestamp::from_micros)
}

/// Returns the node of a job or of a fact, from its body, for log lines.
pub fn node_in(body: &str) -> String {
    let read: Result<Json, _> = serde_json::from_str(body);
    let node = read.ok().and_then(|map| map.get("node")?.as_str().map(str::to_owned));
    node.unwrap_or_default()
}

/// Nearly all runs have default options and write nothing.
fn write_options(object: &mut ObjectText, options: &RunOptions) {
    static DEFAULT: LazyLock<RunOptions> = LazyLock::new(RunOptions::default);
    if *options != *DEFAULT {
        let options = super::state::options_to_json(options);
        if !options.is_empty() {
            object.value("options", &options);
        }
    }
}

fn write_ended(object: &mut ObjectText, ended: &PendingEnd) {
    object.open("ended");
    if ended.failed {
        object.value("failed", &true);
        object.text("error", &ended.record.error);
    }
    if !ended.record.outputs.is_empty() {
        object.named("outputs", &ended.record.outputs);
    }
    object.close();
}

fn read_ended(map: &mut Fields<'_>) -> Result<Option<EndedBefore>, WireError> {
    let mut ended = match map.take("ended") {
        None => return Ok(None),
        Some(Field::Object(ended)) => ended,
        Some(Field::Text(_) | Field::Plain(_)) => {
            return Err(WireError::malformed(WHAT, "ended is not an object"));
        }
    };
    Ok(Some(EndedBefore {
        failed: ended.get("failed").and_then(Json::as_bool).unwrap_or(false),
        error: ended.take_text("error").unwrap_or_default(),
        outputs: named_from_field(ended.take("outputs"))?,
    }))
}

/// Reads a job.
///
/// # Errors
/// A newer version, or fields that are missing or invalid.
pub fn parse(run: RunId, body: &str) -> Result<Job, WireError> {
    match plain(run, body) {
        Some(job) => Ok(job),
        None => general(run, body),
    }
}

/// Reads a body in the form we write ourselves; `None` for any other, and for rare fields.
fn plain(run: RunId, body: &str) -> Option<Job> {
    let (mut graph, mut frame, mut node, mut execution) = (None, "", None, None);
    let (mut attempt, mut delivered, mut app, mut left_ms) = (None, 0, None, None);
    let (mut streams, mut phase, mut inputs) = (false, None, Vec::new());
    let mut scan = Scan::new(body);
    scan.object(|scan, name| {
        match name {
            "node" => node = Some(scan.text()?),
            // For people, and for those who look at a queue.
            "type" => _ = scan.text()?,
            "queued" => _ = scan.number()?,
            "frame" => frame = scan.text()?,
            "execution" => execution = scan.text()?.parse().ok(),
            "attempt" => attempt = u32::try_from(scan.number()?).ok(),
            "delivered" => delivered = u32::try_from(scan.number()?).ok()?,
            "graph" => graph = Some(scan.text()?),
            "app" => app = Some(Arc::from(scan.text()?)),
            "left_ms" => left_ms = Some(scan.number()?),
            "streams" => streams = scan.field()?.as_plain()?.as_bool()?,
            "phase" => phase = Some(Phase::from_name(scan.text()?)?),
            "inputs" => inputs = scan.grouped()?,
            // The options of the run, an end before the hooks, or a newer version.
            _ => return None,
        }
        Some(())
    })?;
    let job = Job {
        run,
        graph: GraphHash(graph?.into()),
        frame: FramePath::from(frame),
        node: NodeId::from(node?),
        execution: execution?,
        attempt: attempt?,
        delivered,
        inputs,
        app,
        streams,
        phase,
        left_ms,
        ended: None,
        options: RunOptions::default(),
    };
    scan.is_at_end().then_some(job)
}

/// Reads a body in any valid JSON form, or says what is wrong with it.
fn general(run: RunId, body: &str) -> Result<Job, WireError> {
    let mut map = Fields::read(WHAT, body)?;
    let missing = |key: &str| WireError::malformed(WHAT, format!("{key} is missing"));
    let options =
        map.take_map("options").map(|options| super::state::options_from_json(&options)).unwrap_or_default();
    let inputs = inputs(map.take("inputs"))?;
    let ended = read_ended(&mut map)?;
    let text = |key: &str| map.text(key).ok_or_else(|| missing(key));
    Ok(Job {
        run,
        graph: GraphHash(text("graph")?.into()),
        frame: map.text("frame").map(FramePath::from).unwrap_or_default(),
        node: NodeId::from(text("node")?),
        execution: text("execution")?.parse().map_err(|e| WireError::malformed(WHAT, e))?,
        attempt: map.number("attempt").ok_or_else(|| missing("attempt"))?,
        delivered: map.number("delivered").unwrap_or(0),
        app: map.text("app").map(Arc::from),
        left_ms: map.get("left_ms").and_then(Json::as_u64),
        streams: map.get("streams").and_then(Json::as_bool).unwrap_or(false),
        phase: phase(map.text("phase"))?,
        ended,
        inputs,
        options,
    })
}

/// An unknown part is an error; it must not be read as the whole container.
fn phase(name: Option<&str>) -> Result<Option<Phase>, WireError> {
    let Some(name) = name else { return Ok(None) };
    let unknown = || WireError::Unknown { what: "a part of a container", kind: name.to_string() };
    Phase::from_name(name).map(Some).ok_or_else(unknown)
}

fn inputs(value: Option<Field<'_>>) -> Result<Vec<(String, String, Stored)>, WireError> {
    let Some(Field::Object(nodes)) = value else { return Ok(Vec::new()) };
    let mut inputs = Vec::new();
    for (node, names) in nodes {
        let Field::Object(names) = names else {
            return Err(WireError::malformed(WHAT, format!("inputs of {node} are not an object")));
        };
        for (name, value) in names {
            inputs.push((node.to_string(), name.into_owned(), stored_from_field(value)?));
        }
    }
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = concat!(
        r#"{"node":"ask","type":"llm","frame":"it#3","execution":"6b9f6dc0-3f7c-5d6d-9d8e-1f2a3b4c5d6e","#,
        r#""attempt":2,"queued":1795000000123456,"delivered":1,"graph":"ab12","app":"desk","streams":true,"#,
        r#""phase":"check","left_ms":900,"inputs":{"start":{"name":"Ada","n":[1,{"$tm":"x"}]},"b":{"t":"é"}}}"#
    );

    fn both(body: &str) -> (Option<String>, Result<String, String>) {
        let run = RunId::new(1, 2, tidemill_base::ids::ShardId(3));
        let general = general(run, body).map(|job| format!("{job:?}")).map_err(|error| error.to_string());
        (plain(run, body).map(|job| format!("{job:?}")), general)
    }

    #[test]
    fn a_job_of_ours_is_read_without_the_general_reader_and_to_the_same_result() {
        let bare =
            r#"{"node":"a","execution":"6b9f6dc0-3f7c-5d6d-9d8e-1f2a3b4c5d6e","attempt":1,"graph":"ab"}"#;
        for body in [WHOLE, bare] {
            let (plain, general) = both(body);
            assert_eq!(plain, general.ok(), "{body}");
            assert!(plain.is_some(), "{body}");
        }
    }

    #[test]
    fn any_other_job_is_left_to_the_general_reader() {
        for (from, to) in [
            (r#""attempt":2"#, r#""attempt": 2"#),
            (r#""ask""#, r#""a\u0073k""#),
            (r#""attempt":2"#, r#""attempt":2,"options":{"seconds_max":9}"#),
            (r#""attempt":2"#, r#""attempt":2,"new":[1]"#),
            (r#"{"node""#, r#"{"v":2,"node""#),
        ] {
            let (plain, general) = both(&WHOLE.replacen(from, to, 1));
            assert_eq!(plain, None, "{to}");
            general.unwrap();
        }
    }

    #[test]
    fn a_wrong_job_is_refused_with_its_reason() {
        for (from, to, reason) in [
            (r#""attempt":2,"#, "", "attempt is missing"),
            (r#""attempt":2"#, r#""attempt":-2"#, "attempt is missing"),
            (r#""phase":"check""#, r#""phase":"rest""#, "rest"),
            (r#"{"node""#, r#"{"v":99,"node""#, "is of version 99"),
            (r#"}}}"#, r#"}}"#, "EOF"),
            (r#"}}}"#, r#"}}}x"#, "trailing characters"),
        ] {
            let (plain, general) = both(&WHOLE.replacen(from, to, 1));
            assert_eq!(plain, None, "{to}");
            let refused = general.unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
