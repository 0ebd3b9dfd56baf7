//! Replies of Redis, taken apart without copying what is large.

use redis::Value;

use super::StoreError;
use crate::ids::EntryId;

pub(super) fn unexpected(doing: &'static str, reason: impl Into<String>) -> StoreError {
    StoreError::Unexpected { doing, reason: reason.into() }
}

/// A text, whatever way the protocol carries it.
pub(super) fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            // Nothing we write is anything but UTF-8; what a hand wrote is shown as well as can be.
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }),
        Value::SimpleString(text) => Some(text),
        Value::Int(number) => Some(number.to_string()),
        Value::Okay => Some("OK".into()),
        _ => None,
    }
}

pub(super) fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// An entry of a stream: its id, and its fields as pairs.
pub(super) type Entry = (EntryId, Vec<(String, String)>);

/// An entry as Redis gives it: `[id, [field, value, …]]`; none for one whose fields are gone.
pub(super) fn entry(value: Value) -> Option<Entry> {
    let mut parts = array(value)?.into_iter();
    let id = text(parts.next()?)?.parse().ok()?;
    Some((id, pairs(parts.next()?)?))
}

pub(super) fn pairs(value: Value) -> Option<Vec<(String, String)>> {
    let mut fields = array(value)?.into_iter();
    let mut pairs = Vec::with_capacity(fields.len() / 2);
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        pairs.push((text(name)?, text(value)?));
    }
    Some(pairs)
}

/// The reply of XREAD and XREADGROUP: streams in the order of their names, each with its entries.
pub(super) fn streams(value: Value) -> Option<Vec<(String, Vec<Entry>)>> {
    match value {
        Value::Nil => Some(Vec::new()),
        Value::Array(streams) => streams
            .into_iter()
            .map(|stream| {
                let mut parts = array(stream)?.into_iter();
                let name = text(parts.next()?)?;
                let entries = array(parts.next()?)?.into_iter().filter_map(entry).collect();
                Some((name, entries))
            })
            .collect(),
        _ => None,
    }
}

/// The value of a field among pairs, taken out.
pub(super) fn take(pairs: &mut [(String, String)], name: &str) -> String {
    pairs
        .iter_mut()
        .find(|(known, _)| known == name)
        .map(|(_, value)| std::mem::take(value))
        .unwrap_or_default()
}
