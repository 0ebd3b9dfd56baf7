//! Tests of broken streams that only faulty servers send. Correct streams are tested against the mock of the `cli`
//! crate.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::json;
use tidemill_common::nodes::llm::Role;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::outside::providers::api::{Api, Settings};
use crate::outside::providers::frames::Framing;
use crate::outside::providers::openai::{Addresses, OpenAi};
use crate::outside::providers::reading::{Dialect, Intake, Reader, ReplyReader};
use crate::outside::providers::*;

/// The result of reading a stream: the pieces of text, and the reply.
pub(super) type StreamedReply = (Vec<String>, Result<ModelReply, ModelError>);

/// Reads a stream that arrives in these pieces.
pub(super) fn read(framing: Framing, dialect: impl Dialect, pieces: &[&[u8]]) -> StreamedReply {
    let mut deltas = Vec::new();
    let mut on_delta = |piece: &str| deltas.push(piece.to_owned());
    let mut reader = ReplyReader::new("p", dialect, &mut on_delta);
    reader.begin();
    let mut intake = Intake::new("p", framing);
    let mut over = Ok(false);
    for piece in pieces.iter().map(|piece| Some(*piece)).chain([None]) {
        over = intake.take(piece, &mut reader);
        if over != Ok(false) {
            break;
        }
    }
    let reply = over.and_then(|_| reader.end(RateFacts::default())).map(|()| timeless(reader.into_reply()));
    (deltas, reply)
}

/// Reads a stream cut at every position and checks that all cuts give the same result.
pub(super) fn read_however_cut<D: Dialect>(
    framing: Framing,
    dialect: impl Fn() -> D,
    stream: &str,
) -> StreamedReply {
    let bytes = stream.as_bytes();
    let told = read(framing, dialect(), &[bytes]);
    for at in 0..=bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(read(framing, dialect(), &[first, second]), told, "cut at {at} of {stream}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(read(framing, dialect(), &single), told, "byte by byte: {stream}");
    told
}

/// Removes the measured times, which differ between readings.
pub(super) fn timeless(reply: ModelReply) -> ModelReply {
    ModelReply { latency: Duration::ZERO, first_token: reply.first_token.map(|_| Duration::ZERO), ..reply }
}

const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
const SILENCE: &str = "<silence>";

/// Accepts one connection per answer and sends its pieces.
pub(super) async fn serve(answers: Vec<Vec<Vec<u8>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for pieces in answers {
            let (mut socket, _) = listener.accept().await.unwrap();
            read_request(&mut socket).await;
            for piece in pieces {
                if piece == SILENCE.as_bytes() {
                    std::future::pending::<()>().await;
                }
                socket.write_all(&piece).await.unwrap();
                socket.flush().await.unwrap();
            }
        }
    });
    format!("http://{addr}/v1")
}

/// Reads a request and returns its head and body.
pub(super) async fn read_request(socket: &mut TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece).await.unwrap();
        bytes.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length =
            head.split("content-length: ").nth(1).unwrap().lines().next().unwrap().parse::<usize>().unwrap();
        if body.len() >= length {
            return (head, body.to_owned());
        }
    }
}

fn event(object: &serde_json::Value) -> String {
    format!("data: {object}\r\n\r\n")
}

fn delta(delta: serde_json::Value) -> String {
    event(&json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}))
}

/// An API at a base URL.
pub(super) fn api(base_url: String, retries_max: u32) -> Api {
    let mut headers = HeaderMap::new();
    headers.insert("authorization", HeaderValue::from_static("Bearer sk-secret"));
    let settings = Settings {
        base_url,
        secrets: vec!["sk-secret".into()],
        headers,
        read_timeout: Duration::from_millis(1000),
        retries_max,
        answer_bytes_max: 1000,
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    Api::new(reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap(), settings)
}

fn client(base_url: String, retries_max: u32) -> OpenAi {
    OpenAi::new(api(base_url, retries_max), Addresses::Plain, true)
}

/// Sends a request; returns the pieces and the reply.
pub(super) async fn ask(client: &dyn ModelProvider) -> StreamedReply {
    let request = media::tests::request(vec![media::tests::text(Role::User, "hi")]);
    let mut pieces = Vec::new();
    let reply = client.stream_chat(&request, &mut |piece| pieces.push(piece.to_owned())).await;
    (pieces, reply)
}

async fn ask_once(pieces: Vec<Vec<u8>>) -> (Vec<String>, Result<ModelReply, ModelError>) {
    ask(&client(serve(vec![pieces]).await, 0)).await
}

fn stream(events: &[String]) -> Vec<u8> {
    format!("{STREAM}{}", events.concat()).into_bytes()
}

#[tokio::test]
async fn characters_cut_by_the_network_come_together_again() {
    let bytes = stream(&[
        delta(json!({"content": "größe 🙂"})),
        ": ping\r\n\r\n".into(),
        "data: [DONE]\r\n\r\n".into(),
    ]);
    let (pieces, reply) = ask_once(bytes.chunks(7).map(<[u8]>::to_vec).collect()).await;
    assert_eq!(pieces, ["größe 🙂"]);
    assert_eq!(reply.unwrap().text, "größe 🙂");
}

#[tokio::test]
async fn reasoning_fields_become_think_tags_in_the_text() {
    let events = [
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "a"})),
        delta(json!({"reasoning": "b", "content": null})),
        delta(json!({"content": "c"})),
        event(&json!({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}})),
    ];
    let (pieces, reply) = ask_once(vec![stream(&events)]).await;
    assert_eq!(pieces, ["<think>\na", "b", "\n</think>c"]);
    let reply = reply.unwrap();
    assert_eq!(
        (reply.finish_reason.as_deref(), reply.tokens.prompt, reply.tokens.completion),
        (Some("stop"), 3, 0)
    );
    assert!(reply.first_token.is_some());
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let body = json!({
        "choices": [{"message": {"role": "assistant", "content": "all"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2}
    })
    .to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let (pieces, reply) = ask_once(vec![(head + &body).into_bytes()]).await;
    assert_eq!(pieces, ["all"]);
    let reply = reply.unwrap();
    assert_eq!((reply.finish_reason.as_deref(), reply.tokens.completion), (Some("length"), 2));
}

#[tokio::test]
async fn what_breaks_a_stream_fails_the_call_and_keeps_what_came_before() {
    let text = delta(json!({"content": "part"}));
    for (ending, error_type, said) in [
        (String::new(), "InvokeConnectionError", "broke off"),
        ("data: {oops\n\n".into(), "InvokeConnectionError", "not JSON: {oops"),
        (
            event(&json!({"error": {"type": "rate_limit_error", "message": "enough"}})),
            "InvokeRateLimitError",
            "enough",
        ),
        (
            event(&json!({"object": "error", "message": "worn out"})),
            "InvokeServerUnavailableError",
            "worn out",
        ),
    ] {
        // One retry is allowed, but not after text was passed on: the server would accept a second connection.
        let answers =
            vec![vec![stream(&[text.clone(), ending.clone()])], vec![stream(std::slice::from_ref(&text))]];
        let (pieces, reply) = ask(&client(serve(answers).await, 2)).await;
        let error = reply.unwrap_err();
        assert_eq!(
            (pieces.concat().as_str(), error.class.error_type()),
            ("part", error_type),
            "{ending:?}: {error}"
        );
        assert!(error.message.starts_with("[p] ") && error.message.contains(said), "{ending:?}: {error}");
    }
}

#[tokio::test]
async fn a_reply_that_breaks_off_before_any_text_is_asked_for_again() {
    let answers =
        vec![vec![stream(&[])], vec![stream(&[delta(json!({"content": "ok"})), "data: [DONE]\n\n".into()])]];
    let (pieces, reply) = ask(&client(serve(answers).await, 1)).await;
    assert_eq!(pieces, ["ok"]);
    assert!(reply.is_ok());
}

#[tokio::test]
async fn silence_ends_the_call() {
    let begun = stream(&[delta(json!({"content": "part"}))]);
    let (pieces, reply) = ask_once(vec![begun, SILENCE.into()]).await;
    let error = reply.unwrap_err();
    assert_eq!((pieces.concat().as_str(), error.class), ("part", ErrorClass::Connection));
    assert!(error.message.contains("within 1000 ms (read_timeout_ms)"), "{error}");
}

#[tokio::test]
async fn a_closed_port_is_a_connection_error_with_its_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    drop(listener);
    let (_, reply) = ask(&client(format!("http://{addr}/v1"), 0)).await;
    let error = reply.unwrap_err();
    assert_eq!((error.class, error.retryable), (ErrorClass::Connection, true));
    assert!(error.message.contains(&addr.to_string()) && error.message.contains("refused"), "{error}");
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_repeated_key_is_masked() {
    let redirect = "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let (_, reply) = ask(&client(serve(vec![vec![redirect.into()]]).await, 0)).await;
    let error = reply.unwrap_err();
    assert!(!error.message.contains("sk-secret"), "{error}");
    let body = r#"{"error":{"message":"bad key sk-secret"}}"#;
    let refused = format!("HTTP/1.1 401 Unauthorized\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let (_, reply) = ask(&client(serve(vec![vec![refused.into_bytes()]]).await, 0)).await;
    let error = reply.unwrap_err();
    assert_eq!(error.class, ErrorClass::Authorization);
    assert!(error.message.ends_with("HTTP 401: bad key ***"), "{error}");
}

#[tokio::test]
async fn dropping_the_call_closes_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (arrived, seen) = tokio::sync::oneshot::channel();
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        read_request(&mut socket).await;
        arrived.send(()).unwrap();
        // Ends when the client closes the connection; otherwise it waits forever.
        let mut rest = [0; 1];
        socket.read(&mut rest).await.unwrap_or(0)
    });
    let call = tokio::spawn(async move { ask(&client(base_url, 0)).await });
    seen.await.unwrap();
    call.abort();
    let read = tokio::time::timeout(Duration::from_millis(800), server).await;
    assert_eq!(read.expect("the connection was closed at once").unwrap(), 0);
}

#[tokio::test]
async fn an_answer_that_is_too_large_says_so_and_names_the_setting() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
    let answer =
        |bytes: usize| vec![head.as_bytes().to_vec(), format!("{{\"a\":{:>1$}}}", 1, bytes - 6).into_bytes()];
    let base_url = serve(vec![answer(1000), answer(1001)]).await;
    let api = api(base_url.clone(), 0);
    let asked = async || api.ask("p", format!("{base_url}/embeddings"), &json!({})).await;
    assert_eq!(asked().await, Ok(json!({"a": 1})));
    let error = asked().await.unwrap_err();
    assert_eq!((error.class, error.retryable), (ErrorClass::BadRequest, false));
    assert!(error.message.ends_with("the answer is larger than 1000 bytes (answer_bytes_max)"), "{error}");
}
