//! Short forms of what a run stores when it begins to wait. A question is long, and its two events repeat it; a million
//! waiting runs would keep each question three times. From version [`QUESTIONS_ONCE`] of a namespace on, the
//! question is stored in the hash of pauses alone. Stores complete the short forms when they read, so no other code
//! sees them.
//!
//! | text | what its short form leaves out |
//! | --- | --- |
//! | a pause | `pause_id` (the name of its field), `node_execution_id`, `defaults` that are empty |
//! | `node_run_pause_requested` | all but its number and time; `asks` is the id of the pause |
//! | `graph_run_paused` | `pauses` and their `reasons`; `asks` has the ids |
//! | `node_run_succeeded` | inputs among the outputs, an end at the time of the start, the id of the run |
//!
//! A text is shortened only if its short form can be completed to the same bytes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::codec::pairs::EventTexts;
use crate::commit::RunWrite;
use crate::event::kind::{GRAPH_RUN_PAUSED, NODE_RUN_PAUSE_REQUESTED, NODE_RUN_SUCCEEDED};
use tidemill_base::ids::{ExecutionId, FramePath, NodeId, RunId};
use tidemill_engine::state::pause::PauseStatus;
use tidemill_workflow::nodes::PauseKind;

/// The first version of a namespace in which questions are stored once.
pub const QUESTIONS_ONCE: u32 = 4;

/// How the text of a short event ends.
const END: &str = ",\"short\":true}";
/// The field of a short event with the pauses that it is about: an id, or a list of ids.
const ASKS: &str = "asks";
const RUN_ID: &str = "sys.workflow_run_id";
/// The output that [`RUN_ID`] follows.
const BEFORE_RUN_ID: &str = "sys.workflow_id";

/// Pauses by their id, each as its hash has it.
pub type Questions = [(String, String)];

/// Shortens the pauses of a write, and the events beside them. Does nothing for a write without pauses.
pub fn shorten(write: &mut RunWrite) {
    if write.pauses.is_empty() {
        return;
    }
    let mut texts = EventTexts::default();
    for entry in write.entries.iter() {
        for (kind, text) in entry {
            let short = short_event(write.run, kind, text, &write.pauses);
            texts.add(|all| {
                all.push_str(short.as_deref().unwrap_or(text));
                kind
            });
        }
        texts.close();
    }
    write.entries = texts;
    for (id, text) in &mut write.pauses {
        if let Some(short) = short_pause(text).filter(|short| whole_pause(write.run, id, short) == *text) {
            *text = short;
        }
    }
}

/// Whether the text of an event is a short form.
pub(crate) fn is_short(kind: &str, text: &str) -> bool {
    [NODE_RUN_PAUSE_REQUESTED, GRAPH_RUN_PAUSED, NODE_RUN_SUCCEEDED].contains(&kind) && text.ends_with(END)
}

/// The ids of the pauses that a short event is about.
pub(crate) fn asked(text: &str) -> Vec<String> {
    let fields = Fields::read(text).unwrap_or_default();
    let Some(asks) = fields.get(ASKS) else { return Vec::new() };
    let one = serde_json::from_str(asks).map(|id| vec![id]);
    one.or_else(|_| serde_json::from_str(asks)).unwrap_or_default()
}

/// Completes a short event. A question that is missing in Redis has its id alone.
pub(crate) fn whole_event(run: RunId, kind: &str, text: &str, questions: &Questions) -> Option<String> {
    let mut fields = Fields::read(text)?;
    fields.remove("short");
    match kind {
        NODE_RUN_SUCCEEDED => whole_end(run, &mut fields)?,
        _ => whole_question(run, kind, &mut fields, asked(text), questions)?,
    }
    Some(fields.text())
}

/// Completes the text of a pause; other texts of the hash, which are answers, stay as they are.
pub fn whole_pause(run: RunId, id: &str, text: &str) -> String {
    let whole = || {
        let mut fields = Fields::read(text)?;
        if fields.get("pause_id").is_some() || fields.get("opened_at").is_none() {
            return None;
        }
        fields.put(0, "pause_id", quoted(id));
        let (frame, node) = (fields.word("frame").unwrap_or_default(), fields.word("node_id")?);
        let execution = ExecutionId::derive(&run, &FramePath::from(&*frame), &NodeId::from(&*node));
        fields.put_after("node_title", "node_execution_id", quoted(&execution.to_string()));
        if fields.word("kind").as_deref() == Some(PauseKind::Form.name()) && fields.get("defaults").is_none()
        {
            fields.put_after("actions", "defaults", "{}".into());
        }
        Some(fields.text())
    };
    whole().unwrap_or_else(|| text.to_owned())
}

fn short_pause(text: &str) -> Option<String> {
    let mut fields = Fields::read(text)?;
    fields.remove("pause_id")?;
    fields.remove("node_execution_id")?;
    if fields.get("defaults") == Some("{}") {
        fields.remove("defaults");
    }
    Some(fields.text())
}

fn short_event(run: RunId, kind: &str, text: &str, questions: &Questions) -> Option<String> {
    let mut fields = Fields::read(text)?;
    match kind {
        NODE_RUN_PAUSE_REQUESTED => {
            let pause = Fields::read(fields.get("pause")?)?;
            let id = pause.get("pause_id")?.to_owned();
            fields.0.retain(|(name, _)| ["seq", "ts"].contains(&&**name));
            fields.push(ASKS, id);
        }
        GRAPH_RUN_PAUSED => {
            let pauses: Vec<&RawValue> = serde_json::from_str(fields.get("pauses")?).ok()?;
            let ids = pauses.iter().map(|pause| Some(Fields::read(pause.get())?.get("pause_id")?.to_owned()));
            let ids: Vec<String> = ids.collect::<Option<_>>()?;
            let reasons: Vec<&RawValue> = serde_json::from_str(fields.get("reasons")?).ok()?;
            let others = reasons.len().checked_sub(ids.len())?;
            let others: Vec<String> =
                reasons.iter().take(others).map(|reason| reason.get().to_owned()).collect();
            fields.set("reasons", format!("[{}]", others.join(",")));
            if others.is_empty() {
                fields.remove("reasons");
            }
            fields.set("pauses", format!("[{}]", ids.join(",")));
            fields.rename("pauses", ASKS);
        }
        NODE_RUN_SUCCEEDED => short_end(run, &mut fields)?,
        _ => return None,
    }
    fields.push("short", "true".into());
    let short = fields.text();
    let is_same = |whole: String| whole == text;
    whole_event(run, kind, &short, questions).is_some_and(is_same).then_some(short)
}

fn short_end(run: RunId, fields: &mut Fields<'_>) -> Option<()> {
    let inputs = Fields::read(fields.get("inputs")?)?;
    let mut outputs = Fields::read(fields.get("outputs")?)?;
    let left = outputs.0.len().checked_sub(inputs.0.len())?;
    if inputs.0.is_empty() || outputs.0[left..] != inputs.0 {
        return None;
    }
    outputs.0.truncate(left);
    if outputs.get(BEFORE_RUN_ID).is_some() && outputs.word(RUN_ID)? == run.to_string() {
        outputs.remove(RUN_ID);
    }
    let outputs = outputs.text();
    fields.set("outputs", outputs);
    if fields.get("finished_at") == fields.get("start_at") {
        fields.remove("finished_at");
    }
    Some(())
}

fn whole_end(run: RunId, fields: &mut Fields<'_>) -> Option<()> {
    let mut outputs = Fields::read(fields.get("outputs")?)?;
    if outputs.get(BEFORE_RUN_ID).is_some() {
        outputs.put_after(BEFORE_RUN_ID, RUN_ID, quoted(&run.to_string()));
    }
    outputs.0.extend(Fields::read(fields.get("inputs")?)?.0);
    let outputs = outputs.text();
    fields.set("outputs", outputs);
    if fields.get("finished_at").is_none() {
        let at = fields.get("start_at")?.to_owned();
        fields.put_after("start_at", "finished_at", at);
    }
    Some(())
}

fn whole_question(
    run: RunId,
    kind: &str,
    fields: &mut Fields<'_>,
    asked: Vec<String>,
    questions: &Questions,
) -> Option<()> {
    let pauses: Vec<String> = asked.iter().map(|id| as_asked(run, id, questions)).collect();
    let reasons = pauses.iter().map(|pause| reason(pause)).collect::<Option<Vec<_>>>()?;
    if kind == GRAPH_RUN_PAUSED {
        let mut all: Vec<String> = match fields.remove("reasons") {
            Some(others) => {
                let others: Vec<&RawValue> = serde_json::from_str(&others).ok()?;
                others.iter().map(|reason| reason.get().to_owned()).collect()
            }
            None => Vec::new(),
        };
        all.extend(reasons);
        fields.set(ASKS, format!("[{}]", pauses.join(",")));
        fields.rename(ASKS, "pauses");
        fields.put_after("ts", "reasons", format!("[{}]", all.join(",")));
        return Some(());
    }
    fields.remove(ASKS);
    let (pause, reason) = (pauses.into_iter().next()?, reasons.into_iter().next()?);
    {
        let of_node = Fields::read(&pause)?;
        for (name, from) in [("id", "node_execution_id"), ("node_id", "node_id"), ("frame", "frame")] {
            if let Some(value) = of_node.get(from) {
                fields.push(name, value.to_owned());
            }
        }
    }
    fields.push("reason", reason);
    fields.push("pause", pause);
    Some(())
}

/// The whole text of a pause when it was opened.
fn as_asked(run: RunId, id: &str, questions: &Questions) -> String {
    let pending = quoted(PauseStatus::Pending.name());
    let Some((_, text)) = questions.iter().find(|(known, _)| known == id) else {
        return format!("{{\"pause_id\":{},\"status\":{pending}}}", quoted(id));
    };
    let whole = whole_pause(run, id, text);
    let Some(mut fields) = Fields::read(&whole) else { return whole };
    fields.set("status", pending);
    fields.text()
}

/// The reason of a pause, as the event has it.
fn reason(pause: &str) -> Option<String> {
    let pause = Fields::read(pause)?;
    let mut reason = Fields::default();
    reason.push("TYPE", "\"hitl_required\"".into());
    reason.push("session_id", pause.get("pause_id")?.to_owned());
    for name in ["node_id", "node_title"] {
        reason.push(name, pause.get(name).unwrap_or("\"\"").to_owned());
    }
    Some(reason.text())
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// The fields of an object in their order. Their values are texts, so that they stay the same to the last digit.
#[derive(Default)]
struct Fields<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'a> Fields<'a> {
    fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// The content of a text.
    fn word(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?).ok()
    }

    fn push(&mut self, name: &'static str, value: String) {
        self.0.push((name.into(), value.into()));
    }

    fn put(&mut self, at: usize, name: &'static str, value: String) {
        self.0.insert(at, (name.into(), value.into()));
    }

    /// Inserts a field after another one, or at the end.
    fn put_after(&mut self, other: &str, name: &'static str, value: String) {
        let at = self.0.iter().position(|(known, _)| known == other).map_or(self.0.len(), |at| at + 1);
        self.put(at, name, value);
    }

    fn set(&mut self, name: &str, value: String) {
        self.0.iter_mut().filter(|(known, _)| known == name).for_each(|(_, old)| *old = value.clone().into());
    }

    fn rename(&mut self, name: &str, new: &'static str) {
        self.0.iter_mut().filter(|(known, _)| known == name).for_each(|(known, _)| *known = new.into());
    }

    fn remove(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1.into_owned())
    }

    fn text(&self) -> String {
        let fields = self.0.iter().map(|(name, value)| format!("{}:{value}", quoted(name)));
        format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    fields.push((name.into(), value.get().into()));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

#[cfg(test)]
mod tests;
