//! Admin keys with roles, and the audit log, on real processes: each operation of `/api/v1` is tried with each role, a revoked
//! key ends at every scheduler, and who changed what is listed without a secret.

use std::process::Output;

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::flow::Flow;
use tidemill_tests::wait::{LONG, until};

use super::every_route::native;

/// What an operator may do besides reading.
const OF_OPERATORS: [(&str, &str); 9] = [
    ("DELETE", "/dead/id"),
    ("POST", "/apps/id/webhook/test"),
    ("POST", "/dead/id/retry"),
    ("POST", "/dead/retry"),
    ("POST", "/files"),
    ("POST", "/plugins/id/options"),
    ("POST", "/runs"),
    ("POST", "/runs/id/commands"),
    ("POST", "/runs/id/pauses/pause_id/answer"),
];
/// What a key that may only read does not see.
const HIDDEN: [&str; 5] =
    ["/admin-keys", "/apps/id/webhook", "/apps/id/webhook/deliveries", "/audit", "/triggers"];
/// What only an admin sees.
const SECRET: &str = "/runs/id/snapshot";
/// A graph with a job.
const GRAPH: &str = r#"graph: {nodes: [{id: start, data: {type: start, variables: []}}, {id: c, data: {type: code, code_language: python3, variables: [], code: "def main(): return {'a': 1}", outputs: {a: {type: number}}}}, {id: end, data: {type: end, outputs: []}}], edges: [{source: start, target: c}, {source: c, target: end}]}"#;

fn text<'a>(value: &'a Json, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

async fn made(admin: &Client, label: &str, role: &str) -> Json {
    let made = admin.post("/api/v1/admin-keys", &json!({"label": label, "role": role})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    made.body
}

async fn audit(client: &Client, query: &str) -> Json {
    let answer = client.get(&format!("/api/v1/audit{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

fn tidemill(cluster: &Cluster, scheduler: &Scheduler, key: &str, words: &[&str]) -> Output {
    let mut command = cluster.command("tidemill");
    command.args(words).env("TIDEMILL_URL", format!("http://{}", scheduler.address));
    command.env("TIDEMILL_KEY", key).output().expect("it starts")
}

fn answered(cluster: &Cluster, scheduler: &Scheduler, words: &[&str]) -> Json {
    let output = tidemill(cluster, scheduler, ADMIN_KEY, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it answers JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_of_the_native_api_refuses_an_admin_key_with_too_little_a_role() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let operations = native();
    for role in ["read-only", "operator", "admin"] {
        let key = made(&admin, role, role).await;
        let client = admin.with_key(Some(text(&key, "key")));
        for (method, path) in &operations {
            let below = path.strip_prefix("/api/v1").expect("a route of the native API");
            // Nothing has the id `id`, so what is accepted changes nothing.
            let answer = client.send(client.request(method.clone(), path)).await;
            let is_of_operators = OF_OPERATORS.contains(&(method.as_str(), below));
            let needed = match method == Method::GET {
                true if below == SECRET => "admin",
                true if HIDDEN.contains(&below) => "operator",
                true => "read-only",
                false if is_of_operators => "operator",
                false => "admin",
            };
            let may = role == "admin" || needed == "read-only" || role == needed;
            let refused = format!("this admin key has the role `{role}`; this needs the role `{needed}`");
            assert_eq!(answer.status == 403, !may, "{role}: {method} {path}: {}", answer.text);
            if !may {
                let said = (&answer.body["code"], &answer.body["message"]);
                assert_eq!(said, (&json!("forbidden"), &json!(refused)), "{method} {path}");
            }
            assert!(answer.status < 500, "{role}: {method} {path}: {}", answer.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_key_that_is_revoked_at_one_scheduler_is_refused_by_all_and_its_streams_end() {
    let cluster = Cluster::start(&[], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let key = answered(&cluster, &here, &["admin-keys", "add", "--role", "operator", "--label", "on call"]);
    let client = there.client().with_key(Some(text(&key, "key")));
    // No worker runs, so the run and its stream stay open.
    let run = client.start(&Flow::new("start -> a -> end"), &[]).await;
    let mut messages = client.open(client.request(Method::GET, &format!("/api/v1/runs/{run}/events"))).await;
    assert!(messages.next().await.is_some(), "the stream begins");
    let listed = answered(&cluster, &there, &["admin-keys", "ls"]);
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["role"]), (&key["id"], &json!("operator")));
    assert!(!listed.to_string().contains(text(&key, "key")), "{listed}");
    let app_keys = here.client().get("/api/v1/keys").await.body["data"].clone();
    assert_eq!(app_keys, json!([]), "an admin key is not among the keys of apps");
    let of_other_kind = here.client().request(Method::DELETE, &format!("/api/v1/keys/{}", text(&key, "id")));
    assert_eq!(here.client().send(of_other_kind).await.status, 404);

    let gone = tidemill(&cluster, &here, ADMIN_KEY, &["admin-keys", "rm", text(&key, "id")]);
    assert!(gone.status.success(), "{}", String::from_utf8_lossy(&gone.stderr));
    let mut last = Json::Null;
    while let Some(message) = messages.next().await {
        last = message.data.map_or(last, |data| serde_json::from_str(&data).expect("an event is JSON"));
    }
    assert_eq!((&last["code"], &last["status"]), (&json!("unauthorized"), &json!(401)), "{last}");
    for address in [&here.address, &there.address] {
        let answer = Client::new(address, client.key()).get("/api/v1/runs").await;
        assert_eq!((answer.status, &answer.body["code"]), (401, &json!("unauthorized")), "{}", answer.text);
    }

    // One that expires, and one that is replaced.
    let admin = here.client();
    let short = json!({"label": "short", "role": "read-only", "expires_in_seconds": 1});
    let short = admin.post("/api/v1/admin-keys", &short).await.body;
    until("the key to end", LONG, async || {
        let answer = there.client().with_key(short["key"].as_str()).get("/api/v1/runs").await;
        if answer.status == 401 { Ok(()) } else { Err(answer.text) }
    })
    .await;
    let old = made(&admin, "deploys", "admin").await;
    let path = format!("/api/v1/admin-keys/{}/rotate", text(&old, "id"));
    let new = admin.post(&path, &json!({"overlap_seconds": 0})).await;
    assert_eq!((new.status, &new.body["role"], &new.body["label"]), (201, &old["role"], &old["label"]));
    let status = async |key: &Json| admin.with_key(key["key"].as_str()).get("/api/v1/runs").await.status;
    assert_eq!((status(&old).await, status(&new.body).await), (401, 200));
    let as_app_key = format!("/api/v1/keys/{}/rotate", text(&new.body, "id"));
    assert_eq!(admin.post(&as_app_key, &json!({})).await.status, 404);
    for wrong in [
        json!({"role": "admin"}),
        json!({"label": " ", "role": "admin"}),
        json!({"label": "x", "role": "root"}),
        json!({"label": "x", "role": "admin", "scopes": ["run"]}),
    ] {
        let answer = admin.post("/api/v1/admin-keys", &wrong).await;
        assert_eq!((answer.status, &answer.body["code"]), (400, &json!("invalid_param")), "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_says_who_changed_what_and_holds_no_secret() {
    let cluster = Cluster::start(&[], None).await;
    let (here, there) = (cluster.scheduler().await, cluster.scheduler().await);
    let admin = here.client();
    let key = made(&admin, "on call", "operator").await;
    let operator = there.client().with_key(Some(text(&key, "key")));
    let (app, app_client) = admin.register(&Flow::new("start -> a -> end")).await;
    let run = operator.start(&Flow::new("start -> a -> end"), &[]).await;
    let stop = json!({"command": "stop", "reason": "a-secret-reason"});
    assert_eq!(operator.post(&format!("/api/v1/runs/{run}/commands"), &stop).await.status, 202);
    // The same refusal is noted once a minute.
    for _ in 0..3 {
        let made = operator.post(&format!("/api/v1/apps/{app}/keys"), &json!({})).await;
        assert_eq!(made.status, 403, "{}", made.text);
    }
    let given = app_client.key().expect("a key").to_string();
    let wrong = admin.request(Method::DELETE, &format!("/api/v1/keys/{given}"));
    assert_eq!(admin.send(wrong).await.status, 404, "a key is not its id");

    let all = audit(&there.client(), "").await;
    let entries: Vec<(&str, &str, &Json, u64)> = all["data"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| (text(it, "who"), text(it, "action"), &it["named"], it["status"].as_u64().unwrap_or(0)))
        .collect();
    let id = text(&key, "id");
    let of_first = json!({"key": answered(&cluster, &here, &["keys", "ls", &app])["data"][0]["id"]});
    let expected = [
        ("settings", "DELETE /keys/{id}", &of_first, 404),
        (id, "POST /apps/{id}/keys", &json!({"app": app}), 403),
        (id, "POST /runs/{id}/commands", &json!({"run": run}), 202),
        ("settings", "POST /apps", &json!({"made": app}), 201),
        ("settings", "POST /admin-keys", &json!({"made": id}), 201),
    ];
    assert_eq!(entries, expected, "{all}");
    let first = &all["data"][0];
    assert_eq!((&first["address"], &first["role"]), (&json!("127.0.0.1"), &json!("admin")), "{first}");
    assert_eq!(all["data"][1]["label"], "on call", "{all}");
    let stored = cluster.redis.cli(&["XRANGE", "tm:audit", "-", "+"]);
    for secret in [text(&key, "key"), &given, ADMIN_KEY, "a-secret-reason"] {
        assert!(!stored.contains(secret) && !all.to_string().contains(secret), "{secret} is in the log");
    }

    // Filters and pages.
    let actions = |page: &Json| {
        let data = page["data"].as_array().expect("a list").clone();
        data.iter().map(|it| text(it, "action").to_string()).collect::<Vec<_>>()
    };
    let by_operator = audit(&operator, "?who=on%20call").await;
    assert_eq!(actions(&by_operator), ["POST /apps/{id}/keys", "POST /runs/{id}/commands"]);
    assert_eq!(actions(&audit(&operator, "?action=delete").await), ["DELETE /keys/{id}"]);
    let mut paged = Vec::new();
    let mut before = String::new();
    loop {
        let page = audit(&admin, &format!("?limit=2{before}")).await;
        paged.extend(actions(&page));
        let Some(next) = page["next"].as_str() else { break };
        before = format!("&before={next}");
    }
    assert_eq!(paged, actions(&all));
    let at = |place: usize| all["data"][place]["at"].as_f64().expect("a time");
    assert_eq!(actions(&audit(&admin, &format!("?since={}", at(0) + 3600.0)).await), [""; 0]);
    let earlier = audit(&admin, &format!("?before={}", at(4))).await;
    assert_eq!(actions(&earlier), [""; 0]);
    for wrong in ["?limit=0", "?since=x", "?before=x-y", "?whom=x"] {
        assert_eq!(admin.get(&format!("/api/v1/audit{wrong}")).await.status, 400, "{wrong}");
    }
    let shown = tidemill(&cluster, &there, ADMIN_KEY, &["audit", "--who", "on call"]);
    let shown = String::from_utf8(shown.stdout).expect("a text");
    assert!(shown.contains("POST /runs/{id}/commands") && shown.contains(&run), "{shown}");
}

/// A leaked key must be revocable while Redis takes no entry of the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_stands_although_the_audit_log_cannot_be_written() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let key = made(&admin, "leaked", "admin").await;
    cluster.redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let path = format!("/api/v1/admin-keys/{}", text(&key, "id"));
    until("the key to be revoked", LONG, async || {
        let answer = admin.send(admin.request(Method::DELETE, &path)).await;
        if answer.status == 204 { Ok(()) } else { Err(answer.text) }
    })
    .await;
    let refused = admin.with_key(key["key"].as_str()).get("/api/v1/runs").await;
    assert_eq!(refused.status, 401, "{}", refused.text);
    let lost = admin.get("/metrics").await.text;
    assert!(lost.contains("tidemill_audit_lost_total"), "{lost}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_is_bounded_and_has_submitted_runs_if_the_settings_say_so() {
    let settings = [("scheduler.audit_entries_max", "2"), ("scheduler.audit_runs", "true")];
    let cluster = Cluster::start(&settings, None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    for label in ["one", "two"] {
        made(&admin, label, "read-only").await;
    }
    let run = admin.start(&Flow::new("start -> end"), &[]).await;
    let all = audit(&admin, "").await["data"].clone();
    let actions: Vec<&str> = all.as_array().expect("a list").iter().map(|it| text(it, "action")).collect();
    assert_eq!((actions, &all[0]["named"]), (vec!["POST /runs", "POST /admin-keys"], &json!({"made": run})));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_cannot_open_a_seal_with_a_workflow_of_its_own() {
    let cluster = Cluster::start(&[("scheduler.secret_key", "the-secret-key-of-the-tests")], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let operator = admin.with_key(Some(text(&made(&admin, "operator", "operator").await, "key")));
    let flow = |value: &str| {
        let variable = format!("{{id: e, name: KEY, value_type: secret, value: '{value}'}}");
        format!(
            "kind: app\nversion: 0.6.0\napp: {{mode: workflow, name: x}}\nworkflow:\n  environment_variables: \
             [{variable}]\n  {GRAPH}\n"
        )
    };
    let plain = json!({"workflow": flow("hush-hush-hush")});
    let run = operator.post("/api/v1/runs", &plain).await;
    assert_eq!(run.status, 201, "{}", run.text);
    let path = format!("/api/v1/runs/{}/snapshot", text(&run.body, "id"));
    assert_eq!(operator.get(&path).await.status, 403);
    let snapshot = admin.get(&path).await;
    assert_eq!(snapshot.status, 200, "{}", snapshot.text);
    let at = snapshot.text.find("sealed:v").expect("a seal in the snapshot");
    let seal = snapshot.text[at..].split(['"', '\\']).next().expect("its end");
    let stolen = json!({"workflow": flow(seal)});
    let refused = operator.post("/api/v1/runs", &stolen).await;
    assert!(refused.status == 403 && refused.text.contains("KEY"), "{} {}", refused.status, refused.text);
    assert_eq!(admin.post("/api/v1/runs", &stolen).await.status, 201);
    assert_eq!(operator.post("/api/v1/runs/import", &snapshot.body).await.status, 403);
}
