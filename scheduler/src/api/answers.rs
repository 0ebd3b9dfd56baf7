//! Answers to pauses, for both surfaces. An answer is checked against the request, then stored once, with its fact.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Value as Json, json};
use tidemill_common::clock::Timestamp;
use tidemill_common::crash;
use tidemill_common::files::UploadId;
use tidemill_common::ids::RunId;
use tidemill_common::machine::fact::AnswerContent;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::nodes::human_input::{AnswerError, check_answer};
use tidemill_common::nodes::pause::as_form::input_of;
use tidemill_common::nodes::pause::input::check_input;
use tidemill_common::store::{Answered, Durability, PauseAnswer, StoreError, Written};
use tidemill_common::value::JsonMap;
use tidemill_common::wire::WireError;

use super::ApiState;
use crate::runs::pauses::{Pause, PauseStatus};
use crate::submit::remote_files::Answers;
use crate::submit::uploads::Owner;
use crate::submit::{SubmitError, files};

/// The error for an input that answers a form.
const WANTS_FORM: &str = "a form is answered by `action` and `inputs`";

/// An answer as the client gave it.
#[derive(Debug, Clone)]
pub struct Answer {
    pub content: AnswerContent,
    /// The idempotency key: repeating the answer under it changes nothing.
    pub key: Option<String>,
    /// The person who answers, for the record.
    pub answered_by: Option<String>,
    /// The app of the client's key; `None`: the admin answers.
    pub app: Option<String>,
    /// What must have happened to the answer before it is acknowledged.
    pub durability: Durability,
}

/// The reason why an answer was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The answer does not fit the request.
    #[error(transparent)]
    Invalid(#[from] AnswerError),
    /// A file in the answer cannot be used.
    #[error(transparent)]
    File(SubmitError),
    /// The pause was removed with its run.
    #[error("this pause is not known")]
    NotFound,
    /// The pause has another answer.
    #[error("this pause was answered before")]
    AlreadyAnswered,
    /// The time for an answer has ended.
    #[error("the time to answer this pause is over")]
    Expired,
    /// The pause was withdrawn.
    #[error("this pause was cancelled")]
    Cancelled,
    /// The run has ended.
    #[error("the run is over: {}", .0.name())]
    Over(RunStatus),
    /// It is unknown whether the answer will survive, or the store cannot give the durability.
    #[error(transparent)]
    Durability(SubmitError),
    /// The pause cannot be read.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Stores an answer. After `Ok` the answer is stored and the run will continue with it, whatever happens to this
/// process; or the same answer was stored before, under its key.
///
/// # Errors
/// See [`Refused`]; the pause is unchanged then, except perhaps with [`Refused::Durability`].
pub async fn answer(
    state: &ApiState,
    run: RunId,
    pause: &Pause,
    mut answer: Answer,
    now: Timestamp,
) -> Result<(), Refused> {
    let level = answer.durability;
    state.submitter.gives(level).await.map_err(Refused::Durability)?;
    let copies = match pause.status(now) {
        PauseStatus::Pending => prepare(state, run, pause, &mut answer).await?,
        // The store decides about these: it knows the key of the first answer.
        PauseStatus::Answered | PauseStatus::Expired | PauseStatus::Cancelled => Vec::new(),
    };
    let given = PauseAnswer {
        record: record(&answer, now),
        fact: fact(&pause.id, &answer.content).to_string(),
        key: answer.key,
    };
    let answered = state.store.answer_pause(run, &pause.id, &given).await?;
    crash::pass(crash::CrashPoint::AnswerKept);
    tracing::info!(%run, pause = pause.id, ?answered, "pause answered");
    if answered != Answered::Accepted {
        state.submitter.uploads.discard(copies).await;
    }
    match answered {
        Answered::Accepted | Answered::Repeated => {
            let written = Written::Answer { run, pause: pause.id.clone() };
            state.submitter.confirm(written, level).await.map_err(Refused::Durability)
        }
        Answered::AlreadyAnswered => Err(Refused::AlreadyAnswered),
        Answered::NotFound => Err(Refused::NotFound),
        Answered::Expired => Err(Refused::Expired),
        Answered::Cancelled => Err(Refused::Cancelled),
        Answered::Over(status) => Err(Refused::Over(status)),
    }
}

/// Completes and checks an answer, and gives the run copies of the uploads in it. Returns the references of these copies.
async fn prepare(
    state: &ApiState,
    run: RunId,
    pause: &Pause,
    answer: &mut Answer,
) -> Result<Vec<String>, Refused> {
    let asked = state.submitter.remote_files.ask(remote_files(pause, &answer.content)).await;
    let ids: BTreeSet<UploadId> = mappings(pause, &answer.content).filter_map(files::upload_id).collect();
    // The run's own files may be given back to it. What the admin writes is not checked.
    let mut others = match (&answer.app, &answer.content) {
        (Some(_), AnswerContent::Form { inputs, .. }) => files::runs_of(inputs.values()),
        (Some(_), AnswerContent::Input(input)) => files::runs_of([input]),
        (Some(_), AnswerContent::Cancel) | (None, _) => BTreeSet::new(),
    };
    others.remove(&run);
    state.submitter.check_count(ids.len(), "uploads").map_err(Refused::File)?;
    let mut found = HashMap::new();
    if !ids.is_empty() || !others.is_empty() {
        let fields = state.store.run_fields(run).await?.ok_or(Refused::NotFound)?;
        let (app, user) = (fields.get("app").map(String::as_str), fields.get("user").map(String::as_str));
        // Files of other runs are read by the run, so they must be of its user. Of an upload it gets a copy.
        let of_run = Owner { app, user: user.unwrap_or_default() };
        state.submitter.check_files(others, of_run).await.map_err(Refused::File)?;
        let answered_by = answer.answered_by.as_deref().or(user);
        let owner = Owner { app, user: answered_by.unwrap_or_default() };
        found = state.submitter.uploads.find(ids, owner).await.map_err(Refused::File)?;
    }
    let ids: BTreeSet<UploadId> = found.keys().copied().collect();
    let content = std::mem::replace(&mut answer.content, AnswerContent::Cancel);
    answer.content = checked(pause, content, &asked.with_uploads(found))?;
    let AnswerContent::Form { inputs, .. } = &mut answer.content else { return Ok(Vec::new()) };
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    if !state.store.note_run_files(run).await? {
        return Err(Refused::NotFound);
    }
    state.submitter.uploads.adopt_into(&ids, inputs.values_mut(), &run).await.map_err(Refused::File)
}

/// Checks an answer against the request. Clients that know only forms answer every request with a form.
fn checked(pause: &Pause, content: AnswerContent, answers: &Answers) -> Result<AnswerContent, Refused> {
    let request = pause.request()?;
    Ok(match (content, request.kind.is_form()) {
        (AnswerContent::Cancel, _) => AnswerContent::Cancel,
        (AnswerContent::Form { action, mut inputs }, true) => {
            complete_files(pause, &mut inputs, answers)?;
            let inputs = check_answer(&request, &action, &inputs)?;
            AnswerContent::Form { action, inputs }
        }
        (AnswerContent::Input(_), true) => return Err(AnswerError::misfit(WANTS_FORM).into()),
        (AnswerContent::Input(input), false) => AnswerContent::Input(check_input(&request, input)?),
        (AnswerContent::Form { action, inputs }, false) => {
            AnswerContent::Input(check_input(&request, input_of(&request, &action, inputs))?)
        }
    })
}

fn answer_json(content: &AnswerContent) -> Json {
    match content {
        AnswerContent::Form { action, inputs } => json!({"action": action, "inputs": inputs}),
        AnswerContent::Input(input) => json!({ "input": input }),
        AnswerContent::Cancel => json!({"cancel": true}),
    }
}

fn fact(pause: &str, what: &AnswerContent) -> Json {
    let mut fact = json!({ "pause": pause });
    if let (Some(fact), Json::Object(what)) = (fact.as_object_mut(), answer_json(what)) {
        fact.extend(what);
    }
    fact
}

fn record(answer: &Answer, now: Timestamp) -> String {
    let mut record = answer_json(&answer.content);
    record["answered_at"] = now.micros().to_string().into();
    for (name, value) in [("key", &answer.key), ("answered_by", &answer.answered_by)] {
        if let Some(text) = value {
            record[name] = text.as_str().into();
        }
    }
    record.to_string()
}

/// The names of a form's inputs that are files.
fn file_inputs(pause: &Pause) -> Vec<String> {
    let fields = pause.inputs();
    let text = |field: &Json, key: &str| field.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
    let fields = fields.as_array().map(Vec::as_slice).unwrap_or_default().iter();
    let files = fields.filter(|field| matches!(text(field, "type").as_str(), "file" | "file-list"));
    files.map(|field| text(field, "output_variable_name")).collect()
}

/// The URLs of the files in an answer whose servers must be asked what they are.
fn remote_files(pause: &Pause, content: &AnswerContent) -> BTreeSet<String> {
    mappings(pause, content).filter_map(files::to_ask).map(str::to_owned).collect()
}

/// The files in an answer to a form, as the client names them.
fn mappings<'a>(pause: &Pause, content: &'a AnswerContent) -> impl Iterator<Item = &'a JsonMap> {
    let (names, inputs) = match content {
        AnswerContent::Form { inputs, .. } => (file_inputs(pause), Some(inputs)),
        AnswerContent::Input(_) | AnswerContent::Cancel => (Vec::new(), None),
    };
    let values = names.into_iter().filter_map(move |name| inputs?.get(&name));
    let items = values.flat_map(|value| match value {
        Json::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    });
    items.filter_map(Json::as_object)
}

/// Converts file mappings among the values to file objects, as for the inputs of a run.
fn complete_files(pause: &Pause, values: &mut JsonMap, answers: &Answers) -> Result<(), Refused> {
    for name in file_inputs(pause) {
        let mappings = match values.get_mut(&name) {
            Some(Json::Array(items)) => items.as_mut_slice(),
            Some(value) => std::slice::from_mut(value),
            None => continue,
        };
        for mapping in mappings.iter_mut().filter_map(Json::as_object_mut) {
            *mapping = files::of_answer(mapping, answers).map_err(Refused::File)?;
        }
    }
    Ok(())
}
