//! Removals of apps and users: how many there may be, what is refused meanwhile, the quotas of uploads, and a full Redis.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::wait::{LONG, until};

use super::app_life::{delete, everything, lines_with, until_removed};

/// Stores a removal that no scheduler of this version can do, as one of a later version.
fn stuck(cluster: &Cluster, id: &str) {
    cluster.redis.cli(&["HSET", "tm:removals", id, r#"{"stage":"later"}"#]);
}

async fn upload(admin: &Client, app: &str, user: &str, bytes: usize) -> HttpResponse {
    let path = format!("/api/v1/files?name=a.txt&user={user}&app={app}");
    let request = admin.request(Method::POST, &path).header("content-type", "text/plain");
    admin.send(request.body("x".repeat(bytes))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_removals_are_under_way_as_the_setting_says() {
    let cluster = Cluster::start(&[("scheduler.removals_max", "1")], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let (id, _) = admin.register(&Flow::new("start -> end")).await;
    stuck(&cluster, "another");
    for path in [format!("/api/v1/apps/{id}"), format!("/api/v1/apps/{id}/users/ada")] {
        let refused = delete(&admin, &path).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (429, &json!("too_many_removals")),
            "{}",
            refused.text
        );
        assert!(
            refused.text.contains("at most 1 are allowed at the same time (scheduler.removals_max)"),
            "{}",
            refused.text
        );
        assert!(refused.headers.contains_key("retry-after"), "{:?}", refused.headers);
    }
    assert_eq!(admin.get(&format!("/api/v1/apps/{id}")).await.body["state"], "on", "nothing has begun");
    cluster.redis.cli(&["HDEL", "tm:removals", "another"]);
    let begun = delete(&admin, &format!("/api/v1/apps/{id}")).await;
    assert_eq!(begun.status, 202, "{}", begun.text);
    until_removed(&admin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_app_that_is_being_removed_gets_no_webhook_and_no_upload() {
    let cluster = Cluster::start(&[("files.url", "place")], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let (id, _) = admin.register(&Flow::new("start -> end")).await;
    assert_eq!(upload(&admin, &id, "ada", 1).await.status, 201);
    stuck(&cluster, &id);
    cluster.redis.cli(&["HSET", &format!("tm:app:{id}"), "state", "removing"]);
    let hook = admin.request(Method::PUT, &format!("/api/v1/apps/{id}/webhook"));
    let hook = admin.send(hook.json(&json!({"url": "https://example.com/hook"}))).await;
    for refused in [hook, upload(&admin, &id, "ada", 1).await] {
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (409, &json!("app_removing")),
            "{}",
            refused.text
        );
    }
    assert_eq!(cluster.redis.cli(&["HEXISTS", "tm:webhooks", &id]), "0");
    let files = std::fs::read_dir(cluster.logs().join("place/uploads")).expect("the first upload");
    let files = files.flat_map(|day| std::fs::read_dir(day.expect("a day").path()).expect("a folder"));
    assert_eq!(files.count(), 2, "the first upload and its record");
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_of_a_removed_user_count_for_no_quota() {
    let settings =
        [("files.url", "place"), ("uploads.app_bytes_max", "100"), ("uploads.user_bytes_max", "90")];
    let cluster = Cluster::start(&settings, None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let (id, _) = admin.register(&Flow::new("start -> end")).await;
    for (user, bytes, status) in
        [("ada", 40, 201), ("ada", 20, 201), ("bob", 30, 201), ("bob", 20, 403), ("ada", 20, 403)]
    {
        let answer = upload(&admin, &id, user, bytes).await;
        assert_eq!(answer.status, status, "{user} {bytes}: {}", answer.text);
    }
    let counts = || {
        let app = cluster.redis.cli(&["HVALS", &format!("tm:uploads:{{{id}}}:app")]);
        let users = cluster.redis.cli(&["--scan", "--pattern", &format!("tm:uploads:{{{id}}}:user:*")]);
        (app, users.lines().count())
    };
    assert_eq!(counts(), ("90".to_owned(), 2));
    let begun = delete(&admin, &format!("/api/v1/apps/{id}/users/ada")).await;
    assert_eq!(begun.status, 202, "{}", begun.text);
    until_removed(&admin).await;
    assert_eq!(counts(), ("30".to_owned(), 1), "only those of the other user are left");
    for (user, bytes, status) in [("bob", 60, 201), ("bob", 1, 403), ("ada", 10, 201), ("ada", 1, 403)] {
        let answer = upload(&admin, &id, user, bytes).await;
        assert_eq!(answer.status, status, "{user} {bytes}: {}", answer.text);
    }
}

/// Publishes an app with a schedule and a webhook; returns its id.
async fn with_trigger_and_webhook(admin: &Client) -> String {
    let plan =
        json!({"type": "trigger-schedule", "mode": "cron", "cron_expression": "0 0 1 1 *", "title": "plan"});
    let end = json!({"type": "end", "outputs": [{"variable": "at", "value_selector": ["sys", "timestamp"]}]});
    let nodes = json!([{"id": "plan", "data": plan}, {"id": "end", "data": end}]);
    let graph = json!({"nodes": nodes, "edges": [{"source": "plan", "target": "end"}]});
    let workflow = json!({"kind": "app", "app": {"mode": "workflow", "name": "Planned"},
        "workflow": {"environment_variables": [], "graph": graph}});
    let made = admin.post("/api/v1/apps", &json!({"workflow": workflow.to_string()})).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert_eq!(made.body["triggers"].as_array().map(Vec::len), Some(1), "{}", made.text);
    let id = made.body["id"].as_str().expect("an id").to_owned();
    let hook = admin.request(Method::PUT, &format!("/api/v1/apps/{id}/webhook"));
    let hook = admin.send(hook.json(&json!({"url": "https://example.com/hook"}))).await;
    assert_eq!(hook.status, 200, "{}", hook.text);
    id
}

/// A full Redis refuses to stop a run. But what has ended is removed, and that frees memory.
#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_is_removed_while_redis_is_full_and_the_rest_afterwards() {
    let settings = [("files.url", "place"), ("scheduler.secret_key", "the-secret-key-of-the-tests")];
    let cluster = Cluster::start(&settings, None).await;
    let scheduler = cluster.scheduler().await;
    let (admin, redis) = (scheduler.client(), &cluster.redis);
    let (id, _) = admin.register(&Flow::new("start -> a -> end")).await;
    let other = with_trigger_and_webhook(&admin).await;
    let starts = || {
        let due = redis.cli(&["--scan", "--pattern", "tm:{*}:schedules"]);
        (redis.cli(&["HEXISTS", "tm:webhooks", &other]), redis.cli(&["SCARD", "tm:triggers"]), due)
    };
    assert!(starts().0 == "1" && starts().1 == "1" && !starts().2.is_empty(), "{:?}", starts());
    let asked = |user: &str| json!({"app": id, "inputs": {}, "user": user});
    let mut worker = cluster.worker().await;
    let ended = admin.submit(&asked("ada")).await;
    assert_eq!(admin.ended(&ended).await["status"], "succeeded");
    let kept = admin.submit(&asked("bob")).await;
    assert_eq!(admin.ended(&kept).await["status"], "succeeded");
    worker.process.kill();
    worker.process.ended(LONG).await;
    let open = admin.submit(&asked("ada")).await;
    admin.node_is(&open, "a", "queued").await;
    assert_eq!(upload(&admin, &id, "ada", 9).await.status, 201);

    redis.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let paths = [format!("/api/v1/apps/{id}/users/ada"), format!("/api/v1/apps/{other}?runs=remove")];
    for path in &paths {
        let begun = delete(&admin, path).await;
        assert_eq!(begun.status, 202, "{path}: {}", begun.text);
    }
    until("what has ended to be removed", LONG * 2, async || {
        let left = redis.cli(&["--scan", "--pattern", &format!("*{ended}*")]);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    until("the other app to be removed", LONG * 2, async || {
        let found = admin.get(&format!("/api/v1/apps/{other}")).await;
        if found.status == 404 { Ok(()) } else { Err(found.text) }
    })
    .await;
    assert_eq!(starts(), ("0".to_owned(), "0".to_owned(), String::new()));
    let waits = until("the reason of the wait", LONG, async || {
        let all = admin.get("/api/v1/removals").await;
        let data = all.body["data"].as_array().cloned().unwrap_or_default();
        let found = data.into_iter().find(|it: &Json| it["error"].as_str().is_some());
        found.ok_or(all.text)
    })
    .await;
    assert!(waits["error"].as_str().is_some_and(|why| why.contains("Redis is full")), "{waits}");
    assert_eq!(waits["user"], "ada", "{waits}");
    assert_eq!(admin.run(&open).await["status"], "running");

    redis.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    until_removed(&admin).await;
    until("nothing of the user's runs to be left", LONG, async || {
        let left = lines_with(&everything(redis), &[&open, &ended]);
        if left.is_empty() { Ok(()) } else { Err(left.join("\n")) }
    })
    .await;
    assert_eq!(admin.run(&kept).await["status"], "succeeded", "the run of another user stays");
}
