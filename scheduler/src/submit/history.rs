//! Earlier turns of a conversation, from the request or from the stored conversation, in the form that a run stores.

use serde_json::Value as Json;
use tidemill_common::limits::HISTORY_TURNS_MAX;
use tidemill_common::value::{Segment, SegmentType};

use crate::submit::SubmitError;

/// The name of these turns in errors.
pub(super) const NAME: &str = "memory";

/// Checks turns (`{query, answer, files}`, oldest first). Keeps the last [`HISTORY_TURNS_MAX`] of them.
///
/// # Errors
/// A turn is not an object, or lacks its texts.
pub(super) fn history(turns: &[Json]) -> Result<Option<Segment>, SubmitError> {
    if turns.is_empty() {
        return Ok(None);
    }
    for (at, turn) in turns.iter().enumerate() {
        let texts = ["query", "answer"].iter().all(|key| turn.get(key).is_some_and(Json::is_string));
        let files = turn.get("files").is_none_or(Json::is_array);
        if !texts || !files {
            return Err(SubmitError::Memory(at));
        }
    }
    let kept = turns[turns.len().saturating_sub(HISTORY_TURNS_MAX)..].to_vec();
    Ok(Some(Segment::new(SegmentType::ArrayObject, Json::Array(kept))))
}
