//! Forms: text around them, several at once, one that is skipped, a failure after one.

use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;

use super::workflow::{Sketch, answer, choose, code, end, first_of, form, llm, start, template};
use super::{Case, Desk, begin, pieces, run, status_is};

/// Presses a button of a form that a paused run shows.
pub(super) async fn answered(app: &Client, shown: &Json, node: &str, button: &str, note: &str) {
    let pauses = shown["pauses"].as_array().into_iter().flatten();
    let pause = pauses.into_iter().find(|pause| pause["node_id"] == node && pause["status"] == "pending");
    let pause = pause.unwrap_or_else(|| panic!("{node} does not wait: {shown:#}"));
    let token = pause["form_token"].as_str().unwrap_or_else(|| panic!("{pause:#}"));
    let body = json!({"inputs": {"note": note}, "action": button, "user": "field"});
    let answer = app.post(&format!("/v1/form/human_input/{token}"), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_after_a_form_is_streamed_and_kept() {
    let desk = Desk::open(json!([{"match": {}, "echo": "last_user"}])).await;
    let sketch = Sketch::chat("start > draft > first > ask; ask[go] > final > second; ask[stop] > refused")
        .node("start", start(&[]))
        .node("draft", llm("draft {{#sys.query#}}"))
        .node("first", answer("DRAFT {{#draft.text#}} "))
        .node("ask", form(&["go", "stop"]))
        .node("final", llm("final {{#ask.note#}}"))
        .node("second", answer("FINAL {{#final.text#}}"))
        .node("refused", answer("REFUSED"));
    let (_, app) = desk.publish(&sketch).await;
    for (button, ending) in [("go", "FINAL final n"), ("stop", "REFUSED")] {
        let body = json!({"query": "q", "inputs": {}, "user": "field", "conversation_id": "", "response_mode": "streaming"});
        let (id, event) = begin(&app, "/v1/chat-messages", body).await;
        let shown = status_is(desk.admin(), &id, "paused").await;
        // The client looks on while the form is answered.
        let request = app.request(reqwest::Method::GET, &format!("/v1/workflow/{id}/events?user=field"));
        let mut live = app.open(request).await;
        answered(&app, &shown, "ask", button, "n").await;
        let mut text = String::new();
        while let Some(message) = live.next().await {
            let Some(data) = message.data else { continue };
            let event: Json = serde_json::from_str(&data).expect("events are JSON");
            text.push_str(pieces(&[event]).concat().as_str());
        }
        assert!(text.ends_with(ending), "{text}");
        let conversation = event["conversation_id"].as_str().expect("a chat has a conversation");
        let listed = app.get(&format!("/v1/messages?user=field&conversation_id={conversation}")).await;
        assert_eq!(listed.body["data"][0]["answer"], format!("DRAFT draft q {ending}"), "{}", listed.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_on_two_branches_are_answered_at_the_same_time() {
    let desk = Desk::without_model().await;
    let sketch = Sketch::workflow(
        "start > left; start > right; left[go] > l > both; right[go] > r > both; both > end",
    )
    .node("start", start(&[]))
    .node("left", form(&["go"]))
    .node("right", form(&["go"]))
    .node("l", template("L{{ n }}", &[("n", "left.note")]))
    .node("r", template("R{{ n }}", &[("n", "right.note")]))
    .node("both", template("{{ a }}{{ b }}", &[("a", "l.output"), ("b", "r.output")]))
    .node("end", end(&[("text", "both.output")]));
    let (_, app) = desk.publish(&sketch).await;
    for round in 0..4 {
        let paused = run(&app, json!({})).await;
        let id = paused["run"].as_str().expect("a run has an id");
        let shown = status_is(desk.admin(), id, "paused").await;
        let (one, other) = (format!("{round}a"), format!("{round}b"));
        tokio::join!(
            answered(&app, &shown, "left", "go", &one),
            answered(&app, &shown, "right", "go", &other)
        );
        let ended = desk.admin().ended(id).await;
        assert_eq!(ended["outputs"]["text"], format!("L{one}R{other}"), "{ended:#}");
    }
}

/// An approval for large numbers only.
fn approval() -> Sketch {
    Sketch::workflow("start > big; big[yes] > ask; ask[go] > ok > any; big[false] > small > any; any > end")
        .node("start", start(&[("n", "number")]))
        .node("big", choose("yes", &[("start.n", ">", "10", "number")]))
        .node("ask", form(&["go"]))
        .node("ok", template("approved", &[]))
        .node("small", template("small", &[]))
        .node("any", first_of("string", &["ok.output", "small.output"]))
        .node("end", end(&[("o", "any.output")]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skipped_form_holds_nothing_up_and_a_stop_leaves_no_timer() {
    let desk = Desk::without_model().await;
    desk.all_hold(&[Case::new("no approval", &approval(), json!({"n": 3}), json!({"o": "small"}))]).await;
    let (_, app) = desk.publish(&approval()).await;
    for stops in [false, true] {
        let paused = run(&app, json!({"n": 30})).await;
        assert_eq!(paused["status"], "paused", "{paused:#}");
        let id = paused["run"].as_str().expect("a run has an id");
        let shown = status_is(desk.admin(), id, "paused").await;
        if stops {
            let stop = app.post(&format!("/v1/workflows/tasks/{id}/stop"), &json!({"user": "field"})).await;
            assert_eq!(stop.status, 200, "{}", stop.text);
            assert_eq!(desk.admin().ended(id).await["status"], "stopped");
        } else {
            answered(&app, &shown, "ask", "go", "").await;
            assert_eq!(desk.admin().ended(id).await["outputs"], json!({"o": "approved"}));
        }
        let timers = desk.system.cluster.redis.cli(&["ZCARD", &format!("tm:{{{}}}:timers", shown["shard"])]);
        assert_eq!(timers.trim(), "0", "after the end no timer is left");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_right_after_a_form_fails_the_run() {
    let desk = Desk::without_model().await;
    let sketch = Sketch::workflow("start > ask; ask[go] > bad > end")
        .node("start", start(&[]))
        .node("ask", form(&["go"]))
        .node("bad", code("def main():\n    raise ValueError(\"nope\")\n", &[("r", "number")], &[]))
        .node("end", end(&[("r", "bad.r")]));
    let (_, app) = desk.publish(&sketch).await;
    let paused = run(&app, json!({})).await;
    let id = paused["run"].as_str().expect("a run has an id");
    let shown = status_is(desk.admin(), id, "paused").await;
    answered(&app, &shown, "ask", "go", "").await;
    let ended = desk.admin().ended(id).await;
    assert_eq!(ended["status"], "failed", "{ended:#}");
    assert!(ended["error"].as_str().is_some_and(|error| error.contains("ValueError: nope")), "{ended:#}");
}
