//! The answer to a worker that asks about a pause of its job.

use serde_json::Value as Json;

use super::StoreError;

/// The state of a pause.
#[derive(Debug, Clone, PartialEq)]
pub enum Paused {
    /// No such pause.
    Unknown,
    /// It is pending.
    Waits,
    /// It was answered.
    Answered(Json),
    /// It was not answered in time.
    Expired,
    /// It was cancelled.
    Cancelled,
}

impl Paused {
    /// Derives the state from the stored pause and its answer, if any.
    pub(crate) fn of(asked: Option<&str>, answer: Option<&str>) -> Result<Self, StoreError> {
        let Some(asked) = asked else { return Ok(Self::Unknown) };
        let status = read(asked)?;
        Ok(match status.get("status").and_then(Json::as_str) {
            Some("answered") => {
                let answer = answer.map(read).transpose()?;
                Self::Answered(
                    answer.and_then(|mut answer| Some(answer.get_mut("input")?.take())).unwrap_or_default(),
                )
            }
            Some("expired") => Self::Expired,
            Some("cancelled") => Self::Cancelled,
            Some(_) | None => Self::Waits,
        })
    }
}

fn read(text: &str) -> Result<Json, StoreError> {
    serde_json::from_str(text).map_err(|error| StoreError::Unexpected {
        doing: "reading an answer to a pause",
        reason: error.to_string(),
    })
}
