//! Makes a call with a journal entry, so that a later worker takes the recorded result. A failed call leaves only its
//! mark, so that another try is possible.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::step::{CallError, Gathered};

use crate::attempt::journal::{EntryReport, EntryStart, Journal};
use crate::outside::calls::prepare::Prepared;
use crate::outside::calls::run::{CallOutput, call};
use crate::outside::calls::step_events::emit;
use crate::outside::providers::DeltaSink;

/// The journal key.
const STEP: &str = "call";

/// Makes the call, or takes its recorded result. Recorded text goes to `on_delta` and the user at once.
pub(super) async fn once(
    prepared: &mut Prepared<'_>,
    journal: &Journal,
    on_delta: DeltaSink<'_>,
) -> Result<CallOutput, CallError> {
    let the_try = match journal.begin(STEP).await {
        EntryStart::Try(the_try) => the_try,
        EntryStart::Known(kept) => return Ok(replayed(&kept, prepared, journal, on_delta)),
    };
    prepared.key = the_try.idempotency_key.into();
    prepared.possible_duplicate = the_try.possible_duplicate;
    let called = call(prepared, journal, on_delta).await?;
    journal.record_large(STEP, the_try.number, kept(&called, prepared), EntryReport::default()).await;
    Ok(called)
}

/// The recorded value of a successful call.
fn kept(called: &CallOutput, prepared: &Prepared<'_>) -> Json {
    let (usage, runtime, outputs) = prepared.made.seen();
    let mut kept = match &called.gathered {
        Gathered::Text(text) => json!({"text": text}),
        Gathered::Data(map) => json!({"data": map}),
    };
    // Most calls have sent exactly their result as text.
    if !matches!(&called.gathered, Gathered::Text(text) if *text == called.said) {
        kept["said"] = json!(called.said);
    }
    if let Some(usage) = usage {
        kept["usage"] = json!(usage.record);
    }
    for (key, values) in [("runtime", runtime), ("outputs", outputs)] {
        if !values.is_empty() {
            kept[key] = Json::Object(values);
        }
    }
    kept["seconds"] = json!(called.seconds);
    kept
}

/// Rebuilds a call's result from the journal.
fn replayed(
    kept: &Json,
    prepared: &mut Prepared<'_>,
    journal: &Journal,
    on_delta: DeltaSink<'_>,
) -> CallOutput {
    let text = |key: &str| kept.get(key).and_then(Json::as_str).map(str::to_owned);
    let map = |key: &str| kept.get(key).and_then(Json::as_object).cloned();
    let gathered = match map("data") {
        Some(map) => Gathered::Data(map),
        None => Gathered::Text(text("text").unwrap_or_default()),
    };
    let said = text("said").or_else(|| text("text")).unwrap_or_default();
    let usage = map("usage").map(Usage::from_record);
    prepared.made.put(usage, map("runtime").unwrap_or_default(), map("outputs").unwrap_or_default());
    prepared.possible_duplicate = journal.is_possible_duplicate(STEP);
    if !said.is_empty() {
        on_delta(&said);
        if prepared.to_user() {
            emit(journal, prepared.step_events.text(&said));
        }
    }
    if let Gathered::Data(object) = &gathered
        && prepared.to_user()
    {
        emit(journal, prepared.step_events.object(object));
    }
    let seconds = kept.get("seconds").and_then(Json::as_f64).unwrap_or_default();
    CallOutput { gathered, said, seconds }
}
