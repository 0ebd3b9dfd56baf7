//! Values that were built from a secret: by a template, by code, by a server and a model that repeat it. They reach
//! the next node unchanged. In everything that people can read about the run, the secret in them is masked.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::llm;
use tidemill_tests::redis::Redis;
use tidemill_tests::wait::{LONG, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::super::{System, system};
use super::{Canary, may_hold_values};

/// JSON escapes it, and its slash is at another place in base64 than in the alphabet for addresses.
const SECRET: &str = "CANARY-\"0123/456789\"-ÄB";
/// The part of it that no spelling may show.
const PLAIN: &str = "0123/456789";
/// Starts a server that repeats what it receives. It stops with its runtime.
async fn echo() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut request, mut piece) = (Vec::new(), [0; 4096]);
                while !request.ends_with(b"END") {
                    match stream.read(&mut piece).await {
                        Ok(read @ 1..) => request.extend_from_slice(&piece[..read]),
                        Ok(0) | Err(_) => return,
                    }
                }
                let head =
                    "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: ";
                let answer = [format!("{head}{}\r\n\r\n", request.len()).as_bytes(), &request].concat();
                drop(stream.write_all(&answer).await);
            });
        }
    });
    format!("http://{address}/")
}

/// A chat whose nodes pass on a text with the secret, and whose answer contains all of it. `more` nodes come before
/// the answer.
fn chat(echo: &str, more: &[Json]) -> Json {
    let code = "import base64, json\ndef main(t):\n    print(t)\n    return {'t': t, 'map': {t: [t]}, 'json': json.dumps({'t': t}),\
        'basic': base64.b64encode(('u:' + t).encode()).decode(), 'large': t + '.' * 100000, 'length': len(t)}\n";
    let text = |name: &str, ty: &str| (name.to_owned(), json!({"type": ty, "children": null}));
    let outputs: serde_json::Map<String, Json> = [
        text("t", "string"),
        text("map", "object"),
        text("json", "string"),
        text("basic", "string"),
        text("large", "string"),
        text("length", "number"),
    ]
    .into_iter()
    .collect();
    let mut nodes = vec![
        json!({"id": "start", "data": {"type": "start", "title": "S", "variables": []}}),
        json!({"id": "t", "data": {"type": "template-transform", "title": "T", "template": "tok {{ k }}",
            "variables": [{"variable": "k", "value_selector": ["env", "KEY"]}]}}),
        json!({"id": "code", "data": {"type": "code", "title": "C", "code_language": "python3", "code": code, "outputs": outputs,
            "variables": [{"variable": "t", "value_selector": ["t", "output"]}]}}),
        json!({"id": "http", "data": {"type": "http-request", "title": "H", "method": "post", "url": echo,
            "headers": "X-Token: {{#code.basic#}}", "params": "",
            "authorization": {"type": "api-key", "config": {"type": "basic", "api_key": "{{#code.basic#}}"}},
            "body": {"type": "raw-text", "data": [{"type": "text", "value": "{{#code.json#}} END"}]}}}),
        json!({"id": "bad", "data": {"type": "code", "title": "B", "code_language": "python3",
            "code": "def main(t):\n    raise ValueError('no ' + t)\n", "outputs": {"x": {"type": "string", "children": null}},
            "error_strategy": "fail-branch", "variables": [{"variable": "t", "value_selector": ["t", "output"]}]}}),
        json!({"id": "llm", "data": {"type": "llm", "title": "L",
            "model": {"provider": "openai", "name": "m", "mode": "chat", "completion_params": {}},
            "prompt_template": [{"role": "user", "text": "say {{#http.body#}} {{#bad.error_message#}}"}],
            "context": {"enabled": false, "variable_selector": []}}}),
    ];
    nodes.extend(more.iter().cloned());
    nodes.push(json!({"id": "answer", "data": {"type": "answer", "title": "A",
        "answer": "A {{#t.output#}} B {{#llm.text#}} C {{#http.body#}} D {{#code.json#}} {{#code.large#}} {{#code.basic#}} {{#code.length#}}"}}));
    let ids: Vec<Json> = nodes.iter().map(|node| node["id"].clone()).collect();
    let edge = |two: &[Json]| {
        let handle = match two[0].as_str() {
            Some("bad") => "fail-branch",
            Some("form") => "go",
            _ => "source",
        };
        json!({"source": two[0], "target": two[1], "sourceHandle": handle})
    };
    let edges: Vec<Json> = ids.windows(2).map(edge).collect();
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "advanced-chat", "name": "derived"},
        "workflow": {
            "graph": {"nodes": nodes, "edges": edges},
            "environment_variables": [{"id": "e1", "name": "KEY", "value_type": "secret", "value": SECRET, "description": ""}],
        },
    })
}

fn asks() -> Json {
    json!({"id": "form", "data": {"type": "human-input", "title": "F", "form_content": "go on with {{#t.output#}}?", "inputs": [],
        "user_actions": [{"id": "go", "title": "Go"}], "delivery_methods": [], "timeout": 1, "timeout_unit": "day"}})
}

/// The model says the secret in pieces that cut it, and once in one piece.
async fn model() -> tidemill_mock_llm::Running {
    let (before, after) = SECRET.split_at(12);
    let pieces = ["It is ", before, after, " or ", &SECRET[..9], &SECRET[9..], " and ", SECRET, ". CANA"];
    llm::slow(&pieces, 60).await
}

async fn started(settings: &[(&str, &str)], model: &tidemill_mock_llm::Running) -> System {
    let always = [
        ("http.allow", "127.0.0.1"),
        ("scheduler.secret_key", "a secret key of the tests"),
        ("log.level", "trace"),
    ];
    system(&[&always, settings].concat(), model).await
}

#[track_caller]
fn shows_nothing(what: &str, text: &str) {
    let around = Canary::of(PLAIN).seen_in(text).map(str::to_owned);
    assert_eq!(around, None, "{what} shows a secret");
}

async fn redis_shows_nothing(redis: &Redis) {
    for entry in redis.everything().await.iter().filter(|entry| !may_hold_values(entry)) {
        shows_nothing(&format!("{} {}", entry.key, entry.field), &entry.text);
    }
}

fn logs_show_nothing(system: &System) {
    let logs = std::fs::read_dir(system.cluster.logs()).expect("the logs exist");
    for log in logs.map(|log| log.expect("a file").path()) {
        shows_nothing("a log", &std::fs::read_to_string(&log).unwrap_or_default());
    }
}

/// The text that a message streams, and the id of its run.
async fn streamed(app: &Client) -> (String, String) {
    let body = json!({"query": "q", "inputs": {}, "user": "u1", "response_mode": "streaming"});
    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let (mut all, mut run) = (String::new(), String::new());
    while let Some(message) = stream.next().await {
        let Some(data) = message.data else { continue };
        let event: Json = serde_json::from_str(&data).expect("events are JSON");
        run = event["workflow_run_id"].as_str().map_or(run, str::to_owned);
        if event["event"] == "message" {
            all.push_str(event["answer"].as_str().unwrap_or_default());
        } else {
            all.push_str(&format!("\n{data}\n"));
        }
    }
    (all, run)
}

async fn registered(client: &Client, workflow: &Json) -> Client {
    let answer = client.post("/api/v1/apps", &json!({"workflow": workflow.to_string()})).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    client.with_key(answer.body["key"].as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_built_from_a_secret_reaches_the_next_node_and_no_reader() {
    let (model, echo) = (model().await, echo().await);
    let system = started(&[], &model).await;
    let client = &system.client;
    let app = registered(client, &chat(&echo, &[])).await;
    let (told, run) = streamed(&app).await;
    assert!(told.contains("It is CANARY************ÄB or CANARY"), "{told}");
    shows_nothing("the stream of a chat", &told);
    // The nodes had the real value: the model received what the server had repeated.
    let asked = model.requests().pop().expect("the model is called").to_string();
    assert!(asked.contains(PLAIN), "{asked}");

    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "partial-succeeded", "{ended:#}");
    shows_nothing("a run", &ended.to_string());
    let events = client.follow(&run, None).await.to_the_end().await;
    assert!(events.events.len() > 10);
    shows_nothing("the events", &format!("{:?}", events.events));
    for path in ["/v1/messages?user=u1", "/v1/conversations?user=u1", &format!("/v1/workflows/run/{run}")] {
        shows_nothing(path, &app.get(path).await.text);
    }
    for path in [
        format!("/api/v1/runs/{run}/history"),
        "/api/v1/dead".into(),
        "/api/v1/runs".into(),
        "/metrics".into(),
    ] {
        shows_nothing(&path, &client.get(&path).await.text);
    }
    redis_shows_nothing(&system.cluster.redis).await;
    logs_show_nothing(&system);
}

/// A model whose first call fails with this status and repeats the prompt in its error. Later calls succeed.
async fn repeats_in_its_failure(status: u16) -> tidemill_mock_llm::Running {
    let said = format!("cannot take: say {SECRET}");
    llm::rules(json!([{"match": {}, "reply": "fine", "fail_times": 1, "status": status, "error": said,
        "headers": {"retry-after": "1"}}]))
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_in_the_error_of_a_model_is_not_logged() {
    for status in [500, 429] {
        let (model, echo) = (repeats_in_its_failure(status).await, echo().await);
        let mut system = started(&[], &model).await;
        let app = registered(&system.client, &chat(&echo, &[])).await;
        let (told, run) = streamed(&app).await;
        assert!(told.contains("fine"), "{told}");
        shows_nothing("the stream of a chat", &told);
        system.client.ended(&run).await;
        let failed = system._worker.process.wait_for_log("model call failed, trying again").await;
        assert!(
            failed["error"].as_str().is_some_and(|error| error.contains(&status.to_string())),
            "{failed}"
        );
        redis_shows_nothing(&system.cluster.redis).await;
        logs_show_nothing(&system);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_names_secrets_and_the_imported_run_has_their_values() {
    let (model, echo) = (model().await, echo().await);
    let system = started(&[], &model).await;
    let client = &system.client;
    let body =
        json!({"workflow": chat(&echo, &[asks()]).to_string(), "inputs": {}, "query": "q", "user": "u1"});
    let run = client.submit(&body).await;
    let paused = async |run: &str| {
        until("the run to wait", LONG, async || {
            let shown = client.run(run).await;
            if shown["status"] == "paused" { Ok(shown) } else { Err(shown.to_string()) }
        })
        .await
    };
    let shown = paused(&run).await;
    shows_nothing("a run that waits", &shown.to_string());
    let snapshot = client.get(&format!("/api/v1/runs/{run}/snapshot")).await;
    assert_eq!((snapshot.status, &snapshot.body["secrets"]), (200, &json!("named")), "{}", snapshot.text);
    shows_nothing("a snapshot", &snapshot.text);
    redis_shows_nothing(&system.cluster.redis).await;

    let other = client.post("/api/v1/runs/import", &snapshot.body).await;
    assert_eq!(other.status, 201, "{}", other.text);
    let other = other.body["id"].as_str().expect("an id").to_owned();
    paused(&other).await;
    let field = |run: &str| {
        let state = system.cluster.redis.cli(&["--scan", "--pattern", &format!("*run:{run}:state")]);
        system.cluster.redis.cli(&["HGET", &state, "v:/t.output"])
    };
    assert!(field(&run).contains(PLAIN) && field(&run) == field(&other), "{}", field(&other));
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_in_outputs_are_shown_when_the_settings_allow_it() {
    let (model, echo) = (model().await, echo().await);
    let system = started(&[("compat.secrets_in_outputs", "true")], &model).await;
    let app = registered(&system.client, &chat(&echo, &[])).await;
    let (told, _) = streamed(&app).await;
    for shown in [format!("A tok {SECRET} B "), format!("It is {SECRET} or {SECRET}")] {
        assert!(told.contains(&shown), "{shown} is missing");
    }
}
