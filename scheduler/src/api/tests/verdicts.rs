//! Tests of a run whose answer a moderation server checks, while its verdict is awaited: what each route shows, the pings and the
//! end of streams, and a store that takes no run for the check.

use axum::body::Body;
use axum::response::Response;
use futures_util::StreamExt;
use http_body_util::BodyExt;
use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;

use super::fixtures::{ADMIN, GREETER, Server, config, frames, request, resume};
use crate::stopping::Stage;

const SORRY: &str = "This answer was withheld.";

/// A server with a run that has ended, whose answer is to be checked.
struct Checked {
    server: Server,
    key: String,
    run: RunId,
}

impl Checked {
    async fn start() -> Self {
        let mut config = config();
        config.features.moderation_openai_model = "openai/omni-moderation-latest".into();
        let server = Server::with(config);
        let rules = json!({"enabled": true, "type": "openai_moderation", "config": {
            "inputs_config": {"enabled": false}, "outputs_config": {"enabled": true, "preset_response": SORRY},
        }});
        let features = json!({ "sensitive_word_avoidance": rules });
        let moderated =
            GREETER.replace("workflow:\n  env", &format!("workflow:\n  features: {features}\n  env"));
        let published = server.post(ADMIN, "/api/v1/apps", &json!({ "workflow": moderated })).await;
        assert_eq!(published.status, 201, "{}", published.text);
        let published = published.json();
        let run = server.run(published["id"].as_str().unwrap()).await;
        server.store.add_events(run, "1-0", 1, &[("graph_run_started", json!({}))]);
        let outputs = json!({"text": "words of the model"});
        let end = [("graph_run_succeeded", json!({ "outputs": outputs }))];
        server.store.add_events(run, "2-0", 2, &end);
        server
            .store
            .set(run, &[("status", "succeeded"), ("outputs", &outputs.to_string()), ("finished_at", "9")]);
        Self { server, key: published["key"].as_str().unwrap().to_owned(), run }
    }

    async fn detail(&self) -> (String, Json) {
        let shown = self.server.get(&self.key, &format!("/v1/workflows/run/{}", self.run)).await.json();
        (shown["status"].as_str().unwrap_or_default().to_owned(), shown["outputs"].clone())
    }

    /// The runs that check the answer.
    fn checks(&self) -> Vec<RunId> {
        let created: Vec<RunId> = self.server.store.lock().created.iter().map(|new| new.id).collect();
        created.into_iter().filter(|run| *run != self.run).collect()
    }

    /// Ends the check with a verdict.
    fn decide(&self, is_flagged: bool) {
        let [check] = self.checks()[..] else { panic!("{:?}", self.checks()) };
        let outputs = json!({"result": {"flagged": is_flagged}}).to_string();
        self.server.store.set(check, &[("status", "succeeded"), ("outputs", &outputs), ("finished_at", "9")]);
    }

    fn path(&self) -> String {
        format!("/v1/workflow/{}/events?user=u", self.run)
    }
}

/// The next piece of a stream's body.
async fn piece(
    body: &mut (impl StreamExt<Item = Result<bytes::Bytes, axum::Error>> + Unpin),
) -> Option<String> {
    let piece = body.next().await?.unwrap();
    Some(String::from_utf8(piece.to_vec()).unwrap())
}

fn body(response: Response<Body>) -> axum::body::BodyDataStream {
    assert_eq!(response.status(), 200);
    response.into_body().into_data_stream()
}

#[tokio::test]
async fn an_answer_is_shown_as_it_is_or_replaced_once_its_check_has_ended_and_not_before() {
    for (is_flagged, text) in [(true, SORRY), (false, "words of the model")] {
        let checked = Checked::start().await;
        for _ in 0..2 {
            assert_eq!(checked.detail().await, ("running".to_owned(), json!({})));
        }
        checked.decide(is_flagged);
        assert_eq!(checked.detail().await, ("succeeded".to_owned(), json!({ "text": text })));
        let streamed = checked.server.get(&checked.key, &checked.path()).await;
        let streamed = frames(&streamed.text);
        let (_, _, last) = streamed.last().unwrap();
        assert_eq!(last["data"]["outputs"]["text"], text, "{streamed:?}");
        assert_eq!(checked.checks().len(), 1, "it is asked once");
    }
}

#[tokio::test]
async fn while_the_store_takes_no_run_for_the_check_the_answer_waits_and_is_checked_later() {
    let checked = Checked::start().await;
    checked.server.store.lock().is_busy = true;
    for _ in 0..2 {
        assert_eq!(checked.detail().await, ("running".to_owned(), json!({})));
    }
    assert!(checked.checks().is_empty());
    checked.server.store.lock().is_busy = false;
    assert_eq!(checked.detail().await.0, "running");
    checked.decide(true);
    assert_eq!(checked.detail().await, ("succeeded".to_owned(), json!({ "text": SORRY })));
}

#[tokio::test]
async fn a_check_that_fails_shows_the_answer_to_each_reader() {
    let checked = Checked::start().await;
    assert_eq!(checked.detail().await.0, "running");
    let [check] = checked.checks()[..] else { panic!("{:?}", checked.checks()) };
    checked.server.store.set(check, &[("status", "failed"), ("error", "no server"), ("finished_at", "9")]);
    for _ in 0..2 {
        assert_eq!(checked.detail().await, ("succeeded".to_owned(), json!({"text": "words of the model"})));
    }
}

#[tokio::test(start_paused = true)]
async fn streams_have_pings_while_a_verdict_is_awaited_and_end_with_a_comment_when_the_process_stops() {
    let checked = Checked::start().await;
    let (server, key, path) = (&checked.server, checked.key.as_str(), checked.path());
    // A client that only gets the end of the run, and one that follows it from its beginning.
    let end_only = server.send(request("GET", key, &path, "")).await;
    let whole = server.send(resume(key, &path, "0")).await;
    for (response, started) in [(end_only, false), (whole, true)] {
        let (mut body, began) = (body(response), tokio::time::Instant::now());
        assert_eq!(piece(&mut body).await.unwrap(), "event: ping\n\n");
        if started {
            assert!(piece(&mut body).await.unwrap().contains("workflow_started"));
        }
        assert_eq!(began.elapsed().as_secs(), 0, "the headers come at once");
        for pings in 1..=3 {
            assert_eq!(piece(&mut body).await.unwrap(), "event: ping\n\n");
            assert_eq!(began.elapsed().as_secs(), pings * 10);
        }
        server.shutdown.send(Stage::Closing).unwrap();
        assert!(piece(&mut body).await.unwrap().starts_with(": this scheduler stops"));
        assert_eq!(piece(&mut body).await, None);
        server.shutdown.send(Stage::Serving).unwrap();
    }
    assert_eq!(checked.checks().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_shows_the_verdict_after_its_pings_and_ends_without_one_at_the_limit() {
    let checked = Checked::start().await;
    let response = checked.server.send(resume(&checked.key, &checked.path(), "0")).await;
    let mut following = body(response);
    while checked.checks().is_empty() {
        piece(&mut following).await.unwrap();
    }
    assert_eq!(piece(&mut following).await.unwrap(), "event: ping\n\n");
    checked.decide(true);
    let rest = axum::body::Body::from_stream(following).collect().await.unwrap().to_bytes();
    let rest = String::from_utf8(rest.to_vec()).unwrap();
    let names: Vec<String> =
        frames(&rest).iter().filter_map(|(_, _, data)| data["event"].as_str().map(str::to_owned)).collect();
    assert_eq!(names, ["text_replace", "workflow_finished"]);
    assert!(rest.contains(SORRY) && !rest.contains("words of the model"), "{rest}");

    let late = Checked::start().await;
    let began = tokio::time::Instant::now();
    let ended = late.server.ask(resume(&late.key, &late.path(), "0")).await;
    assert!(!ended.text.contains("workflow_finished"), "{}", ended.text);
    let limit = late.server.state.config.features.moderation_seconds_max;
    assert!(began.elapsed().as_secs() >= limit, "{:?}", began.elapsed());
    late.decide(false);
    let again = late.server.get(&late.key, &late.path()).await;
    assert!(again.text.contains("words of the model"), "{}", again.text);
}
