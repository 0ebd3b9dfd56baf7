//! Tests of dead letters over the API.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::clock::SystemClock;
use tidemill_common::ids::{FramePath, NodeId, RunId};
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::store::{Commit, Dead, DeadLetter, Runs, Shards};

use super::fixtures::{ADMIN, Server, config, request};
use super::whole::drive;

const DEAD: &str = "/api/v1/dead";

fn letter(id: &str, what: &str, run: &str, content: &str) -> DeadLetter {
    DeadLetter {
        id: id.parse().unwrap(),
        what: what.into(),
        run: run.into(),
        reason: "a test".into(),
        content: content.into(),
        is_whole: true,
        place: None,
    }
}

fn ids(list: &Json) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|letter| letter["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn dead_letters_are_listed_newest_first_page_by_page() {
    let server = Server::start();
    assert_eq!(server.get(ADMIN, DEAD).await.json(), json!({"data": [], "next": null}));
    for id in ["0-1763766000001-0", "1-1763766000003-0", "0-1763766000002-7"] {
        server.store.lock().dead.push(letter(id, "timer", "", "x deadline"));
    }
    let page = server.get(ADMIN, &format!("{DEAD}?limit=2")).await.json();
    assert_eq!(ids(&page), ["1-1763766000003-0", "0-1763766000002-7"]);
    let next = page["next"].as_str().unwrap();
    let rest = server.get(ADMIN, &format!("{DEAD}?limit=2&before={next}")).await.json();
    assert_eq!((ids(&rest), &rest["next"]), (vec!["0-1763766000001-0"], &Json::Null));
    let first = &page["data"][0];
    assert_eq!(
        (&first["run"], &first["node_id"], &first["reason"]),
        (&Json::Null, &Json::Null, &json!("a test"))
    );
    assert_eq!(first["at"], json!(1_763_766_000.003));
}

#[tokio::test]
async fn invalid_parameters_are_refused_with_their_names() {
    let server = Server::start();
    for (query, says) in [
        ("limit=0", "limit must be 1 to 100"),
        ("limit=101", "limit must be 1 to 100"),
        ("limit=few", "limit must be 1 to 100"),
        ("before=yesterday", "before must be the next of an earlier page"),
        ("before=0-5", "before must be the next of an earlier page"),
    ] {
        let answer = server.get(ADMIN, &format!("{DEAD}?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {}", answer.text);
        assert!(answer.text.contains(says), "{query}: {}", answer.text);
    }
}

#[tokio::test]
async fn every_request_for_an_unknown_dead_letter_is_answered_with_404() {
    let server = Server::start();
    for id in ["0-1763766000000-0", "16384-1-1", "0-5", "nonsense", "%20"] {
        for (method, rest) in [("GET", ""), ("DELETE", ""), ("POST", "/retry")] {
            let answer = server.ask(request(method, ADMIN, &format!("{DEAD}/{id}{rest}"), "{}")).await;
            assert_eq!(answer.status, 404, "{method} {id}{rest}: {}", answer.text);
            assert_eq!(answer.json()["code"], "not_found", "{}", answer.text);
        }
    }
}

#[tokio::test]
async fn only_the_operator_sees_dead_letters() {
    let server = Server::start();
    let (_, key) = server.app().await;
    server.store.lock().dead.push(letter("0-1763766000000-0", "timer", "", "x"));
    for (method, path) in [("GET", DEAD.to_string()), ("POST", format!("{DEAD}/0-1763766000000-0/retry"))] {
        for key in ["", "wrong", &key] {
            let answer = server.ask(request(method, key, &path, "{}")).await;
            assert!([401, 403].contains(&answer.status.as_u16()), "{method} {path}: {}", answer.status);
        }
    }
}

#[tokio::test]
async fn a_dead_letter_is_shown_with_its_content_and_can_be_removed() {
    let server = Server::start();
    let mut job = letter("0-1763766000000-0", "job", "r", "{\"node\":\"llm\"");
    (job.is_whole, job.place) = (false, Some((FramePath::from("it#3"), NodeId::from("llm"))));
    server.store.lock().dead.push(job);
    let path = format!("{DEAD}/0-1763766000000-0");
    let shown = server.get(ADMIN, &path).await.json();
    assert_eq!((&shown["frame"], &shown["node_id"]), (&json!("it#3"), &json!("llm")));
    assert_eq!((&shown["content"], &shown["is_whole"]), (&json!("{\"node\":\"llm\""), &json!(false)));
    assert_eq!(server.ask(request("DELETE", ADMIN, &path, "")).await.status, 204);
    assert_eq!(server.get(ADMIN, &path).await.status, 404);
}

#[tokio::test]
async fn a_fact_is_put_back_once_and_a_refusal_says_why() {
    let server = Server::start();
    let (app, _) = server.app().await;
    let run = server.run(&app).await;
    let shard = run.shard();
    let id = |n: u64| format!("{shard}-{n}-0");
    let put = |n: u64, letter: DeadLetter| {
        let letter = DeadLetter { id: id(n).parse().unwrap(), ..letter };
        server.store.lock().dead.push(letter);
    };
    let fact = |run: String, content: &str| letter("0-1-0", "fact", &run, content);
    let gone = RunId::generate(shard);
    put(1, fact(run.to_string(), r#"stop {"reason":"enough"}"#));
    put(2, fact(run.to_string(), "nothing"));
    put(3, DeadLetter { is_whole: false, ..fact(run.to_string(), "stop {") });
    put(4, fact(gone.to_string(), "stop {}"));
    put(5, fact("no run".into(), "stop {}"));
    put(6, letter("0-1-0", "timer", &run.to_string(), "x"));
    put(7, letter("0-1-0", "job", &run.to_string(), "{}"));
    let done = server.post(ADMIN, &format!("{DEAD}/{}/retry", id(1)), &json!({})).await;
    assert_eq!((done.status.as_u16(), done.json()), (202, json!({"id": run.to_string(), "accepted": true})));
    let sent = server.store.lock().sent.clone();
    assert_eq!(sent, [(run, "stop".to_string(), r#"{"reason":"enough"}"#.to_string())]);
    assert_eq!(server.post(ADMIN, &format!("{DEAD}/{}/retry", id(1)), &json!({})).await.status, 404);
    let reasons =
        ["cannot be read", "bytes of the fact", "is gone", "names no run", "a timer", "names no node"];
    for (n, says) in (2..).zip(reasons) {
        let refused = server.post(ADMIN, &format!("{DEAD}/{}/retry", id(n)), &json!({})).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.json()["code"]),
            (409, &json!("not_retryable")),
            "{says}"
        );
        assert!(refused.text.contains(says), "{says}: {}", refused.text);
        assert_eq!(server.get(ADMIN, &format!("{DEAD}/{}", id(n))).await.status, 200, "it is still there");
    }
    put(8, fact(run.to_string(), "stop {}"));
    server.store.set(run, &[("status", "failed")]);
    let late = server.post(ADMIN, &format!("{DEAD}/{}/retry", id(8)), &json!({})).await;
    assert!(late.status == 409 && late.text.contains("is over (failed)"), "{}", late.text);
}

const ON_A_WORKER: &str = "
nodes:
- {id: start, data: {type: start, variables: []}}
- {id: work, data: {type: template-transform, template: done, variables: [], tidemill: {runs_on: worker}}}
- {id: end, data: {type: end, outputs: [{variable: out, value_selector: [work, output]}]}}
edges:
- {source: start, target: work}
- {source: work, target: end}
";

#[tokio::test]
async fn a_dead_job_is_retried_in_a_new_run() {
    let store = MemoryStore::new(Arc::new(SystemClock));
    let server = Server::over(config(), Arc::new(store.clone()), Arc::default());
    let made = server.post(ADMIN, "/api/v1/runs", &json!({"workflow": ON_A_WORKER, "inputs": {}})).await;
    let run: RunId = made.json()["id"].as_str().unwrap().parse().unwrap();
    let stop = json!({"command": "stop", "reason": "enough"});
    server.post(ADMIN, &format!("/api/v1/runs/{run}/commands"), &stop).await;
    drive(&server, &store, run).await;
    let bury = async |node: &str| {
        let dead = Dead::new("job", run.to_string(), "a test", "{}".into());
        let dead = dead.at(FramePath::root(), NodeId::from(node));
        let mut owner = store.claim(run.shard(), "tests", Duration::from_secs(5)).await.unwrap().unwrap();
        let number = owner.claim().commit + 1;
        owner.commit(&Commit { number, dead: vec![dead], ..Commit::default() }).await.unwrap();
        let newest = server.get(ADMIN, DEAD).await.json();
        format!("{DEAD}/{}/retry", ids(&newest)[0])
    };
    for (node, says) in [("end", "never began"), ("start", "has succeeded"), ("ghost", "no node ghost")] {
        let path = bury(node).await;
        let refused = server.post(ADMIN, &path, &json!({})).await;
        assert!(refused.status == 409 && refused.text.contains(says), "{says}: {}", refused.text);
    }
    let path = bury("work").await;
    let again = server.post(ADMIN, &path, &json!({})).await;
    assert_eq!(again.status, 201, "{}", again.text);
    let answer = again.json();
    assert_eq!((&answer["retry_of"], &answer["begins_at"]), (&json!(run.to_string()), &json!("work")));
    let next: RunId = answer["id"].as_str().unwrap().parse().unwrap();
    assert_eq!(next.shard(), run.shard());
    let fields = store.run_fields(next).await.unwrap().unwrap();
    assert_eq!(fields.get("retry_of"), Some(&run.to_string()));
    assert_eq!(server.post(ADMIN, &path, &json!({})).await.status, 404, "the dead letter is removed");
}
