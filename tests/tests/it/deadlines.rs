//! Deadlines: a run is stopped at its deadline, whatever it does or waits for, and whichever processes have died.

use serde_json::{Value as Json, json};
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};

const ASK: &str = include_str!("workflows/ask_twice.yml");

fn is_stopped(run: &Json, may_take_ms: u64) {
    let error = run["error"].as_str().unwrap_or_default();
    let expected = format!("and it may take {may_take_ms} (deadline_ms)");
    assert!(
        run["status"] == "stopped"
            && error.starts_with("Aborted: DeadlineExceededError: ")
            && error.ends_with(&expected),
        "{run:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_run_is_stopped_at_its_deadline_and_one_that_has_ended_before_is_not() {
    let model = llm::rules(json!([
        {"match": {"contains": "slow"}, "reply": "late", "delay_ms": 60_000},
        {"match": {}, "reply": "soon"},
    ]))
    .await;
    let cluster = Cluster::start(&[], Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let flow = Flow::new("start -> llm -> end")
        .inputs(&["q"])
        .with("llm", json!({"prompt_template": [{"role": "user", "text": "{{#start.q#}}"}]}));
    let submit = async |q: &str, deadline_ms: u64| {
        let options = json!({"deadline_ms": deadline_ms});
        client.submit(&json!({"workflow": flow.text(), "inputs": {"q": q}, "options": options})).await
    };
    let (slow, soon) = (submit("slow", 1500).await, submit("quick", 60_000).await);
    assert_eq!(client.ended(&soon).await["status"], "succeeded");
    is_stopped(&client.ended(&slow).await, 1500);
    let told = client.follow(&slow, None).await.to_the_end().await;
    assert_eq!(told.events.last().map(|event| event.kind.as_str()), Some("graph_run_aborted"));
    let refused = json!({"workflow": flow.text(), "inputs": {"q": "x"}, "options": {"deadline_ms": -1}});
    let refused = client.post("/api/v1/runs", &refused).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    assert!(refused.text.contains("option deadline_ms in options must be a whole number, 0 or more"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_person_is_stopped_by_the_scheduler_that_owns_its_shard_then() {
    let cluster = Cluster::start(&[], None).await;
    let (mut scheduler, mut worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = scheduler.client();
    let body = json!({"workflow": ASK, "inputs": {"name": "Ada"}, "options": {"deadline_ms": 4000}});
    let run = client.submit(&body).await;
    until("the run to pause", LONG, async || {
        let shown = client.run(&run).await;
        if shown["status"] == "paused" { Ok(()) } else { Err(shown.to_string()) }
    })
    .await;
    scheduler.process.kill();
    worker.process.kill();
    let scheduler = cluster.scheduler().await;
    let ended = scheduler.client().ended(&run).await;
    is_stopped(&ended, 4000);
    let open = ended["pauses"].as_array().into_iter().flatten().filter(|pause| pause["status"] == "pending");
    assert_eq!(open.count(), 0, "no pause is open any more: {ended:#}");
}
