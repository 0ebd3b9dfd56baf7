//! Everything beyond Dify in one run: a profile, a shortened conversation, an extraction, missing values, approval, a
//! question to a person, an HTTP API and a database.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::llm;
use tidemill_tests::refund::{self, ANSWERS, ASKED, Desk, MODEL_CALLS, NODES, Refund, WORKFLOW};
use tidemill_tests::wait::{LONG, until};

async fn asked_for(client: &Client, run: &str, kind: &str) -> Json {
    until(&format!("a pause {kind}"), LONG, async || {
        let shown = client.run(run).await;
        let mut open = shown["pauses"].as_array().into_iter().flatten();
        let open = open.find(|pause| pause["status"] == "pending" && pause["kind"] == kind);
        match open.filter(|_| shown["status"] == "paused") {
            Some(pause) => Ok(pause.clone()),
            None => Err(shown.to_string()),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn xc_01_one_run_uses_all_extensions_and_asks_three_times() {
    let refund = Refund::start().await;
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1")], Some(&refund.model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    refund.keep(&client).await;
    let run = client.submit(&refund.submission()).await;
    for (at, (kind, answer)) in ANSWERS.into_iter().enumerate() {
        let pause = asked_for(&client, &run, kind).await;
        // The carrier is called only after the approval.
        assert_eq!(refund.outside.take().len(), usize::from(at == 2), "before {kind}");
        if kind == "params" {
            assert_eq!(pause["schema"]["required"], json!(["/query/country"]), "{pause:#}");
            assert_eq!(pause["current"]["query"]["order"], "A17", "the extracted value is known: {pause:#}");
        }
        if kind == "user_interaction" {
            assert_eq!(pause["prompt"], r#"Order A17: {"state": "lost"}. Pay it back?"#, "{pause:#}");
        }
        let id = pause["pause_id"].as_str().expect("a pause has an id");
        let body = json!({"input": answer()});
        let answer = client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &body).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
    }
    let ended = client.ended(&run).await;
    assert_eq!((&ended["status"], &ended["outputs"]), (&json!("succeeded"), &Refund::outputs()), "{ended:#}");
    assert_eq!(ended["pauses"].as_array().map(Vec::len), Some(ANSWERS.len()));
    assert_eq!((refund.model.requests().len(), refund.outside.take().len()), (MODEL_CALLS, 0));

    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    for node in NODES {
        assert_eq!(told.count("node_run_succeeded", node), 1, "{node}");
    }
    // The messages for the model that reads the letter, and for the one that finds the order in the shortened
    // conversation.
    let requests = refund.model.requests();
    let last = |at: usize| requests[at]["messages"].as_array().and_then(|all| all.last().cloned());
    assert_eq!(last(0).unwrap_or_default()["content"], "A customer of our shop writes: Order A17 never came");
    let roles: Vec<&Json> =
        requests[1]["messages"].as_array().into_iter().flatten().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user"], "the two messages that were kept, and the question");
    // The run's total is the sum over its nodes and their child nodes.
    assert_eq!(ended["total_tokens"], json!(15 + 22 + 2 * 8), "{ended:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn xc_01_a_refusal_takes_the_other_branch_and_queries_no_database() {
    let refund = Refund::start().await;
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1")], Some(&refund.model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    refund.keep(&client).await;
    let run = client.submit(&refund.submission()).await;
    for (kind, answer) in ANSWERS {
        let pause = asked_for(&client, &run, kind).await;
        let id = pause["pause_id"].as_str().expect("a pause has an id");
        let input = if kind == "user_interaction" { json!(false) } else { answer() };
        let path = format!("/api/v1/runs/{run}/pauses/{id}/answer");
        assert_eq!(client.post(&path, &json!({"input": input})).await.status, 202);
    }
    let ended = client.ended(&run).await;
    let expected = json!({"parcel": {"state": "lost"}, "approved": false});
    assert_eq!((&ended["status"], &ended["outputs"]), (&json!("succeeded"), &expected), "{ended:#}");
    let told = client.follow(&run, None).await.to_the_end().await;
    assert_eq!(
        (refund.outside.take()[0].target.as_str(), told.count("node_run_started", "order")),
        (ASKED, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_works_with_the_programs_that_its_first_lines_name() {
    let rules = include_str!("../../../examples/mock-rules.json");
    let model = llm::rules(serde_json::from_str(rules).expect("rules are JSON")).await;
    let desk = Desk::start();
    let cluster = Cluster::start(&[("http.allow", "127.0.0.1")], Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    refund::keep(&client, &model, &desk.database()).await;
    let inputs = json!({"letter": "Order A17 never came", "carrier": desk.carrier});
    let run = client.submit(&json!({"workflow": WORKFLOW, "inputs": inputs, "user": "tester"})).await;
    for (kind, answer) in ANSWERS {
        let pause = asked_for(&client, &run, kind).await;
        let id = pause["pause_id"].as_str().expect("a pause has an id");
        let body = json!({"input": answer()});
        let answer = client.post(&format!("/api/v1/runs/{run}/pauses/{id}/answer"), &body).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
    }
    let ended = client.ended(&run).await;
    let expected = json!({
        "read": "The customer has not got the parcel of order A17 and wants the money back.", "kept": 2, "approved": true,
        "parcel": {"order": "A17", "country": "no", "state": "lost"},
        "order": [{"id": "A17", "customer": "Ada", "total": 40}],
    });
    assert_eq!((&ended["status"], &ended["outputs"]), (&json!("succeeded"), &expected), "{ended:#}");
}
