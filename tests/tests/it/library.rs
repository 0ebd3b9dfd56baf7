//! Library nodes, datasources and Calls, from the command that registers them to their keys in Redis.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use super::called::file;
use super::secrets::nothing_in_redis_holds;

const MARKER: &str = "marker-never-to-be-seen";

async fn tidemill(cluster: &Cluster, scheduler: &Scheduler, arguments: &[&str], input: &str) -> Output {
    let mut command = cluster.command("tidemill");
    command.args(arguments).env("TIDEMILL_URL", format!("http://{}", scheduler.address));
    command.env("TIDEMILL_KEY", ADMIN_KEY);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("it starts");
        // A command that needs no input may have ended before it is written.
        let _ = child.stdin.take().expect("it was asked for").write_all(input.as_bytes());
        child.wait_with_output().expect("it ends")
    });
    done.await.expect("it does not panic")
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a01_library_entries_are_stored_in_redis_as_written_and_without_secrets() {
    let cluster = Cluster::start(&[("scheduler.secret_key", "open sesame, open wide")], None).await;
    let scheduler = cluster.scheduler().await;
    let well = async |arguments: &[&str], input: &str| {
        let output = tidemill(&cluster, &scheduler, arguments, input).await;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        let shown = String::from_utf8(output.stdout).expect("a text");
        assert!(!said.contains(MARKER) && !shown.contains(MARKER), "{said}{shown}");
        shown
    };
    let badly = async |arguments: &[&str]| {
        let output = tidemill(&cluster, &scheduler, arguments, "").await;
        assert!(!output.status.success(), "{arguments:?} went well");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    well(&["services", "add", "svc", "--set", "server=http://svc"], "").await;
    let known = r#"{"url":"http://svc/weather","method":"get","query":{"unit":"C"}}"#;
    let (known_params, name) = (format!("knownParams={known}"), r#"name={"zh":"天气","en":"Weather"}"#);
    let mut arguments = vec!["library", "add", "n1", "--set", "callId=API", "--set", &known_params];
    arguments.extend(["--set", name, "--set", "service_id=svc"]);
    well(&arguments, "").await;
    let table = well(&["library", "ls"], "").await;
    assert!(table.contains("天气 / Weather") && table.contains("svc"), "{table}");
    let stored: String = cluster.redis.ask(&["HGET", "tm:library:n1", "knownParams"]).await;
    assert_eq!(stored, known);

    let db = ["datasources", "add", "db", "--set", "host=h", "--set", "username=u", "--set", "database=d"];
    well(&[&db[..], &["--secret-stdin", "password"]].concat(), MARKER).await;
    let shown: Json =
        serde_json::from_str(&well(&["datasources", "show", "db", "--json"], "").await).expect("JSON");
    assert_eq!((&shown["password"], &shown["database"]), (&json!("***"), &json!("d")));
    well(&["datasources", "add", "db", "--update", "--set", "port=5433"], "").await;
    let sealed: String = cluster.redis.ask(&["HGET", "tm:datasource:db", "password"]).await;
    assert!(sealed.starts_with("sealed:v2:"), "{sealed}");

    let error = badly(&["services", "rm", "svc"]).await;
    assert!(error.contains("used by library (n1)"), "{error}");
    well(&["services", "rm", "svc", "--force"], "").await;
    well(&["library", "rm", "n1"], "").await;
    assert!(badly(&["library", "show", "n1"]).await.contains("there is no library node n1"));
    let manifest = ["calls", "add", "greet", "--set", "operations=[\"init\"]", "--set", "streaming=true"];
    let error = badly(&manifest).await;
    assert!(error.contains("Call greet does not meet the Call standard"), "{error}");
}

/// The heads of the calls that a server received.
pub(super) type Heads = Arc<Mutex<Vec<String>>>;

/// Starts a server that answers every call with the call's head, and notes it.
pub(super) async fn echo() -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let seen = Heads::default();
    let ledger = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (mut stream, mut head) = (BufReader::new(stream), String::new());
            while !head.ends_with("\r\n\r\n")
                && stream.read_line(&mut head).await.is_ok_and(|count| count > 0)
            {}
            ledger.lock().expect("the thread with the lock did not panic").push(head.clone());
            let body = json!({"head": head}).to_string();
            let length = body.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            // A failed write only means that the caller has ended.
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, seen)
}

pub(super) async fn keep(client: &Client, kind: &str, id: &str, entry: Json) -> Json {
    let request = client.request(Method::PUT, &format!("/api/v1/{kind}/{id}"));
    let request = request.header("content-type", "application/json").body(entry.to_string());
    let answer = client.send(request).await;
    assert!([200, 201].contains(&answer.status), "{kind} {id}: {}", answer.text);
    answer.body
}

/// Makes a table in a SQLite file, with Python, which the tests need anyway.
pub(super) fn database(folder: &Path) -> String {
    let file = folder.join("orders.db").display().to_string();
    let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
                  c.executescript('create table t (id integer, a integer); insert into t values (7, 1), (8, 2)')";
    let done = Command::new("python3").args(["-c", script, &file]).status().expect("python3 is installed");
    assert!(done.success());
    file
}

const GREET: &str = r#"#!/usr/bin/env python3
import json, os, sys
asked = json.load(sys.stdin)
if asked["operation"] == "init":
    print(json.dumps({"input": {"who": asked["params"]["who"]}}))
else:
    print(json.dumps({"type": "text", "content": "Hello " + asked["input"]["who"] + " " + os.environ["TOKEN"]}))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn se_a01_xc_06_xc_07_a_library_node_and_a_query_and_a_registered_call_run_and_show_no_secret() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("greet.py");
    std::fs::write(&program, GREET).expect("it is written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("the test owns the file");
    let program = program.display().to_string();
    let settings = [
        ("scheduler.secret_key", "open sesame, open wide"),
        ("worker.providers_refresh_ms", "0"),
        ("http.allow", "127.0.0.1"),
        ("calls.programs", program.as_str()),
    ];
    let cluster = Cluster::start(&settings, None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let (server, seen) = echo().await;
    let auth =
        json!({"header": [{"name": "X-Key", "value": MARKER}], "query": [{"name": "key", "value": MARKER}]});
    keep(&client, "services", "svc", json!({"server": server, "auth": auth})).await;
    let known = json!({"url": format!("{server}/weather"), "method": "get", "query": {"unit": "C"}});
    let node =
        keep(&client, "library", "n1", json!({"callId": "API", "service_id": "svc", "knownParams": known}))
            .await;
    let stored: String = cluster.redis.ask(&["HGET", "tm:library:n1", "knownParams"]).await;
    keep(
        &client,
        "datasources",
        "db",
        json!({"database_type": "sqlite", "database": database(folder.path())}),
    )
    .await;
    let manifest = json!({
        "info": {"en": {"name": "Greet", "description": "Says hello"}}, "operations": ["init", "exec"], "streaming": true,
        "transport": {"type": "process", "command": [program], "env": {"TOKEN": MARKER}}
    });
    let call = keep(&client, "calls", "greet", manifest).await;

    let nodes = [
        (
            "w",
            json!({"type": "api", "title": "W", "node": "n1", "params": {"query": {"city": "{{#start.city#}}"}}}),
        ),
        (
            "s",
            json!({"type": "sql", "title": "S", "datasource": "db", "sql": "select id from t where a = :a", "bind": {"a": 1}}),
        ),
        ("g", json!({"type": "call", "title": "G", "node": "greet", "params": {"who": "{{#start.city#}}"}})),
    ];
    let outputs = [
        ("code", ["w", "http_code"]),
        ("rows", ["s", "result"]),
        ("sql", ["s", "sql"]),
        ("said", ["g", "text"]),
    ];
    let workflow = file("Calls", &["city"], &nodes, &outputs);
    let body = json!({"workflow": workflow, "inputs": {"city": "Rome"}, "user": "tester"});
    let run = client.submit(&body).await;
    let ended = client.ended(&run).await;
    let expected = json!({"code": 200, "rows": [{"id": 7}], "sql": "select id from t where a = :a", "said": "Hello Rome ***"});
    assert_eq!(ended["outputs"], expected, "{ended:#}");

    let heads = seen.lock().expect("the thread with the lock did not panic").clone();
    assert_eq!(heads.len(), 1, "GET once: {heads:?}");
    assert!(heads[0].starts_with(&format!("GET /weather?city=Rome&key={MARKER} ")), "{}", heads[0]);
    assert!(heads[0].contains(&format!("x-key: {MARKER}")), "{}", heads[0]);
    let after: String = cluster.redis.ask(&["HGET", "tm:library:n1", "knownParams"]).await;
    assert_eq!(after, stored, "the stored entry is unchanged");

    let told = client.follow(&run, None).await.to_the_end().await;
    let told = format!("{told:?}");
    for (what, entry) in [("library_node", &node), ("call_version", &call)] {
        assert!(told.contains(what) && told.contains(&entry["version"].to_string()), "no {what} in {told}");
    }
    let mut shown = format!("{ended} {told}");
    for kind in ["services", "library", "calls", "datasources"] {
        shown += &client.get(&format!("/api/v1/{kind}")).await.text;
    }
    for entry in std::fs::read_dir(cluster.logs()).expect("there are logs").flatten() {
        shown += &std::fs::read_to_string(entry.path()).unwrap_or_default();
    }
    assert!(!shown.contains(MARKER), "a secret is shown: {shown}");
    nothing_in_redis_holds(&cluster.redis, MARKER);
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a28_se_a15_an_unknown_call_fails_with_its_name_and_built_in_calls_still_work() {
    let cluster = Cluster::start(
        &[("worker.providers_refresh_ms", "0"), ("scheduler.secret_key", "open sesame, open wide")],
        None,
    )
    .await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    for (node, expected) in [("n1", "Call n1 not found"), ("nope", "Call nope not found")] {
        let nodes = [("c", json!({"type": "call", "title": "C", "node": node}))];
        let body = json!({"workflow": file("None", &[], &nodes, &[]), "inputs": {}, "user": "tester"});
        let run = client.submit(&body).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["status"], "failed", "{ended:#}");
        assert!(ended["error"].as_str().unwrap_or_default().contains(expected), "{ended:#}");
    }
    let nodes = [("c", json!({"type": "call", "title": "C", "node": "EMPTY"}))];
    let body = json!({"workflow": file("Empty", &[], &nodes, &[]), "inputs": {}, "user": "tester"});
    let run = client.submit(&body).await;
    assert_eq!(client.ended(&run).await["status"], "succeeded");
}

const CHOOSE: &str = r#"#!/usr/bin/env python3
import json, sys
asked = json.load(sys.stdin)
if asked["operation"] == "init":
    print(json.dumps({"input": asked["params"]}))
else:
    print(json.dumps({"type": "data", "content": {"branch_id": asked["input"]["to"]}}))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_names_a_branch_decides_the_handle_of_its_node() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("choose.py");
    std::fs::write(&program, CHOOSE).expect("it is written");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("the test owns the file");
    let program = program.display().to_string();
    let settings = [("worker.providers_refresh_ms", "0"), ("calls.programs", program.as_str())];
    let cluster = Cluster::start(&settings, None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let manifest = json!({
        "info": {"en": {"name": "Choose", "description": "Chooses"}}, "operations": ["init", "exec"],
        "streaming": true, "branch": true, "transport": {"type": "process", "command": [program]}
    });
    keep(&client, "calls", "choose", manifest).await;
    let nodes = [
        ("c", json!({"type": "call", "title": "C", "node": "choose", "params": {"to": "{{#start.to#}}"}})),
        ("left", json!({"type": "template-transform", "title": "L", "template": "left", "variables": []})),
        ("right", json!({"type": "template-transform", "title": "R", "template": "right", "variables": []})),
        ("other", json!({"type": "template-transform", "title": "O", "template": "other", "variables": []})),
    ];
    let outputs =
        [("left", ["left", "output"]), ("right", ["right", "output"]), ("other", ["other", "output"])];
    let mut workflow: Json = serde_json::from_str(&file("Choose", &["to"], &nodes, &outputs)).expect("JSON");
    workflow["workflow"]["graph"]["edges"] = json!([
        {"source": "start", "target": "c"},
        {"source": "c", "sourceHandle": "left", "target": "left"},
        {"source": "c", "sourceHandle": "right", "target": "right"},
        {"source": "c", "target": "other"},
        {"source": "left", "target": "end"},
        {"source": "right", "target": "end"},
        {"source": "other", "target": "end"},
    ]);
    // A branch that no edge names is left like the end of any node.
    for (to, taken) in [("left", "left"), ("right", "right"), ("nowhere", "other")] {
        let body = json!({"workflow": workflow.to_string(), "inputs": {"to": to}, "user": "tester"});
        let run = client.submit(&body).await;
        let ended = client.ended(&run).await;
        assert_eq!(ended["status"], "succeeded", "{ended:#}");
        for branch in ["left", "right", "other"] {
            let expected = if branch == taken { json!(branch) } else { Json::Null };
            assert_eq!(ended["outputs"][branch], expected, "{to}: {ended:#}");
        }
    }
}

/// The record of a node in its last event.
fn record(told: &tidemill_tests::check::Transcript, node: &str) -> Json {
    let mut ends = told.of_kind("node_run_succeeded").filter(|event| event.node() == Some(node));
    ends.next().unwrap_or_else(|| panic!("{node} has no end: {told:#?}")).data["node_run_result"]["process_data"]
        .clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn xc_06_an_entry_that_changes_while_a_run_waits_is_used_by_later_jobs() {
    let model = llm::rules(json!([{"match": {}, "echo": "params"}])).await;
    let settings = [
        ("scheduler.secret_key", "a key of enough letters"),
        ("worker.providers_refresh_ms", "0"),
        ("http.allow", "127.0.0.1"),
    ];
    let cluster = Cluster::start(&settings, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let (server, seen) = echo().await;
    let (greets, greeted) = greeter("Hello").await;
    let (welcomes, welcomed) = greeter("Welcome").await;
    keep(&client, "providers", "acme", json!({"base_url": model.base_url()})).await;
    let profile = |model: &str| json!({"name": "fast", "provider": "acme", "model": model, "default": true});
    let library = |unit: &str| {
        let known = json!({"url": format!("{server}/weather"), "method": "get", "query": {"unit": unit}});
        json!({"callId": "API", "knownParams": known})
    };
    let manifest = |url: &str| {
        json!({
            "info": {"en": {"name": "Greet", "description": "Says hello"}}, "operations": ["init", "exec"],
            "streaming": true, "transport": {"type": "http", "url": url},
        })
    };
    let put = async |model: &str, unit: &str, url: &str| {
        let profile = keep(&client, "profiles", "fast", profile(model)).await;
        let node = keep(&client, "library", "n1", library(unit)).await;
        [profile, node, keep(&client, "calls", "greet", manifest(url)).await]
            .map(|kept| kept["version"].clone())
    };
    let before = put("m-one", "C", &greets).await;

    let asks = json!({"type": "user-interaction", "title": "Q", "interaction_type": "ask_for_approval"});
    let llm = json!({"type": "llm", "title": "L", "profile_id": "fast", "prompt": "x", "conversation": {"enabled": false}});
    let api = json!({"type": "api", "title": "A", "node": "n1"});
    let call = json!({"type": "call", "title": "G", "node": "greet"});
    let nodes = [
        ("l1", llm.clone()),
        ("a1", api.clone()),
        ("g1", call.clone()),
        ("q", asks),
        ("l2", llm),
        ("a2", api),
        ("g2", call),
    ];
    let text = file("Changes", &[], &nodes, &[("one", ["g1", "text"]), ("two", ["g2", "text"])]);
    let run = client.submit(&json!({"workflow": text, "inputs": {}, "user": "tester"})).await;
    let pause = until("the run to pause", LONG, async || {
        let shown = client.run(&run).await;
        if shown["status"] == "paused" { Ok(shown["pauses"][0].clone()) } else { Err(shown.to_string()) }
    })
    .await;
    let after = put("m-two", "F", &welcomes).await;
    assert!(before.iter().zip(&after).all(|(old, new)| old != new), "{before:?} {after:?}");
    let path = format!("/api/v1/runs/{run}/pauses/{}/answer", pause["pause_id"].as_str().unwrap_or_default());
    assert_eq!(client.post(&path, &json!({"input": true})).await.status, 202);

    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"], json!({"one": "Hello", "two": "Welcome"}), "{ended:#}");
    // A Call may be asked for its input more than once.
    let runs = |seen: &Mutex<Vec<String>>| {
        seen.lock()
            .expect("the thread with the lock did not panic")
            .iter()
            .filter(|asked| asked.contains("exec"))
            .count()
    };
    assert_eq!((runs(&greeted), runs(&welcomed)), (1, 1));
    let models: Vec<Json> = model.requests().iter().map(|request| request["model"].clone()).collect();
    assert_eq!(models, ["m-one", "m-two"]);
    let heads = seen.lock().expect("the thread with the lock did not panic").clone();
    let asked: Vec<&str> = heads.iter().filter_map(|head| head.split(' ').nth(1)).collect();
    assert_eq!(asked, ["/weather?unit=C", "/weather?unit=F"]);
    let told = client.follow(&run, None).await.to_the_end().await;
    for (nth, versions) in [("1", &before), ("2", &after)] {
        assert_eq!(record(&told, &format!("l{nth}"))["profile_version"], versions[0]);
        assert_eq!(record(&told, &format!("a{nth}"))["library_node"]["version"], versions[1]);
        assert_eq!(record(&told, &format!("g{nth}"))["call_version"], versions[2]);
    }
}

/// A Call over HTTP that answers one word.
async fn greeter(word: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let ledger = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (mut stream, mut head) = (BufReader::new(stream), String::new());
            while !head.ends_with("\r\n\r\n")
                && stream.read_line(&mut head).await.is_ok_and(|count| count > 0)
            {}
            let length = head.lines().find_map(|line| {
                line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
            });
            let mut body = vec![0; length.unwrap_or(0)];
            let _ = tokio::io::AsyncReadExt::read_exact(&mut stream, &mut body).await;
            let asked: Json = serde_json::from_slice(&body).unwrap_or_default();
            ledger
                .lock()
                .expect("the thread with the lock did not panic")
                .push(asked["operation"].to_string());
            let said = match asked["operation"].as_str() {
                Some("init") => json!({"input": {}}).to_string(),
                _ => format!("{}\n", json!({"type": "text", "content": word})),
            };
            let length = said.len();
            let answer =
                format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{said}");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    (url, seen)
}
