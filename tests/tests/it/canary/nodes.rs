//! Secrets of a workflow in a node of each type. Each node that can fail does, and servers repeat what they are sent. Secrets
//! of the settings, of registered entries and of the environment are used at the same time.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value as Json, json};
use tidemill_common::nodes::{NODE_TYPES, NodeSpec};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::redis::Entry;
use tidemill_tests::wait::{LONG, until};

use super::super::library::keep;
use super::workflows::{DERIVED_PART, DIRECT_PART, NEVER_FAIL};
use super::{Canary, VisibleTexts, cases, may_hold_values, mirror};

/// Part of every secret that does not belong to a workflow.
const FLEET_PART: &str = "fleet0123456789";
/// An address at which nothing listens.
const DEAD: &str = "http://127.0.0.1:1";

/// The secret for a place in the settings or in an entry.
fn secret(place: &str) -> String {
    format!("{place}-{FLEET_PART}-{place}")
}

fn settings(mirror: &str, spec: &str) -> String {
    let one = |place: &str| secret(place);
    format!(
        r#"
[http]
allow = ["127.0.0.1"]
[knowledge.datasets.two]
endpoint = "{mirror}/?key={query}"
knowledge_id = "k"
api_key = "{knowledge}"
strict = true
[providers.mirror]
base_url = "{mirror}"
api_key = "{provider}"
headers = {{ X-Own = "{provider_header}" }}
max_retries = 0
[tools]
endpoint = "{mirror}/tools?token={query}"
headers = {{ X-Own = "{tools_header}" }}
[tools.mcp.one]
url = "{mirror}/mcp?key={query}"
headers = {{ Authorization = "Bearer {mcp}" }}
[tools.api.pets]
spec = "{spec}"
auth_type = "api_key_header"
api_key_header_prefix = "bearer"
api_key_value = "{pets}"
"#,
        query = one("query"),
        knowledge = one("knowledge"),
        provider = one("provider"),
        provider_header = one("provider-header"),
        tools_header = one("tools-header"),
        mcp = one("mcp"),
        pets = one("pets"),
    )
}

const SHOUT: &str = "#!/usr/bin/env python3
import os, sys
asked = sys.stdin.read()
sys.stderr.write(asked + os.environ['TOKEN'] + '\\n')
print(asked + os.environ['TOKEN'])
sys.exit(1)
";

/// A cluster, and its settings file.
async fn fleet(mirror: &str) -> (Cluster, String) {
    let variables = [
        ("log.level", "trace"),
        ("scheduler.secret_key", &*secret("secret-key")),
        ("tools.api_key", &secret("tools-key")),
        ("documents.unstructured_key", &secret("documents-key")),
        ("files.secret_access_key", &secret("files-key")),
        ("worker.providers_refresh_ms", "0"),
    ];
    let cluster = Cluster::start(&variables, None).await;
    let place = |name: &str| cluster.logs().join(name).display().to_string();
    let pets = json!({"openapi": "3.0.0", "info": {"title": "Pets", "version": "1"}, "servers": [{"url": mirror}],
        "paths": {"/pets": {"get": {"operationId": "find_pet", "summary": "s", "responses": {"200": {"description": "a pet"}},
            "parameters": [{"name": "q", "in": "query", "required": true, "schema": {"type": "string"}}]}}}});
    let programs = format!("[calls]\nprograms = [\"{}\"]\n", place("shout.py"));
    let files = [
        ("pets.json", pets.to_string()),
        ("shout.py", SHOUT.to_owned()),
        ("settings.toml", settings(mirror, &place("pets.json")) + &programs),
    ];
    for (name, text) in files {
        std::fs::write(place(name), text).expect("the folder exists");
    }
    std::fs::set_permissions(place("shout.py"), PermissionsExt::from_mode(0o755)).expect("it is ours");
    let settings = place("settings.toml");
    (cluster, settings)
}

/// Registered entries with sealed secrets and with names of variables.
fn entries(mirror: &str, shout: &str) -> [(&'static str, &'static str, Json); 8] {
    let info = json!({"en": {"name": "Greet", "description": "Says hello"}});
    let manifest = |transport: Json| json!({"info": info, "operations": ["init", "exec"], "streaming": true, "transport": transport});
    let named = |name: &str| json!([{"name": name, "value": secret("service")}, {"name": format!("{name}-Env"), "value_env": "CANARY_SERVICE"}]);
    [
        (
            "providers",
            "acme",
            json!({"base_url": mirror, "api_key": secret("acme/+\"\\"), "headers": {"X-Own": secret("acme-header")}}),
        ),
        ("providers", "other", json!({"base_url": mirror, "api_key_env": "CANARY_PROVIDER"})),
        (
            "profiles",
            "p",
            json!({"name": "p", "provider": "acme", "model": "m", "default": true, "maxRetries": 0, "apiKey": secret("profile"),
            "headers": {"X-Profile": secret("profile-header")}}),
        ),
        (
            "services",
            "svc",
            json!({"server": mirror, "auth": {"header": named("X-Key"), "query": named("key"), "cookie": named("crumb")}}),
        ),
        (
            "calls",
            "greet",
            manifest(
                json!({"type": "http", "url": format!("{mirror}/calls"), "headers": {"X-Own": secret("call")},
            "headers_env": {"X-Env": "CANARY_CALL"}}),
            ),
        ),
        (
            "calls",
            "shout",
            manifest(json!({"type": "process", "command": [shout], "env": {"TOKEN": secret("process")}})),
        ),
        ("datasources", "db", json!({"database_type": "sqlite", "database": ":memory:"})),
        (
            "datasources",
            "away",
            json!({"host": "127.0.0.1", "port": 1, "username": "u", "database": "d", "password": secret("password")}),
        ),
    ]
}

/// Runs all cases, checks which of them fail, and returns the runs.
async fn fail(client: &Client, mirror: &str, shown: &mut VisibleTexts) -> Vec<String> {
    let cases = cases::all(DEAD, mirror);
    let mut runs = Vec::new();
    for case in &cases {
        runs.push(client.submit(&case.body).await);
    }
    let (mut seen, mut failed, mut odd) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for (case, run) in cases.iter().zip(&runs) {
        let ended = client.ended(run).await;
        let told = shown.run(client, run).await;
        let kinds = |kind: &str| {
            told.of_kind(kind)
                .filter_map(|event| event.data["node_type"].as_str().map(str::to_owned))
                .collect::<Vec<_>>()
        };
        // The start node of a body has no events.
        seen.extend(kinds("node_run_started"));
        seen.insert(case.kind().to_owned());
        failed.extend(kinds("node_run_failed"));
        if case.fails != kinds("node_run_failed").iter().any(|kind| kind == case.kind()) {
            odd.push(format!("{}: {} {}", case.name, ended["status"], ended["error"]));
        }
    }
    assert!(odd.is_empty(), "{}", odd.join("\n"));
    for NodeSpec { wire, .. } in NODE_TYPES {
        let told = if NEVER_FAIL.contains(wire) { &seen } else { &failed };
        assert!(
            told.contains(*wire),
            "no run is about {wire}: give it a case in cases.rs, or a place in NEVER_FAIL"
        );
    }
    runs
}

/// Runs some cases as apps through Dify's API.
async fn as_dify(client: &Client, mirror: &str, shown: &mut VisibleTexts) {
    for case in cases::all(DEAD, mirror) {
        if !["llm", "code", "http-request", "http-request/basic", "agent", "iteration", "end"]
            .contains(&case.name)
        {
            continue;
        }
        let app = client.post("/api/v1/apps", &json!({"workflow": case.body["workflow"]})).await;
        assert_eq!(app.status, 201, "{}: {}", case.name, app.text);
        let app = client.with_key(app.body["key"].as_str());
        for mode in ["blocking", "streaming"] {
            let body = json!({"inputs": {}, "response_mode": mode, "user": "canary"});
            let answer = app.post("/v1/workflows/run", &body).await;
            assert_eq!(answer.status, 200, "{}", answer.text);
            if let Some(run) = answer.body["workflow_run_id"].as_str() {
                for path in ["workflows/run/{}", "workflow/{}/events?user=canary"] {
                    shown.get(&app, &format!("/v1/{}", path.replace("{}", run))).await;
                }
            }
            shown.add(format!("/v1/workflows/run of {}, {mode}", case.name), answer.text);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_shown_whichever_node_fails_with_it() {
    let mirror = mirror(400).await;
    let (cluster, settings) = fleet(&mirror).await;
    let config = ["--config", settings.as_str()];
    let scheduler = cluster.scheduler_with(&config).await;
    let mut command = cluster.command("tidemill-worker");
    command.args(["--listen", "127.0.0.1:0"]).args(config);
    command.envs(["PROVIDER", "SERVICE", "CALL"].map(|name| (format!("CANARY_{name}"), secret(name))));
    let mut worker = cluster.spawn("worker", command);
    worker.wait_for_log("worker started").await;
    let client = scheduler.client();
    let mut shown = VisibleTexts::default();
    for (kind, id, entry) in entries(&mirror, &cluster.logs().join("shout.py").display().to_string()) {
        let kept = keep(&client, kind, id, entry).await;
        shown.add(format!("{kind} {id} when it is stored"), kept.to_string());
        shown.get(&client, &format!("/api/v1/{kind}/{id}")).await;
    }

    let runs = fail(&client, &mirror, &mut shown).await;
    as_dify(&client, &mirror, &mut shown).await;
    shown.lists(&client).await;
    let run = runs[0].as_str();
    let url = scheduler.address.clone();
    for arguments in [
        &["show", run][..],
        &["show", run, "--json"],
        &["watch", run],
        &["ps"],
        &["dead", "ls"],
        &["providers", "ls"],
        &["providers", "show", "acme"],
        &["providers", "test", "acme", "--model", "m"],
        &["profiles", "test", "p"],
        &["services", "show", "svc"],
        &["calls", "show", "greet"],
        &["datasources", "show", "away"],
        &["doctor", "--config", &settings],
    ] {
        shown.command(&cluster, &url, arguments).await;
    }
    shown.logs(&cluster);
    assert!(worker.log_text().contains("\"TRACE\""), "it logs at trace");
    let (direct, derived, fleet) =
        (Canary::of(DIRECT_PART), Canary::of(DERIVED_PART), Canary::of(FLEET_PART));
    shown.redis(&cluster.redis, may_hold_values).await;
    shown.has_none_of(&[&direct, &derived, &fleet]);
    // A secret that a node is given directly is stored only in that node's results. Other secrets are stored nowhere.
    let (mut given, mut all) = (VisibleTexts::default(), VisibleTexts::default());
    let of_results = |entry: &Entry| ["v:/n.", "v:/end."].iter().any(|begin| entry.field.starts_with(begin));
    given.redis(&cluster.redis, |entry| entry.key.ends_with(":inbox") || of_results(entry)).await;
    given.has_none_of(&[&direct]);
    all.redis(&cluster.redis, |_| false).await;
    all.has_none_of(&[&fleet]);
    until("the worker to be alive", LONG, async || {
        worker.end().map_or(Ok(()), |end| Err(format!("{end:?}")))
    })
    .await;
}
