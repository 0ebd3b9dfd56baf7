//! Asks a person for missing input. Each round of questions is a pause, so no worker is occupied while it is open. In a
//! run without people, and after the last round, the step fails and lists the missing input.

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::step_event::StepEvent;
use tidemill_common::nodes::pause::CALLED_OFF;
use tidemill_common::nodes::step::background::Background;
use tidemill_common::nodes::step::texts::{PARAMETERS_MISSING, PARAMETERS_NOT_FOUND, PARAMETERS_NOT_GIVEN};
use tidemill_common::nodes::step::{CallError, Secrets};
use tidemill_common::nodes::{PauseKind, PauseRequest};
use tidemill_common::slots::answer::{UserInput, given};
use tidemill_common::slots::prompt::Sources;
use tidemill_common::slots::{Filled, missing};
use tidemill_common::value::JsonMap;

use crate::attempt::journal::{EntryReport, EntryStart, Journal, PauseEnd};
use crate::outside::calls::search::Search;
use crate::outside::calls::step_events::{Status, StepEvents};

/// The error type of input that stays missing.
pub(crate) const PARAMETER_MISSING: &str = "parameter_missing";

/// The texts a model may take values from.
pub(crate) fn sources(background: &Background) -> Sources {
    let said = [background.context(), background.conversation()];
    let said: Vec<String> = said.into_iter().filter(|text| !text.is_empty()).collect();
    Sources { question: background.question.clone(), context: said.join("\n"), description: String::new() }
}

/// A step that asks a person.
pub(crate) struct Asking<'a> {
    pub(crate) search: &'a Search<'a>,
    /// The job's journal; the job is parked.
    pub(crate) journal: &'a Journal,
    pub(crate) is_interactive: bool,
    pub(crate) step_events: &'a StepEvents,
    pub(crate) secrets: &'a Secrets,
}

impl Asking<'_> {
    /// Asks until nothing is missing. `error` is the reason no model helped.
    ///
    /// # Errors
    /// `parameter_missing`, or the cancellation of the step.
    pub(crate) async fn run(&self, filled: &mut Filled, error: Option<&str>) -> Result<(), CallError> {
        let rounds_max = self.journal.parameter_rounds_max();
        for round in 1..=rounds_max {
            if filled.is_complete() {
                return Ok(());
            }
            if !self.is_interactive {
                return Err(self.missing(filled, error));
            }
            self.emit(filled, round, error).await;
            let answer = match self
                .journal
                .pause(&format!("params:{round}"), self.request(filled, round, error))
                .await
            {
                PauseEnd::Answered(answer) => answer,
                PauseEnd::Expired => return Err(self.missing(filled, error)),
                PauseEnd::Cancelled => return Err(self.called_off()),
            };
            match given(&answer) {
                UserInput::Nothing => return Err(self.called_off()),
                UserInput::Values { content, description } => {
                    let shown = self.secrets.masked_value(&Json::Object(filled.current()));
                    filled.take_all(self.search.schema, without_masks(content, &shown));
                    self.look_again(filled, description, round).await;
                }
            }
        }
        if filled.is_complete() {
            return Ok(());
        }
        let asked = format!("asked {rounds_max} times (worker.parameter_rounds_max)");
        Err(self.missing(filled, Some(&asked)))
    }

    /// Searches the free text of the answer for more values.
    async fn look_again(&self, filled: &mut Filled, description: String, round: u32) {
        if description.is_empty() || filled.is_complete() {
            return;
        }
        let sources = Sources { description, ..self.search.sources.clone() };
        let key = format!("slot_answer:{round}");
        let search = Search { sources: &sources, key: &key, ..*self.search };
        search.run(filled).await;
    }

    fn request(&self, filled: &Filled, round: u32, error: Option<&str>) -> PauseRequest {
        let remaining = missing::pointer_schema(&filled.missing).unwrap_or_else(|| json!({}));
        let prompt = PARAMETERS_MISSING.of(self.search.language);
        let mut request = PauseRequest::asking(PauseKind::Params, prompt, remaining);
        request.details = self.asked(filled, error);
        request.details.insert("round".into(), json!(round));
        request
    }

    /// The question: the missing fields and the current values.
    fn asked(&self, filled: &Filled, error: Option<&str>) -> JsonMap {
        let remaining = missing::pointer_schema(&filled.missing);
        let mut asked = JsonMap::from_iter([
            ("message".to_owned(), json!(PARAMETERS_MISSING.of(self.search.language))),
            ("params".to_owned(), remaining.unwrap_or_else(|| json!({}))),
            ("current".to_owned(), Json::Object(self.secrets.masked_map(&filled.current()))),
        ]);
        if let Some(error) = error {
            asked.insert("slot_error".into(), json!(error));
        }
        asked
    }

    /// Sends the event that the step waits, once per round.
    async fn emit(&self, filled: &Filled, round: u32, error: Option<&str>) {
        let step = format!("params_asked:{round}");
        let EntryStart::Try(the_try) = self.journal.begin(&step).await else { return };
        let content = Json::Object(self.asked(filled, error));
        let event = self.step_events.event(StepEvent::StepWaitingForParam, Status::Param, content);
        let report = EntryReport { events: vec![event], charge: None };
        self.journal.record(&step, the_try.number, &Json::Null, report).await;
    }

    fn missing(&self, filled: &Filled, error: Option<&str>) -> CallError {
        let names = filled.missing_names();
        let why = error.unwrap_or_else(|| PARAMETERS_NOT_FOUND.of(self.search.language));
        let message = format!("{}: {}", PARAMETERS_NOT_FOUND.of(self.search.language), names.join(", "));
        let data = json!({"error_type": PARAMETER_MISSING, "missing_fields": names, "details": why});
        CallError::new(message).with(data)
    }

    fn called_off(&self) -> CallError {
        CallError::of(CALLED_OFF, PARAMETERS_NOT_GIVEN.of(self.search.language))
    }
}

/// Removes values that only repeat a masked value.
fn without_masks(answer: Json, shown: &Json) -> Json {
    match (answer, shown) {
        (Json::Object(answer), Json::Object(shown)) => {
            let kept = answer.into_iter().filter(|(key, value)| !is_mask(value, shown.get(key)));
            kept.map(|(key, value)| {
                let value = without_masks(value, shown.get(&key).unwrap_or(&Json::Null));
                (key, value)
            })
            .collect()
        }
        (answer, _) => answer,
    }
}

fn is_mask(value: &Json, shown: Option<&Json>) -> bool {
    value.as_str().is_some_and(|text| text.contains("******")) && Some(value) == shown
}
