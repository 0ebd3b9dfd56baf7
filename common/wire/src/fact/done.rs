//! Reads the end of a job (`done`, `failed`). Nearly all facts of a busy shard are of these kinds, so the
//! fields are read straight into place, without a list in between.

use std::borrow::Cow;

use serde::de::{IgnoredAny, MapAccess};

use crate::WireError;
use crate::codec::fields::{Field, Sink, read_each};
use crate::codec::scan::Scan;
use crate::codec::value::Named;
use crate::fact::{WHAT, streamed};
use crate::record::read_field;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::FramePath;
use tidemill_engine::fact::{JobDone, JobRef};
use tidemill_engine::state::record::Record;
use tidemill_workflow::graph::Graph;

/// Reads the body of a `done` or `failed` fact.
pub(crate) fn read(body: &str, graph: &Graph) -> Result<JobDone, WireError> {
    match plain(body, graph) {
        Some(done) => Ok(done),
        None => general(body, graph),
    }
}

/// Reads a body in the form we write ourselves; `None` for any other.
fn plain(body: &str, graph: &Graph) -> Option<JobDone> {
    let (mut node, mut frame, mut entry) = (None, "", None);
    let (mut attempt, mut delivery, mut started_at, mut finished_at) = (None, None, None, None);
    let (mut streamed, mut lost_at) = (None, None);
    let mut record = Box::new(Record::default());
    let moment = |micros: u64| i64::try_from(micros).ok().map(Timestamp::from_micros);
    let mut scan = Scan::new(body);
    scan.object(|scan, name| {
        match name {
            "node" => node = Some(scan.text()?),
            "frame" => frame = scan.text()?,
            "attempt" => attempt = u32::try_from(scan.number()?).ok(),
            "job" => entry = scan.text()?.parse().ok(),
            // The delivery count identifies the sender; the name is for people.
            "holder" => _ = scan.text()?,
            "delivery" => delivery = u32::try_from(scan.number()?).ok(),
            "started_at" => started_at = moment(scan.number()?),
            "finished_at" => finished_at = moment(scan.number()?),
            "inputs" => record.inputs = scan.named()?,
            "outputs" => record.outputs = scan.named()?,
            "process_data" => record.process_data = scan.named()?,
            "streamed" => streamed = Some(scan.field()?.into_json()),
            "lost_at" => lost_at = moment(scan.number()?),
            // A newer version.
            "v" => return None,
            of_record => read_field(&mut record, of_record, scan.field()?).ok()?,
        }
        Some(())
    })?;
    let job = JobRef {
        frame: FramePath::from(frame),
        node: graph.find(node?)?,
        attempt: attempt?,
        entry: entry?,
        delivery: delivery?,
        lost_at,
    };
    let streamed = crate::fact::streamed(streamed.as_ref()).ok()?;
    let is_whole = scan.is_at_end();
    is_whole.then_some(JobDone { job, started_at: started_at?, finished_at: finished_at?, streamed, record })
}

/// Reads a body in any valid JSON form, or says what is wrong with it.
fn general(body: &str, graph: &Graph) -> Result<JobDone, WireError> {
    let mut end = End::default();
    read_each(WHAT, body, &mut end)?;
    if let Some(wrong) = end.wrong {
        return Err(wrong);
    }
    let missing = |key: &str| WireError::malformed(WHAT, format!("{key} is missing"));
    let node = end.node.ok_or_else(|| missing("node"))?;
    let of_graph = graph.find(&node);
    let job = JobRef {
        frame: end.frame.as_deref().map(FramePath::from).unwrap_or_default(),
        node: of_graph.ok_or_else(|| WireError::UnknownNode { what: WHAT, node: node.to_string() })?,
        attempt: end.attempt.ok_or_else(|| missing("attempt"))?,
        entry: end
            .entry
            .ok_or_else(|| missing("job"))?
            .parse()
            .map_err(|error| WireError::malformed(WHAT, error))?,
        delivery: end.delivery.ok_or_else(|| missing("delivery"))?,
        lost_at: end.lost_at,
    };
    Ok(JobDone {
        job,
        started_at: end.started_at.ok_or_else(|| missing("started_at"))?,
        finished_at: end.finished_at.ok_or_else(|| missing("finished_at"))?,
        streamed: streamed(end.streamed.as_ref())?,
        record: end.record,
    })
}

/// The fields read so far. Of two fields with the same name the later counts.
#[derive(Default)]
struct End<'a> {
    node: Option<Cow<'a, str>>,
    frame: Option<Cow<'a, str>>,
    entry: Option<Cow<'a, str>>,
    attempt: Option<u32>,
    delivery: Option<u32>,
    lost_at: Option<Timestamp>,
    started_at: Option<Timestamp>,
    finished_at: Option<Timestamp>,
    streamed: Option<serde_json::Value>,
    /// Boxed: too large to move around.
    record: Box<Record>,
    /// The first invalid value. Reading goes on, because a later field may show that the message is of a
    /// newer version.
    wrong: Option<WireError>,
}

impl<'a> Sink<'a> for End<'a> {
    fn field<M: MapAccess<'a>>(&mut self, name: &str, fields: &mut M) -> Result<(), M::Error> {
        match name {
            "inputs" => self.record.inputs = self.fitting(fields.next_value::<Named>()?.0),
            "outputs" => self.record.outputs = self.fitting(fields.next_value::<Named>()?.0),
            "process_data" => self.record.process_data = self.fitting(fields.next_value::<Named>()?.0),
            "node" => self.node = text(fields.next_value()?),
            "frame" => self.frame = text(fields.next_value()?),
            "job" => self.entry = text(fields.next_value()?),
            // The delivery count identifies the sender; the name is for people.
            "holder" => _ = fields.next_value::<IgnoredAny>()?,
            "attempt" => self.attempt = number(fields.next_value()?),
            "delivery" => self.delivery = number(fields.next_value()?),
            "lost_at" => self.lost_at = moment(fields.next_value()?),
            "started_at" => self.started_at = moment(fields.next_value()?),
            "finished_at" => self.finished_at = moment(fields.next_value()?),
            "streamed" => self.streamed = Some(fields.next_value::<Field>()?.into_json()),
            of_record => {
                let read = read_field(&mut self.record, of_record, fields.next_value()?);
                self.fitting(read);
            }
        }
        Ok(())
    }
}

impl End<'_> {
    /// The value; or the default, with the error recorded.
    fn fitting<T: Default>(&mut self, read: Result<T, WireError>) -> T {
        read.unwrap_or_else(|wrong| {
            self.wrong.get_or_insert(wrong);
            T::default()
        })
    }
}

fn text(field: Field<'_>) -> Option<Cow<'_, str>> {
    match field {
        Field::Text(text) => Some(text),
        Field::Object(_) | Field::Plain(_) => None,
    }
}

fn number(field: Field<'_>) -> Option<u32> {
    field.as_plain()?.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn moment(field: Field<'_>) -> Option<Timestamp> {
    field.as_plain()?.as_i64().map(Timestamp::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::fields::Fields;
    use crate::fact::{read_job, time};
    use crate::record::read_record;

    const GRAPH: &str = "\
app: {mode: workflow}
workflow:
  graph:
    nodes:
    - {id: s, data: {type: start, variables: []}}
    - {id: t, data: {type: template-transform, template: x, variables: []}}
    - {id: e, data: {type: end, outputs: []}}
    edges: [{source: s, target: t}, {source: t, target: e}]
";
    const FIELDS: [(&str, &str); 10] = [
        ("node", r#""t""#),
        ("frame", r#""it#1""#),
        ("attempt", "2"),
        ("job", r#""17-3""#),
        ("holder", r#""w-1""#),
        ("delivery", "1"),
        ("lost_at", "4"),
        ("started_at", "5"),
        ("finished_at", "7"),
        ("outputs", r#"{"output": "x"}"#),
    ];
    const VALUES: [&str; 12] = [
        "null",
        "true",
        "1",
        "1.0",
        "-1",
        "5000000000",
        r#""""#,
        r#""t\u0041""#,
        r#""18-0""#,
        "[]",
        r#"[[["t", "output"], 3]]"#,
        r#"{"a": {"$tm": "blob"}}"#,
    ];

    /// Reads all fields into a list first, as for other facts.
    fn by_fields(body: &str, graph: &Graph) -> Result<JobDone, WireError> {
        let mut map = Fields::read(WHAT, body)?;
        Ok(JobDone {
            job: read_job(&map, graph)?,
            started_at: time(&map, "started_at")?,
            finished_at: time(&map, "finished_at")?,
            streamed: streamed(map.get("streamed"))?,
            record: Box::new(read_record(&mut map)?),
        })
    }

    fn body(fields: &[(&str, &str)]) -> String {
        let fields: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }

    #[track_caller]
    fn same(body: &str, graph: &Graph) {
        let told =
            |done: Result<JobDone, WireError>| format!("{:?}", done.map_err(|wrong| wrong.to_string()));
        assert_eq!(told(read(body, graph)), told(by_fields(body, graph)), "{body}");
        assert_eq!(told(general(body, graph)), told(by_fields(body, graph)), "{body}");
    }

    #[test]
    fn the_end_of_a_job_is_read_as_other_facts_are() {
        let graph = tidemill_workflow::graph::import(GRAPH.as_bytes()).graph.expect("it can run");
        let whole = body(&FIELDS);
        let done = plain(&whole, &graph).unwrap();
        assert_eq!((done.job.attempt, done.record.outputs.len()), (2, 1));
        same(&whole, &graph);
        same(&whole.replace(',', " , "), &graph);
        for (at, (name, _)) in FIELDS.iter().enumerate() {
            let mut fields = FIELDS.to_vec();
            fields.remove(at);
            same(&body(&fields), &graph);
            for value in VALUES {
                let (mut fields, mut twice) = (FIELDS.to_vec(), FIELDS.to_vec());
                fields[at].1 = value;
                same(&body(&fields), &graph);
                // Of two fields with one name the later counts.
                twice.insert(0, (*name, value));
                if read_record(&mut Fields::read(WHAT, &body(&twice)).unwrap()).is_ok() {
                    same(&body(&twice), &graph);
                }
            }
        }
        for name in [
            "inputs",
            "process_data",
            "streamed",
            "usage",
            "passing",
            "updates",
            "pause",
            "v",
            "unknown",
            r"no\\de",
        ] {
            for value in VALUES {
                let mut fields = FIELDS.to_vec();
                fields.push((name, value));
                same(&body(&fields), &graph);
            }
        }
        for text in ["", "[]", "null", r#""text""#, "{", "{}", r#"{"node": "t"} x"#, "{\"no\u{0}de\": 1}"] {
            same(text, &graph);
        }
    }

    #[test]
    fn a_newer_end_of_a_job_is_distinguished_from_an_invalid_one() {
        let graph = tidemill_workflow::graph::import(GRAPH.as_bytes()).graph.expect("it can run");
        let newer = read(r#"{"outputs": {"a": {"$tm": "blob"}}, "v": 9}"#, &graph).unwrap_err();
        assert!(matches!(newer, WireError::Version { version: 9, .. }), "{newer}");
    }
}
