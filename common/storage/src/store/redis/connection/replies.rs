//! Takes replies of Redis apart without copying large values.

use redis::Value;

use crate::store::StoreError;
use tidemill_base::ids::EntryId;

pub(in crate::store::redis) fn unexpected(doing: &'static str, reason: impl Into<String>) -> StoreError {
    StoreError::Unexpected { doing, reason: reason.into() }
}

/// A string in any of the protocol's forms.
pub(in crate::store::redis) fn text(value: Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(match String::from_utf8(bytes) {
            Ok(text) => text,
            // We write only UTF-8; bytes that a person wrote are shown as well as possible.
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }),
        Value::SimpleString(text) => Some(text),
        Value::Int(number) => Some(number.to_string()),
        Value::Okay => Some("OK".into()),
        _ => None,
    }
}

pub(in crate::store::redis) fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

/// A stream entry: its id and its fields.
pub(in crate::store::redis) type Entry = (EntryId, Vec<(String, String)>);

/// Parses an entry as Redis sends it: `[id, [field, value, …]]`; `None` for a deleted one without fields.
pub(in crate::store::redis) fn entry(value: Value) -> Option<Entry> {
    let mut parts = array(value)?.into_iter();
    let id = text(parts.next()?)?.parse().ok()?;
    Some((id, pairs(parts.next()?)?))
}

pub(in crate::store::redis) fn pairs(value: Value) -> Option<Vec<(String, String)>> {
    let mut fields = array(value)?.into_iter();
    let mut pairs = Vec::with_capacity(fields.len() / 2);
    while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
        pairs.push((text(name)?, text(value)?));
    }
    Some(pairs)
}

/// Parses the reply of XREAD and XREADGROUP: streams in the order of their names, each with its entries.
pub(in crate::store::redis) fn streams(value: Value) -> Option<Vec<(String, Vec<Entry>)>> {
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

/// Takes out the value of a field.
pub(in crate::store::redis) fn take(pairs: &mut [(String, String)], name: &str) -> String {
    pairs
        .iter_mut()
        .find(|(known, _)| known == name)
        .map(|(_, value)| std::mem::take(value))
        .unwrap_or_default()
}
