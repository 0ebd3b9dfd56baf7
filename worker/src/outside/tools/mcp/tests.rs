//! Tests with local servers: over HTTP with all that can happen to a session, and a program.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use tidemill_common::files::Folder;
use tidemill_common::hidden::{Hidden, HiddenCommand};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::nodes::tool::{Message, ProviderKind};
use tokio::net::TcpListener;

use tidemill_common::nodes::tool::KnownParameters;

use crate::outside::http::Http;
use crate::outside::tools::mcp::*;

/// The scripted reaction of a server to a request after the handshake.
enum Play {
    /// Answers with JSON.
    Json(Json),
    /// Answers with events; `ID` stands for the request's id.
    Events(&'static str),
    /// Reports the session as unknown.
    Forget,
    /// Answers with a status.
    Status(u16),
}

#[derive(Default)]
struct Seen {
    /// Method, or `answer`; the session; the message.
    all: Vec<(String, Option<String>, Json)>,
    script: VecDeque<Play>,
    sessions: u32,
}

async fn server(script: Vec<Play>) -> (McpServer, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen { script: script.into(), ..Seen::default() }));
    let noted = seen.clone();
    let take = move |headers: HeaderMap, body: Bytes| async move { serve(&noted, &headers, &body) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let resumed = seen.clone();
    let again = move |headers: HeaderMap| async move { go_on(&resumed, &headers) };
    let router = Router::new().route("/mcp", post(take).get(again));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let headers = [("authorization".to_owned(), Hidden("Bearer hush".into()))].into();
    let config = McpConfig { url: url.into(), headers, list_seconds: 0, ..McpConfig::default() };
    (of(&config), seen)
}

fn of(config: &McpConfig) -> McpServer {
    let variable = |name: &str| std::env::var(name).ok();
    McpServer::new("s", config, &tidemill_common::config::HttpConfig::default(), 1 << 20, &variable).unwrap()
}

#[tokio::test]
async fn an_agents_server_is_that_of_the_settings_if_it_has_the_same_name() {
    use tidemill_common::config::{HttpConfig, ToolsConfig};
    use tidemill_common::value::JsonMap;

    use crate::outside::tools::{AgentServer, Tools};

    let own = McpConfig { url: "http://h/mcp".to_owned().into(), ..McpConfig::default() };
    let config = ToolsConfig { mcp: [("maps".to_owned(), own)].into(), ..ToolsConfig::default() };
    let tools = Tools::new(&config, &HttpConfig::default()).unwrap();
    for (servers, of_settings) in [
        (json!({"maps": {"url": "http://elsewhere/mcp"}}), true),
        (json!({"maps": {"command": "npx"}}), true),
        (json!({"other": {"url": "http://h/mcp"}}), false),
    ] {
        let parameters = JsonMap::from_iter([("mcp_server".to_owned(), servers.clone())]);
        let named = tidemill_common::nodes::agent::servers::read(&parameters).unwrap();
        let found = tools.server(&named[0]).map_err(|error| error.message).unwrap();
        assert_eq!(matches!(found, AgentServer::OfSettings(_)), of_settings, "{servers}");
    }
}

/// A request to resume a stream: its id and the last event.
fn go_on(seen: &Mutex<Seen>, headers: &HeaderMap) -> Response {
    let mut seen = seen.lock().unwrap();
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(
        (text("authorization").as_deref(), text("accept").as_deref()),
        (Some("Bearer hush"), Some("text/event-stream"))
    );
    let id = seen.all.last().unwrap().2["id"].clone();
    seen.all.push((
        "resume".into(),
        text("mcp-session-id"),
        json!({"id": id, "last": text("last-event-id")}),
    ));
    match seen.script.pop_front().expect("another request") {
        Play::Events(events) => {
            ([("content-type", "text/event-stream")], events.replace("ID", &id.to_string())).into_response()
        }
        Play::Status(status) => StatusCode::from_u16(status).unwrap().into_response(),
        Play::Json(_) | Play::Forget => panic!("a stream is asked for"),
    }
}

fn serve(seen: &Mutex<Seen>, headers: &HeaderMap, body: &[u8]) -> Response {
    let mut seen = seen.lock().unwrap();
    let message: Json = serde_json::from_slice(body).unwrap();
    let method = message["method"].as_str().unwrap_or("answer").to_owned();
    let session = headers.get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    assert_eq!(headers["authorization"], "Bearer hush");
    seen.all.push((method.clone(), session, message.clone()));
    let id = message["id"].clone();
    let json = |result: Json| {
        let body = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        ([("content-type", "application/json")], body).into_response()
    };
    match method.as_str() {
        "initialize" => {
            seen.sessions += 1;
            let mut answer =
                json(json!({"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {}}));
            answer.headers_mut().insert("mcp-session-id", format!("s{}", seen.sessions).parse().unwrap());
            answer
        }
        "notifications/initialized" | "answer" => StatusCode::ACCEPTED.into_response(),
        _ => match seen.script.pop_front().expect("another request") {
            Play::Json(result) => json(result),
            Play::Events(events) => {
                ([("content-type", "text/event-stream")], events.replace("ID", &id.to_string()))
                    .into_response()
            }
            Play::Forget => StatusCode::NOT_FOUND.into_response(),
            Play::Status(status) => (StatusCode::from_u16(status).unwrap(), "trouble").into_response(),
        },
    }
}

fn tool(name: &str) -> ToolName<'_> {
    ToolName { kind: ProviderKind::Mcp, provider_id: "s", provider_name: "s", tool: name, plugin: None }
}

async fn call(server: &McpServer, name: &str, arguments: Json) -> Result<Vec<Message>, ToolError> {
    let folder = tempfile::tempdir().unwrap();
    let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
    let http = Http::new(&tidemill_common::config::HttpConfig::default()).unwrap();
    let run = RunId::generate(ShardId(0));
    let arguments = arguments.as_object().unwrap().clone();
    let call = ToolCall {
        arguments: &arguments,
        run: &run,
        http: &http,
        files: &files,
        idempotency_key: "k",
        sends_key: false,
        nested: 0,
        auto_approved: None,
        step: None,
        known: KnownParameters::NOTHING,
    };
    let mut messages = Vec::new();
    server.invoke(&tool(name), call, &mut |message| messages.push(message)).await?;
    Ok(messages)
}

fn one_tool() -> Play {
    Play::Json(json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {}}]}))
}

fn text(said: &str) -> Message {
    Message::Text(said.into())
}

#[tokio::test]
async fn a_server_is_greeted_once_and_asked_for_all_pages() {
    let (server, seen) = server(vec![
        Play::Json(json!({"tools": [{"name": "a"}], "nextCursor": "2"})),
        Play::Json(json!({"tools": [{"name": "b"}]})),
        one_tool(),
        Play::Json(json!({"content": [{"type": "text", "text": "hi"}], "structuredContent": {"n": 1}})),
    ])
    .await;
    let names: Vec<String> = server.list("s").await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert_eq!(names, ["a", "b"]);
    let messages = call(&server, "t", json!({"q": "x", "empty": " "})).await.unwrap();
    let variable = Message::Variable { name: "n".into(), value: json!(1), stream: false };
    assert_eq!(messages, [text("hi"), variable]);
    let seen = seen.lock().unwrap();
    let methods: Vec<&str> = seen.all.iter().map(|(method, ..)| method.as_str()).collect();
    let expected =
        ["initialize", "notifications/initialized", "tools/list", "tools/list", "tools/list", "tools/call"];
    assert_eq!(methods, expected);
    assert_eq!(seen.all[0].1, None);
    assert!(seen.all[1..].iter().all(|(_, session, _)| session.as_deref() == Some("s1")));
    assert_eq!(seen.all[3].2["params"], json!({"cursor": "2"}));
    assert_eq!(seen.all[5].2["params"], json!({"name": "t", "arguments": {"q": "x"}}));
}

#[tokio::test]
async fn a_stream_may_bring_other_things_first_and_what_the_server_asks_is_answered() {
    let events = concat!(
        ": keep-alive\n\n",
        "data: {\"jsonrpc\": \"2.0\", \"method\": \"notifications/progress\", \"params\": {}}\n\n",
        "data: {\"jsonrpc\": \"2.0\", \"id\": 99, \"method\": \"sampling/createMessage\", \"params\": {}}\n\n",
        "data: {\"jsonrpc\": \"2.0\", \"id\": \"p\", \"method\": \"ping\"}\n\n",
        "data: {\"jsonrpc\": \"2.0\", \"id\": 4711, \"result\": {\"content\": []}}\n\n",
        "data: {\"jsonrpc\": \"2.0\", \"id\": ID, \"result\": {\"content\": [{\"type\": \"text\", \"text\": \"hi\"}]}}\n\n",
    );
    let (server, seen) = server(vec![one_tool(), Play::Events(events)]).await;
    assert_eq!(call(&server, "t", json!({})).await, Ok(vec![text("hi")]));
    let seen = seen.lock().unwrap();
    let answers: Vec<&Json> =
        seen.all.iter().filter(|(method, ..)| method == "answer").map(|(_, _, message)| message).collect();
    assert_eq!((&answers[0]["id"], &answers[0]["error"]["code"]), (&json!(99), &json!(-32601)));
    assert_eq!((&answers[1]["id"], &answers[1]["result"]), (&json!("p"), &json!({})));
}

#[tokio::test]
async fn a_session_that_is_forgotten_is_begun_anew_once() {
    let done = || Play::Json(json!({"content": [{"type": "text", "text": "hi"}]}));
    let (good, seen) = server(vec![one_tool(), Play::Forget, done()]).await;
    assert_eq!(call(&good, "t", json!({})).await, Ok(vec![text("hi")]));
    assert_eq!(seen.lock().unwrap().sessions, 2);
    let (bad, _) = server(vec![one_tool(), Play::Forget, Play::Forget]).await;
    let error = call(&bad, "t", json!({})).await.unwrap_err();
    assert_eq!(error.message, "Failed to invoke tool: the server has forgotten the session twice");
}

#[tokio::test]
async fn failures_say_what_the_server_says() {
    let refused = "data: {\"id\": ID, \"error\": {\"code\": -32602, \"message\": \"bad q\"}}\n\n";
    let silent = "data: {\"method\": \"notifications/message\"}\n\n";
    for (play, message, passing) in [
        (Play::Events(refused), "Failed to invoke tool: bad q (code -32602)", false),
        (Play::Events(silent), "Failed to invoke tool: the server's stream ended without an answer", false),
        (
            Play::Status(503),
            "Failed to connect to MCP server: the server answered with status 503: trouble",
            true,
        ),
        (
            Play::Status(401),
            "Failed to invoke tool: the server requires credentials (401); set headers_env or headers",
            false,
        ),
    ] {
        let (server, _) = server(vec![one_tool(), play]).await;
        let error = call(&server, "t", json!({})).await.unwrap_err();
        assert_eq!((error.message.as_str(), error.retryable, error.stage), (message, passing, Stage::Tool));
    }
    let (server, _) = server(vec![one_tool()]).await;
    let missing = call(&server, "dance", json!({})).await.unwrap_err();
    assert_eq!((missing.stage, missing.message.as_str()), (Stage::Resolve, "MCP server s has no tool dance"));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_no_way_to_its_tools() {
    let config = McpConfig { url: "http://127.0.0.1:1/mcp".into(), ..McpConfig::default() };
    let error = of(&config).parameters(&tool("t")).await.unwrap_err();
    assert!(error.message.starts_with("Failed to connect to MCP server: "), "{error}");
    assert!(error.retryable && error.stage == Stage::Resolve);
}

/// A server as a program. It asks a question before it answers, prints greetings to its standard output, and ends on
/// request.
const PROGRAM: &str = r#"
import json, os, sys
def say(message):
    print(json.dumps(message), flush=True)
print("welcome", flush=True)
print("a word for the log", file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    method, id = message.get("method"), message.get("id")
    if method == "initialize":
        say({"id": id, "result": {"protocolVersion": "2024-11-05", "capabilities": {}}})
    elif method == "tools/list":
        say({"id": id, "result": {"tools": [{"name": "t"}, {"name": "end"}, {"name": "hang"}, {"name": "leak"}]}})
    elif method == "tools/call":
        name = message["params"]["name"]
        if name == "end":
            sys.exit(0)
        if name == "hang":
            continue
        if name == "leak":
            print("the key is " + os.environ["OWN"], file=sys.stderr, flush=True)
            say({"id": id, "error": {"code": 1, "message": "key " + os.environ["OWN"] + " is wrong"}})
            continue
        say({"id": "q", "method": "ping"})
        pong = json.loads(sys.stdin.readline())
        said = [pong["id"], str(os.getpid()), os.environ.get("OWN", ""), os.environ.get("CARGO", "nothing")]
        say({"id": id, "result": {"content": [{"type": "text", "text": " ".join(said)}]}})
"#;

fn program(read_seconds: u64) -> McpServer {
    let env = [("OWN".to_owned(), Hidden("own".into()))].into();
    let command = ["python3", "-c", PROGRAM].map(str::to_owned).to_vec();
    of(&McpConfig { command: HiddenCommand(command), env, read_seconds, ..McpConfig::default() })
}

fn words(messages: &[Message]) -> Vec<String> {
    let [Message::Text(said)] = messages else { panic!("{messages:?}") };
    said.split(' ').map(str::to_owned).collect()
}

#[tokio::test]
async fn a_program_serves_all_calls_and_is_started_anew_when_it_has_ended() {
    let server = program(30);
    let first = words(&call(&server, "t", json!({})).await.unwrap());
    assert_eq!((first[0].as_str(), first[2].as_str(), first[3].as_str()), ("q", "own", "nothing"));
    let second = words(&call(&server, "t", json!({})).await.unwrap());
    assert_eq!(first[1], second[1]);
    let ended = call(&server, "end", json!({})).await.unwrap_err();
    let message = "Failed to connect to MCP server: the program has ended; its log is in the worker's";
    assert_eq!((ended.message.as_str(), ended.retryable), (message, true));
    let third = words(&call(&server, "t", json!({})).await.unwrap());
    assert_ne!(first[1], third[1]);
}

#[tokio::test]
async fn a_program_that_hangs_is_started_anew_for_the_next_call() {
    let server = program(1);
    let first = words(&call(&server, "t", json!({})).await.unwrap());
    let error = call(&server, "hang", json!({})).await.unwrap_err();
    assert_eq!(error.message, "Failed to invoke tool: no answer within 1 s");
    let second = words(&call(&server, "t", json!({})).await.unwrap());
    assert_ne!(first[1], second[1]);
}

#[tokio::test]
async fn what_the_environment_of_a_program_keeps_secret_is_in_no_error_and_no_log() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    // With a single subscriber, tracing caches that nothing is interested in a log line first seen on another test's
    // thread.
    let _another = tracing::Dispatch::new(Lines(Arc::default()));
    let _logged = tracing::subscriber::set_default(Lines(lines.clone()));
    let env = [("OWN".to_owned(), Hidden("s3cret-of-ours".into()))].into();
    let command = ["python3", "-c", PROGRAM].map(str::to_owned).to_vec();
    let server = of(&McpConfig { command: HiddenCommand(command), env, ..McpConfig::default() });
    let error = call(&server, "leak", json!({})).await.unwrap_err();
    assert_eq!(error.message, "Failed to invoke tool: key *** is wrong (code 1)");
    crate::tests::fake::until("the log", || {
        lines.lock().unwrap().iter().any(|it: &String| it.contains("key is"))
    })
    .await;
    let lines = lines.lock().unwrap().concat();
    assert!(lines.contains("the key is ***") && !lines.contains("s3cret"), "{lines}");
}

/// Collects the fields of log lines.
struct Lines(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            line.push_str(&format!("{field}={value:?} "));
        });
        self.0.lock().unwrap().push(line);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn a_program_that_says_nothing_is_not_waited_for_longer_than_allowed() {
    let server = program(0);
    let error = call(&server, "hang", json!({})).await.unwrap_err();
    assert_eq!(error.message, "Failed to invoke tool: no answer within 0 s");
    let missing =
        of(&McpConfig { command: HiddenCommand(vec!["/no/such/program".into()]), ..McpConfig::default() });
    let error = missing.parameters(&tool("t")).await.unwrap_err();
    assert!(error.message.contains("does not start"), "{error}");
}

/// A server of the first protocol version: a path such as `/sse` streams the answers to messages at `/messages`.
async fn server_with_two_urls(path: &str) -> McpServer {
    use axum::body::Body;
    use axum::routing::get;
    let (send, receive) = tokio::sync::mpsc::unbounded_channel::<String>();
    let stream = Arc::new(Mutex::new(Some(receive)));
    let events = move || async move {
        let receive = stream.lock().unwrap().take().expect("one stream");
        let first = "event: endpoint\ndata: /messages?session=1\n\n".to_owned();
        let parts = futures_util::stream::unfold((Some(first), receive), |(first, mut receive)| async move {
            let next = match first {
                Some(first) => Some(first),
                None => receive.recv().await,
            };
            next.map(|part| (Ok::<_, std::io::Error>(part), (None, receive)))
        });
        ([("content-type", "text/event-stream")], Body::from_stream(parts))
    };
    let messages = move |body: Bytes| async move {
        let message: Json = serde_json::from_slice(&body).unwrap();
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2024-11-05"}),
            Some("tools/list") => json!({"tools": [{"name": "t"}]}),
            Some("tools/call") => json!({"content": [{"type": "text", "text": "hi"}]}),
            _ => return StatusCode::ACCEPTED,
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        send.send(format!("event: message\ndata: {answer}\n\n")).unwrap();
        StatusCode::ACCEPTED
    };
    let router = Router::new().route(path, get(events)).route("/messages", post(messages));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}{path}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    of(&McpConfig { url: url.into(), ..McpConfig::default() })
}

#[tokio::test]
async fn a_server_of_the_first_version_answers_by_its_stream() {
    // The second address does not say the version: the server answers the first POST with 405.
    for path in ["/sse", "/tools"] {
        let server = server_with_two_urls(path).await;
        for _ in 0..2 {
            assert_eq!(call(&server, "t", json!({})).await, Ok(vec![text("hi")]), "{path}");
        }
    }
}

#[tokio::test]
async fn a_server_that_has_neither_version_is_described_by_both_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/tools", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, Router::new()).await });
    let error = of(&McpConfig { url: url.into(), ..McpConfig::default() }).parameters(&tool("t")).await;
    let error = error.unwrap_err().message;
    assert!(
        error.contains("status 404") && error.contains("older transport (SSE): the server answered"),
        "{error}"
    );
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_taken_up_behind_its_last_event() {
    let answer = "id: 7\ndata: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"late\"}]}}\n\n";
    let script = vec![
        one_tool(),
        Play::Events(
            "id: 5\nretry: 1\ndata:\n\nid: 6\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n",
        ),
        Play::Events("retry: 1\n\n"),
        Play::Events(answer),
    ];
    let (server, seen) = server(script).await;
    assert_eq!(call(&server, "t", json!({})).await.unwrap(), [text("late")]);
    let seen = seen.lock().unwrap();
    let asked: Vec<_> =
        seen.all.iter().map(|(method, session, _)| (method.as_str(), session.as_deref())).collect();
    let calls = asked.iter().filter(|(method, _)| *method == "tools/call").count();
    assert_eq!(
        (calls, &asked[asked.len() - 2..]),
        (1, &[("resume", Some("s1")); 2][..]),
        "it is called once"
    );
    assert!(seen.all[asked.len() - 2..].iter().all(|(_, _, asked)| asked["last"] == "6"));
}

#[tokio::test]
async fn a_stream_that_cannot_be_taken_up_fails_the_call() {
    let lost = "id: 5\nretry: 1\ndata:\n\n";
    for (script, resumes) in [
        (vec![one_tool(), Play::Events("data:\n\n")], 0),
        (vec![one_tool(), Play::Events(lost), Play::Status(405)], 1),
        (
            std::iter::once(one_tool())
                .chain(
                    [lost, "", "", "", "", ""]
                        .map(|events| if events.is_empty() { "retry: 1\n\n" } else { events })
                        .map(Play::Events),
                )
                .collect(),
            5,
        ),
    ] {
        let (server, seen) = server(script).await;
        let error = call(&server, "t", json!({})).await.unwrap_err().to_string();
        assert!(error.contains("ended without an answer"), "{error}");
        assert_eq!(seen.lock().unwrap().all.iter().filter(|(what, ..)| what == "resume").count(), resumes);
    }
}

#[tokio::test]
async fn a_stream_with_new_ids_and_no_answer_is_resumed_a_bounded_number_of_times() {
    let lost = || Play::Events("id: 5\nretry: 1\ndata:\n\n");
    let most = tidemill_common::limits::MCP_RESUMES_MAX as usize;
    let script = std::iter::once(one_tool()).chain(std::iter::repeat_with(lost).take(most + 20)).collect();
    let (server, seen) = server(script).await;
    let error = call(&server, "t", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("resumed 100 times (MCP_RESUMES_MAX)"), "{error}");
    assert_eq!(seen.lock().unwrap().all.iter().filter(|(what, ..)| what == "resume").count(), most);
}

#[tokio::test]
async fn a_list_of_tools_is_kept_only_within_its_limit_of_bytes() {
    // An answer has at most 1 MiB here, so pages must be added up.
    let page = || {
        Play::Json(json!({"tools": [{"name": "a", "description": "x".repeat(1_000_000)}], "nextCursor": "n"}))
    };
    let (server, seen) = server((0..10).map(|_| page()).collect()).await;
    let error = server.list("s").await.unwrap_err();
    let wanted = "the list of tools has more than 4194304 bytes (MCP_LIST_BYTES_MAX)";
    assert!(error.message.contains(wanted), "{error}");
    let asked = seen.lock().unwrap().all.iter().filter(|(method, ..)| method == "tools/list").count();
    assert_eq!(asked, 5);
}
