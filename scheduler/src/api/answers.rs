//! Answers to pauses, for both surfaces: checked against what was asked, then kept once, with the fact that goes on.

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::crash;
use tidemill_common::ids::RunId;
use tidemill_common::machine::run::RunStatus;
use tidemill_common::nodes::human_input::{AnswerError, check_answer};
use tidemill_common::store::{Answered, PauseAnswer, StoreError};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::WireError;

use super::ApiState;
use super::pauses::{Pause, PauseStatus};
use crate::submit::{SubmitError, files};

/// An answer as it was given.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// The button.
    pub action: String,
    /// The fields.
    pub inputs: JsonMap,
    /// So that repeating it is no second answer.
    pub key: Option<String>,
    /// Who answers, for the record.
    pub answered_by: Option<String>,
}

/// Why an answer was not taken.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// It does not fit what was asked.
    #[error(transparent)]
    Invalid(#[from] AnswerError),
    /// A file that cannot be taken.
    #[error(transparent)]
    File(SubmitError),
    /// The pause is gone with its run.
    #[error("this pause is not known")]
    NotFound,
    /// Another answer came first.
    #[error("this pause was answered before")]
    AlreadyAnswered,
    /// Its time is over.
    #[error("the time to answer this pause is over")]
    Expired,
    /// It was withdrawn.
    #[error("this pause was cancelled")]
    Cancelled,
    /// Its run is over.
    #[error("the run is over: {}", .0.name())]
    Over(RunStatus),
    /// The pause cannot be read.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Takes an answer. Well means: it is kept, and the run will go on with it, whatever happens to this process; or the
/// same answer was kept before, under its key.
///
/// # Errors
/// See [`Refused`]; the pause is as it was then.
pub async fn answer(
    state: &ApiState,
    run: RunId,
    pause: &Pause,
    mut answer: Answer,
    now: Timestamp,
) -> Result<(), Refused> {
    match pause.status(now) {
        PauseStatus::Pending => {
            complete_files(pause, &mut answer.inputs)?;
            answer.inputs = check_answer(&pause.request()?, &answer.action, &answer.inputs)?;
        }
        // What was answered, or is over, is for the store to say: it knows the key of the first answer.
        PauseStatus::Answered | PauseStatus::Expired | PauseStatus::Cancelled => {}
    }
    let given = PauseAnswer {
        record: record(&answer, now),
        fact: json!({"pause": pause.id, "action": answer.action, "inputs": answer.inputs}).to_string(),
        key: answer.key,
    };
    let answered = state.store.answer_pause(run, &pause.id, &given).await?;
    crash::pass(crash::Place::AnswerKept);
    tracing::info!(%run, pause = pause.id, ?answered, "pause answered");
    match answered {
        Answered::Accepted | Answered::Repeated => Ok(()),
        Answered::AlreadyAnswered => Err(Refused::AlreadyAnswered),
        Answered::NotFound => Err(Refused::NotFound),
        Answered::Expired => Err(Refused::Expired),
        Answered::Cancelled => Err(Refused::Cancelled),
        Answered::Over(status) => Err(Refused::Over(status)),
    }
}

fn record(answer: &Answer, now: Timestamp) -> String {
    let mut record = json!({
        "action": answer.action,
        "inputs": answer.inputs,
        "answered_at": now.micros().to_string(),
    });
    for (name, value) in [("key", &answer.key), ("answered_by", &answer.answered_by)] {
        if let Some(text) = value {
            record[name] = text.as_str().into();
        }
    }
    record.to_string()
}

/// Makes files of the file mappings among the values, as those of run inputs are made.
fn complete_files(pause: &Pause, values: &mut JsonMap) -> Result<(), Refused> {
    let fields = pause.inputs();
    for field in fields.as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = |key: &str| field.get(key).and_then(Json::as_str).unwrap_or_default();
        if !["file", "file-list"].contains(&text("type")) {
            continue;
        }
        let mappings = match values.get_mut(text("output_variable_name")) {
            Some(Json::Array(items)) => items.as_mut_slice(),
            Some(value) => std::slice::from_mut(value),
            None => continue,
        };
        for mapping in mappings.iter_mut().filter_map(Json::as_object_mut) {
            *mapping = files::of_answer(mapping).map_err(Refused::File)?;
        }
    }
    Ok(())
}
