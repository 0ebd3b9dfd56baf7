//! `POST /v1/audio-to-text` and `POST /v1/text-to-audio`.

use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json as JsonBody};
use multer::{Constraints, Multipart, SizeLimit};
use serde_json::{Value as Json, json};
use tidemill_common::dsl::features::{SPEECH_TO_TEXT, TEXT_TO_SPEECH, is_switched_on};
use tidemill_common::limits::UPLOAD_SECONDS_MAX;
use tidemill_common::store::App;
use tidemill_common::value::JsonMap;

use super::check_on;
use super::user_conversation::UserConversation;
use crate::api::ApiState;
use crate::api::auth::{CallingApp, CallingKey};
use crate::api::error::ApiError;
use crate::api::request::{Body, take_text};
use crate::features::speech::{self, Payer, Recording, SpeechError, Text};

/// The user of requests that name none, as on Dify.
const DEFAULT_USER: &str = "DEFAULT-USER";
/// The media types that Dify takes, after `audio/`.
const TYPES: [&str; 9] = ["mp3", "mp4", "mpeg", "mpga", "m4a", "x-m4a", "wav", "webm", "amr"];
/// Bytes of a form beside its file.
const FORM_BYTES_MAX: u64 = 64 * 1024;
/// A megabyte, as Dify counts.
const MEGABYTE: u64 = 1024 * 1024;

/// Writes down what is said in a recording.
///
/// # Errors
/// Dify's: 400 for an app that is off, or whose feature is off, without a file, without a model that hears or when it fails; 413 for a
/// recording that is too large, 415 for another type; 503 when no worker does it in time.
pub async fn to_text(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    headers: HeaderMap,
    request: Request,
) -> Result<JsonBody<Json>, ApiError> {
    check_on(&app)?;
    let mut body = request.into_body();
    let (recording, user) = recording(&state, &app, &headers, &mut body).await?;
    let payer = Payer { user, key: Some(key) };
    let text = speech::to_text(&state.submitter, &state.config, recording, payer).await;
    let text = text.map_err(|error| match error {
        SpeechError::NoModel => no_speech_to_text(),
        error => failed(error),
    })?;
    Ok(JsonBody(json!({ "text": text })))
}

/// Reads a text aloud, or the answer of a message. The answer is MP3; a message that is not found has none, and then the
/// answer is null, as on Dify.
///
/// # Errors
/// Dify's: 400 for an app that is off, or whose feature is off, without a text, without a model that speaks or when it fails; 503 when no
/// worker does it in time.
pub async fn to_audio(
    State(state): State<ApiState>,
    Extension(CallingApp(app)): Extension<CallingApp>,
    Extension(CallingKey(key)): Extension<CallingKey>,
    body: Body,
) -> Result<Response, ApiError> {
    check_on(&app)?;
    let mut map = body.dify_object()?;
    let user = match map.get("user") {
        Some(Json::String(user)) if !user.is_empty() => user.clone(),
        Some(Json::Number(user)) => user.to_string(),
        _ => DEFAULT_USER.to_owned(),
    };
    let (message, voice) = (take_text(&mut map, "message_id")?, take_text(&mut map, "voice")?);
    let text = take_text(&mut map, "text")?;
    let workflow = state.workflows.of_document(&app.version, &app.document)?;
    let features = &workflow.graph.features;
    let text = match message.as_deref().filter(|id| !id.is_empty()) {
        Some(message) => match answer_of(&state, &app, &user, message).await? {
            Some(answer) => answer,
            None => return Ok(JsonBody(Json::Null).into_response()),
        },
        None => text
            .filter(|text| !text.trim().is_empty())
            .ok_or_else(|| ApiError::invalid_param("Text is required"))?,
    };
    let max = state.config.features.speech_chars_max;
    if text.chars().count() > max {
        let message = format!("text must have at most {max} characters (features.speech_chars_max)");
        return Err(ApiError::invalid_param(message));
    }
    let voice = voice_of(voice, features, &state)?;
    let payer = Payer { user, key: Some(key) };
    let text = Text { text, voice, message: None };
    let sound = speech::to_audio(&state.submitter, &state.config, text, payer).await.map_err(failed)?;
    Ok(([(header::CONTENT_TYPE, "audio/mpeg")], sound).into_response())
}

/// The voice of a request. As on Dify, a request that names one is served whatever the file says.
fn voice_of(given: Option<String>, features: &JsonMap, state: &ApiState) -> Result<String, ApiError> {
    match given.filter(|voice| !voice.is_empty()) {
        Some(voice) => Ok(voice),
        None if is_switched_on(features, TEXT_TO_SPEECH) => Ok(speech::voice(features, &state.config)),
        None => Err(ApiError::invalid_param("TTS is not enabled")),
    }
}

/// The answer of a message of this user; `None` when there is none yet.
async fn answer_of(
    state: &ApiState,
    app: &App,
    user: &str,
    message: &str,
) -> Result<Option<String>, ApiError> {
    let Ok(id) = message.parse() else { return Ok(None) };
    let Some(conversation) = UserConversation::of_message(state, app, user, id).await? else {
        return Ok(None);
    };
    conversation.settle(state, app).await?;
    let turns = conversation.turns(state).await?;
    let id = id.to_string();
    let turn = turns.iter().find(|turn| turn["id"] == id.as_str());
    let answer = turn.and_then(|turn| turn["answer"].as_str()).unwrap_or_default();
    Ok(Some(answer.to_owned()).filter(|answer| !answer.trim().is_empty()))
}

/// Reads the form of a request: the recording, and the user.
async fn recording(
    state: &ApiState,
    app: &App,
    headers: &HeaderMap,
    body: &mut HttpBody,
) -> Result<(Recording, String), ApiError> {
    let workflow = state.workflows.of_document(&app.version, &app.document)?;
    if !is_switched_on(&workflow.graph.features, SPEECH_TO_TEXT) {
        let message = "Speech to text is disabled.";
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "speech_to_text_disabled", message));
    }
    let max = state.config.features.audio_bytes_max;
    let reading = form(headers, body, max);
    match tokio::time::timeout(Duration::from_secs(UPLOAD_SECONDS_MAX), reading).await {
        Ok(read) => read,
        Err(_) => {
            let message = format!("the recording did not arrive within {UPLOAD_SECONDS_MAX} seconds");
            Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", message))
        }
    }
}

async fn form(headers: &HeaderMap, body: &mut HttpBody, max: u64) -> Result<(Recording, String), ApiError> {
    let no_audio =
        || ApiError::new(StatusCode::BAD_REQUEST, "no_audio_uploaded", "Please upload your audio.");
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let boundary = multer::parse_boundary(content_type.unwrap_or_default()).map_err(|_| no_audio())?;
    let wrong = |error: multer::Error| match error {
        multer::Error::StreamSizeExceeded { .. } | multer::Error::FieldSizeExceeded { .. } => {
            let message = format!("Audio size larger than {} mb", max / MEGABYTE);
            ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "audio_too_large", message)
        }
        error => ApiError::bad_request(format!("the multipart body cannot be read: {error}")),
    };
    let limits = SizeLimit::new().whole_stream(max.saturating_add(FORM_BYTES_MAX)).for_field("file", max);
    let stream = http_body_util::BodyDataStream::new(body);
    let mut parts = Multipart::with_constraints(stream, boundary, Constraints::new().size_limit(limits));
    let (mut recording, mut user) = (None, DEFAULT_USER.to_owned());
    while let Some(field) = parts.next_field().await.map_err(wrong)? {
        let is_file = field.file_name().is_some();
        let name = field.name().unwrap_or_default().to_owned();
        let media_type = field.content_type().map(|kind| kind.essence_str().to_ascii_lowercase());
        match name.as_str() {
            "file" if is_file => {
                let mime_type = media_type.filter(|kind| is_audio(kind)).ok_or_else(unsupported)?;
                recording = Some(Recording { mime_type, bytes: field.bytes().await.map_err(wrong)? });
            }
            "user" if !is_file => {
                let given = field.text().await.map_err(wrong)?;
                if !given.is_empty() {
                    user = given;
                }
            }
            _ => {
                drop(field.bytes().await.map_err(wrong)?);
            }
        }
    }
    Ok((recording.ok_or_else(no_audio)?, user))
}

fn is_audio(media_type: &str) -> bool {
    media_type.strip_prefix("audio/").is_some_and(|kind| TYPES.contains(&kind))
}

fn unsupported() -> ApiError {
    ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_audio_type", "Audio type not allowed.")
}

fn no_speech_to_text() -> ApiError {
    let message = "Provider not support speech to text.";
    ApiError::new(StatusCode::BAD_REQUEST, "provider_not_support_speech_to_text", message)
}

fn failed(error: SpeechError) -> ApiError {
    match error {
        SpeechError::NoModel => {
            let message = "No valid model provider credentials found. Please go to Settings -> Model Provider to complete your provider credentials.";
            ApiError::new(StatusCode::BAD_REQUEST, "provider_not_initialize", message)
        }
        SpeechError::Inner(error) => error.into(),
        SpeechError::Files(error) => {
            tracing::error!(%error, "a recording or a sound cannot be stored or read");
            ApiError::unavailable("the file cannot be stored or read now; try again in a moment")
        }
        error @ SpeechError::NoOutput(_) => ApiError::unavailable(format!("{error}; try again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a form with this file.
    async fn read(kind: &str, size: usize, max: u64) -> Result<(Recording, String), ApiError> {
        let body = format!(
            "--x\r\nContent-Disposition: form-data; name=\"user\"\r\n\r\nu\r\n--x\r\nContent-Disposition: form-data; \
             name=\"file\"; filename=\"a\"\r\nContent-Type: {kind}\r\n\r\n{}\r\n--x--\r\n",
            "a".repeat(size)
        );
        let mut headers = HeaderMap::new();
        headers.insert(
            header::CONTENT_TYPE,
            header::HeaderValue::from_static("multipart/form-data; boundary=x"),
        );
        form(&headers, &mut HttpBody::from(body), max).await
    }

    #[tokio::test]
    async fn a_recording_is_refused_in_the_words_of_dify() {
        for (kind, size, max, expected) in [
            ("audio/mpeg", 10, 10, None),
            ("audio/MP3; codecs=x", 10, 10, None),
            ("audio/x-m4a", 10, 10, None),
            ("audio/mpeg", 11, 10, Some(StatusCode::PAYLOAD_TOO_LARGE)),
            ("audio/flac", 1, 10, Some(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
            ("video/mp4", 1, 10, Some(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
        ] {
            let read = read(kind, size, max).await;
            assert_eq!(read.as_ref().err().map(ApiError::status), expected, "{kind} {size}");
            if let Ok((recording, user)) = read {
                assert_eq!((recording.bytes.len(), user.as_str()), (size, "u"));
            }
        }
        let large = read("audio/mpeg", 2, 1).await.err().map(|error| error.message().to_owned());
        assert_eq!(large.as_deref(), Some("Audio size larger than 0 mb"));
        let none = form(&HeaderMap::new(), &mut HttpBody::empty(), 1).await.err();
        assert_eq!(
            none.map(|error| error.message().to_owned()).as_deref(),
            Some("Please upload your audio.")
        );
    }
}
