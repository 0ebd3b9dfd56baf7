//! Conversations over Dify's API: users list, name and remove them, set their variables and rate their messages;
//! other users see nothing of them.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{System, system};

async fn call(app: &Client, method: Method, path: &str, body: &Json) -> HttpResponse {
    let request = app.request(method, path).header("content-type", "application/json");
    app.send(request.body(body.to_string())).await
}

async fn say(app: &Client, user: &str, query: &str, conversation: &str) -> Json {
    let body = json!({
        "query": query, "inputs": {}, "user": user, "conversation_id": conversation, "response_mode": "blocking",
    });
    let answer = app.post("/v1/chat-messages", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

fn text(value: &Json) -> String {
    value.as_str().expect("a text").to_string()
}

/// A chat that counts its turns in `count`, keeps the questions in `log`, and answers `<turn>: <question>`.
fn counting() -> Json {
    let flow = Flow::new("start -> note -> answer")
        .with(
            "note",
            json!({"type": "assigner", "version": "2", "items": [
                {"variable_selector": ["conversation", "count"], "input_type": "constant", "operation": "+=", "value": 1},
                {"variable_selector": ["conversation", "log"], "input_type": "variable", "operation": "append",
                 "value": ["sys", "query"]},
            ]}),
        )
        .answer("answer", "{{#conversation.count#}}: {{#sys.query#}}");
    let mut document = flow.document();
    document["workflow"]["conversation_variables"] = json!([
        {"id": "11111111-1111-4111-8111-111111111111", "name": "count", "value_type": "number", "value": 0,
         "description": "turns"},
        {"id": "22222222-2222-4222-8222-222222222222", "name": "log", "value_type": "array[string]", "value": []},
        {"name": "mood", "value_type": "string", "value": "calm"},
    ]);
    document["workflow"]["features"] = json!({"opening_statement": "Hello {{who}}"});
    document
}

async fn register(system: &System, document: &Json) -> Client {
    let body = json!({"workflow": document.to_string()});
    let answer = system.client.post("/api/v1/apps", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    system.client.with_key(Some(&text(&answer.body["key"])))
}

fn names(answer: &HttpResponse) -> Vec<String> {
    let data = answer.body["data"].as_array().unwrap_or_else(|| panic!("no list: {}", answer.text));
    data.iter().map(|it| text(&it["name"])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_lists_and_names_and_removes_conversations() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[], &model).await;
    let app = register(&system, &counting()).await;
    let long = "What is the meaning of all this, and why does nobody tell me?";
    let mut begun = Vec::new();
    for query in ["one", "two", long] {
        begun.push(text(&say(&app, "u1", query, "").await["conversation_id"]));
    }
    let theirs = text(&say(&app, "u2", "mine", "").await["conversation_id"]);
    let nameless = json!({"query": "q", "inputs": {}, "user": "u3", "auto_generate_name": false});
    app.post("/v1/chat-messages", &nameless).await;

    let listed = app.get("/v1/conversations?user=u1").await;
    assert_eq!(names(&listed), ["What is the meaning of all this, and why does n...", "two", "one"]);
    assert_eq!((&listed.body["limit"], &listed.body["has_more"]), (&json!(20), &json!(false)));
    let first = &listed.body["data"][2];
    assert_eq!(first["id"], begun[0].as_str());
    assert_eq!(
        (&first["status"], &first["inputs"], &first["introduction"]),
        (&json!("normal"), &json!({}), &json!("Hello {{who}}"))
    );
    assert!(first["created_at"].as_i64().is_some_and(|at| at > 1_700_000_000), "{first:#}");
    assert_eq!(names(&app.get("/v1/conversations?user=u2").await), ["mine"]);
    assert_eq!(names(&app.get("/v1/conversations?user=u3").await), ["New conversation"]);
    assert!(names(&app.get("/v1/conversations?user=nobody").await).is_empty());

    say(&app, "u1", "again", &begun[0]).await;
    let page = app.get("/v1/conversations?user=u1&limit=2").await;
    assert_eq!((names(&page)[0].as_str(), &page.body["has_more"]), ("one", &json!(true)));
    let last = text(&page.body["data"][1]["id"]);
    let rest = app.get(&format!("/v1/conversations?user=u1&limit=2&last_id={last}")).await;
    assert_eq!((names(&rest), &rest.body["has_more"]), (vec!["two".to_string()], &json!(false)));
    let by_begin = app.get("/v1/conversations?user=u1&sort_by=created_at").await;
    assert_eq!(names(&by_begin)[..2], ["one", "two"]);
    for (query, status, says) in [
        ("user=u1&limit=0", 400, "limit must be from 1 to 100"),
        ("user=u1&sort_by=name", 400, "sort_by must be created_at, -created_at, updated_at or -updated_at"),
        (&format!("user=u1&last_id={theirs}"), 404, "Last Conversation Not Exists."),
    ] {
        let refused = app.get(&format!("/v1/conversations?{query}")).await;
        assert_eq!((refused.status, &refused.body["message"]), (status, &json!(says)), "{query}");
    }

    // Without a user it is Dify's default user, who has no conversations.
    assert!(names(&app.get("/v1/conversations?limit=3").await).is_empty());

    let path = format!("/v1/conversations/{}/name", begun[1]);
    let named = app.post(&path, &json!({"user": "u1", "name": "Tea"})).await;
    assert_eq!((named.status, &named.body["name"]), (200, &json!("Tea")), "{}", named.text);
    assert_eq!(names(&app.get("/v1/conversations?user=u1").await)[0], "Tea");
    let named = app.post(&path, &json!({"user": "u1", "auto_generate": true})).await;
    assert_eq!(named.body["name"], "two", "{}", named.text);
    for (body, status) in [
        (json!({"user": "u1"}), 400),
        (json!({"user": "u1", "name": " "}), 400),
        (json!({"user": "u1", "name": "x".repeat(256)}), 400),
        (json!({"user": "u2", "name": "mine"}), 404),
    ] {
        assert_eq!(app.post(&path, &body).await.status, status, "{body}");
    }

    let path = format!("/v1/conversations/{}", begun[1]);
    let stranger = call(&app, Method::DELETE, &path, &json!({"user": "u2"})).await;
    assert_eq!((stranger.status, &stranger.body["message"]), (404, &json!("Conversation Not Exists.")));
    let removed = call(&app, Method::DELETE, &path, &json!({"user": "u1"})).await;
    assert_eq!((removed.status, removed.text.as_str()), (204, ""));
    assert_eq!(call(&app, Method::DELETE, &path, &json!({"user": "u1"})).await.status, 404);
    assert_eq!(names(&app.get("/v1/conversations?user=u1").await).len(), 2);
    let messages = app.get(&format!("/v1/messages?user=u1&conversation_id={}", begun[1])).await;
    assert_eq!(messages.status, 404, "{}", messages.text);
    let fresh = say(&app, "u1", "hello?", &begun[1]).await;
    assert_ne!(fresh["conversation_id"], begun[1].as_str(), "a new conversation begins without an error");
    assert_eq!(fresh["answer"], "1: hello?");
    let left = system.cluster.redis.cli(&["--scan", "--pattern", &format!("*{}*", begun[1])]);
    assert_eq!(left, "", "no data of it is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_of_conversations_and_messages_are_checked_before_they_are_searched() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[], &model).await;
    let app = register(&system, &counting()).await;
    let id = text(&say(&app, "u1", "one", "").await["conversation_id"]);
    let none = app.get("/v1/messages?user=u1&conversation_id=").await;
    assert_eq!((none.status, &none.body), (200, &json!({"limit": 20, "has_more": false, "data": []})));
    for path in [
        "/v1/messages?user=u1",
        "/v1/messages?user=u1&conversation_id=none",
        &format!("/v1/messages?user=u1&conversation_id={id}&first_id=none"),
        "/v1/conversations?user=u1&last_id=none",
        &format!("/v1/conversations/{id}/variables?user=u1&last_id=none"),
        &format!("/v1/conversations/{id}/variables?user=u1&variable_name=a--b"),
    ] {
        let refused = app.get(path).await;
        assert_eq!((refused.status, &refused.body["code"]), (400, &json!("invalid_param")), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_conversations_are_not_listed() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[("scheduler.conversation_retention_seconds", "2")], &model).await;
    let app = register(&system, &counting()).await;
    say(&app, "u1", "one", "").await;
    until("the conversation to be removed", LONG, async || {
        // Another conversation is used all the time, so that the list itself does not expire.
        let mine = say(&app, "u1", "two", "").await;
        say(&app, "u1", "two", &text(&mine["conversation_id"])).await;
        let listed = names(&app.get("/v1/conversations?user=u1").await);
        if listed.contains(&"one".to_string()) { Err(listed.join(" ")) } else { Ok(()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn conversation_variables_are_shown_and_set() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[], &model).await;
    let app = register(&system, &counting()).await;
    let id = text(&say(&app, "u1", "one", "").await["conversation_id"]);
    let path = format!("/v1/conversations/{id}/variables");
    let shown = async |query: &str| app.get(&format!("{path}?user=u1{query}")).await;
    let values = |answer: &HttpResponse| -> Vec<(String, String)> {
        let data = answer.body["data"].as_array().expect("a list");
        data.iter().map(|it| (text(&it["name"]), text(&it["value"]))).collect()
    };
    let pair = |name: &str, value: &str| (name.to_string(), value.to_string());

    let all = shown("").await;
    assert_eq!(values(&all), [pair("count", "1"), pair("log", "['one']"), pair("mood", "calm")]);
    let count = &all.body["data"][0];
    assert_eq!(
        (&count["id"], &count["value_type"], &count["description"]),
        (&json!("11111111-1111-4111-8111-111111111111"), &json!("number"), &json!("turns"))
    );
    assert_eq!(all.body["data"][1]["value_type"], "array[string]");
    let page = shown("&limit=1").await;
    assert_eq!((values(&page), &page.body["has_more"]), (vec![pair("count", "1")], &json!(true)));
    let rest = shown(&format!("&limit=2&last_id={}", text(&count["id"]))).await;
    assert_eq!((values(&rest).len(), &rest.body["has_more"]), (2, &json!(false)));
    assert_eq!(values(&shown("&variable_name=mood").await), [pair("mood", "calm")]);
    assert_eq!(shown("&variable_name=a%27b").await.status, 400);
    assert_eq!(shown("&last_id=none").await.status, 400);
    assert_eq!(app.get(&format!("{path}?user=u2")).await.status, 404);

    let mood = text(&all.body["data"][2]["id"]);
    let set = async |variable: &str, body: Json| {
        call(&app, Method::PUT, &format!("{path}/{variable}"), &body).await
    };
    let done = set(&mood, json!({"user": "u1", "value": "gay"})).await;
    assert_eq!((done.status, &done.body["value"], &done.body["id"]), (200, &json!("gay"), &json!(mood)));
    let count = text(&count["id"]);
    set(&count, json!({"user": "u1", "value": 41})).await;
    let large: Vec<String> = (0..3000).map(|n| format!("line {n}")).collect();
    let log = "22222222-2222-4222-8222-222222222222";
    assert_eq!(set(log, json!({"user": "u1", "value": large})).await.status, 200);
    assert_eq!(
        say(&app, "u1", "more", &id).await["answer"],
        "42: more",
        "the next run reads the value that was set"
    );
    let listed = shown("&variable_name=log").await;
    assert!(text(&listed.body["data"][0]["value"]).ends_with("'line 2999', 'more']"), "{}", listed.text);
    for (variable, body, status, says) in [
        (
            &*count,
            json!({"user": "u1", "value": "x"}),
            400,
            "Type mismatch: variable 'count' expects number, but got string type",
        ),
        (
            log,
            json!({"user": "u1", "value": [1]}),
            400,
            "Type mismatch: variable 'log' expects array[string], but got array[number] type",
        ),
        (
            log,
            json!({"user": "u1", "value": null}),
            400,
            "Type mismatch: variable 'log' expects array[string], but got none type",
        ),
        (log, json!({"user": "u1"}), 400, "value is required"),
        (log, json!({"user": "u2", "value": []}), 404, "Conversation Not Exists."),
        ("none", json!({"user": "u1", "value": []}), 404, "Conversation Variable Not Exists."),
    ] {
        let refused = set(variable, body.clone()).await;
        assert_eq!((refused.status, &refused.body["message"]), (status, &json!(says)), "{body}");
    }
    let huge = set(&mood, json!({"user": "u1", "value": "x".repeat(300_000)})).await;
    assert_eq!((huge.status, &huge.body["code"]), (400, &json!("invalid_param")), "{}", huge.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_rated_by_the_user_who_asked_it() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[], &model).await;
    let app = register(&system, &counting()).await;
    let said = say(&app, "u1", "one", "").await;
    let (id, conversation) = (text(&said["message_id"]), text(&said["conversation_id"]));
    let path = format!("/v1/messages/{id}/feedbacks");
    let told = async || {
        let listed = app.get(&format!("/v1/messages?user=u1&conversation_id={conversation}")).await;
        let message = listed.body["data"][0].clone();
        assert_eq!(message["parent_message_id"], "00000000-0000-0000-0000-000000000000");
        message["feedback"].clone()
    };
    let none = app.post(&path, &json!({"user": "u1", "rating": null})).await;
    assert_eq!(
        (none.status, &none.body["message"]),
        (400, &json!("rating cannot be None when feedback not exists"))
    );
    for rating in ["like", "dislike"] {
        let done = app.post(&path, &json!({"user": "u1", "rating": rating, "content": "so"})).await;
        assert_eq!((done.status, &done.body), (200, &json!({"result": "success"})), "{}", done.text);
        assert_eq!(told().await, json!({"rating": rating}));
    }
    for (body, status) in [
        (json!({"user": "u1", "rating": "love"}), 400),
        (json!({"user": "u1", "rating": "like", "content": "x".repeat(5000)}), 400),
        (json!({"user": "u2", "rating": "like"}), 404),
        (json!({"rating": "like"}), 400),
    ] {
        assert_eq!(app.post(&path, &body).await.status, status, "{body}");
    }
    let unknown = format!("/v1/messages/{conversation}/feedbacks");
    let unknown = app.post(&unknown, &json!({"user": "u1", "rating": "like"})).await;
    assert_eq!((unknown.status, &unknown.body["message"]), (404, &json!("Message Not Exists.")));
    // The message outlives its run.
    let keys = system.cluster.redis.cli(&["--scan", "--pattern", &format!("*run:{id}*")]);
    keys.lines().for_each(|key| drop(system.cluster.redis.cli(&["DEL", key])));
    assert_eq!(app.post(&path, &json!({"user": "u2", "rating": null})).await.status, 404);
    assert_eq!(app.post(&path, &json!({"user": "u1", "rating": null})).await.status, 200);
    assert_eq!(told().await, Json::Null);
    let suggested = app.get(&format!("/v1/messages/{id}/suggested?user=u1")).await;
    assert_eq!(
        (suggested.status, &suggested.body["code"], &suggested.body["message"]),
        (400, &json!("bad_request"), &json!("Suggested Questions Is Disabled."))
    );
    assert_eq!(app.get(&format!("/v1/messages/{id}/suggested?user=u2")).await.status, 404);
    assert_eq!(app.get("/v1/parameters").await.body["suggested_questions_after_answer"]["enabled"], false);
}

/// A chat with a slow model that counts its turns before and after the call.
fn slow_counting() -> Json {
    let add = json!({"type": "assigner", "version": "2", "items": [
        {"variable_selector": ["conversation", "count"], "input_type": "constant", "operation": "+=", "value": 1},
    ]});
    let flow = Flow::new("start -> before -> llm -> after -> answer")
        .with("before", add.clone())
        .with("after", add)
        .prompt("llm", "{{#sys.query#}}")
        .answer("answer", "{{#llm.text#}}");
    let mut document = flow.document();
    document["workflow"]["conversation_variables"] = json!([
        {"name": "count", "value_type": "number", "value": 0},
        {"name": "mood", "value_type": "string", "value": "calm"},
    ]);
    document
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_chat_overwrites_the_variables_that_it_writes_and_restores_no_removed_conversation() {
    let pieces = llm::many_pieces(40);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 50).await;
    let system = system(&[], &model).await;
    let app = register(&system, &slow_counting()).await;
    let begin = async |query: &str| {
        let body = json!({"query": query, "inputs": {}, "user": "u1", "response_mode": "streaming"});
        let request =
            app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
        let mut stream = app.open(request.body(body.to_string())).await;
        loop {
            let data = stream.next().await.expect("the stream continues").data.unwrap_or_default();
            let event: Json = serde_json::from_str(&data).unwrap_or_default();
            if event["answer"].as_str().is_some_and(|text| text.contains("<2>")) {
                return (stream, text(&event["conversation_id"]));
            }
        }
    };
    let (mut stream, id) = begin("first").await;
    let under_way = app.get(&format!("/v1/messages?user=u1&conversation_id={id}")).await;
    let message = &under_way.body["data"][0];
    assert_eq!((&message["query"], &message["answer"]), (&json!("first"), &json!("")), "{message:#}");
    let path = format!("/v1/conversations/{id}/variables");
    let listed = app.get(&format!("{path}?user=u1")).await;
    assert_eq!(listed.body["data"][0]["value"], "1", "{}", listed.text);
    for (at, value) in [(0, json!(100)), (1, json!("gay"))] {
        let variable = text(&listed.body["data"][at]["id"]);
        let body = json!({"user": "u1", "value": value});
        let set = call(&app, Method::PUT, &format!("{path}/{variable}"), &body).await;
        assert_eq!(set.status, 200, "{}", set.text);
    }
    while stream.next().await.is_some() {}
    let listed = app.get(&format!("{path}?user=u1")).await;
    let values: Vec<&Json> =
        listed.body["data"].as_array().into_iter().flatten().map(|it| &it["value"]).collect();
    assert_eq!(values, ["2", "gay"], "the run writes its count and no other variable");

    let (mut stream, id) = begin("second").await;
    let removed =
        call(&app, Method::DELETE, &format!("/v1/conversations/{id}"), &json!({"user": "u1"})).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
    let mut said = String::new();
    while let Some(message) = stream.next().await {
        let event: Json = serde_json::from_str(&message.data.unwrap_or_default()).unwrap_or_default();
        said.push_str(event["answer"].as_str().unwrap_or_default());
    }
    assert!(said.ends_with("<40>"), "the answer is streamed to its end: {said}");
    assert_eq!(app.get(&format!("/v1/messages?user=u1&conversation_id={id}")).await.status, 404);
    until("no data of it to be left", LONG, async || {
        let left = system.cluster.redis.cli(&["--scan", "--pattern", &format!("*conversation:{id}*")]);
        let unsettled = system.cluster.redis.cli(&["--scan", "--pattern", "*unsettled"]);
        if left.is_empty() && unsettled.is_empty() { Ok(()) } else { Err(left + &unsettled) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn turns_sent_at_the_same_time_are_all_shown_at_once_and_all_removed_with_their_conversation() {
    let model = llm::rules(json!([{"match": {}, "reply": "yes"}])).await;
    let system = system(&[], &model).await;
    let app = &register(&system, &counting()).await;
    let first = say(app, "u1", "first", "").await;
    let id = &text(&first["conversation_id"]);
    let queries: Vec<String> = (1..=6).map(|n| format!("q{n}")).collect();
    let said = join_all(queries.iter().map(|query| say(app, "u1", query, id))).await;
    let path = format!("/v1/messages?user=u1&conversation_id={id}");
    let listed = app.get(&path).await;
    let found = listed.body["data"].as_array().map(Vec::len);
    assert_eq!(found, Some(7), "no turn is missing: {}", listed.text);

    let fields = system.cluster.redis.cli(&["--scan", "--pattern", &format!("*conversation:{id}")]);
    let open = system.cluster.redis.cli(&["HGET", fields.trim(), "open"]);
    assert_eq!(open.trim(), "", "each turn is stored");

    // These have ended and are not stored yet, unless the scheduler was quick.
    let more = join_all(queries.iter().map(|query| say(app, "u1", query, id))).await;
    let removed = call(app, Method::DELETE, &format!("/v1/conversations/{id}"), &json!({"user": "u1"})).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
    for message in [&first].into_iter().chain(&said).chain(&more) {
        let run = text(&message["message_id"]);
        let shown = app.get(&format!("/v1/workflow/{run}/events?user=u1")).await;
        assert_eq!(shown.status, 404, "{}", shown.text);
        until("the run to be removed", LONG, async || {
            let left = system.cluster.redis.cli(&["--scan", "--pattern", &format!("*run:{run}*")]);
            if left.is_empty() { Ok(()) } else { Err(left) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_can_continue_an_answer_where_it_stopped_reading() {
    let pieces = llm::many_pieces(40);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 50).await;
    let system = system(&[], &model).await;
    let (_, app) =
        system.client.register(&Flow::new("start -> llm -> answer").answer("answer", "{{#llm.text#}}")).await;
    let body = json!({"query": "talk", "inputs": {}, "user": "u1", "response_mode": "streaming"});
    let path = "/v1/chat-messages?event_ids=true";
    let request = app.request(Method::POST, path).header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let (mut seen, mut place, mut task) = (String::new(), None, String::new());
    // When one entry has several events, only the last of them has the id.
    while !seen.contains("<5>") || place.is_none() {
        let message = stream.next().await.expect("the stream continues");
        place = message.id;
        let event: Json = serde_json::from_str(&message.data.unwrap_or_default()).unwrap_or_default();
        seen.push_str(event["answer"].as_str().unwrap_or_default());
        task = event["task_id"].as_str().map_or(task, str::to_string);
    }
    drop(stream);
    let path = format!("/v1/workflow/{task}/events?user=u1");
    let snapshot = app.request(Method::GET, &format!("{path}&include_state_snapshot=true"));
    let mut late = app.open(snapshot).await;
    let mut shown = String::new();
    while let Some(message) = late.next().await {
        let event: Json = serde_json::from_str(&message.data.unwrap_or_default()).unwrap_or_default();
        match event["event"].as_str() {
            Some("message_replace") => shown = text(&event["answer"]),
            Some("message") => shown.push_str(event["answer"].as_str().unwrap_or_default()),
            _ => {}
        }
        assert!(event["event"].is_null() || event["message_id"] == task.as_str(), "{event:#}");
    }
    assert_eq!(shown, pieces.concat(), "a late client receives the text so far, and then the rest");

    let again = app.request(Method::GET, &path).header("last-event-id", place.expect("events have ids"));
    let mut again = app.open(again).await;
    let mut ends = Vec::new();
    while let Some(message) = again.next().await {
        let event: Json = serde_json::from_str(&message.data.unwrap_or_default()).unwrap_or_default();
        seen.push_str(event["answer"].as_str().unwrap_or_default());
        ends.extend(event["event"].as_str().filter(|name| name.ends_with("_end")).map(str::to_string));
    }
    assert_eq!(
        (seen, ends),
        (pieces.concat(), vec!["message_end".to_string()]),
        "nothing twice, nothing left out"
    );
    assert_eq!(app.get(&format!("/v1/workflow/{task}/events?user=u2")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_continues_from_a_snapshot_belongs_to_its_conversation() {
    let pieces = llm::many_pieces(20);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 50).await;
    let system = system(&[], &model).await;
    let app = register(&system, &slow_counting()).await;
    let body = json!({"query": "first", "inputs": {}, "user": "u1", "response_mode": "streaming"});
    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let (mut run, mut id) = (String::new(), String::new());
    while run.is_empty() {
        let data = stream.next().await.expect("the stream continues").data.unwrap_or_default();
        let event: Json = serde_json::from_str(&data).unwrap_or_default();
        if event["event"] == "message" {
            (run, id) = (text(&event["message_id"]), text(&event["conversation_id"]));
        }
    }
    let snapshot = system.client.get(&format!("/api/v1/runs/{run}/snapshot")).await;
    assert_eq!(snapshot.status, 200, "{}", snapshot.text);
    while stream.next().await.is_some() {}
    let path = format!("/v1/conversations/{id}");
    let removed = call(&app, Method::DELETE, &path, &json!({"user": "u1"})).await;
    assert_eq!(removed.status, 204, "{}", removed.text);

    let imported = system.client.post("/api/v1/runs/import", &snapshot.body).await;
    assert_eq!(imported.status, 201, "{}", imported.text);
    let again = text(&imported.body["id"]);
    system.client.ended(&again).await;
    let listed = app.get(&format!("/v1/messages?user=u1&conversation_id={id}")).await;
    let message = &listed.body["data"][0];
    assert_eq!(
        (&message["id"], &message["query"], &message["answer"]),
        (&json!(again), &json!("first"), &json!(pieces.concat())),
        "{}",
        listed.text
    );
    assert_eq!(names(&app.get("/v1/conversations?user=u1").await), ["first"]);
    let variables = app.get(&format!("{path}/variables?user=u1")).await;
    assert_eq!(variables.body["data"][0]["value"], "2", "{}", variables.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_answer_is_remembered_and_a_failed_one_is_not() {
    let pieces = llm::many_pieces(400);
    let model = llm::rules(json!([
        {"match": {"equals": "break"}, "status": 400, "error": "no such model"},
        {"match": {"equals": "talk"}, "chunks": pieces, "chunk_delay_ms": 50},
        {"match": {}, "reply": "well"},
    ]))
    .await;
    let system = system(&[], &model).await;
    let memory =
        json!({"window": {"enabled": false, "size": 50}, "query_prompt_template": "{{#sys.query#}}"});
    let prompt = json!([{"role": "system", "text": "Be brief."}]);
    let flow = Flow::new("start -> llm -> answer")
        .with("llm", json!({"prompt_template": prompt, "memory": memory}))
        .answer("answer", "{{#llm.text#}}");
    let (_, app) = system.client.register(&flow).await;
    let broken = json!({"query": "break", "inputs": {}, "user": "u1"});
    assert_eq!(app.post("/v1/chat-messages", &broken).await.status, 400);
    let listed = app.get("/v1/conversations?user=u1").await;
    let id = text(&listed.body["data"][0]["id"]);

    let body = json!({
        "query": "talk", "inputs": {}, "user": "u1", "conversation_id": id, "response_mode": "streaming",
        // Front-ends send this field, but conversations have no branches in this API.
        "parent_message_id": null,
    });
    let request = app.request(Method::POST, "/v1/chat-messages").header("content-type", "application/json");
    let mut stream = app.open(request.body(body.to_string())).await;
    let (mut seen, mut is_told) = (String::new(), false);
    while let Some(message) = stream.next().await {
        let event: Json = serde_json::from_str(&message.data.unwrap_or_default()).unwrap_or_default();
        seen.push_str(event["answer"].as_str().unwrap_or_default());
        if !is_told && seen.contains("<3>") {
            is_told = true;
            let path = format!("/v1/chat-messages/{}/stop", text(&event["task_id"]));
            app.post(&path, &json!({"user": "u1"})).await;
        }
    }
    for _ in 0..2 {
        // A repeated question adds a message.
        assert_eq!(say(&app, "u1", "again", &id).await["answer"], "well");
    }
    let listed = app.get(&format!("/v1/messages?user=u1&conversation_id={id}")).await;
    let said = listed.body["data"].as_array().expect("a list");
    let said: Vec<_> = said.iter().map(|it| (text(&it["query"]), text(&it["answer"]))).collect();
    let pair = |query: &str, answer: &str| (query.to_string(), answer.to_string());
    assert_eq!(said, [pair("break", ""), pair("talk", &seen), pair("again", "well"), pair("again", "well")]);
    let failed = &listed.body["data"][0];
    assert_eq!(failed["status"], "error", "{failed:#}");
    assert!(text(&failed["error"]).starts_with("Run failed: "), "{failed:#}");
    let last = model.requests().pop().expect("it was called");
    let told: Vec<&Json> =
        last["messages"].as_array().into_iter().flatten().map(|it| &it["content"]).collect();
    assert_eq!(told, ["Be brief.", "talk", seen.as_str(), "again", "well", "again"], "{last:#}");
}
