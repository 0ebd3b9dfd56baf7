//! Answers to pauses, for both surfaces: checked against what was asked, then kept once, with the fact that goes on.

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::crash;
use tidemill_common::ids::RunId;
use tidemill_common::machine::fact::Said;
use tidemill_common::machine::run::RunStatus;
use tidemill_common::nodes::human_input::{AnswerError, check_answer};
use tidemill_common::nodes::pause::as_form::input_of;
use tidemill_common::nodes::pause::input::check_input;
use tidemill_common::store::{Answered, PauseAnswer, StoreError};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::WireError;

use super::ApiState;
use crate::runs::pauses::{Pause, PauseStatus};
use crate::submit::{SubmitError, files};

/// Why an input is no answer to a form.
const WANTS_FORM: &str = "a form is answered by `action` and `inputs`";

/// An answer as it was given.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What is said.
    pub said: Said,
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
        PauseStatus::Pending => answer.said = checked(pause, answer.said)?,
        // What was answered, or is over, is for the store to say: it knows the key of the first answer.
        PauseStatus::Answered | PauseStatus::Expired | PauseStatus::Cancelled => {}
    }
    let given = PauseAnswer {
        record: record(&answer, now),
        fact: fact(&pause.id, &answer.said).to_string(),
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

/// What is said, held to what was asked. Whoever knows only forms answers everything as one.
fn checked(pause: &Pause, said: Said) -> Result<Said, Refused> {
    let request = pause.request()?;
    Ok(match (said, request.kind.is_form()) {
        (Said::Cancel, _) => Said::Cancel,
        (Said::Form { action, mut inputs }, true) => {
            complete_files(pause, &mut inputs)?;
            let inputs = check_answer(&request, &action, &inputs)?;
            Said::Form { action, inputs }
        }
        (Said::Input(_), true) => return Err(AnswerError::misfit(WANTS_FORM).into()),
        (Said::Input(input), false) => Said::Input(check_input(&request, input)?),
        (Said::Form { action, inputs }, false) => {
            Said::Input(check_input(&request, input_of(&request, &action, inputs))?)
        }
    })
}

fn said(said: &Said) -> Json {
    match said {
        Said::Form { action, inputs } => json!({"action": action, "inputs": inputs}),
        Said::Input(input) => json!({ "input": input }),
        Said::Cancel => json!({"cancel": true}),
    }
}

fn fact(pause: &str, what: &Said) -> Json {
    let mut fact = json!({ "pause": pause });
    if let (Some(fact), Json::Object(what)) = (fact.as_object_mut(), said(what)) {
        fact.extend(what);
    }
    fact
}

fn record(answer: &Answer, now: Timestamp) -> String {
    let mut record = said(&answer.said);
    record["answered_at"] = now.micros().to_string().into();
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
