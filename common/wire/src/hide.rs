//! Masks the workflow's secrets in the parts of a commit that people see: events, and the run's outputs,
//! error and pauses. Variables keep them, because the next nodes need them.

use super::commit::RunWrite;
use crate::codec::pairs::EventTexts;
use tidemill_base::value::secrets::Secrets;

/// Levels of names in an event that are ours and never masked: the event's fields, and the names of outputs
/// below them.
const NAMES_OF_EVENTS: usize = 2;
/// The same for outputs and pauses: one level.
const NAMES_OF_VALUES: usize = 1;

/// Masks secrets in a write. Called only for workflows that have secrets.
#[inline(never)]
pub(super) fn secrets(write: &mut RunWrite, secrets: &Secrets) {
    let is_anywhere = write.entries.iter().flatten().any(|(_, text)| secrets.may_be_in_json(text));
    if is_anywhere {
        let mut masked = EventTexts::default();
        for entry in write.entries.iter() {
            for (kind, text) in entry {
                masked.add(|all| {
                    all.push_str(&secrets.hidden_json(text.to_owned(), NAMES_OF_EVENTS));
                    kind
                });
            }
            masked.close();
        }
        write.entries = masked;
    }
    for (name, text) in &mut write.fields {
        match *name {
            "outputs" => *text = secrets.hidden_json(std::mem::take(text), NAMES_OF_VALUES),
            "error" => *text = secrets.masked(std::mem::take(text)),
            _ => {}
        }
    }
    let kept = write.pauses.iter_mut().map(|(_, text)| text).chain(&mut write.held);
    kept.for_each(|text| *text = secrets.hidden_json(std::mem::take(text), NAMES_OF_VALUES));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use tidemill_base::ids::{RunId, ShardId};
    use tidemill_base::value::{Segment, SegmentType};
    use tidemill_workflow::graph::GraphHash;

    #[test]
    fn visible_parts_of_a_commit_hold_no_secret_and_are_otherwise_unchanged() {
        let key = Segment::new(SegmentType::Secret, json!("sk-\"0123\"456789"));
        let known = Secrets::long_of(std::iter::once((Arc::from("KEY"), &key)));
        let event = json!({
            "seq": 1, "ts": 2, "node_id": "n",
            "outputs": {"a": "Bearer sk-\"0123\"456789!", "b": {"$tm": "value", "type": "object", "value": {"sk-\"0123\"456789": 1}},
                "c": "{\"k\":\"sk-\\\"0123\\\"456789\"}"},
        });
        let other = r#"{"seq":2, "ts":3}"#;
        let mut write = RunWrite {
            entries: [vec![("x", event.to_string()), ("y", other.to_owned())]].into_iter().collect(),
            fields: vec![
                ("outputs", event["outputs"].to_string()),
                ("error", "no sk-\"0123\"456789".into()),
                ("steps", "3".into()),
            ],
            pauses: vec![("p".into(), json!({"content": "sk-\"0123\"456789"}).to_string())],
            held: vec![json!({"text": "sk-\"0123\"456789"}).to_string()],
            ..RunWrite::nothing(RunId::new(1, 2, ShardId(3)), GraphHash("g".into()))
        };
        secrets(&mut write, &known);
        assert!(!format!("{write:?}").contains("456789"), "{write:?}");
        let told: Vec<Vec<_>> = write.entries.iter().map(Iterator::collect).collect();
        assert_eq!((told.len(), told[0][0].0, told[0][1]), (1, "x", ("y", other)));
        let shown: serde_json::Value = serde_json::from_str(told[0][0].1).expect("JSON");
        assert_eq!(
            (&shown["seq"], &shown["outputs"]["a"]),
            (&json!(1), &json!("Bearer sk-\"01************89!"))
        );
        assert_eq!(write.fields[2], ("steps", "3".to_owned()));
    }
}
