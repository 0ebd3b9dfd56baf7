//! Dify's service API around runs: ids of versions, pinned versions, logs, ratings of an app, end users, and what is left
//! of a removed conversation.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{System, system};

const HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const FOREIGN: &str = "7c3e33d4-2a8b-4e5f-9b1a-d3c6e8f12345";

async fn quiet() -> (tidemill_mock_llm::Running, System) {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[], &model).await;
    (model, system)
}

/// A workflow whose output `a` is this text; `x` in it is the input `city`.
fn saying(text: &str) -> Flow {
    Flow::new("start -> a -> end").inputs(&["city"]).template("a", text, "city")
}

/// A chat whose answer begins with this text.
fn answering(text: &str) -> Flow {
    Flow::new("start -> answer").answer("answer", &format!("{text}: {{{{#sys.query#}}}}"))
}

async fn publish(system: &System, id: Option<&str>, flow: &Flow) -> HttpResponse {
    let body = match id {
        Some(id) => json!({"id": id, "workflow": flow.text()}),
        None => json!({"workflow": flow.text()}),
    };
    system.client.post("/api/v1/apps", &body).await
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_else(|| panic!("a text: {value}")).to_string()
}

async fn run(app: &Client, path: &str, user: &str, city: &str) -> HttpResponse {
    let body = json!({"inputs": {"city": city}, "user": user, "response_mode": "blocking"});
    app.post(path, &body).await
}

async fn events(app: &Client, path: &str, body: &Json) -> Vec<Json> {
    let request = app.request(Method::POST, path).header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let mut found = Vec::new();
    while let Some(message) = stream.next().await {
        found.extend(message.data.and_then(|data| serde_json::from_str::<Json>(&data).ok()));
    }
    found
}

fn error(answer: &HttpResponse) -> (u16, String, String) {
    (answer.status, text(&answer.body["code"]), text(&answer.body["message"]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pinned_version_runs_though_the_app_has_a_newer_one() {
    let (_model, system) = quiet().await;
    let first = publish(&system, None, &saying("old {{ x }}")).await;
    let (id, key) = (text(&first.body["id"]), text(&first.body["key"]));
    let app = system.client.with_key(Some(&key));
    let second = publish(&system, Some(&id), &saying("new {{ x }}")).await;
    assert_eq!((first.status, second.status), (201, 200), "a new version makes nothing: {}", second.text);
    let versions = system.client.get(&format!("/api/v1/apps/{id}/versions")).await;
    let listed = versions.body["data"].as_array().cloned().unwrap_or_default();
    let rows: Vec<_> =
        listed.iter().map(|it| (&it["version"], &it["workflow_id"], &it["is_current"])).collect();
    let row = |answer| -> (&Json, &Json) {
        let answer: &HttpResponse = answer;
        (&answer.body["version"], &answer.body["workflow_id"])
    };
    let ((new_hash, new_id), (old_hash, old_id)) = (row(&second), row(&first));
    assert_eq!(
        rows,
        [(new_hash, new_id, &json!(true)), (old_hash, old_id, &json!(false))],
        "{}",
        versions.text
    );
    assert_eq!((text(old_id).len(), text(old_id).chars().nth(14)), (36, Some('5')), "a UUID of version 5");

    for (version, says, shown) in [
        (text(old_id), "old Bonn", old_id),
        (text(old_hash), "old Bonn", old_id),
        (text(new_id), "new Bonn", new_id),
    ] {
        let answer = run(&app, &format!("/v1/workflows/{version}/run"), "u1", "Bonn").await;
        let data = &answer.body["data"];
        assert_eq!((&data["outputs"]["a"], &data["workflow_id"]), (&json!(says), shown), "{}", answer.text);
        let detail = app.get(&format!("/v1/workflows/run/{}", text(&data["id"]))).await;
        assert_eq!(&detail.body["workflow_id"], shown, "{}", detail.text);
        assert!(
            text(&detail.body["inputs"]).contains(&format!("\"sys.workflow_id\":{shown}")),
            "{}",
            detail.text
        );
    }
    let newest = run(&app, "/v1/workflows/run", "u1", "Bonn").await;
    assert_eq!(newest.body["data"]["outputs"]["a"], "new Bonn", "{}", newest.text);
    let native = system.client.run(&text(&newest.body["data"]["id"])).await;
    assert_eq!(&native["version"], new_hash, "our own API has the hash");
    let body = json!({"inputs": {"city": "Bonn"}, "user": "u1", "response_mode": "streaming"});
    let streamed = events(&app, &format!("/v1/workflows/{}/run", text(old_id)), &body).await;
    let of_version: Vec<&Json> =
        streamed.iter().map(|it| &it["data"]["workflow_id"]).filter(|it| !it.is_null()).collect();
    assert_eq!(of_version, [old_id, old_id], "{streamed:#?}");

    let other = publish(&system, None, &saying("other {{ x }}")).await;
    let malformed =
        |id: &str| (400, "bad_request".to_string(), format!("Invalid workflow_id format: '{id}'. "));
    let gone = |id: &str| (404, "not_found".to_string(), format!("Workflow not found with id: {id}"));
    let of_other = text(&other.body["workflow_id"]);
    for (id, expected) in [
        ("draft", malformed("draft")),
        (FOREIGN, gone(FOREIGN)),
        (HASH, gone(HASH)),
        (&of_other, gone(&of_other)),
    ] {
        let refused = run(&app, &format!("/v1/workflows/{id}/run"), "u1", "Bonn").await;
        assert_eq!(error(&refused), expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_message_may_pin_a_version() {
    let (_model, system) = quiet().await;
    let first = publish(&system, None, &answering("old")).await;
    let (id, key) = (text(&first.body["id"]), text(&first.body["key"]));
    let app = system.client.with_key(Some(&key));
    assert_eq!(publish(&system, Some(&id), &answering("new")).await.status, 200);
    let say = async |workflow: Json| {
        let body = json!({"query": "hi", "inputs": {}, "user": "u1", "workflow_id": workflow});
        app.post("/v1/chat-messages", &body).await
    };
    for (pinned, says) in
        [(first.body["workflow_id"].clone(), "old: hi"), (Json::Null, "new: hi"), (json!(""), "new: hi")]
    {
        let answer = say(pinned).await;
        assert_eq!(answer.body["answer"], says, "{}", answer.text);
    }
    let gone = format!("Workflow not found with id: {FOREIGN}");
    assert_eq!(error(&say(json!(FOREIGN)).await), (404, "not_found".into(), gone));
    let malformed = "Invalid workflow_id format: '1.0'. ".to_string();
    assert_eq!(error(&say(json!("1.0")).await), (400, "bad_request".into(), malformed));
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_list_the_runs_of_the_app_by_user_status_time_and_keyword() {
    let (_model, system) = quiet().await;
    let (id, app) = system.client.register(&saying("in {{ x }}")).await;
    let (_, other) = system.client.register(&saying("elsewhere {{ x }}")).await;
    let (_, failing) =
        system.client.register(&Flow::new("start -> a -> end").template("a", "{{ 1 / 0 }}", "q")).await;
    for (user, city) in [("ada", "Bonn"), ("bob", "Köln"), ("ada", "Trier")] {
        assert_eq!(run(&app, "/v1/workflows/run", user, city).await.status, 200);
    }
    run(&other, "/v1/workflows/run", "ada", "Bonn").await;
    run(&failing, "/v1/workflows/run", "ada", "").await;

    let all = app.get("/v1/workflows/logs").await;
    let page = json!({"page": all.body["page"], "limit": all.body["limit"], "total": all.body["total"], "has_more": all.body["has_more"]});
    assert_eq!(page, json!({"page": 1, "limit": 20, "total": 3, "has_more": false}), "{}", all.text);
    let row = &all.body["data"][0];
    let keys = |it: &Json| {
        it.as_object().map(|it| it.keys().cloned().collect::<Vec<_>>().join(" ")).unwrap_or_default()
    };
    assert_eq!(
        keys(row),
        "id workflow_run details created_from created_by_role created_by_account created_by_end_user created_at"
    );
    assert_eq!(
        keys(&row["workflow_run"]),
        "id version status triggered_from error elapsed_time total_tokens total_steps created_at finished_at exceptions_count"
    );
    let by = &row["created_by_end_user"];
    assert_eq!(
        (&by["session_id"], &by["type"], &by["is_anonymous"]),
        (&json!("ada"), &json!("service-api"), &json!(false))
    );
    let user = app.get(&format!("/v1/end-users/{}", text(&by["id"]))).await;
    assert_eq!(
        (&user.body["id"], &user.body["app_id"], &user.body["external_user_id"]),
        (&by["id"], &json!(id), &json!("ada"))
    );

    let now = chrono::Utc::now();
    let time =
        |minutes: i64| (now + chrono::Duration::minutes(minutes)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    for (query, total) in [
        ("keyword=k%C3%B6ln", 1),
        ("keyword=IN%20TRIER", 1),
        ("keyword=bob", 1),
        ("keyword=nowhere", 0),
        ("status=succeeded", 3),
        ("status=failed", 0),
        ("created_by_end_user_session_id=ada", 2),
        ("created_by_end_user_session_id=ada&keyword=bonn", 1),
        (&format!("created_at__after={}", time(-5)), 3),
        (&format!("created_at__after={}", time(5)), 0),
        (&format!("created_at__before={}", time(-5)), 0),
        (&format!("created_at__before={}&created_at__after={}", time(5), time(-5)), 3),
    ] {
        let found = app.get(&format!("/v1/workflows/logs?{query}")).await;
        assert_eq!(found.body["total"], total, "{query}: {}", found.text);
    }
    let second = app.get("/v1/workflows/logs?page=2&limit=2").await;
    let shown = second.body["data"].as_array().map(Vec::len);
    assert_eq!((shown, &second.body["total"], &second.body["has_more"]), (Some(1), &json!(3), &json!(false)));
    assert_eq!(app.get("/v1/workflows/logs?limit=2").await.body["has_more"], true);
    let failed = failing.get("/v1/workflows/logs?status=failed").await;
    assert_eq!(failed.body["total"], 1, "{}", failed.text);
    for (query, says) in [
        ("status=running", "status must be succeeded, failed or stopped"),
        ("page=0", "page must be from 1 to 99999"),
        ("limit=101", "limit must be from 1 to 100"),
        ("created_at__before=soon", "created_at__before must be a time in ISO 8601"),
        ("created_by_account=name@example.com", "Account not found: name@example.com"),
    ] {
        let refused = app.get(&format!("/v1/workflows/logs?{query}")).await;
        assert_eq!(error(&refused), (400, "invalid_param".into(), says.into()), "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_do_not_tell_what_moderation_withholds() {
    let (_model, system) = quiet().await;
    let half = |enabled: bool| json!({"enabled": enabled, "preset_response": "No."});
    let config = json!({"keywords": "harbour", "inputs_config": half(false), "outputs_config": half(true)});
    let mut document = saying("secret harbour of {{ x }}").document();
    document["workflow"]["features"] =
        json!({"sensitive_word_avoidance": {"enabled": true, "type": "keywords", "config": config}});
    let made = system.client.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
    let app = system.client.with_key(made.body["key"].as_str());
    let done = run(&app, "/v1/workflows/run", "ada", "Bonn").await;
    assert!(done.status == 200 && !done.text.contains("secret"), "{}", done.text);
    for (keyword, total) in [("secret", 0), ("harbour", 0), ("bonn", 1), ("ada", 1)] {
        let found = app.get(&format!("/v1/workflows/logs?keyword={keyword}")).await;
        assert_eq!(found.body["total"], total, "{keyword}: {}", found.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_look_at_no_more_runs_than_the_settings_allow() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[("scheduler.logs_scanned_max", "2")], &model).await;
    let (_, app) = system.client.register(&saying("in {{ x }}")).await;
    for city in ["Bonn", "Essen", "Trier"] {
        assert_eq!(run(&app, "/v1/workflows/run", "ada", city).await.status, 200);
    }
    assert_eq!(app.get("/v1/workflows/logs").await.body["total"], 2);
    assert_eq!(app.get("/v1/workflows/logs?keyword=bonn").await.body["total"], 0, "it is the third newest");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_user_is_found_by_the_id_in_events_by_its_own_app_only() {
    let (_model, system) = quiet().await;
    let (_, app) = system.client.register(&saying("in {{ x }}")).await;
    let (_, other) = system.client.register(&saying("in {{ x }}")).await;
    let body = json!({"inputs": {"city": "Bonn"}, "user": "ada", "response_mode": "streaming"});
    let streamed = events(&app, "/v1/workflows/run", &body).await;
    let by = &streamed.last().expect("there are events")["data"]["created_by"];
    assert_eq!(by["user"], "ada", "{streamed:#?}");
    let path = format!("/v1/end-users/{}", text(&by["id"]));
    let found = app.get(&path).await;
    assert_eq!(found.status, 200, "{}", found.text);
    let keys: Vec<&str> =
        found.body.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        keys.join(" "),
        "id tenant_id app_id type external_user_id name is_anonymous session_id created_at updated_at"
    );
    assert_eq!((&found.body["session_id"], &found.body["name"]), (&json!("ada"), &Json::Null));
    let gone = (404, "end_user_not_found".to_string(), "End user not found.".to_string());
    for (client, path) in
        [(&other, path.as_str()), (&app, "/v1/end-users/ada"), (&app, &format!("/v1/end-users/{FOREIGN}"))]
    {
        assert_eq!(error(&client.get(path).await), gone, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ratings_of_all_users_of_an_app_are_listed() {
    let (_model, system) = quiet().await;
    let (id, app) = system.client.register(&answering("yes")).await;
    let (_, other) = system.client.register(&answering("no")).await;
    let mut rated = Vec::new();
    for user in ["ada", "bob"] {
        let said = app.post("/v1/chat-messages", &json!({"query": "hi", "inputs": {}, "user": user})).await;
        let path = format!("/v1/messages/{}/feedbacks", text(&said.body["message_id"]));
        let none = app.post(&path, &json!({"user": user, "rating": null})).await;
        let required = "rating cannot be None when feedback not exists".to_string();
        assert_eq!(error(&none), (400, "message_feedback_rating_required".into(), required));
        let body = json!({"user": user, "rating": "like", "content": "good"});
        assert_eq!(app.post(&path, &body).await.status, 200);
        rated.push((text(&said.body["message_id"]), text(&said.body["conversation_id"])));
    }
    let listed = app.get("/v1/app/feedbacks").await;
    let row = &listed.body["data"][0];
    let keys: Vec<&str> = row.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        keys.join(" "),
        "id app_id conversation_id message_id rating content from_source from_end_user_id from_account_id created_at updated_at",
        "{}",
        listed.text
    );
    let of = |row: &Json| (text(&row["message_id"]), text(&row["conversation_id"]));
    let rows: Vec<_> = listed.body["data"].as_array().into_iter().flatten().map(of).collect();
    assert_eq!(rows, [rated[1].clone(), rated[0].clone()], "newest first");
    assert_eq!(
        (&row["app_id"], &row["rating"], &row["content"], &row["from_source"]),
        (&json!(id), &json!("like"), &json!("good"), &json!("user"))
    );
    let user = app.get(&format!("/v1/end-users/{}", text(&row["from_end_user_id"]))).await;
    assert_eq!(user.body["session_id"], "bob", "{}", user.text);
    let second = app.get("/v1/app/feedbacks?limit=1&page=2").await;
    assert_eq!(of(&second.body["data"][0]), rated[0]);
    assert_eq!(other.get("/v1/app/feedbacks").await.body, json!({"data": []}));
    let refused = app.get("/v1/app/feedbacks?limit=102").await;
    assert_eq!(error(&refused), (400, "invalid_param".into(), "limit must be from 1 to 101".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_conversation_leaves_nothing_of_its_runs() {
    let (_model, system) = quiet().await;
    let (_, app) = system.client.register(&answering("yes")).await;
    let said =
        app.post("/v1/chat-messages", &json!({"query": "my secret", "inputs": {}, "user": "ada"})).await;
    let (message, conversation) = (text(&said.body["message_id"]), text(&said.body["conversation_id"]));
    let rating = json!({"user": "ada", "rating": "like"});
    assert_eq!(app.post(&format!("/v1/messages/{message}/feedbacks"), &rating).await.status, 200);
    let other = app.post("/v1/chat-messages", &json!({"query": "else", "inputs": {}, "user": "ada"})).await;
    let kept = text(&other.body["message_id"]);

    let path = format!("/v1/conversations/{conversation}");
    let removal = app.request(Method::DELETE, &path).header("content-type", "application/json");
    let removed = app.send(removal.body(json!({"user": "ada"}).to_string())).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
    for path in [format!("/v1/workflows/run/{message}"), format!("/v1/workflow/{message}/events?user=ada")] {
        assert_eq!(app.get(&path).await.status, 404, "{path}");
    }
    assert_eq!(app.get("/v1/app/feedbacks").await.body, json!({"data": []}));
    assert_eq!(app.get("/v1/workflows/logs").await.body["total"], 0, "chats have none");
    assert_eq!(app.get(&format!("/v1/workflows/run/{kept}")).await.status, 200);
    until("its run to be removed", LONG, async || {
        let left = system.cluster.redis.cli(&["--scan", "--pattern", &format!("*{message}*")]);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_under_way_is_streamed_to_its_end_and_removed_after_its_conversation() {
    let model = llm::slow(&llm::many_pieces(40).iter().map(String::as_str).collect::<Vec<_>>(), 50).await;
    let system = system(&[], &model).await;
    let flow = Flow::new("start -> llm -> answer").prompt("llm", "{{#sys.query#}}");
    let (_, app) = system.client.register(&flow.answer("answer", "{{#llm.text#}}")).await;
    let body = json!({"query": "q", "inputs": {}, "user": "ada", "response_mode": "streaming"});
    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let mut begun = Json::Null;
    while begun["event"] != "message" {
        let data = stream.next().await.expect("the stream goes on").data.unwrap_or_default();
        begun = serde_json::from_str(&data).unwrap_or_default();
    }
    let (message, conversation) = (text(&begun["message_id"]), text(&begun["conversation_id"]));
    let path = format!("/v1/conversations/{conversation}");
    let removal = app.request(Method::DELETE, &path).header("content-type", "application/json");
    assert_eq!(app.send(removal.body(json!({"user": "ada"}).to_string())).await.status, 204);
    assert_eq!(app.get(&format!("/v1/workflows/run/{message}")).await.status, 404, "hidden at once");
    let mut last = Json::Null;
    while let Some(next) = stream.next().await {
        last = next.data.and_then(|data| serde_json::from_str(&data).ok()).unwrap_or(last);
    }
    assert_eq!((&last["event"], &last["data"]["status"]), (&json!("workflow_finished"), &json!("succeeded")));
    until("its run to be removed", LONG, async || {
        let left = system.cluster.redis.cli(&["--scan", "--pattern", &format!("*{message}*")]);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_request_for_an_app_makes_no_second_one() {
    let (_model, system) = quiet().await;
    let publish = async |flow: &Flow, key: &str| {
        let body = json!({"workflow": flow.text()}).to_string();
        let request =
            system.client.request(Method::POST, "/api/v1/apps").header("content-type", "application/json");
        system.client.send(request.header("idempotency-key", key).body(body)).await
    };
    let flow = saying("in {{ x }}");
    let (first, again) = (publish(&flow, "k1").await, publish(&flow, "k1").await);
    assert_eq!((first.status, again.status), (201, 200), "{}", again.text);
    assert_eq!((&first.body["id"], &first.body["key"]), (&again.body["id"], &again.body["key"]));
    let app = system.client.with_key(Some(&text(&again.body["key"])));
    assert_eq!(run(&app, "/v1/workflows/run", "u1", "Bonn").await.status, 200);
    let other = publish(&flow, "k2").await;
    assert_eq!(other.status, 201, "{}", other.text);
    assert_ne!(first.body["key"], other.body["key"]);
    let conflict = publish(&saying("other"), "k1").await;
    assert_eq!((conflict.status, &conflict.body["code"]), (409, &json!("idempotency_conflict")));
    assert_eq!(system.client.get("/api/v1/apps").await.body["data"].as_array().map(Vec::len), Some(2));
}
