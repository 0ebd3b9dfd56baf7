//! Questions on real processes: a waiting run holds nothing, its answer counts once, and nothing is lost when all
//! processes are replaced.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::outside::Outside;
use tidemill_tests::wait::{LONG, until};

use super::called::file;
use super::system;

async fn paused(client: &Client, run: &str) -> Json {
    until("the run to pause", LONG, async || {
        let shown = client.run(run).await;
        if shown["status"] == "paused" { Ok(shown) } else { Err(shown.to_string()) }
    })
    .await
}

fn pause_of(shown: &Json) -> &Json {
    let mut open =
        shown["pauses"].as_array().into_iter().flatten().filter(|pause| pause["status"] == "pending");
    open.next().unwrap_or_else(|| panic!("no pause is open: {shown:#}"))
}

async fn answer(client: &Client, run: &str, pause: &Json, body: Json) -> (u16, Json) {
    let id = pause["pause_id"].as_str().expect("a pause has an id");
    let answer = client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &body).await;
    (answer.status, answer.body)
}

fn template(text: &str) -> Json {
    json!({"type": "template-transform", "title": "T", "template": text, "variables": []})
}

/// A workflow that asks for approval; both branches output a text.
fn approval() -> String {
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Approval"},
        "workflow": {"graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "S", "variables": []}},
                {"id": "set", "data": {
                    "type": "user-interaction", "title": "Set", "interaction_type": "ask_for_input", "user_input": "kept",
                    "on_answer": {"update_variables": [{"name": "before"}]},
                }},
                {"id": "q", "data": {
                    "type": "user-interaction", "title": "Ship", "userInteractionType": "ask_for_approval", "showMessage": "Ship it?",
                }},
                {"id": "yes", "data": template("yes")},
                {"id": "no", "data": template("no")},
                {"id": "end", "data": {"type": "end", "title": "E", "outputs": [
                    {"variable": "yes", "value_selector": ["yes", "output"]},
                    {"variable": "no", "value_selector": ["no", "output"]},
                    {"variable": "before", "value_selector": ["run", "before"]},
                    {"variable": "approved", "value_selector": ["q", "approved"]},
                ]}},
            ],
            "edges": [
                {"source": "start", "target": "set"},
                {"source": "set", "target": "q"},
                {"source": "q", "sourceHandle": "approved", "target": "yes"},
                {"source": "q", "sourceHandle": "rejected", "target": "no"},
                {"source": "yes", "target": "end"},
                {"source": "no", "target": "end"},
            ],
        }},
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a17_a18_a27_a_question_outlives_the_fleet_and_is_answered_once() {
    let cluster = Cluster::start(&[], None).await;
    let (mut scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let (yes, no) = (
        client.submit(&json!({"workflow": approval()})).await,
        client.submit(&json!({"workflow": approval()})).await,
    );
    let shown = paused(&client, &yes).await;
    paused(&client, &no).await;
    let pause = pause_of(&shown);
    assert_eq!((&pause["kind"], &pause["prompt"]), (&json!("user_interaction"), &json!("Ship it?")));
    let jobs = cluster.redis.cli(&["XLEN", &format!("tm:{{{}}}:jobs:default", shown["shard"])]);
    assert_eq!(jobs.trim(), "0", "no job waits");
    scheduler.process.kill();
    worker.process.kill();

    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let wrong = answer(&client, &yes, pause, json!({"input": "perhaps"})).await;
    assert_eq!((wrong.0, &wrong.1["code"]), (400, &json!("pause_input_invalid")), "{}", wrong.1);
    for _ in 0..2 {
        let (status, body) =
            answer(&client, &yes, pause, json!({"input": {"approved": true}, "key": "k"})).await;
        assert_eq!(status, 202, "{body}");
    }
    let ended = client.ended(&yes).await;
    assert_eq!(
        (&ended["outputs"]["yes"], &ended["outputs"]["no"]),
        (&json!("yes"), &Json::Null),
        "{ended:#}"
    );
    assert_eq!((&ended["outputs"]["before"], &ended["outputs"]["approved"]), (&json!("kept"), &json!(true)));
    let late = answer(&client, &yes, pause, json!({"input": false, "key": "l"})).await;
    assert_eq!((late.0, &late.1["code"]), (409, &json!("pause_already_answered")), "{}", late.1);
    let told = client.follow(&yes, None).await.to_the_end().await;
    told.is_whole();
    assert_eq!(told.count("node_run_succeeded", "q"), 1);
    for kind in ["requested", "responded", "processed"] {
        assert_eq!(
            told.of_kind(&format!("user_interaction_{kind}")).count(),
            if kind == "processed" { 2 } else { 1 }
        );
    }

    let shown = paused(&client, &no).await;
    let (status, body) = answer(&client, &no, pause_of(&shown), json!({"input": false})).await;
    assert_eq!(status, 202, "{body}");
    let ended = client.ended(&no).await;
    assert_eq!((&ended["outputs"]["no"], &ended["outputs"]["yes"]), (&json!("no"), &Json::Null), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a23_a_question_expires_without_an_answer_and_a_later_answer_is_refused() {
    let cluster = Cluster::start(&[], None).await;
    let scheduler = cluster.scheduler().await;
    let client = scheduler.client();
    let asks = json!({"type": "user-interaction", "title": "Q", "interaction_type": "ask_for_input", "timeout": 200});
    let run = client
        .submit(&json!({"workflow": file("Timed", &[], &[("q", asks)], &[("out", ["q", "input"])])}))
        .await;
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["error"]),
        (&json!("failed"), &json!("User interaction timeout after 200ms"))
    );
    let late = answer(&client, &run, &ended["pauses"][0], json!({"input": "x"})).await;
    assert_eq!((late.0, &late.1["code"]), (410, &json!("pause_expired")), "{}", late.1);
}

fn confirmed(url: &str) -> String {
    let call = json!({
        "type": "http-request", "title": "Pay", "method": "get", "url": url, "headers": "", "params": "",
        "authorization": {"type": "no-auth", "config": null}, "body": {"type": "none", "data": []},
        "require_confirm": {"risk": "high", "reason": "It costs money"},
    });
    file("Confirmed", &["name"], &[("pay", call)], &[("code", ["pay", "status_code"])])
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a22_a_step_waits_for_approval_and_calls_once_or_never() {
    let outside = Outside::start().await;
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1")], None).await;
    let (scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let text = confirmed(&outside.base_url);
    let run = client.submit(&json!({"workflow": text, "inputs": {"name": "x"}})).await;
    let shown = paused(&client, &run).await;
    let pause = pause_of(&shown);
    assert_eq!((&pause["kind"], &pause["risk"]), (&json!("confirm"), &json!("high")), "{pause:#}");
    let node = shown["nodes"].as_array().into_iter().flatten().find(|node| node["id"] == "pay").cloned();
    assert_eq!(node.unwrap_or_default()["status"], "waiting");
    assert_eq!(pause["input"]["url"], outside.base_url, "the request that needs approval: {pause:#}");
    let journal = format!("*run:{run}:journal");
    let journal = cluster.redis.cli(&["--scan", "--pattern", &journal]);
    assert!(!journal.is_empty());
    assert_eq!(cluster.redis.cli(&["TTL", &journal]), "-1", "a journal is kept as long as its run waits");
    assert!(outside.take().is_empty(), "no call before the approval");
    // The next worker that runs the job finds the answer.
    worker.process.kill();
    let _worker = cluster.worker().await;
    assert_eq!(answer(&client, &run, pause, json!({"input": true})).await.0, 202);
    let ended = client.ended(&run).await;
    assert_eq!(
        (&ended["status"], &ended["outputs"]["code"]),
        (&json!("succeeded"), &json!(200)),
        "{ended:#}"
    );
    assert_eq!(outside.take().len(), 1);
    let told = client.follow(&run, None).await.to_the_end().await;
    assert_eq!(told.of_kind("step_waiting_for_start").count(), 1);

    let run = client.submit(&json!({"workflow": text, "inputs": {"name": "x"}})).await;
    let shown = paused(&client, &run).await;
    assert_eq!(answer(&client, &run, pause_of(&shown), json!({"input": false})).await.0, 202);
    let ended = client.ended(&run).await;
    assert_eq!(ended["status"], "stopped", "{ended:#}");
    assert!(outside.take().is_empty(), "no call after the refusal");
    let told = client.follow(&run, None).await.to_the_end().await;
    assert_eq!(told.of_kind("step_cancel").count(), 1);

    let quiet = json!({"workflow": text, "inputs": {"name": "x"}, "options": {"interactive": false}});
    let ended = client.ended(&client.submit(&quiet).await).await;
    assert_eq!(
        (&ended["status"], ended["pauses"].as_array().map(Vec::len)),
        (&json!("failed"), Some(0)),
        "{ended:#}"
    );
    assert!(outside.take().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn xc_10_a_stop_cancels_the_question_and_a_late_answer_makes_no_job() {
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1")], None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    for text in [approval(), confirmed("http://127.0.0.1:9")] {
        let run = client.submit(&json!({"workflow": text, "inputs": {"name": "x"}})).await;
        let shown = paused(&client, &run).await;
        let pause = pause_of(&shown).clone();
        let stop = json!({"command": "stop", "reason": "enough"});
        assert_eq!(client.post(&format!("/api/v1/runs/{run}/commands"), &stop).await.status, 202);
        let ended = client.ended(&run).await;
        assert_eq!(ended["pauses"][0]["status"], "cancelled", "{ended:#}");
        let late = answer(&client, &run, &pause, json!({"input": true})).await;
        assert_eq!((late.0, &late.1["code"]), (410, &json!("pause_cancelled")), "{}", late.1);
        let jobs = cluster.redis.cli(&["XLEN", &format!("tm:{{{}}}:jobs:default", ended["shard"])]);
        assert_eq!(jobs.trim(), "0");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn xc_05_a_thousand_waiting_runs_hold_no_job_and_no_worker() {
    const EACH: usize = 500;
    let settings = [("scheduler.shards", "1"), ("worker.permits", "4"), ("http.allow", "127.0.0.1")];
    let cluster = Cluster::start(&settings, None).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    // In the first workflow, the result of the job is the pause. In the second, the job itself is parked.
    let texts = [approval(), confirmed("http://127.0.0.1:9")];
    let mut runs = Vec::new();
    for _ in 0..EACH {
        for text in &texts {
            runs.push(client.submit(&json!({"workflow": text, "inputs": {"name": "x"}})).await);
        }
    }
    for run in &runs {
        paused(&client, run).await;
    }
    let redis = &cluster.redis;
    let count = |words: &[&str]| redis.cli(words).trim().to_string();
    assert_eq!(count(&["XLEN", "tm:{0}:jobs:default"]), "0", "no stream entry");
    let pending = count(&["XPENDING", "tm:{0}:jobs:default", "workers"]);
    assert!(pending.starts_with('0') || pending.is_empty(), "no worker holds any of them: {pending}");
    assert_eq!(count(&["ZCARD", "tm:{0}:timers"]), "0", "none of them expires");
    // More runs wait than there are permits, and yet another run ends at once.
    let other = file("Other", &[], &[("t", template("through"))], &[("out", ["t", "output"])]);
    let through = client.submit(&json!({"workflow": other})).await;
    assert_eq!(client.ended(&through).await["outputs"]["out"], "through");
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a26_a_model_answers_instead_of_a_person() {
    let model = llm::rules(json!([{"match": {}, "reply": "granted"}])).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let provider = json!({"id": "openai", "base_url": model.base_url()});
    assert_eq!(client.post("/api/v1/providers", &provider).await.status, 201);
    let profile =
        json!({"id": "default", "name": "default", "provider": "openai", "model": "m", "default": true});
    let kept = client.post("/api/v1/profiles", &profile).await;
    assert_eq!(kept.status, 201, "{}", kept.text);
    let asks = json!({
        "type": "user-interaction", "title": "Q", "interaction_type": "ask_for_approval", "execution": "llm",
    });
    let text = file("ByModel", &[], &[("q", asks)], &[("said", ["q", "content"])]);
    let run = client.submit(&json!({"workflow": text})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"]["said"], "granted", "{ended:#}");
    let asked = model.requests().last().cloned().expect("it was called");
    assert_eq!(asked["messages"][0]["content"], "Ask for approval: Please approve this action", "{asked:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    let told: Vec<_> =
        told.events.iter().filter(|event| event.kind.starts_with("user_interaction_")).collect();
    let kinds: Vec<&str> = told.iter().map(|event| event.kind.as_str()).collect();
    assert_eq!(
        kinds,
        ["user_interaction_requested", "user_interaction_responded", "user_interaction_processed"]
    );
    let ids: Vec<&Json> = told.iter().map(|event| &event.data["interaction_id"]).collect();
    assert!(ids[0].is_string() && ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(told[1].data["input_data"], "granted");
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a26_a_temporary_failure_of_a_model_is_retried_by_the_nodes_retry() {
    let model = llm::rules(json!([{"match": {}, "reply": "granted", "status": 500, "fail_times": 2}])).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    // The call itself is not retried; only the node is.
    let provider = json!({"id": "acme", "base_url": model.base_url(), "max_retries": 0});
    assert_eq!(client.post("/api/v1/providers", &provider).await.status, 201);
    let profile = json!({"id": "p", "name": "p", "provider": "acme", "model": "m", "default": true});
    assert_eq!(client.post("/api/v1/profiles", &profile).await.status, 201);
    let asks = json!({
        "type": "user-interaction", "title": "Q", "interaction_type": "ask_for_approval", "execution": "llm",
        "retry_config": {"retry_enabled": true, "max_retries": 2, "retry_interval": 10},
    });
    let text = file("ByModel", &[], &[("q", asks)], &[("said", ["q", "content"])]);
    let app = client.post("/api/v1/apps", &json!({"workflow": text})).await;
    assert_eq!(app.body["warnings"], json!([]), "its retries are honoured: {}", app.text);
    let run = client.submit(&json!({"workflow": text})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["outputs"]["said"], "granted", "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    assert_eq!((told.count("node_run_retry", "q"), model.requests().len()), (2, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn cx_a26_a_missing_profile_is_named_and_fails_the_node() {
    let model = llm::rules(json!([{"match": {}, "reply": "granted"}])).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let asks = json!({
        "type": "user-interaction", "title": "Q", "interaction_type": "ask_for_approval", "execution": "llm",
        "profile_id": "ghost",
    });
    let text = file("ByNobody", &[], &[("q", asks)], &[]);
    let refused = client.post("/api/v1/apps?strict=true", &json!({"workflow": text})).await;
    assert_eq!((refused.status, &refused.body["code"]), (422, &json!("unknown_profile")), "{}", refused.text);
    assert_eq!(refused.body["error_type"], "ValidationError");
    assert_eq!(refused.body["message"], "LLM Profile not found: ghost (node q)");
    let taken = client.post("/api/v1/apps", &json!({"workflow": text})).await;
    assert_eq!((taken.status, &taken.body["warnings"][0]["code"]), (201, &json!("llm.unknown_profile")));
    let run = client.submit(&json!({"workflow": text})).await;
    let ended = client.ended(&run).await;
    assert_eq!(ended["error"], "LLM Profile not found: ghost", "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    let failed = told.of_kind("node_run_failed").next().expect("it fails");
    assert_eq!(failed.data["node_run_result"]["error_type"], "NotFoundError");
    assert_eq!((told.count("user_interaction_failed", "q"), model.requests().len()), (1, 0));
}
