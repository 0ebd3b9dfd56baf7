//! Speech: the text of a recording, and the sound of a text. Recording and sound are files of the run that makes one from
//! the other, so they never go through Redis.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value as Json, json};
use tidemill_common::config::{Config, NamedModel, model_of};
use tidemill_common::crash::{self, CrashPoint};
use tidemill_common::dsl::features::TEXT_TO_SPEECH;
use tidemill_common::files::{self, FilesError};
use tidemill_common::ids::RunId;
use tidemill_common::value::JsonMap;

use crate::submit::Submitter;
use crate::submit::inner::{Inner, InnerEnd, InnerError, SPEAKS, TRIES, beside};

const TO_TEXT: &str = include_str!("to_text.yml");
const TO_AUDIO: &str = include_str!("to_audio.yml");
const HEARS: &str = "speech to text";
const SETTING: &str = "features.speech_seconds_max";

/// Why there is no text or no sound.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpeechError {
    /// The settings name no model for it.
    #[error("the settings name no model for it")]
    NoModel,
    /// The run gave nothing.
    #[error(transparent)]
    Inner(#[from] InnerError),
    /// The storage of files does not answer.
    #[error("{0}")]
    Files(#[from] FilesError),
    /// The output of the run is not what it should be.
    #[error("the run for it gave no {0}")]
    NoOutput(&'static str),
}

/// A recording.
pub(crate) struct Recording {
    /// The media type, such as `audio/mpeg`.
    pub(crate) mime_type: String,
    pub(crate) bytes: Bytes,
}

/// The user of a request and the API key that pays.
#[derive(Debug, Clone)]
pub(crate) struct Payer {
    pub(crate) user: String,
    pub(crate) key: Option<String>,
}

/// What is read aloud.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// The provider's name of the voice.
    pub(crate) voice: String,
    /// The message that the text is the answer of: then its sound is made only once.
    pub(crate) message: Option<RunId>,
}

/// The text that is said in a recording.
///
/// # Errors
/// See [`SpeechError`].
pub(crate) async fn to_text(
    submitter: &Submitter,
    config: &Config,
    recording: Recording,
    payer: Payer,
) -> Result<String, SpeechError> {
    let model = model_of(&config.features.speech_to_text).ok_or(SpeechError::NoModel)?;
    let run = RunId::generate(submitter.some_shard().await.map_err(InnerError::from)?);
    let place = files::open(&config.files)?;
    // Before the recording is stored: it goes also when the client leaves while it is stored, or before its run exists.
    let mut after = submitter.once(run, wait_max(config));
    after.files = Some(place.clone());
    let filename = file_name(&recording.mime_type);
    submitter.note_early_files(run).await.map_err(InnerError::from)?;
    let reference = place.keep(&run, recording.bytes).await?;
    crash::pass(CrashPoint::EarlyFilesKept);
    let order = json!({"reference": reference, "filename": filename, "mime_type": recording.mime_type});
    let end = submitter.inner(inner(config, (HEARS, TO_TEXT), (model, order), payer, run)).await?;
    let text = end.outputs.get("text").and_then(Json::as_str).map(str::to_owned);
    text.ok_or(SpeechError::NoOutput("text"))
}

/// The name under which a recording goes to the model, which reads its format from the name.
fn file_name(mime_type: &str) -> String {
    let kind = mime_type.rsplit('/').next().unwrap_or_default();
    format!("recording.{}", kind.strip_prefix("x-").unwrap_or(kind))
}

/// The sound of a text, as MP3.
///
/// # Errors
/// See [`SpeechError`].
pub(crate) async fn to_audio(
    submitter: &Submitter,
    config: &Config,
    text: Text,
    payer: Payer,
) -> Result<Bytes, SpeechError> {
    let model = model_of(&config.features.text_to_speech).ok_or(SpeechError::NoModel)?;
    let order = json!({"text": text.text, "voice": text.voice});
    let new = |run| inner(config, (SPEAKS, TO_AUDIO), (model, order), payer, run);
    let (end, _after) = match text.message {
        Some(message) => (of_message(submitter, message, new).await?, None),
        None => {
            let run = RunId::generate(submitter.some_shard().await.map_err(InnerError::from)?);
            // Until the sound is read.
            let after = submitter.once(run, wait_max(config));
            (submitter.inner(new(run)).await?, Some(after))
        }
    };
    let place = files::open(&config.files)?;
    let reference = reference_in(&end).ok_or(SpeechError::NoOutput("audio"))?;
    Ok(place.read(reference, config.features.audio_bytes_max).await?)
}

/// The end of the run that reads a message aloud: of the one that did, or of a new one if all before it have failed.
async fn of_message(
    submitter: &Submitter,
    message: RunId,
    new: impl FnOnce(RunId) -> Inner,
) -> Result<InnerEnd, InnerError> {
    let mut failed = InnerError::Gone;
    for number in 0..TRIES {
        let run = beside(message, SPEAKS, number);
        match submitter.inner_end(run).await {
            Ok(Some(end)) => return Ok(end),
            Ok(None) => return submitter.inner(new(run)).await,
            Err(error @ InnerError::Failed { .. }) => failed = error,
            Err(error) => return Err(error),
        }
    }
    Err(failed)
}

fn wait_max(config: &Config) -> Duration {
    Duration::from_secs(config.features.speech_seconds_max)
}

/// The voice of the app, else that of the settings.
pub(crate) fn voice(features: &JsonMap, config: &Config) -> String {
    let own = features.get(TEXT_TO_SPEECH).and_then(|feature| feature.get("voice")?.as_str());
    own.filter(|voice| !voice.trim().is_empty()).unwrap_or(&config.features.text_to_speech_voice).to_owned()
}

/// True when the app wants its answers to be played.
pub(crate) fn plays_automatically(features: &JsonMap) -> bool {
    let choice = features.get(TEXT_TO_SPEECH).and_then(|feature| feature.get("autoPlay")?.as_str());
    choice == Some("enabled")
}

fn inner(
    config: &Config,
    (purpose, file): (&'static str, &'static str),
    (model, mut order): (NamedModel, Json),
    payer: Payer,
    run: RunId,
) -> Inner {
    order["provider"] = model.provider.into();
    order["model"] = model.model.into();
    order["bytes_max"] = config.features.audio_bytes_max.into();
    Inner {
        purpose,
        file: file.into(),
        inputs: JsonMap::from_iter([("order".to_owned(), order)]),
        user: payer.user,
        key: payer.key,
        run: Some(run),
        has_files: purpose == HEARS,
        wait_max: wait_max(config),
        setting: SETTING,
    }
}

fn reference_in(end: &InnerEnd) -> Option<&str> {
    end.outputs.get("audio")?.get("reference")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_files_are_workflows() {
        for file in [TO_TEXT, TO_AUDIO] {
            let imported = tidemill_common::graph::import(file.as_bytes());
            assert!(imported.is_usable(), "{:?}", imported.diagnostics);
        }
    }

    #[test]
    fn the_voice_of_the_app_wins_and_only_its_word_plays_answers() {
        let config = Config::default();
        for (feature, spoken_by, plays) in [
            (json!({}), "alloy", false),
            (json!({"voice": "", "autoPlay": "disabled"}), "alloy", false),
            (json!({"voice": "nova", "autoPlay": "enabled"}), "nova", true),
            (json!({"voice": null, "autoPlay": true}), "alloy", false),
        ] {
            let features = JsonMap::from_iter([(TEXT_TO_SPEECH.to_owned(), feature.clone())]);
            assert_eq!(voice(&features, &config), spoken_by, "{feature}");
            assert_eq!(plays_automatically(&features), plays, "{feature}");
        }
    }
}
