//! The `speech` node: asks a model for the text of a recording, or for the sound of a text. Recordings and sounds are files
//! of the run; only their references are values.

use bytes::Bytes;
use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::files::Files;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::llm::tokens;
use tidemill_common::nodes::llm::usage::{self, Timing, Tokens};
use tidemill_common::nodes::speech::{LACKS_SPEECH, Order, SpeechData, Work, failure, pieces};
use tidemill_common::nodes::{NodeResult, Usage};
use tidemill_common::value::{JsonMap, Segment, SegmentType, Variables};
use tokio::time::Instant;

use crate::outside::providers::profile::ModelKind;
use crate::outside::providers::{Detail, Model, ModelError, Providers, Recording, Spoken, Waiter};

/// The media type of a sound.
const MP3: &str = "audio/mpeg";

/// The node's access to the worker.
pub(super) struct Means<'a> {
    pub(super) providers: &'a Providers,
    pub(super) waiter: &'a dyn Waiter,
    pub(super) files: &'a dyn Files,
    pub(super) run: &'a RunId,
}

/// Runs the node. A failure is part of the result.
pub(super) async fn run(
    data: &SpeechData,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> NodeResult {
    let order = match data.order(variables) {
        Ok(order) => order,
        Err(failure) => return NodeResult::failed(failure),
    };
    let kind = match &order.work {
        Work::Transcribe { .. } => ModelKind::Speech2Text,
        Work::Speak { .. } => ModelKind::Tts,
    };
    let model = match means.providers.model_for((&order.provider, &order.model), kind, Some(*means.run)).await
    {
        Ok(model) => model,
        Err(error) => return NodeResult::failed(error.into()),
    };
    let began = Instant::now();
    let done = match &order.work {
        Work::Transcribe { reference, filename, mime_type } => {
            let recording = match means.files.read(reference, order.bytes_max).await {
                Ok(bytes) => Recording { filename: filename.clone(), mime_type: mime_type.clone(), bytes },
                Err(error) => return NodeResult::failed(failure(error.to_string())),
            };
            transcribed(&model, &recording, &means).await
        }
        Work::Speak { text, voice } => spoken(&model, text, voice, &order, &means).await,
    };
    let (outputs, tokens, is_estimated) = match done {
        Ok(done) => done,
        Err(failure) => return NodeResult::failed(failure),
    };
    let timing = Timing { latency: began.elapsed().as_secs_f64(), ..Timing::default() };
    let usage = usage::bill(tokens, model.pricing.as_ref(), timing);
    let usage = if is_estimated { usage::estimated(usage) } else { usage };
    finished(&order, &model, usage, outputs)
}

type Done = Result<(Vec<(String, Segment)>, Tokens, bool), NodeFailure>;

async fn transcribed(model: &Model, recording: &Recording, means: &Means<'_>) -> Done {
    let asked = model.for_job(means.waiter, "speech").transcribe(recording).await;
    let (text, counted) = asked.map_err(failed)?;
    let is_estimated = counted == Tokens::default();
    let tokens = match is_estimated {
        true => Tokens { prompt: 0, completion: tokens::of_chars(text.chars().count() as u64) },
        false => counted,
    };
    Ok((vec![("text".into(), Segment::string(text))], tokens, is_estimated))
}

async fn spoken(model: &Model, text: &str, voice: &str, order: &Order, means: &Means<'_>) -> Done {
    let mut sound: Vec<u8> = Vec::new();
    let pieces = if model.speaks_whole(text) { vec![text] } else { pieces(text) };
    for (number, piece) in pieces.into_iter().enumerate() {
        let bytes_max = order.bytes_max.saturating_sub(sound.len() as u64);
        let key = format!("speech/{number}");
        let asked = model.for_job(means.waiter, &key).speak(Spoken { text: piece, voice, bytes_max }).await;
        sound.extend_from_slice(&asked.map_err(failed)?);
    }
    let size = sound.len();
    let kept = means.files.keep(means.run, Bytes::from(sound)).await;
    let reference = kept.map_err(|error| failure(error.to_string()))?;
    let audio = json!({"reference": reference, "mime_type": MP3, "size": size});
    let tokens = Tokens { prompt: tokens::of_chars(text.chars().count() as u64), completion: 0 };
    Ok((vec![("audio".into(), Segment::new(SegmentType::Object, audio))], tokens, true))
}

/// The failure of a call; a model without an API for speech has its own class.
fn failed(error: ModelError) -> NodeFailure {
    let lacks_speech = error.detail == Detail::Lacking;
    let failure = NodeFailure::from(error);
    match lacks_speech {
        true => NodeFailure { error_type: LACKS_SPEECH.into(), ..failure },
        false => failure,
    }
}

fn finished(order: &Order, model: &Model, usage: Usage, outputs: Vec<(String, Segment)>) -> NodeResult {
    let (provider, name) = match model.of_profile() {
        Some(of) => (&of.provider, &of.model),
        None => (&order.provider, &order.model),
    };
    let mut process_data = JsonMap::new();
    for (key, value) in [
        ("usage", Json::Object(usage.record.clone())),
        ("model_provider", json!(provider)),
        ("model_name", json!(name)),
    ] {
        process_data.insert(key.into(), value);
    }
    let metadata = usage::metadata(&usage);
    NodeResult { process_data, outputs, metadata, usage: Some(usage), ..NodeResult::default() }
}
