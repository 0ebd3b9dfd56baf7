//! Tests with recorded answers (`fixtures/`) that follow the providers' documentation, cut into arbitrary pieces. The
//! expected results are in each folder's `expected.json`. They are written by handle from the file and the documentation,
//! never from the code's output.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::header::HeaderMap;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::message::ToolSpec;
use tidemill_common::nodes::llm::{ModelMode, Role, reasoning};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

use crate::outside::providers::anthropic::{Anthropic, Events};
use crate::outside::providers::api::{Api, Settings};
use crate::outside::providers::azure::Deployments;
use crate::outside::providers::errors::ModelError;
use crate::outside::providers::frames::Framing;
use crate::outside::providers::media::tests::{request, text};
use crate::outside::providers::ollama::{Lines, Ollama};
use crate::outside::providers::openai::{Addresses, Chunks, OpenAi};
use crate::outside::providers::reading::{Dialect, Reader, ReplyReader, object};
use crate::outside::providers::tests::{StreamedReply, read, read_request, timeless};
use crate::outside::providers::{ChatRequest, ModelProvider, ModelReply, RateFacts};

const FOLDERS: [&str; 4] = ["openai", "azure", "anthropic", "ollama"];
/// The number of random cuts per file.
const SCATTERINGS: u64 = 40;

/// A row of `expected.json`: a file, the kind of request, and the expected result. Unnamed fields are empty.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    file: String,
    /// `chat`, `completion`, `kept` (the model thinks and uses tools), `answer` (structured), `embeddings`, `rerank`.
    #[serde(rename = "as", default = "chat")]
    asked: String,
    #[serde(default = "success")]
    status: u16,
    #[serde(default)]
    headers: std::collections::BTreeMap<String, String>,
    /// The pieces that are passed on.
    #[serde(default)]
    deltas: Vec<String>,
    /// The text without reasoning.
    #[serde(default)]
    text: String,
    #[serde(default)]
    reasoning: String,
    /// Id (null: generated), name, arguments.
    #[serde(default)]
    calls: Vec<(Option<String>, String, String)>,
    /// Tokens of the prompt and of the reply.
    #[serde(default)]
    tokens: (u64, u64),
    #[serde(default)]
    finish: Option<String>,
    #[serde(default)]
    verbatim: Vec<Json>,
    #[serde(default)]
    vectors: Vec<Vec<f32>>,
    #[serde(default)]
    ranking: Vec<(usize, f64)>,
    #[serde(default)]
    error: Option<Failing>,
    /// The wait the provider asks for, in milliseconds.
    #[serde(default)]
    after_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failing {
    /// The `error_type` of the node.
    class: String,
    /// True if it is retryable.
    again: bool,
    says: String,
}

fn chat() -> String {
    "chat".into()
}

const fn success() -> u16 {
    200
}

fn folder(provider: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/outside/providers/fixtures").join(provider)
}

/// The rows of a folder, each with the bytes of its file.
fn cases(provider: &str) -> Vec<(Case, Vec<u8>)> {
    let expected = std::fs::read_to_string(folder(provider).join("expected.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&expected).unwrap();
    let bytes = |case: &Case| std::fs::read(folder(provider).join(&case.file)).unwrap();
    cases.into_iter().map(|case| (bytes(&case), case)).map(|(bytes, case)| (case, bytes)).collect()
}

impl Case {
    fn is_stream(&self) -> bool {
        !self.file.ends_with(".json")
    }

    fn is_chat(&self) -> bool {
        !matches!(self.asked.as_str(), "embeddings" | "rerank")
    }

    fn check_error(&self, at: &str, error: &ModelError) {
        let expected = self.error.as_ref().unwrap_or_else(|| panic!("{at}: {error}"));
        assert_eq!(
            (error.class.error_type(), error.retryable, error.message.as_str()),
            (expected.class.as_str(), expected.again, expected.says.as_str()),
            "{at}"
        );
    }

    fn check(&self, at: &str, (deltas, reply): &StreamedReply) {
        assert_eq!(deltas, &self.deltas, "{at}");
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => return self.check_error(at, error),
        };
        assert!(self.error.is_none(), "{at}: a failure was expected, not {reply:?}");
        assert_eq!(reply.text, deltas.concat(), "{at}: what is told is what is said");
        let split = reasoning::split(&reply.text);
        let said = if self.reasoning.is_empty() { &reply.text } else { &split.text };
        assert_eq!((said, &split.thoughts), (&self.text, &self.reasoning), "{at}");
        self.check_calls(at, reply);
        assert_eq!((reply.tokens.prompt, reply.tokens.completion), self.tokens, "{at}");
        assert_eq!(reply.finish_reason, self.finish, "{at}");
        // For an answer in one piece the time of the first token is unknown.
        assert_eq!(reply.first_token.is_some(), self.is_stream() && !deltas.is_empty(), "{at}");
    }

    fn check_calls(&self, at: &str, reply: &ModelReply) {
        assert_eq!(reply.tool_calls.len(), self.calls.len(), "{at}: {:?}", reply.tool_calls);
        for (call, (id, name, arguments)) in reply.tool_calls.iter().zip(&self.calls) {
            assert_eq!((&call.name, &call.arguments), (name, arguments), "{at}");
            match id {
                Some(id) => assert_eq!(call.id, *id, "{at}"),
                None => assert!(call.id.starts_with("chatcmpl-tool-"), "{at}: {}", call.id),
            }
        }
        let ids: BTreeSet<&str> = reply.tool_calls.iter().map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), self.calls.len(), "{at}: each call has an id of its own");
    }
}

/// Reads a file that arrives in these pieces.
fn told<D: Dialect>(case: &Case, framing: Framing, dialect: D, pieces: &[&[u8]]) -> StreamedReply {
    if case.is_stream() {
        return read(framing, dialect, pieces);
    }
    let mut deltas = Vec::new();
    let mut on_delta = |piece: &str| deltas.push(piece.to_owned());
    let mut reader = ReplyReader::new("p", dialect, &mut on_delta);
    reader.begin();
    reader.whole();
    let body = String::from_utf8(pieces.concat()).unwrap();
    let taken = match case.status {
        200 => object("p", &body).and_then(|object| reader.take(&object)),
        status => Err(ModelError::of_status("p", status, &body)),
    };
    let ended = taken.and_then(|()| reader.end(RateFacts::default()));
    let reply = ended.map(|()| timeless(reader.into_reply()));
    (deltas, reply)
}

/// Reads the file in memory with its API's reader.
fn told_by(provider: &str, case: &Case, pieces: &[&[u8]]) -> StreamedReply {
    match provider {
        "ollama" => told(case, Framing::Ndjson, Lines, pieces),
        "anthropic" => {
            let events = Events::new(case.asked == "answer").keeping(case.asked == "kept");
            told(case, Framing::Sse, events, pieces)
        }
        _ => told(case, Framing::Sse, Chunks::default(), pieces),
    }
}

/// Cuts the bytes into pieces, the same for the same seed.
fn scattered(bytes: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below as u64).unwrap()
    };
    let (mut pieces, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let size = 1 + next(if seed.is_multiple_of(2) { 7 } else { 400 });
        let (piece, after) = rest.split_at(size.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

#[test]
fn what_goes_over_the_wire_is_read_as_documented_wherever_it_is_cut() {
    for provider in FOLDERS {
        for (case, bytes) in cases(provider).into_iter().filter(|(case, _)| case.is_chat()) {
            let name = format!("{provider}/{} as {}", case.file, case.asked);
            let check = |how: String, pieces: &[&[u8]]| {
                let told = told_by(provider, &case, pieces);
                case.check(&format!("{name}, {how}"), &told);
                let kept = told.1.map(|reply| reply.verbatim).unwrap_or_default();
                assert!(case.asked != "kept" || kept == case.verbatim, "{name}, {how}: {kept:#?}");
            };
            check("whole".into(), &[&bytes]);
            if !case.is_stream() {
                continue;
            }
            for at in 1..bytes.len() {
                let (first, second) = bytes.split_at(at);
                check(format!("cut at {at}"), &[first, second]);
            }
            for seed in 0..SCATTERINGS {
                check(format!("scattered by {seed}"), &scattered(&bytes, seed));
            }
        }
    }
}

#[tokio::test]
async fn what_goes_over_the_wire_is_read_as_documented_over_http() {
    for provider in FOLDERS {
        for (at, (case, bytes)) in (1..).zip(cases(provider)) {
            let name = format!("{provider}/{} as {} over HTTP", case.file, case.asked);
            let client = client(provider, serve(&case, scattered(&bytes, at)).await);
            let failed = match case.asked.as_str() {
                "embeddings" => match client.embed("p", "m", &texts(case.vectors.len().max(1))).await {
                    Ok((vectors, tokens)) => {
                        let told = (vectors, (tokens.prompt, tokens.completion));
                        assert_eq!(told, (case.vectors.clone(), case.tokens), "{name}");
                        None
                    }
                    Err(error) => {
                        case.check_error(&name, &error);
                        Some(error)
                    }
                },
                "rerank" => {
                    let (ranking, tokens) = client.rerank("p", "m", "q", &texts(3), 2).await.unwrap();
                    let told = (ranking, (tokens.prompt, tokens.completion));
                    assert_eq!(told, (case.ranking.clone(), case.tokens), "{name}");
                    None
                }
                _ => {
                    let mut deltas = Vec::new();
                    let mut on_delta = |piece: &str| deltas.push(piece.to_owned());
                    let reply = client.stream_chat(&asking(&case), &mut on_delta).await;
                    let told = (deltas, reply);
                    case.check(&name, &told);
                    let kept = told.1.as_ref().map(|reply| reply.verbatim.clone()).unwrap_or_default();
                    assert_eq!(kept, case.verbatim, "{name}");
                    told.1.err()
                }
            };
            assert_eq!(failed.and_then(|error| error.retry_after_ms), case.after_ms, "{name}");
        }
    }
}

#[test]
fn every_recorded_file_is_expected_to_say_something() {
    for provider in FOLDERS {
        let expected: BTreeSet<String> = cases(provider).into_iter().map(|(case, _)| case.file).collect();
        let files = std::fs::read_dir(folder(provider)).unwrap().map(|file| file.unwrap().file_name());
        let files: BTreeSet<String> = files.map(|name| name.into_string().unwrap()).collect();
        let files: BTreeSet<String> = files.into_iter().filter(|name| name != "expected.json").collect();
        assert_eq!(files, expected, "{provider}");
    }
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("text {at}")).collect()
}

/// The request that gets this answer.
fn asking(case: &Case) -> ChatRequest {
    let schema = json!({"type": "object", "properties": {"harbour": {"type": "string"}}}).to_string();
    let params = match case.asked.as_str() {
        "kept" => json!({"thinking": true}),
        "answer" => json!({"response_format": "json_schema", "json_schema": schema}),
        _ => json!({}),
    };
    let Json::Object(params) = params else { panic!("parameters are an object") };
    let tool =
        ToolSpec { name: "f".into(), description: String::new(), parameters: json!({"type": "object"}) };
    ChatRequest {
        params,
        tools: if case.asked == "kept" { vec![tool] } else { Vec::new() },
        mode: if case.asked == "completion" { ModelMode::Completion } else { ModelMode::Chat },
        stream: case.is_stream(),
        ..request(vec![text(Role::User, "hi")])
    }
}

fn client(provider: &str, base_url: String) -> Box<dyn ModelProvider> {
    let settings = Settings {
        base_url,
        secrets: Vec::new(),
        headers: HeaderMap::new(),
        read_timeout: Duration::from_secs(20),
        retries_max: 0,
        answer_bytes_max: 64 * 1024,
    };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let api = Api::new(reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap(), settings);
    let dated = Deployments { api_version: Some("2024-10-21".into()), ..Deployments::default() };
    match provider {
        "anthropic" => Box::new(Anthropic::new(api)),
        "ollama" => Box::new(Ollama::new(api)),
        "azure" => Box::new(OpenAi::new(api, Addresses::Azure(dated), true)),
        _ => Box::new(OpenAi::new(api, Addresses::Plain, true)),
    }
}

/// Answers one request with the file, in these pieces.
async fn serve(case: &Case, pieces: Vec<&[u8]>) -> String {
    let media_type = match case.file.rsplit('.').next() {
        Some("sse") => "text/event-stream; charset=utf-8",
        Some("ndjson") => "application/x-ndjson",
        _ => "application/json",
    };
    let mut head =
        format!("HTTP/1.1 {} So\r\ncontent-type: {media_type}\r\nconnection: close\r\n", case.status);
    for (name, value) in &case.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    let pieces: Vec<Vec<u8>> = [head.as_bytes()].into_iter().chain(pieces).map(<[u8]>::to_vec).collect();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        read_request(&mut socket).await;
        for piece in pieces {
            // The client may have closed the connection after reading enough.
            if socket.write_all(&piece).await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    base_url
}
