//! Inputs and outputs in the rows of a run's nodes (`?values=true`). They are in the run's events alone, so this reads all
//! events of the run; a row without this parameter costs nothing. Large values are left out, whole ones are in the events.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::limits::{ROW_EVENTS_MAX, ROW_VALUE_BYTES_MAX, ROWS_BYTES_MAX};
use tidemill_common::store::Runs;
use tidemill_common::value::JsonMap;
use tidemill_common::value::json_size;
use tidemill_common::wire::codec::value::MARK;
use tidemill_common::wire::event::{EventRecord, kind};

use crate::api::error::ApiError;
use crate::runs::render::Renderer;

/// Events per read.
const PAGE: usize = 500;
/// The fields that rows get.
const FIELDS: [&str; 2] = ["inputs", "outputs"];

/// The values of the last end of each node, by node and frame.
#[derive(Debug, Default)]
struct Values(HashMap<(String, String), [JsonMap; 2]>);

/// Adds inputs and outputs to the rows of nodes that have ended; they are null in all other rows. Returns false if the
/// run has more events than are read.
///
/// # Errors
/// Errors of the store.
pub(super) async fn add(
    store: &dyn Runs,
    render: &Renderer,
    run: RunId,
    rows: &mut [Json],
) -> Result<bool, ApiError> {
    let (mut values, mut after, mut count) = (Values::default(), EntryId::ZERO, 0);
    let is_whole = loop {
        let events = store.events(run, after, PAGE).await?;
        let Some(last) = events.last() else { break true };
        (after, count) = (last.entry, count + events.len());
        events.into_iter().for_each(|event| values.take(event));
        if count >= ROW_EVENTS_MAX {
            break false;
        }
    };
    let mut room = ROWS_BYTES_MAX;
    for row in rows {
        let place = ["id", "frame"].map(|key| row[key].as_str().unwrap_or_default().to_owned());
        let of_row = values.0.remove(&place.into());
        for (field, shown) in FIELDS.into_iter().zip(of_row.map_or([None, None], |both| both.map(Some))) {
            row[field] = match shown {
                Some(mut shown) => {
                    bounded(&mut shown, &mut room);
                    render.named(&mut shown).await?;
                    Json::Object(shown)
                }
                None => Json::Null,
            };
        }
    }
    Ok(is_whole)
}

impl Values {
    /// Takes the values of an end; those of an earlier end of the same node and frame are replaced.
    fn take(&mut self, mut event: EventRecord) {
        if !matches!(
            event.kind.as_str(),
            kind::NODE_RUN_SUCCEEDED | kind::NODE_RUN_FAILED | kind::NODE_RUN_EXCEPTION
        ) {
            return;
        }
        let text = |key: &str| event.data.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let place = (text("node_id"), text("frame"));
        let values = FIELDS.map(|field| match event.data.remove(field) {
            Some(Json::Object(mut values)) => {
                // Large values are cut here already, so that a long run does not fill the memory.
                bounded(&mut values, &mut usize::MAX.clone());
                values
            }
            _ => JsonMap::new(),
        });
        self.0.insert(place, values);
    }
}

/// Replaces each value that is a blob, is too large, or has no room left, by its size.
fn bounded(values: &mut JsonMap, room: &mut usize) {
    for value in values.values_mut() {
        let size = match value.get(MARK).and_then(Json::as_str) {
            Some("blob" | "item") => value.get("size").and_then(Json::as_u64),
            Some(_) | None => None,
        };
        let size = size.map_or_else(|| json_size(value), |size| usize::try_from(size).unwrap_or(usize::MAX));
        let is_apart = matches!(value.get(MARK).and_then(Json::as_str), Some("blob" | "item"));
        if is_apart || size > ROW_VALUE_BYTES_MAX || size > *room {
            *value = json!({"truncated": true, "bytes": size});
            continue;
        }
        *room -= size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_rows_are_bounded() {
        let large = "x".repeat(ROW_VALUE_BYTES_MAX);
        let cut = |bytes: usize| json!({"truncated": true, "bytes": bytes});
        for (value, room, shown, left) in [
            (json!("abc"), 100, json!("abc"), 95),
            (json!({"a": 1}), 3, cut(json_size(&json!({"a": 1}))), 3),
            (json!(large), usize::MAX, cut(ROW_VALUE_BYTES_MAX + 2), usize::MAX),
            (json!({MARK: "blob", "id": "b", "size": 9}), 100, cut(9), 100),
            (json!({MARK: "secret", "name": "k"}), 100, json!({MARK: "secret", "name": "k"}), 72),
        ] {
            let (mut values, mut room) = (JsonMap::from_iter([("v".to_owned(), value)]), room);
            bounded(&mut values, &mut room);
            assert_eq!((&values["v"], room), (&shown, left));
        }
    }
}
