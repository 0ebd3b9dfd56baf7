//! Reads answers aloud in the streams of apps that play them (`text_to_speech.autoPlay`). The whole text is spoken when the
//! run has ended, by a run whose id follows from the message's: so a client that follows the run again gets the same sound,
//! and an app without this feature pays nothing for it.

use std::pin::Pin;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value as Json;
use tidemill_common::dsl::features::{TEXT_TO_SPEECH, is_served};
use tidemill_common::graph::Graph;
use tidemill_common::store::App;

use crate::api::ApiState;
use crate::api::error::ApiError;
use crate::features::speech::{Payer, Text, plays_automatically, to_audio, voice};
use crate::runs::projection::Projection;
use crate::runs::record::RunRecord;

/// Bytes of sound in an event. A multiple of three, so that only the last piece has padding.
const PIECE_BYTES: usize = 12 * 1024;

/// The sound, when it is made; `None` when there is none.
pub(super) type Speaking = Pin<Box<dyn Future<Output = Option<Bytes>> + Send>>;

/// The workflow whose features say how an answer is read aloud: the run's own, or the app's if the run only records an answer
/// that was given in place of it.
pub(super) fn graph(
    state: &ApiState,
    app: &App,
    record: &RunRecord,
    own: &Arc<Graph>,
) -> Result<Arc<Graph>, ApiError> {
    match record.answered_by {
        None => Ok(own.clone()),
        Some(_) => Ok(state.workflows.of_document(&app.version, &app.document)?.graph.clone()),
    }
}

/// True when the answers of this app are read aloud here.
pub(super) fn is_on(state: &ApiState, graph: &Graph) -> bool {
    plays_automatically(&graph.features)
        && is_served(&graph.features, TEXT_TO_SPEECH, state.workflows.served())
}

/// Begins to read the answer of an ended run aloud. A text that is too long is read in part.
pub(super) fn begin(state: &ApiState, record: &RunRecord, graph: &Graph, answer: &str) -> Speaking {
    let text: String = answer.trim().chars().take(state.config.features.speech_chars_max).collect();
    if text.is_empty() {
        return Box::pin(std::future::ready(None));
    }
    let text = Text { text, voice: voice(&graph.features, &state.config), message: Some(record.id) };
    let payer = Payer { user: record.user.clone(), key: record.key.clone() };
    let (state, run) = (state.clone(), record.id);
    Box::pin(async move {
        let made = to_audio(&state.submitter, &state.config, text, payer).await;
        // The text was sent already, so the client only misses its sound.
        made.map_err(|error| tracing::warn!(%run, %error, "an answer could not be read aloud")).ok()
    })
}

/// The events with a sound, and its end.
pub(super) fn payloads(projection: &Projection, sound: Option<&Bytes>) -> Vec<Json> {
    let pieces = sound.into_iter().flat_map(|sound| sound.chunks(PIECE_BYTES));
    let mut payloads: Vec<Json> =
        pieces.map(|piece| projection.tts_message(&STANDARD.encode(piece))).collect();
    payloads.push(projection.tts_message_end());
    payloads
}

/// Adds the end of the sound to the last payloads of a failed run: before the error, as on Dify.
pub(super) fn end_without_sound(projection: &Projection, payloads: &mut Vec<Json>) {
    let at = payloads.iter().position(|payload| payload["event"] == "error").unwrap_or(payloads.len());
    payloads.insert(at, projection.tts_message_end());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::runs::projection::{ChatFacts, RunFacts};

    fn projection(is_chat: bool) -> Projection {
        let file = include_bytes!("../../features/to_text.yml");
        let graph = tidemill_common::graph::import(file).graph.expect("a graph");
        let chat = is_chat.then(|| ChatFacts { conversation_id: "c".into(), simple: None });
        let run = RunFacts { id: "r".into(), created_at: 5, chat, ..RunFacts::default() };
        Projection::new(run, Arc::new(graph))
    }

    #[test]
    fn a_sound_comes_in_pieces_and_has_an_end() {
        let sound = Bytes::from(vec![7; PIECE_BYTES + 1]);
        let sent = payloads(&projection(true), Some(&sound));
        let whole: Vec<u8> =
            sent.iter().flat_map(|it| STANDARD.decode(it["audio"].as_str().unwrap()).unwrap()).collect();
        assert_eq!((sent.len(), whole), (3, sound.to_vec()));
        let end = json!({
            "event": "tts_message_end", "conversation_id": "c", "message_id": "r", "created_at": 5, "task_id": "r", "audio": "",
        });
        assert_eq!(sent[2].to_string(), end.to_string());
        let end = json!({"event": "tts_message_end", "workflow_run_id": "r", "task_id": "r", "audio": ""});
        assert_eq!(payloads(&projection(false), None), [end]);
    }

    #[test]
    fn the_sound_of_a_failed_run_ends_before_its_error() {
        for (events, expected) in [
            (vec!["workflow_finished", "error"], vec!["workflow_finished", "tts_message_end", "error"]),
            (vec!["workflow_finished"], vec!["workflow_finished", "tts_message_end"]),
        ] {
            let mut payloads: Vec<Json> = events.into_iter().map(|event| json!({ "event": event })).collect();
            end_without_sound(&projection(true), &mut payloads);
            let events: Vec<_> = payloads.iter().map(|it| it["event"].as_str().unwrap()).collect();
            assert_eq!(events, expected);
        }
    }
}
