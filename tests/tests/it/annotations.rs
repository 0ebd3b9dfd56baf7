//! Annotations over Dify's API, and questions that are answered from them in place of the workflow.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_mock_llm::Running;
use tidemill_tests::client::{Client, HttpResponse};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

use super::{System, system};

const ANNOTATIONS: &str = "/v1/apps/annotations";
const REPLY: &str = "/v1/apps/annotation-reply";

async fn model() -> Running {
    llm::rules(json!([{"match": {}, "reply": "yes"}])).await
}

/// A chat that answers `workflow: <question>`.
fn document(features: Json) -> Json {
    let mut document = Flow::new("start -> answer").answer("answer", "workflow: {{#sys.query#}}").document();
    document["workflow"]["features"] = features;
    document
}

/// Publishes the chat; returns its id and a client with its key.
async fn register(system: &System, features: Json) -> (String, Client) {
    let body = json!({"workflow": document(features).to_string()});
    let answer = system.client.post("/api/v1/apps", &body).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let key = answer.body["key"].as_str().expect("a key");
    (text(&answer.body["id"]), system.client.with_key(Some(key)))
}

fn text(value: &Json) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_string()
}

async fn call(app: &Client, method: Method, path: &str, body: &Json) -> HttpResponse {
    let request = app.request(method, path).header("content-type", "application/json");
    app.send(request.body(body.to_string())).await
}

async fn annotate(app: &Client, question: &str, answer: &str) -> String {
    let added = app.post(ANNOTATIONS, &json!({"question": question, "answer": answer})).await;
    assert_eq!(added.status, 201, "{}", added.text);
    text(&added.body["id"])
}

async fn say(app: &Client, query: &str, conversation: &str) -> Json {
    let body = json!({"query": query, "inputs": {}, "user": "u1", "conversation_id": conversation});
    let answer = app.post("/v1/chat-messages", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.body
}

/// Switches the annotation reply, and returns the state of the job when it is over.
async fn switch(app: &Client, action: &str, model: &str) -> Json {
    let body = json!({
        "score_threshold": 0.7, "embedding_provider_name": "openai", "embedding_model_name": model,
    });
    let switched = app.post(&format!("{REPLY}/{action}"), &body).await;
    assert_eq!(
        (switched.status, &switched.body["job_status"]),
        (200, &json!("waiting")),
        "{}",
        switched.text
    );
    let job = text(&switched.body["job_id"]);
    until("the job to end", LONG, async || {
        let state = app.get(&format!("{REPLY}/{action}/status/{job}")).await;
        assert_eq!((state.status, &state.body["job_id"]), (200, &json!(job)), "{}", state.text);
        match state.body["job_status"].as_str() {
            Some("completed" | "error") => Ok(state.body),
            _ => Err(state.text),
        }
    })
    .await
}

fn questions(listed: &HttpResponse) -> Vec<String> {
    let data = listed.body["data"].as_array().unwrap_or_else(|| panic!("no list: {}", listed.text));
    data.iter().map(|it| text(&it["question"])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn annotations_are_added_changed_listed_and_removed_as_on_dify() {
    let model = model().await;
    let system =
        system(&[("features.annotations_max", "3"), ("features.annotation_bytes_max", "40")], &model).await;
    let (_, app) = register(&system, json!({})).await;
    let (_, other) = register(&system, json!({})).await;
    let added = app.post(ANNOTATIONS, &json!({"question": "What is Dify?", "answer": "A platform."})).await;
    assert_eq!(added.status, 201, "{}", added.text);
    let id = text(&added.body["id"]);
    let at = added.body["created_at"].as_i64().expect("a time");
    assert!(at > 1_700_000_000, "{}", added.text);
    let expected = format!(
        r#"{{"id":"{id}","question":"What is Dify?","answer":"A platform.","hit_count":0,"created_at":{at}}}"#
    );
    assert_eq!(added.text, expected);
    annotate(&app, "Two", "B 100%").await;
    annotate(&app, "Three", "C").await;

    let listed = app.get(ANNOTATIONS).await;
    assert_eq!(questions(&listed).last().map(String::as_str), Some("What is Dify?"));
    for (query, found, rest) in [
        ("limit=2", 2, json!({"has_more": true, "limit": 2, "total": 3, "page": 1})),
        ("limit=2&page=2", 1, json!({"has_more": false, "limit": 2, "total": 3, "page": 2})),
        ("limit=500&page=9&unknown=1", 0, json!({"has_more": false, "limit": 100, "total": 3, "page": 9})),
        ("keyword=PLATform", 1, json!({"has_more": false, "limit": 20, "total": 1, "page": 1})),
        ("keyword=100%25", 1, json!({"has_more": false, "limit": 20, "total": 1, "page": 1})),
        ("keyword=t", 3, json!({"has_more": false, "limit": 20, "total": 3, "page": 1})),
    ] {
        let listed = app.get(&format!("{ANNOTATIONS}?{query}")).await;
        let mut body = listed.body.clone();
        let data = body.as_object_mut().and_then(|body| body.remove("data")).unwrap_or_default();
        assert_eq!((data.as_array().map(Vec::len), body), (Some(found), rest), "{query}");
    }
    assert_eq!(questions(&other.get(ANNOTATIONS).await), Vec::<String>::new());

    let path = format!("{ANNOTATIONS}/{id}");
    let changed = call(&app, Method::PUT, &path, &json!({"question": "What?", "answer": "That."})).await;
    assert_eq!((changed.status, &changed.body["question"]), (200, &json!("What?")), "{}", changed.text);
    assert_eq!((&changed.body["id"], &changed.body["created_at"]), (&json!(id), &json!(at)));
    let unknown = json!({"code": "not_found", "message": "Annotation not found", "status": 404});
    let pair = json!({"question": "q", "answer": "a"});
    for (client, method, path) in [
        (&other, Method::PUT, path.clone()),
        (&other, Method::DELETE, path.clone()),
        (&app, Method::DELETE, format!("{ANNOTATIONS}/a1b2c3d4-5678-90ab-cdef-1234567890ab")),
        (&app, Method::DELETE, format!("{ANNOTATIONS}/x")),
    ] {
        let refused = call(client, method.clone(), &path, &pair).await;
        assert_eq!((refused.status, &refused.body), (404, &unknown), "{method} {path}");
    }
    for (body, says) in [
        (json!({"answer": "a"}), "question is required"),
        (json!({"question": "q", "answer": null}), "answer is required"),
        (json!({"question": 1, "answer": "a"}), "question must be a string"),
        (json!({"question": "q".repeat(41), "answer": ""}), "more than 40 bytes"),
        (pair, "the most it may have"),
    ] {
        let refused = app.post(ANNOTATIONS, &body).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (400, &json!("invalid_param")),
            "{}",
            refused.text
        );
        assert!(text(&refused.body["message"]).contains(says), "{}", refused.text);
    }
    let removed = call(&app, Method::DELETE, &path, &json!({})).await;
    assert_eq!((removed.status, removed.text.as_str()), (204, ""));
    assert_eq!(questions(&app.get(ANNOTATIONS).await).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_matches_is_answered_without_the_workflow() {
    let model = model().await;
    let system = system(&[], &model).await;
    let (app_id, app) = register(&system, json!({})).await;
    let id = annotate(&app, "How many days of leave do I have?", "Thirty days.").await;
    assert_eq!(
        say(&app, "How many days of leave do I have?", "").await["answer"],
        "workflow: How many days of leave do I have?"
    );
    assert_eq!(app.get("/v1/parameters").await.body["annotation_reply"]["enabled"], false);
    let done = switch(&app, "enable", "e").await;
    assert_eq!((&done["job_status"], &done["error_msg"]), (&json!("completed"), &json!("")), "{done}");
    assert_eq!(app.get("/v1/parameters").await.body["annotation_reply"]["enabled"], true);

    let exact = say(&app, " How many days of leave do I have?\n", "").await;
    assert_eq!((&exact["answer"], &exact["event"]), (&json!("Thirty days."), &json!("message")), "{exact:#}");
    let reply =
        json!({"id": id, "account": {"id": "00000000-0000-0000-0000-000000000000", "name": "Dify user"}});
    assert_eq!(exact["metadata"]["annotation_reply"], reply, "{exact:#}");
    let conversation = text(&exact["conversation_id"]);
    // Most words are the same, so the vectors are near.
    let near = say(&app, "how many days of leave do I have now", &conversation).await;
    assert_eq!(
        (&near["answer"], &near["metadata"]["annotation_reply"]),
        (&json!("Thirty days."), &reply),
        "{near:#}"
    );
    let far = say(&app, "Where is the kitchen", &conversation).await;
    assert_eq!(far["answer"], "workflow: Where is the kitchen");
    assert_eq!(far["metadata"]["annotation_reply"], Json::Null, "{far:#}");

    // A later question is indexed, too.
    annotate(&app, "Where is the kitchen of this house", "Upstairs.").await;
    until("the new question to be found", LONG, async || {
        let found = say(&app, "Where is the kitchen of the house", &conversation).await;
        if found["answer"] == "Upstairs." { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    let messages = app.get(&format!("/v1/messages?user=u1&conversation_id={conversation}")).await;
    let first = &messages.body["data"][0];
    assert_eq!((&first["answer"], &first["id"]), (&json!("Thirty days."), &exact["message_id"]), "{first:#}");

    let counted = app.get(&format!("{ANNOTATIONS}?keyword=leave")).await;
    assert_eq!(counted.body["data"][0]["hit_count"], 2, "{}", counted.text);
    let hits: Vec<String> = system
        .cluster
        .redis
        .ask(&["LRANGE", &format!("tm:annotations:{{{app_id}}}:hits:{id}"), "0", "-1"])
        .await;
    let hits: Vec<Json> = hits.iter().map(|hit| serde_json::from_str(hit).expect("JSON")).collect();
    assert_eq!(
        (hits.len(), &hits[1]["message_id"], &hits[1]["score"]),
        (2, &exact["message_id"], &json!(1.0))
    );
    assert!(hits[0]["score"].as_f64().is_some_and(|score| (0.7..1.0).contains(&score)), "{hits:?}");

    // A removed conversation leaves no use, and what searched the annotations for it is removed at its end.
    let removal = json!({"user": "u1"});
    let removed = call(&app, Method::DELETE, &format!("/v1/conversations/{conversation}"), &removal).await;
    assert_eq!(removed.status, 204, "{}", removed.text);
    for place in [format!("hits:{id}"), "messages".into()] {
        let key = format!("tm:annotations:{{{app_id}}}:{place}");
        let left: u64 = system.cluster.redis.ask(&["EXISTS", &key]).await;
        assert_eq!(left, 0, "{key}");
    }
    let counted = app.get(&format!("{ANNOTATIONS}?keyword=leave")).await;
    assert_eq!(counted.body["data"][0]["hit_count"], 2, "{}", counted.text);
    until("the searches to be removed", LONG, async || {
        let runs: Vec<String> = system.cluster.redis.ask(&["KEYS", "tm:{*}:run:*"]).await;
        for run in runs.iter().filter(|key| key.matches(':').count() == 3) {
            let inputs: Option<String> = system.cluster.redis.ask(&["HGET", run, "inputs"]).await;
            if inputs.is_some_and(|text| text.contains(r#""question""#)) {
                return Err(run.clone());
            }
        }
        Ok(())
    })
    .await;

    // A removed annotation answers no more, and a changed one answers its new question.
    call(&app, Method::DELETE, &format!("{ANNOTATIONS}/{id}"), &json!({})).await;
    let after = say(&app, "how many days of leave do I have now", "").await;
    assert_eq!(after["answer"], "workflow: how many days of leave do I have now");
    let off = switch(&app, "disable", "e").await;
    assert_eq!(off["job_status"], "completed");
    let after = say(&app, "Where is the kitchen of this house", "").await;
    assert_eq!(after["answer"], "workflow: Where is the kitchen of this house");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_from_an_annotation_streams_as_on_dify() {
    let model = model().await;
    let system = system(&[], &model).await;
    let (_, app) = register(&system, json!({"annotation_reply": {"enabled": true}})).await;
    let id = annotate(&app, "Hello?", "Welcome.").await;
    let body = json!({"query": "Hello?", "inputs": {}, "user": "u1", "response_mode": "streaming"});
    let streamed = app.post("/v1/chat-messages", &body).await;
    let payloads: Vec<Json> = streamed
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    let events: Vec<String> = payloads.iter().map(|it| text(&it["event"])).collect();
    assert_eq!(events, ["message", "message_end"], "{}", streamed.text);
    assert_eq!((&payloads[0]["answer"], &payloads[0]["id"]), (&json!("Welcome."), &payloads[1]["id"]));
    assert_eq!(payloads[1]["metadata"]["annotation_reply"]["id"], json!(id), "{}", streamed.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_switches_the_reply_on_and_a_client_switches_it_off_for_later_versions_too() {
    let model = model().await;
    let system = system(&[], &model).await;
    // The provider as Dify's exports name it.
    let named = json!({"embedding_provider_name": "langgenius/openai/openai", "embedding_model_name": "e"});
    let on = json!({"annotation_reply": {"enabled": true, "score_threshold": 0.7, "embedding_model": named}});
    let (app_id, app) = register(&system, json!({})).await;
    annotate(&app, "Where is the kitchen of this house", "Upstairs.").await;
    let publish = async |features: &Json| {
        let body = json!({"id": app_id, "workflow": document(features.clone()).to_string()});
        let answer = system.client.post("/api/v1/apps", &body).await;
        assert_eq!((answer.status, &answer.body["warnings"]), (200, &json!([])), "{}", answer.text);
    };
    publish(&on).await;
    assert_eq!(app.get("/v1/parameters").await.body["annotation_reply"], json!({"enabled": true}));
    // The first question makes the index, a later one finds the annotation in it.
    until("the annotation to be found", LONG, async || {
        let found = say(&app, "Where is the kitchen of the house", "").await;
        if found["answer"] == "Upstairs." { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    let datasets = system.client.get("/api/v1/knowledge").await;
    assert_eq!(datasets.body["data"], json!([]), "{}", datasets.text);

    switch(&app, "disable", "e").await;
    publish(&on).await;
    let after = say(&app, "Where is the kitchen of this house", "").await;
    assert_eq!(after["answer"], "workflow: Where is the kitchen of this house");
    assert_eq!(app.get("/v1/parameters").await.body["annotation_reply"], json!({"enabled": false}));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_exact_matches_are_answered_and_the_job_says_why_others_are_not() {
    let model = llm::rules(json!([
        {"match": {"model": "broken"}, "status": 400, "error": "no vectors today"},
        {"match": {}, "reply": "yes"},
    ]))
    .await;
    let system = system(&[], &model).await;
    let (_, app) = register(&system, json!({})).await;
    annotate(&app, "How are you?", "Fine.").await;
    for (name, says) in [("", "embedding_model_name is empty"), ("broken", "no vectors today")] {
        let failed = switch(&app, "enable", name).await;
        assert_eq!(failed["job_status"], "error", "{failed}");
        assert!(text(&failed["error_msg"]).contains(says), "{failed}");
        assert_eq!(say(&app, "How are you?", "").await["answer"], "Fine.");
        let other = say(&app, "How are you today?", "").await;
        assert_eq!(other["answer"], "workflow: How are you today?", "{name}");
    }
    let body =
        json!({"score_threshold": 0.9, "embedding_provider_name": "openai", "embedding_model_name": "e"});
    for (path, body, says) in [
        (format!("{REPLY}/toggle"), &body, "action must be enable or disable"),
        (format!("{REPLY}/disable"), &json!({"score_threshold": 0.9}), "embedding_provider_name is required"),
    ] {
        let refused = app.post(&path, body).await;
        assert_eq!((refused.status, &refused.body["message"]), (400, &json!(says)), "{}", refused.text);
    }
    let unknown = app.get(&format!("{REPLY}/enable/status/a1b2c3d4-5678-90ab-cdef-1234567890ab")).await;
    let expected = json!({"code": "invalid_param", "message": "The job does not exist.", "status": 400});
    assert_eq!((unknown.status, unknown.body), (400, expected));
}
