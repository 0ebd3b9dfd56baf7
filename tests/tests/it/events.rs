//! The event stream of a run: complete, numbered, and the same for a client that reconnects after any event.

use serde_json::json;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;

use super::system;

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reconnects_after_any_event_receives_each_event_once() {
    let pieces = llm::many_pieces(8);
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 30).await;
    let system = system(&[], &model).await;
    let client = &system.client;
    let run =
        client.start(&Flow::new("start -> (a, llm) -> answer").answer("answer", "{{#llm.text#}}"), &[]).await;

    let live = client.follow(&run, None).await.to_the_end().await;
    live.is_whole();
    live.nodes_end_once();
    assert_eq!(live.text(), pieces.concat());
    assert_eq!(
        client.follow(&run, None).await.to_the_end().await.events,
        live.events,
        "the same afterwards as live"
    );

    for (at, event) in live.events.iter().enumerate() {
        let Some(id) = &event.id else { continue };
        let rest = client.follow(&run, Some(id)).await.to_the_end().await;
        assert_eq!(rest.events, live.events[at + 1..], "after {id}");
        let by_query = client.get(&format!("/api/v1/runs/{run}/events?follow=false&after={id}")).await;
        assert_eq!(by_query.text.matches("event: ").count(), live.events.len() - at - 1, "{}", by_query.text);
    }
    let wrong = client.get(&format!("/api/v1/runs/{run}/events?after=yesterday")).await;
    assert_eq!((wrong.status, &wrong.body["code"]), (400, &json!("invalid_param")), "{}", wrong.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn skipped_branches_have_events_and_never_start() {
    let model = llm::slow(&["x"], 0).await;
    let system = system(&[], &model).await;
    let flow = Flow::new("start -> if; if[true] -> a -> end; if[false] -> b -> end")
        .inputs(&["q"])
        .when("if", "q", "yes");
    for (input, taken, skipped) in [("yes", "a", "b"), ("no", "b", "a")] {
        let run = system.client.start(&flow, &[("q", input)]).await;
        let ended = system.client.ended(&run).await;
        let status = |id: &str| {
            let node = ended["nodes"].as_array().into_iter().flatten().find(|node| node["id"] == id);
            node.map(|node| node["status"].clone())
        };
        assert_eq!(
            (status(taken), status(skipped)),
            (Some(json!("succeeded")), Some(json!("skipped"))),
            "{ended:#}"
        );
        let told = system.client.follow(&run, None).await.to_the_end().await;
        told.is_whole();
        assert_eq!((told.count("node_run_started", taken), told.count("node_run_started", skipped)), (1, 0));
    }
}
