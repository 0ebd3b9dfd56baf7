//! The model: sends the requested number of words, one every 50 ms. Each word is the time at which it was sent. It is a
//! separate process, so that its processor time can be measured separately.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use serde_json::Value as Json;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep_until};

use super::tally::stamp;
use crate::error::Error;

/// Time between two words, as in Dify's own stress test.
pub(crate) const WORD_EVERY: Duration = Duration::from_millis(50);

/// Serves until the process is killed.
pub(crate) async fn run(listen: &str) -> Result<(), Error> {
    let routes =
        Router::new().route("/v1/chat/completions", post(answer)).route("/health", get(async || "ok"));
    let listener = TcpListener::bind(listen).await.map_err(Error::io("listening as the model"))?;
    // Without this a word would wait until the word before it was acknowledged, and would look too fresh.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    axum::serve(listener, routes).await.map_err(Error::io("serving as the model"))
}

/// Answers a request. The last message contains the number of words.
async fn answer(body: Bytes) -> Response {
    let request: Json = serde_json::from_slice(&body).unwrap_or_default();
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    let words = last.and_then(|last| last["content"].as_str()?.trim().parse().ok()).unwrap_or(0);
    let saying = Saying { began: Instant::now(), sent: 0, words };
    let pieces = futures_util::stream::unfold(Some(saying), async |saying| {
        let mut saying = saying?;
        if saying.sent == saying.words {
            return Some((Ok::<_, Infallible>(last_piece(saying.words)), None));
        }
        // Uses planned times instead of pauses: if one word is late, the next one can still be on time.
        sleep_until(saying.began + WORD_EVERY * saying.sent).await;
        saying.sent += 1;
        Some((Ok(word()), Some(saying)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let kind = axum::http::HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, kind);
    response
}

struct Saying {
    began: Instant,
    sent: u32,
    words: u32,
}

const HEAD: &str =
    r#"data: {"id":"chatcmpl-load","created":0,"model":"load","object":"chat.completion.chunk","choices":"#;

fn word() -> Bytes {
    let stamp = stamp();
    format!("{HEAD}[{{\"index\":0,\"delta\":{{\"content\":\"{stamp} \"}},\"finish_reason\":null}}]}}\n\n")
        .into()
}

fn last_piece(words: u32) -> Bytes {
    format!(
        "{HEAD}[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n\
         {HEAD}[],\"usage\":{{\"prompt_tokens\":1,\"completion_tokens\":{words},\"total_tokens\":{}}}}}\n\n\
         data: [DONE]\n\n",
        words + 1
    )
    .into()
}
