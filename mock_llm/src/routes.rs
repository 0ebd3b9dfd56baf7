//! The HTTP routes of all protocols, and how an answer is sent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Path, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::{Value as Json, json};

use super::protocols::{Protocol, vectors};
use super::reply::{self, MockResponse};
use super::rules::Rules;
use super::server::{MockLlm, Served};
use super::socket::Resets;
use super::speech;

/// Largest accepted request, in bytes; tests send prompts of megabytes.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Time for the sent bytes to leave before the connection is reset.
const BEFORE_RESET: Duration = Duration::from_millis(5);

pub(super) fn routes(mock: Arc<MockLlm>) -> Router {
    let requests =
        |State(mock): State<Arc<MockLlm>>| async move { whole(200, &Json::Array(mock.log.entries())) };
    let chat = |protocol| {
        post(move |mock: State<Arc<MockLlm>>, connection: ConnectInfo<Resets>, uri: Uri, body: Bytes| {
            chat(protocol, mock, connection, uri, body)
        })
    };
    let compute = |compute: fn(&Json) -> Json, protocol| {
        post(move |mock: State<Arc<MockLlm>>, connection: ConnectInfo<Resets>, uri: Uri, body: Bytes| {
            computed(compute, protocol, mock, connection, uri, body)
        })
    };
    Router::new()
        .route("/v1/chat/completions", chat(Protocol::OpenAi))
        .route("/v1/completions", chat(Protocol::Completions))
        .route("/v1/embeddings", compute(vectors::embeddings, Protocol::OpenAi))
        .route("/v1/rerank", compute(vectors::ranking, Protocol::OpenAi))
        .route("/v1/audio/transcriptions", post(speech::transcriptions))
        .route("/v1/audio/speech", post(speech::speech))
        .route("/v1/moderations", compute(vectors::moderations, Protocol::OpenAi))
        .route("/v1/messages", chat(Protocol::Anthropic))
        .route("/openai/v1/chat/completions", chat(Protocol::Azure))
        .route("/openai/v1/completions", chat(Protocol::Completions))
        .route("/openai/v1/embeddings", compute(vectors::embeddings, Protocol::Azure))
        .route("/openai/deployments/{deployment}/{*operation}", post(deployed))
        .route("/api/chat", chat(Protocol::Ollama))
        .route("/api/embed", compute(vectors::ollama, Protocol::Ollama))
        .route("/v1/models", get(models))
        .route("/requests", get(requests))
        .route("/__requests__", get(requests))
        .route("/health", get(async || "ok"))
        .fallback(async || whole(404, &json!({"error": "no such route"})))
        .layer(axum::extract::DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(mock)
}

async fn chat(
    protocol: Protocol,
    State(mock): State<Arc<MockLlm>>,
    ConnectInfo(resets): ConnectInfo<Resets>,
    uri: Uri,
    body: Bytes,
) -> Response {
    let body = match object(protocol, &body) {
        Ok(body) => body,
        Err(refusal) => return respond(refusal, resets),
    };
    mock.log.add("POST", uri.path(), &body);
    if let Some(complaint) = protocol.complaint(&body) {
        return respond(MockResponse::refusal(protocol, 400, complaint), resets);
    }
    serve(mock.chat(protocol, &protocol.heard(&body)), resets).await
}

async fn computed(
    compute: fn(&Json) -> Json,
    protocol: Protocol,
    State(mock): State<Arc<MockLlm>>,
    ConnectInfo(resets): ConnectInfo<Resets>,
    uri: Uri,
    body: Bytes,
) -> Response {
    let body = match object(protocol, &body) {
        Ok(body) => body,
        Err(refusal) => return respond(refusal, resets),
    };
    mock.log.add("POST", uri.path(), &body);
    serve(mock.compute(protocol, &body, compute(&body)), resets).await
}

/// Azure's addresses with deployments. As on Azure, the version is required.
async fn deployed(
    mock: State<Arc<MockLlm>>,
    connection: ConnectInfo<Resets>,
    Path((_, operation)): Path<(String, String)>,
    uri: Uri,
    body: Bytes,
) -> Response {
    let refused = |message| whole(404, &Protocol::Azure.refusal(404, message));
    if !uri.query().is_some_and(|query| query.contains("api-version=")) {
        return refused("Resource not found");
    }
    match operation.as_str() {
        "chat/completions" => chat(Protocol::Azure, mock, connection, uri, body).await,
        "completions" => chat(Protocol::Completions, mock, connection, uri, body).await,
        "embeddings" => computed(vectors::embeddings, Protocol::Azure, mock, connection, uri, body).await,
        _ => refused("no such operation"),
    }
}

pub(super) fn object(protocol: Protocol, body: &Bytes) -> Result<Json, MockResponse> {
    match serde_json::from_slice::<Json>(body) {
        Ok(body @ Json::Object(_)) => Ok(body),
        Ok(_) | Err(_) => Err(MockResponse::refusal(protocol, 400, "the request is not a JSON object")),
    }
}

pub(super) async fn serve(mut served: Served, resets: Resets) -> Response {
    served.due().await;
    let mut response = respond(served.answer, resets);
    for (name, value) in served.headers {
        // The names and values were checked when the rules were read.
        if let (Ok(name), Ok(value)) =
            (name.parse::<header::HeaderName>(), value.parse::<header::HeaderValue>())
        {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

async fn models(State(mock): State<Arc<MockLlm>>) -> Response {
    mock.log.add("GET", "/v1/models", &Json::Null);
    let mut names: Vec<&str> = vec!["mock-chat"];
    if let Rules::List(list) = &mock.rules {
        names.extend(list.iter().filter_map(|rule| rule.matches.model.as_deref()));
    }
    names.sort_unstable();
    names.dedup();
    let data: Vec<Json> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "created": 0, "owned_by": "mock"}))
        .collect();
    whole(200, &json!({"object": "list", "data": data}))
}

pub(super) fn respond(answer: MockResponse, connection: Resets) -> Response {
    let (media_type, events, torn, resets) = match answer {
        MockResponse::Whole { status, body } => return whole(status, &body),
        MockResponse::Garbage(text) => return json_text(200, text.to_owned()),
        MockResponse::Stream { media_type, events, torn, resets } => (media_type, events, torn, resets),
    };
    let mut pieces: Vec<(Duration, Option<Bytes>)> =
        events.into_iter().map(|(wait, event)| (wait, Some(event.into()))).collect();
    pieces.extend((!torn.is_empty()).then(|| (Duration::ZERO, Some(torn.into()))));
    pieces.extend(resets.then_some((BEFORE_RESET, None)));
    let state = (pieces.into_iter(), connection);
    let stream = futures_util::stream::unfold(state, |(mut pieces, connection)| async move {
        let (wait, piece) = pieces.next()?;
        pause(wait).await;
        let piece = piece.ok_or_else(|| {
            connection.demand();
            io::Error::from(io::ErrorKind::ConnectionReset)
        });
        Some((piece, (pieces, connection)))
    });
    let mut response = Response::new(Body::from_stream(stream));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media_type));
    headers.insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    response
}

/// Waits. Without a wait it does not use the timer, which would cost a millisecond.
pub(super) async fn pause(wait: Duration) {
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

fn whole(status: u16, body: &Json) -> Response {
    json_text(status, reply::dump(body))
}

fn json_text(status: u16, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    response
}
