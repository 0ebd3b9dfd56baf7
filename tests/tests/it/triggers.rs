//! Triggers on real processes: requests that begin runs, schedules that begin each of their runs once, outages.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::system;

const DAY: f64 = 24.0 * 3600.0;

/// A workflow with these nodes at its beginning, each with an edge to the end. An output is a name and its selector.
fn flow(roots: &[(&str, Json)], outputs: &[(&str, &str, &str)], variables: Json) -> Json {
    let mut nodes: Vec<Json> = roots.iter().map(|(id, data)| json!({"id": id, "data": data})).collect();
    let output =
        |(name, node, value): &(&str, &str, &str)| json!({"variable": name, "value_selector": [node, value]});
    let outputs: Vec<Json> = outputs.iter().map(output).collect();
    nodes.push(json!({"id": "end", "data": {"type": "end", "outputs": outputs}}));
    let edges: Vec<Json> = roots.iter().map(|(id, _)| json!({"source": id, "target": "end"})).collect();
    let graph = json!({"nodes": nodes, "edges": edges});
    json!({"kind": "app", "app": {"mode": "workflow", "name": "Triggered"},
        "workflow": {"environment_variables": variables, "graph": graph}})
}

/// A webhook whose body parameters are the outputs.
fn hook(mut data: Json, names: &[&str]) -> Json {
    data["type"] = "trigger-webhook".into();
    let outputs: Vec<(&str, &str, &str)> = names.iter().map(|name| (*name, "hook", *name)).collect();
    flow(&[("hook", data)], &outputs, json!([]))
}

fn schedule(cron: &str, catch_up: &str) -> Json {
    let data = json!({"type": "trigger-schedule", "mode": "cron", "cron_expression": cron, "tidemill": {"catch_up": catch_up}});
    flow(&[("plan", data)], &[("at", "sys", "timestamp")], json!([]))
}

/// Publishes a workflow as a new app, or as the next version of an app. Returns its id and its triggers.
async fn publish(client: &Client, workflow: &Json, id: Option<&str>) -> (String, Vec<Json>) {
    let mut body = json!({"workflow": workflow.to_string()});
    if let Some(id) = id {
        body["id"] = id.into();
    }
    let answer = client.post("/api/v1/apps", &body).await;
    assert_eq!(answer.status, if id.is_some() { 200 } else { 201 }, "{}", answer.text);
    let triggers = answer.body["triggers"].as_array().cloned().unwrap_or_default();
    (answer.body["id"].as_str().expect("an id").to_string(), triggers)
}

fn path_of(triggers: &[Json]) -> String {
    triggers[0]["path"].as_str().expect("a webhook has a path").to_string()
}

async fn call(client: &Client, method: Method, path: &str, kind: &str, body: Vec<u8>) -> HttpResponse {
    let request = client.with_key(None).request(method, path).header("content-type", kind);
    client.send(request.header("X-Sig", "abc").body(body)).await
}

async fn runs_of(client: &Client, app: &str) -> Vec<Json> {
    let listed = client.get("/api/v1/runs?limit=100").await.body;
    let of_app = |run: &&Json| run["app"] == app;
    listed["data"].as_array().into_iter().flatten().filter(of_app).cloned().collect()
}

/// Waits until the only run of an app has ended, and returns it.
async fn only_run(client: &Client, app: &str) -> Json {
    let runs = runs_of(client, app).await;
    assert_eq!(runs.len(), 1, "{runs:?}");
    client.ended(runs[0]["id"].as_str().expect("an id")).await
}

async fn trigger(client: &Client, id: &str) -> Json {
    let all = client.get("/api/v1/triggers").await.body;
    let found = all["data"].as_array().into_iter().flatten().find(|trigger| trigger["id"] == id);
    found.cloned().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_each_content_type_begins_a_run_with_its_data() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[("scheduler.webhook_bytes_max", "2000")], &model).await;
    let client = &system.client;
    let form = "--b\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n7\r\n--b\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\nPNG\r\n--b--\r\n";
    let typed = |ty: &str, body: Json| json!({"method": "POST", "content_type": ty, "body": body});
    let number = json!([{"name": "n", "type": "number", "required": true}]);
    let cases = [
        ("application/json", number.clone(), &["n"][..], "application/json", r#"{"n": 7, "more": [1]}"#),
        (
            "application/x-www-form-urlencoded",
            number,
            &["n"],
            "application/x-www-form-urlencoded; charset=utf-8",
            "n=7&x=%20",
        ),
        ("text/plain", json!([{"name": "note"}]), &["note"], "text/plain", "hello"),
        (
            "application/octet-stream",
            json!([{"name": "blob", "type": "file"}]),
            &["blob"],
            "application/octet-stream",
            "bytes",
        ),
        (
            "multipart/form-data",
            json!([{"name": "n", "type": "number"}, {"name": "photo", "type": "file", "required": true}]),
            &["n", "photo"],
            "multipart/form-data; boundary=b",
            form,
        ),
    ];
    for (ty, body, names, header, sent) in cases {
        let (app, triggers) = publish(client, &hook(typed(ty, body), names), None).await;
        let path = path_of(&triggers);
        let answer = call(client, Method::POST, &path, header, sent.into()).await;
        assert_eq!(answer.status, 200, "{ty}: {}", answer.text);
        assert_eq!(answer.body["status"], "success", "{ty}");
        let run = only_run(client, &app).await;
        assert_eq!(run["status"], "succeeded", "{ty}: {run:#}");
        let outputs = &run["outputs"];
        match ty {
            "text/plain" => assert_eq!(outputs, &json!({"note": "hello"})),
            "application/octet-stream" => {
                assert_eq!(
                    (&outputs["blob"]["size"], &outputs["blob"]["extension"]),
                    (&json!(5), &json!(".bin"))
                );
                assert!(
                    outputs["blob"]["reference"]
                        .as_str()
                        .is_some_and(|r| r.contains(run["id"].as_str().unwrap()))
                );
            }
            "multipart/form-data" => {
                assert_eq!((&outputs["n"], &outputs["photo"]["filename"]), (&json!(7), &json!("a.png")));
                assert_eq!(outputs["photo"]["type"], "image");
            }
            _ => assert_eq!(outputs, &json!({"n": 7}), "{ty}"),
        }
        let refused = call(client, Method::GET, &path, header, Vec::new()).await;
        assert_eq!(
            (refused.status, &refused.body["error"]),
            (400, &json!("Bad Request")),
            "{}",
            refused.text
        );
        assert_eq!(refused.body["message"], "HTTP method mismatch. Expected POST, got GET");
        let large = call(client, Method::POST, &path, header, vec![b'x'; 3000]).await;
        assert_eq!(large.status, 413, "{ty}: {}", large.text);
        assert!(large.text.contains("scheduler.webhook_bytes_max"), "{}", large.text);
        assert_eq!(runs_of(client, &app).await.len(), 1, "refused requests began no run");
        let id = triggers[0]["id"].as_str().expect("an id");
        let shown = trigger(client, id).await;
        assert_eq!((&shown["run"], &shown["path"]), (&run["id"], &json!(path)));
    }
    let unknown =
        call(client, Method::POST, "/triggers/webhook/abcdefghijklmnopqrstuvwx", "text/plain", vec![]).await;
    assert_eq!(unknown.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_and_queries_and_answers_and_repetitions_follow_the_workflow_file() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let data = json!({"type": "trigger-webhook", "method": "get", "status_code": 202, "response_body": "{\"ok\": true}",
        "webhook_id": "abcdefghijklmnopqrstuvwx", "headers": [{"name": "X-Sig", "required": true}],
        "params": [{"name": "page", "type": "number", "required": true}]});
    let outputs = [("sig", "hook", "X_Sig"), ("page", "hook", "page"), ("user", "sys", "user_id")];
    let workflow = flow(&[("hook", data)], &outputs, json!([]));
    let (app, triggers) = publish(client, &workflow, None).await;
    assert_eq!(path_of(&triggers), "/triggers/webhook/abcdefghijklmnopqrstuvwx");
    let ask = async |query: &str, key: &str| {
        let path = format!("/triggers/webhook/abcdefghijklmnopqrstuvwx?{query}");
        let request = client.with_key(None).request(Method::GET, &path).header("Idempotency-Key", key);
        client.send(request.header("x-sig", "abc")).await
    };
    let refused = ask("page=x", "k1").await;
    assert_eq!(refused.body["message"], "Parameter 'page' validation failed: Cannot convert 'x' to number");
    for _ in 0..2 {
        let answer = ask("page=3", "k1").await;
        assert_eq!((answer.status, &answer.body), (202, &json!({"ok": true})), "{}", answer.text);
    }
    assert_eq!(only_run(client, &app).await["outputs"], json!({"sig": "abc", "page": 3, "user": "webhook"}));
    assert_eq!(ask("page=4", "k1").await.status, 409, "another request under the same key");

    // The next version keeps the URL. A version without the webhook removes it.
    let (_, again) = publish(client, &workflow, Some(&app)).await;
    assert_eq!(again, triggers);
    publish(client, &schedule("@yearly", "last"), Some(&app)).await;
    assert_eq!(ask("page=5", "k2").await.status, 404);
    assert_eq!(client.get("/api/v1/triggers").await.body["data"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_demands_its_secret_and_shows_it_nowhere() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[("scheduler.secret_key", "a passphrase of enough")], &model).await;
    let client = &system.client;
    let data = json!({"type": "trigger-webhook", "method": "post", "tidemill": {"secret": "HOOK_KEY"}});
    let variables = json!([{"name": "HOOK_KEY", "value_type": "secret", "value": "hunter2-and-more"}]);
    let workflow = flow(&[("hook", data)], &[("raw", "hook", "_webhook_raw")], variables);
    let (app, triggers) = publish(client, &workflow, None).await;
    let path = path_of(&triggers);
    let ask = async |header: &str, value: &str| {
        let request =
            client.with_key(None).request(Method::POST, &path).header("content-type", "application/json");
        client.send(request.header(header, value).body("{}")).await.status
    };
    for (header, value, status) in [
        ("x-other", "hunter2-and-more", 401),
        ("x-webhook-secret", "hunter2", 401),
        ("authorization", "Basic hunter2-and-more", 401),
        ("x-webhook-secret", "hunter2-and-more", 200),
        ("authorization", "Bearer hunter2-and-more", 200),
    ] {
        assert_eq!(ask(header, value).await, status, "{header}: {value}");
    }
    let runs = runs_of(client, &app).await;
    assert_eq!(runs.len(), 2);
    for run in runs {
        let run = client.ended(run["id"].as_str().expect("an id")).await;
        assert!(!run.to_string().contains("hunter2"), "{run}");
    }
    let kept = system.cluster.redis.cli(&["--raw", "HGETALL", &format!("tm:app:{app}")]);
    assert!(!kept.contains("hunter2"));
}

/// Makes a schedule due since a time, in Unix seconds, as an outage would.
fn set_due(cluster: &Cluster, trigger: &str, at: f64) {
    for shard in 0..2 {
        let key = format!("tm:{{{shard}}}:schedules");
        let millis = format!("{:.0}", at * 1000.0);
        cluster.redis.cli(&["ZADD", &key, "XX", &millis, trigger]);
    }
}

async fn next_of(client: &Client, id: &str) -> f64 {
    trigger(client, id).await["next_at"].as_f64().expect("it has a next time")
}

#[tokio::test(flavor = "multi_thread")]
async fn two_schedulers_begin_the_run_of_a_scheduled_time_once() {
    let cluster = Cluster::start(&[], None).await;
    let (one, two) = (cluster.scheduler().await, cluster.scheduler().await);
    let client = one.client();
    let mut due = Vec::new();
    for minute in 0..8 {
        let (app, triggers) = publish(&client, &schedule(&format!("{minute} * * * *"), "last"), None).await;
        let id = triggers[0]["id"].as_str().expect("an id").to_string();
        let next = next_of(&two.client(), &id).await;
        due.push((app, id, next));
    }
    for (_, id, next) in &due {
        set_due(&cluster, id, next - 3600.0);
    }
    for (app, id, next) in &due {
        let shown = until("the schedule to have fired", LONG, async || {
            let shown = trigger(&client, id).await;
            if shown["run"].is_string() { Ok(shown) } else { Err(shown.to_string()) }
        })
        .await;
        let runs = runs_of(&two.client(), app).await;
        assert_eq!(runs.len(), 1, "{runs:?}");
        assert_eq!(shown["run"], runs[0]["id"]);
        let run = client.ended(runs[0]["id"].as_str().expect("an id")).await;
        let at = run["outputs"]["at"].as_f64().expect("a time");
        // Unless the hour has changed meanwhile.
        assert!(at == next - 3600.0 || at == *next, "{at} {next}");
    }
    // The same time once more finds its run and makes no second one.
    let (app, id, next) = &due[0];
    set_due(&cluster, id, next - 3600.0);
    until("the schedule to advance", LONG, async || {
        let now_next = next_of(&client, id).await;
        if now_next >= *next { Ok(()) } else { Err(now_next.to_string()) }
    })
    .await;
    let runs = runs_of(&client, app).await.len();
    assert!(runs == 1 || next_of(&client, id).await > *next, "{runs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn scheduled_times_missed_in_an_outage_are_caught_up_as_configured() {
    let cluster = Cluster::start(&[], None).await;
    let mut scheduler = cluster.scheduler().await;
    let mut published = Vec::new();
    for (cron, catch_up) in [("@yearly", "last"), ("@yearly", "none"), ("@hourly", "all")] {
        let client = scheduler.client();
        let (app, triggers) = publish(&client, &schedule(cron, catch_up), None).await;
        let id = triggers[0]["id"].as_str().expect("an id").to_string();
        let next = next_of(&client, &id).await;
        published.push((app, id, next));
    }
    scheduler.process.kill();
    let [(last, last_id, year), (none, none_id, _), (all, all_id, hour)] = &published[..] else { panic!() };
    set_due(&cluster, last_id, year - 800.0 * DAY);
    set_due(&cluster, none_id, year - 800.0 * DAY);
    set_due(&cluster, all_id, hour - 4.0 * 3600.0);

    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    for (_, id, next) in &published {
        until("the schedules to have caught up", LONG, async || {
            let due = next_of(&client, id).await;
            if due >= *next { Ok(()) } else { Err(due.to_string()) }
        })
        .await;
    }
    let at = only_run(&client, last).await["outputs"]["at"].as_f64().expect("a time");
    assert!([365.0, 366.0].contains(&((year - at) / DAY)), "the last new year: {at}");
    assert_eq!(runs_of(&client, none).await, Vec::<Json>::new());
    let mut times = Vec::new();
    for run in runs_of(&client, all).await {
        let run = client.ended(run["id"].as_str().expect("an id")).await;
        times.push(run["outputs"]["at"].as_f64().expect("a time"));
    }
    times.sort_by(f64::total_cmp);
    let missed: Vec<f64> = (0..times.len()).map(|n| hour - 4.0 * 3600.0 + 3600.0 * n as f64).collect();
    assert!(times.len() >= 4, "{times:?}");
    assert_eq!(times, missed, "each of them once");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_triggers_only_the_one_that_fired_begins_the_run() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let hook = json!({"type": "trigger-webhook", "method": "post", "body": [{"name": "who"}]});
    let plan = json!({"type": "trigger-schedule", "mode": "cron", "cron_expression": "@yearly"});
    let roots = [("hook", hook), ("plan", plan)];
    let workflow = flow(&roots, &[("who", "hook", "who"), ("note", "plan", "note")], json!([]));
    let (app, triggers) = publish(client, &workflow, None).await;
    assert_eq!(triggers.len(), 2);
    let answer =
        call(client, Method::POST, &path_of(&triggers), "application/json", br#"{"who": "Ada"}"#.into())
            .await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let by_hook = only_run(client, &app).await;
    let by_hand = json!({"app": app, "inputs": {"who": "Eve"}});
    let by_hand = client.ended(&client.submit(&by_hand).await).await;
    let planned = json!({"app": app, "root": "plan", "inputs": {"note": "by hand"}});
    let planned = client.ended(&client.submit(&planned).await).await;
    let status = |run: &Json, id: &str| {
        let nodes = run["nodes"].as_array().cloned().unwrap_or_default();
        nodes.iter().find(|node| node["id"] == id).map(|node| node["status"].clone()).unwrap_or_default()
    };
    for (run, hook, plan, outputs) in [
        (by_hook, "succeeded", "skipped", json!({"who": "Ada", "note": null})),
        (by_hand, "succeeded", "skipped", json!({"who": "Eve", "note": null})),
        (planned, "skipped", "succeeded", json!({"who": null, "note": "by hand"})),
    ] {
        assert_eq!((status(&run, "hook"), status(&run, "plan")), (json!(hook), json!(plan)), "{run:#}");
        assert_eq!(run["outputs"], outputs, "{run:#}");
    }
    let wrong = client.post("/api/v1/runs", &json!({"app": app, "root": "end"})).await;
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("invalid_param")), "{}", wrong.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn triggers_of_a_full_app_are_refused_and_a_request_without_the_secret_counts_nothing() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[("scheduler.secret_key", "a passphrase of enough")], &model).await;
    let client = &system.client;
    let variables = json!([{"name": "HOOK_KEY", "value_type": "secret", "value": "hunter2-and-more"}]);
    let hook = json!({"type": "trigger-webhook", "method": "post", "tidemill": {"secret": "HOOK_KEY"}});
    let (app, hooks) = publish(client, &flow(&[("hook", hook)], &[], variables), None).await;
    let (planned, schedules) = publish(client, &schedule("@yearly", "last"), None).await;
    let path = path_of(&hooks);
    let ask = async |secret: &str| {
        let request =
            client.with_key(None).request(Method::POST, &path).header("content-type", "application/json");
        client.send(request.header("x-webhook-secret", secret).body("{}")).await
    };
    for (id, body) in
        [(&app, json!({"requests_per_second": 1, "runs_max": 1})), (&planned, json!({"runs_max": 1}))]
    {
        let put = client.request(Method::PUT, &format!("/api/v1/apps/{id}/limits"));
        let put = client.send(put.header("content-type", "application/json").body(body.to_string())).await;
        assert_eq!(put.status, 200, "{}", put.text);
        // A place that no run holds, and that no sweep knows.
        system.cluster.redis.cli(&["ZADD", &format!("tm:limits:{{{id}}}:runs"), "1", "taken"]);
    }
    for _ in 0..5 {
        assert_eq!(ask("wrong").await.status, 401);
    }
    let refused = ask("hunter2-and-more").await;
    assert_eq!((refused.status, &refused.body["code"]), (429, &json!("too_many_runs")), "{}", refused.text);
    let id = schedules[0]["id"].as_str().expect("an id");
    set_due(&system.cluster, id, next_of(client, id).await - 400.0 * DAY);
    let shown = until("the refusal to be shown", LONG, async || {
        let shown = trigger(client, id).await;
        if shown["error"].is_string() { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await;
    assert!(shown["error"].to_string().contains("runs_max, set for the app"), "{shown}");
    for app in [&app, &planned] {
        assert!(runs_of(client, app).await.is_empty());
    }
}
