//! The routes of speech: a recording is heard as the text of its bytes, and a text sounds like silence.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, Uri, header};
use axum::response::Response;
use futures_util::stream;
use serde_json::{Value as Json, json};

use super::protocols::Protocol;
use super::reply::MockResponse;
use super::routes::{object, respond, serve};
use super::server::{MockLlm, Served};
use super::socket::Resets;

/// The head of a frame of MP3: 128 kbit/s, 44.1 kHz, mono.
const FRAME_HEAD: [u8; 4] = [0xff, 0xfb, 0x90, 0xc4];
/// Bytes of such a frame.
const FRAME_BYTES: usize = 417;
/// Frames of a sound: about a second.
const FRAMES: usize = 38;

/// Hears a recording: rules see its bytes as the text of a user, and their reply is what was said.
pub(super) async fn transcriptions(
    State(mock): State<Arc<MockLlm>>,
    ConnectInfo(resets): ConnectInfo<Resets>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(heard) = form(&headers, body).await else {
        return respond(MockResponse::refusal(Protocol::OpenAi, 400, "the request is not a form"), resets);
    };
    let said = json!({"role": "user", "content": heard["said"]});
    let heard = json!({"model": heard["model"], "messages": [said], "filename": heard["filename"]});
    mock.log.add("POST", uri.path(), &heard);
    let served = mock.chat(Protocol::OpenAi, &heard);
    let answer = match served.answer {
        MockResponse::Whole { status: 200, body } => {
            let text = body["choices"][0]["message"]["content"].clone();
            MockResponse::Whole { status: 200, body: json!({ "text": text }) }
        }
        failure => failure,
    };
    serve(Served { answer, ..served }, resets).await
}

/// Speaks a text, unless a rule makes the call fail.
pub(super) async fn speech(
    State(mock): State<Arc<MockLlm>>,
    ConnectInfo(resets): ConnectInfo<Resets>,
    uri: Uri,
    body: Bytes,
) -> Response {
    let body = match object(Protocol::OpenAi, &body) {
        Ok(body) => body,
        Err(refusal) => return respond(refusal, resets),
    };
    let said = json!([{"role": "user", "content": body["input"]}]);
    let asked = json!({"model": body["model"], "messages": said, "voice": body["voice"]});
    mock.log.add("POST", uri.path(), &asked);
    let mut served = mock.compute(Protocol::OpenAi, &body, Json::Null);
    if !matches!(served.answer, MockResponse::Whole { status: 200, .. }) {
        return serve(served, resets).await;
    }
    served.due().await;
    let mut response = Response::new(Body::from(silence()));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("audio/mpeg"));
    response
}

/// A second of silence, as MP3.
pub fn silence() -> Vec<u8> {
    let mut frame = vec![0; FRAME_BYTES];
    frame[..FRAME_HEAD.len()].copy_from_slice(&FRAME_HEAD);
    frame.repeat(FRAMES)
}

/// The model and the recording in a form; `None` if it cannot be read.
async fn form(headers: &HeaderMap, body: Bytes) -> Option<Json> {
    let boundary = multer::parse_boundary(headers.get(header::CONTENT_TYPE)?.to_str().ok()?).ok()?;
    let whole = stream::once(async move { Ok::<Bytes, Infallible>(body) });
    let mut parts = multer::Multipart::new(whole, boundary);
    let mut heard = json!({});
    while let Some(field) = parts.next_field().await.ok()? {
        let (name, filename) =
            (field.name().unwrap_or_default().to_owned(), field.file_name().map(str::to_owned));
        let bytes = field.bytes().await.ok()?;
        match filename {
            Some(filename) => {
                let said = std::str::from_utf8(&bytes)
                    .map_or_else(|_| format!("a recording of {} bytes", bytes.len()), str::to_owned);
                heard["filename"] = filename.into();
                heard["said"] = said.into();
            }
            None => heard[name.as_str()] = String::from_utf8_lossy(&bytes).into(),
        }
    }
    heard.get("said").is_some().then_some(heard)
}
