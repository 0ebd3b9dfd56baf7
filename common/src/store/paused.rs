//! What a worker is told of a question that a step of its job has asked.

use serde_json::Value as Json;

use super::StoreError;

/// What has become of a pause.
#[derive(Debug, Clone, PartialEq)]
pub enum Paused {
    /// Nobody was asked.
    Unknown,
    /// Nobody has answered.
    Waits,
    /// This was answered.
    Answered(Json),
    /// Nobody has answered in time.
    Expired,
    /// It was called off.
    Cancelled,
}

impl Paused {
    /// From what is kept of the pause and of its answer, if there is any.
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
        doing: "reading what was answered",
        reason: error.to_string(),
    })
}
