//! Writes to variables, and operations on conversation variables, as JSON.
//!
//! A log is a list of `[<operation>, <operand>]`, and `["page", <blob>]` for operations that are stored as one value. An
//! update has it as `changes`. An open frame has `changes`: the logs of its conversation variables by name, each with
//! the fingerprint of the value `from` which they started; a variable without a log was written whole. A container has
//! `pending`: operations that wait for its end.

use serde_json::{Value as Json, json};

use crate::WireError;
use crate::codec::value::{StoredJson, stored_from_json};
use crate::state::breakpoint::{updates_from_json, updates_json};
use std::collections::BTreeMap;
use tidemill_base::value::{JsonMap, Stored};
use tidemill_engine::state::change::{Change, ChangeLog, LogEntry, Pending, Update, Written};
use tidemill_workflow::nodes::ChangeKind;

const WHAT: &str = "operations on a variable";
const PAGE: &str = "page";
const CHANGES: &str = "changes";

fn stored(value: &Stored) -> Json {
    serde_json::to_value(StoredJson(value)).unwrap_or_default()
}

fn log_json(log: &ChangeLog) -> Json {
    let one = |entry: &LogEntry| match entry {
        LogEntry::One(Change { kind, operand }) => json!([kind.name(), stored(operand)]),
        LogEntry::Page(page) => json!([PAGE, stored(&Stored::Blob(page.clone()))]),
    };
    log.entries().iter().map(one).collect()
}

fn read_log(value: Json) -> Result<ChangeLog, WireError> {
    let one = |entry: Json| {
        let Json::Array(pair) = entry else {
            return Err(WireError::malformed(WHAT, "an entry is not a pair"));
        };
        let mut pair = pair.into_iter();
        let name = pair.next().and_then(|name| name.as_str().map(str::to_string)).unwrap_or_default();
        let operand = stored_from_json(pair.next().unwrap_or_default())?;
        if name == PAGE {
            return match operand {
                Stored::Blob(page) => Ok(LogEntry::Page(page)),
                other => Err(WireError::malformed(WHAT, format!("a page is {other:?}"))),
            };
        }
        match ChangeKind::from_name(&name) {
            Some(kind) => Ok(LogEntry::One(Change { kind, operand })),
            None => Err(WireError::Unknown { what: "an operation on a variable", kind: name }),
        }
    };
    match value {
        Json::Array(entries) => Ok(ChangeLog::new(entries.into_iter().map(one).collect::<Result<_, _>>()?)),
        other => Err(WireError::malformed(WHAT, format!("a log is {other}"))),
    }
}

/// Writes the updates of a record.
pub(crate) fn written_json(updates: &[Update]) -> Json {
    let of = |it: &Update| (it.node.clone(), it.name.clone(), it.value.clone());
    let mut list = updates_json(&updates.iter().map(of).collect::<Vec<_>>());
    for (at, update) in updates.iter().enumerate() {
        if let Some(changes) = &update.changes {
            list[at][CHANGES] = log_json(changes);
        }
    }
    list
}

/// Reads the updates of a record.
pub(crate) fn written_from_json(mut list: Json) -> Result<Vec<Update>, WireError> {
    let take = |item: &mut Json| item.as_object_mut().and_then(|item| item.remove(CHANGES));
    let logs: Vec<Option<Json>> = list.as_array_mut().into_iter().flatten().map(take).collect();
    let updates = updates_from_json(Some(list))?;
    let one = |((node, name, value), log): ((String, String, Stored), Option<Json>)| {
        Ok(Update { node, name, value, changes: log.map(read_log).transpose()? })
    };
    updates.into_iter().zip(logs).map(one).collect()
}

/// Writes the logs of the conversation variables that an item has written; `None` when it wrote only whole values.
pub(crate) fn item_json(written: &BTreeMap<String, Written>) -> Option<Json> {
    let mut logs = JsonMap::new();
    for (name, written) in written {
        if let Written::Changed { log, base } = written {
            logs.insert(name.clone(), json!({"from": base, "log": log_json(log)}));
        }
    }
    (!logs.is_empty()).then_some(Json::Object(logs))
}

/// Reads what [`item_json`] wrote, for the variables with these names. States of older versions have only the names.
pub(crate) fn read_item(
    names: impl Iterator<Item = String>,
    logs: Option<Json>,
) -> Result<BTreeMap<String, Written>, WireError> {
    let mut logs = object(logs);
    let one = |name: String| {
        let written = match logs.remove(&name) {
            Some(Json::Object(mut map)) => Written::Changed {
                base: map.get("from").and_then(Json::as_str).unwrap_or_default().to_string(),
                log: read_log(map.remove("log").unwrap_or_default())?,
            },
            _ => Written::Whole,
        };
        Ok((name, written))
    };
    names.map(one).collect()
}

/// Writes the operations that wait for the end of a container.
pub(crate) fn pending_json(pending: &BTreeMap<String, Pending>) -> Json {
    let one = |(name, it): (&String, &Pending)| {
        let mut map = JsonMap::from_iter([
            ("log".to_owned(), log_json(&it.log)),
            ("view".to_owned(), stored(&it.view)),
        ]);
        if it.stale {
            map.insert("stale".into(), true.into());
        }
        (name.clone(), Json::Object(map))
    };
    Json::Object(pending.iter().map(one).collect())
}

/// Reads what [`pending_json`] wrote.
pub(crate) fn read_pending(value: Option<Json>) -> Result<BTreeMap<String, Pending>, WireError> {
    let one = |(name, it): (String, Json)| {
        let mut map = object(Some(it));
        let pending = Pending {
            log: read_log(map.remove("log").unwrap_or_default())?,
            view: stored_from_json(map.remove("view").unwrap_or_default())?,
            stale: map.get("stale").and_then(Json::as_bool).unwrap_or(false),
        };
        Ok((name, pending))
    };
    object(value).into_iter().map(one).collect()
}

fn object(value: Option<Json>) -> JsonMap {
    match value {
        Some(Json::Object(map)) => map,
        _ => JsonMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_base::ids::BlobId;
    use tidemill_base::value::{BlobRef, Segment, SegmentType};

    fn log() -> ChangeLog {
        let page = BlobRef { id: BlobId::from("p"), ty: SegmentType::ArrayAny, size: 70_000, len: Some(2) };
        ChangeLog::new(vec![
            LogEntry::Page(page),
            LogEntry::One(Change {
                kind: ChangeKind::Append,
                operand: Stored::Inline(Segment::string("page")),
            }),
            LogEntry::One(Change { kind: ChangeKind::RemoveLast, operand: Stored::Inline(Segment::none()) }),
            LogEntry::One(Change { kind: ChangeKind::AppendAny, operand: Stored::Secret("KEY".into()) }),
        ])
    }

    #[test]
    fn updates_read_back_and_older_ones_without_operations_are_whole() {
        let inline = |text: &str| Stored::Inline(Segment::string(text));
        let updates = vec![
            Update::whole("a".into(), "b".into(), inline("c")),
            Update {
                node: "conversation".into(),
                name: "l".into(),
                value: inline("v"),
                changes: Some(log()),
            },
        ];
        assert_eq!(written_from_json(written_json(&updates)).unwrap(), updates);
        let older = json!([{"selector": ["a", "b"], "value": "c"}]);
        assert_eq!(written_from_json(older).unwrap(), updates[..1]);
    }

    #[test]
    fn what_items_wrote_and_what_waits_reads_back() {
        let changed = Written::Changed { log: log(), base: "f".into() };
        let written = BTreeMap::from([("l".to_owned(), changed), ("w".to_owned(), Written::Whole)]);
        let names = || written.keys().cloned();
        assert_eq!(read_item(names(), item_json(&written)).unwrap(), written);
        let whole: Vec<_> = read_item(names(), None).unwrap().into_values().collect();
        assert_eq!(whole, [Written::Whole, Written::Whole]);
        let view = Stored::Inline(Segment::string("v"));
        for stale in [false, true] {
            let pending =
                BTreeMap::from([("l".to_owned(), Pending { log: log(), view: view.clone(), stale })]);
            assert_eq!(read_pending(Some(pending_json(&pending))).unwrap(), pending);
        }
        assert_eq!(read_pending(None).unwrap(), BTreeMap::new());
    }

    #[test]
    fn an_operation_of_a_newer_version_is_an_error_that_names_it() {
        let newer = json!([{"selector": ["a", "b"], "value": 1, "changes": [["toggle", null]]}]);
        assert!(written_from_json(newer).unwrap_err().to_string().contains("toggle"));
    }
}
