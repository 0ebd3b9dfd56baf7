use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value as Json, json};
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::store::following::Page;

use super::fixtures::{ADMIN, Server, frames, resume};
use crate::api::events::{After, Follower, News};
use crate::stopping::Stage;

fn chunk(text: &str) -> (&'static str, Json) {
    (
        "node_run_stream_chunk",
        json!({"id": "e", "node_id": "end", "selector": ["start", "name"], "chunk": text}),
    )
}

async fn with_run() -> (Server, RunId) {
    let server = Server::start();
    let (app, _) = server.app().await;
    let run = server.run(&app).await;
    (server, run)
}

/// The next news as a short text: entry and numbers of events, old ones in brackets.
async fn next(follower: &mut Follower) -> String {
    match follower.next().await {
        None => "end".into(),
        Some(News::CaughtUp) => "caught up".into(),
        Some(News::Reset) => "reset".into(),
        Some(News::Gone) => "gone".into(),
        Some(News::Silence) => "silence".into(),
        Some(News::Closing) => "closing".into(),
        Some(News::Entry(entry)) => {
            let seqs: Vec<String> = entry.events.events().map(|(event, _)| event.seq.to_string()).collect();
            let told = format!("{} {}", entry.events.id, seqs.join(","));
            if entry.is_old { format!("({told})") } else { told }
        }
    }
}

async fn check(follower: &mut Follower, expected: &[&str]) {
    for expected in expected {
        assert_eq!(next(follower).await, *expected);
    }
}

#[tokio::test]
async fn a_follower_returns_earlier_events_then_live_ones_then_the_end() {
    let (server, run) = with_run().await;
    let store = &server.store;
    store.add_events(run, "1-0", 1, &[("graph_run_started", json!({})), chunk("a")]);
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["1-0 1,2", "caught up"]).await;
    store.add_events(run, "2-0", 3, &[chunk("b")]);
    check(&mut follower, &["2-0 3"]).await;
    store.add_events(run, "2-1", 4, &[("graph_run_succeeded", json!({"outputs": {}}))]);
    check(&mut follower, &["2-1 4", "end", "end"]).await;
}

#[tokio::test]
async fn events_before_the_clients_position_are_old() {
    let (server, run) = with_run().await;
    for (at, entry) in ["1-0", "1-1", "2-0"].iter().enumerate() {
        server.store.add_events(run, entry, at as u64 + 1, &[chunk("x")]);
    }
    let mut follower = Follower::new(&server.state, run, After::Entry(EntryId::new(1, 1)));
    check(&mut follower, &["(1-0 1)", "(1-1 2)", "2-0 3", "caught up"]).await;
    let mut follower = Follower::new(&server.state, run, After::Now);
    check(&mut follower, &["(1-0 1)", "(1-1 2)", "(2-0 3)", "caught up"]).await;
    server.store.add_events(run, "3-0", 4, &[chunk("x")]);
    check(&mut follower, &["3-0 4"]).await;
}

#[tokio::test]
async fn a_client_whose_event_id_is_missing_gets_a_reset_and_all_events() {
    let (server, run) = with_run().await;
    server.store.add_events(run, "5-0", 9, &[chunk("x")]);
    server.store.add_events(run, "7-0", 10, &[chunk("y")]);
    // Trimmed away, lost in the middle, lost at the end.
    for asked in [EntryId::new(2, 0), EntryId::new(6, 0), EntryId::new(9, 0)] {
        let mut follower = Follower::new(&server.state, run, After::Entry(asked));
        let mut told = Vec::new();
        while told.last().is_none_or(|told| told != "caught up") {
            told.push(next(&mut follower).await);
        }
        told.retain(|told| !told.starts_with('('));
        assert_eq!(told, ["reset", "5-0 9", "7-0 10", "caught up"], "{asked}");
    }
}

#[tokio::test]
async fn a_gap_in_the_numbers_causes_one_reset() {
    let (server, run) = with_run().await;
    server.store.add_events(run, "1-0", 1, &[chunk("x")]);
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["1-0 1", "caught up"]).await;
    server.store.add_events(run, "2-0", 5, &[chunk("y")]);
    check(&mut follower, &["reset", "1-0 1", "2-0 5", "caught up"]).await;
}

#[tokio::test]
async fn lost_writes_are_noticed_even_when_new_events_get_smaller_ids() {
    let (server, run) = with_run().await;
    server.store.add_events(run, "1-0", 1, &[chunk("x")]);
    server.store.add_events(run, "2-0", 2, &[chunk("lost")]);
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["1-0 1", "2-0 2", "caught up"]).await;
    server.store.lock().events.get_mut(&run).unwrap().truncate(1);
    server.store.add_events(run, "1-5", 2, &[chunk("instead")]);
    check(&mut follower, &["reset", "1-0 1", "1-5 2", "caught up"]).await;
}

#[tokio::test]
async fn of_large_entries_few_are_held_at_once() {
    let (server, run) = with_run().await;
    let limit = server.state.config.scheduler.stream_buffer_bytes;
    let text = "x".repeat(limit / 3);
    let mut expected = Vec::new();
    for seq in 1..=20 {
        server.store.add_events(run, &format!("{seq}-0"), seq, &[chunk(&text)]);
        expected.push(format!("{seq}-0 {seq}"));
    }
    expected.push("caught up".to_string());
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &expected.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let reads = server.store.reads.load(Ordering::Relaxed);
    assert!((10..=40).contains(&reads), "two or so at once: {reads} reads");
}

/// Shares the stored events after an entry with all followers.
fn share(server: &Server, run: RunId, after: EntryId) {
    let events = server.store.lock().events.get(&run).cloned().unwrap_or_default();
    let entries = events.into_iter().filter(|entry| entry.id > after).map(Arc::new).collect();
    server.store.followed.publish(Some(Arc::new(Page { after, entries, is_whole: true })));
}

#[tokio::test]
async fn a_follower_does_not_read_entries_that_were_shared_with_it() {
    let (server, run) = with_run().await;
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["caught up"]).await;
    let reads = || server.store.reads.load(Ordering::Relaxed);
    let before = reads();
    server.store.add_events(run, "1-0", 1, &[chunk("a")]);
    share(&server, run, EntryId::ZERO);
    check(&mut follower, &["1-0 1"]).await;
    server.store.add_events(run, "2-0", 2, &[chunk("b")]);
    server.store.add_events(run, "2-1", 3, &[chunk("c")]);
    // From an earlier entry, because another follower has not come as far.
    share(&server, run, EntryId::ZERO);
    check(&mut follower, &["2-0 2", "2-1 3"]).await;
    server.store.add_events(run, "3-0", 4, &[("graph_run_succeeded", json!({"outputs": {}}))]);
    share(&server, run, EntryId::new(2, 1));
    check(&mut follower, &["3-0 4", "end"]).await;
    assert_eq!(reads(), before);
}

#[tokio::test]
async fn a_follower_reads_entries_when_it_missed_a_shared_page() {
    let (server, run) = with_run().await;
    server.store.add_events(run, "1-0", 1, &[chunk("a")]);
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["1-0 1", "caught up"]).await;
    assert_eq!(server.store.followed.reached(), Some(EntryId::new(1, 0)));
    server.store.add_events(run, "2-0", 2, &[chunk("b")]);
    share(&server, run, EntryId::new(1, 0));
    server.store.add_events(run, "3-0", 3, &[chunk("c")]);
    share(&server, run, EntryId::new(2, 0));
    check(&mut follower, &["2-0 2", "3-0 3"]).await;
    assert_eq!(server.store.followed.reached(), Some(EntryId::new(3, 0)));
}

#[tokio::test]
async fn a_shared_page_after_lost_writes_causes_a_reset() {
    let (server, run) = with_run().await;
    server.store.add_events(run, "1-0", 1, &[chunk("a")]);
    server.store.add_events(run, "2-0", 2, &[chunk("lost")]);
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["1-0 1", "2-0 2", "caught up"]).await;
    server.store.lock().events.get_mut(&run).unwrap().truncate(1);
    server.store.add_events(run, "3-0", 2, &[chunk("instead")]);
    share(&server, run, EntryId::new(2, 0));
    check(&mut follower, &["reset", "1-0 1", "3-0 2", "caught up"]).await;
}

#[tokio::test]
async fn a_stream_goes_on_while_its_process_drains_and_says_that_it_ends_before_its_run() {
    let (server, run) = with_run().await;
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["caught up"]).await;
    server.shutdown.send(Stage::Draining).unwrap();
    server.store.add_events(run, "1-0", 1, &[chunk("a")]);
    check(&mut follower, &["1-0 1"]).await;
    let (told, ()) =
        tokio::join!(next(&mut follower), async { server.shutdown.send(Stage::Closing).unwrap() });
    assert_eq!(told, "closing");
    check(&mut follower, &["end"]).await;
}

#[tokio::test(start_paused = true)]
async fn silence_is_reported_every_ten_seconds_until_the_stream_ends() {
    let (server, run) = with_run().await;
    let began = tokio::time::Instant::now();
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["caught up", "silence"]).await;
    assert_eq!(began.elapsed().as_secs(), 10);
    while next(&mut follower).await == "silence" {}
    assert_eq!(began.elapsed().as_secs(), server.state.config.scheduler.stream_idle_seconds);
}

#[tokio::test]
async fn our_own_stream_contains_the_engines_events_completely() {
    let (server, run) = with_run().await;
    server.store.add_events(
        run,
        "1-0",
        1,
        &[("graph_run_started", json!({})), ("node_run_started", json!({"id": "e", "node_id": "start"}))],
    );
    server.store.add_events(run, "2-0", 3, &[("graph_run_succeeded", json!({"outputs": {"text": "Ada"}}))]);
    let path = format!("/api/v1/runs/{run}/events");
    let answer = server.get(ADMIN, &path).await;
    let told = frames(&answer.text);
    let heads: Vec<_> = told.iter().map(|(id, event, _)| (*id, event.unwrap())).collect();
    assert_eq!(
        heads,
        [
            (None, "graph_run_started"),
            (Some("1-0"), "node_run_started"),
            (Some("2-0"), "graph_run_succeeded")
        ]
    );
    let started = &told[1].2;
    assert_eq!(
        (&started["type"], &started["id"], &started["seq"]),
        (&json!("node_run_started"), &json!("1-0"), &json!(2))
    );
    assert_eq!(
        (&started["data"]["node_title"], &started["run_id"]),
        (&json!("Begin"), &json!(run.to_string()))
    );

    let behind = server.ask(resume(ADMIN, &path, "1-0")).await;
    assert_eq!(frames(&behind.text).len(), 1);
    let behind = server.get(ADMIN, &format!("{path}?after=1-0")).await;
    assert_eq!(frames(&behind.text).len(), 1);
    let gone = server.ask(resume(ADMIN, &path, "1-7")).await;
    assert_eq!(frames(&gone.text)[0].1, Some("reset"));
    assert_eq!(frames(&gone.text).len(), 4);
}

#[tokio::test]
async fn stored_events_can_be_read_without_following() {
    let (server, run) = with_run().await;
    server.store.add_events(run, "1-0", 1, &[("graph_run_started", json!({}))]);
    let answer = server.get(ADMIN, &format!("/api/v1/runs/{run}/events?follow=false")).await;
    assert_eq!(frames(&answer.text).len(), 1);
    let odd = server.get(ADMIN, &format!("/api/v1/runs/{run}/events?follow=perhaps")).await;
    assert_eq!(odd.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_follower_is_told_once_that_its_run_no_longer_exists() {
    let (server, run) = with_run().await;
    server.store.add_events(run, "1-0", 1, &[chunk("a")]);
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["1-0 1", "caught up"]).await;
    let fields = server.store.lock().fields.remove(&run).expect("the run exists");
    server.store.lock().events.remove(&run);
    check(&mut follower, &["gone", "end"]).await;

    // A run without events exists, however long it waits for the first one.
    server.store.lock().fields.insert(run, fields);
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["caught up", "silence", "silence"]).await;
    server.store.lock().fields.remove(&run);
    check(&mut follower, &["gone", "end"]).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_comes_back_between_two_looks_is_not_gone() {
    let (server, run) = with_run().await;
    server.store.add_events(run, "1-0", 1, &[chunk("a")]);
    server.store.add_events(run, "2-0", 2, &[chunk("b")]);
    let mut follower = Follower::new(&server.state, run, After::Start);
    check(&mut follower, &["1-0 1", "2-0 2", "caught up"]).await;
    let fields = server.store.lock().fields.remove(&run).expect("the run exists");
    server.store.lock().events.get_mut(&run).expect("it has events").pop();
    let store = server.store.clone();
    let back = tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
        store.lock().fields.insert(run, fields);
    });
    check(&mut follower, &["reset", "1-0 1", "caught up"]).await;
    back.await.expect("it has come back");
}
