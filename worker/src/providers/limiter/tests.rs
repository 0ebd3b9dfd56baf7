//! Turns at models over the store in memory, whose clock the tests move, and servers that refuse.

use std::sync::Mutex;

use futures_util::FutureExt as _;
use serde_json::{Value as Json, json};
use tidemill_common::clock::{ManualClock, Timestamp};
use tidemill_common::nodes::llm::message::Message;
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::{ModelMode, Role};
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::value::JsonMap;

use super::*;
use crate::providers::tests::serve;
use crate::providers::{Model, ModelReply, Providers, Question};

/// Notes why it is to wait, and moves the clock on by that.
struct Moving<'a> {
    name: &'static str,
    clock: &'a ManualClock,
    waits: Mutex<Vec<(u64, String)>>,
}

impl<'a> Moving<'a> {
    fn new(name: &'static str, clock: &'a ManualClock) -> Self {
        Self { name, clock, waits: Mutex::default() }
    }
    fn waits(&self) -> Vec<(u64, String)> {
        self.waits.lock().unwrap().clone()
    }
}

#[async_trait::async_trait]
impl Pace for Moving<'_> {
    fn attempt(&self) -> String {
        self.name.into()
    }
    async fn wait(&self, wait: Duration, reason: &str) {
        self.waits.lock().unwrap().push((wait.as_millis() as u64, reason.into()));
        self.clock.advance(wait);
    }
}

/// Notes why it is to wait, and is never heard of again.
#[derive(Default)]
struct Parked(Mutex<Vec<(u64, String)>>);

#[async_trait::async_trait]
impl Pace for Parked {
    fn attempt(&self) -> String {
        "parked".into()
    }
    async fn wait(&self, wait: Duration, reason: &str) {
        self.0.lock().unwrap().push((wait.as_millis() as u64, reason.into()));
        std::future::pending().await
    }
}

fn shared() -> (Arc<ManualClock>, Arc<MemoryStore>) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_754_339_718_000)));
    (clock.clone(), Arc::new(MemoryStore::new(clock)))
}

/// The model `m` as a worker of its own has it.
fn model(store: &Arc<MemoryStore>, base_url: &str, settings: Json) -> Model {
    let tables = json!({"p": {"base_url": base_url, "api_key": "k", "models": {"m": settings}}});
    let providers = Providers::new(&serde_json::from_value(tables).unwrap(), &|_| None).unwrap();
    providers.taking_turns(Turns(store.clone())).model("p", "m").now_or_never().unwrap().unwrap()
}

fn question() -> Question {
    Question {
        messages: vec![Message::text(Role::User, "hi")],
        params: Params { values: JsonMap::new(), stop: Vec::new() },
        tools: Vec::new(),
        mode: ModelMode::Chat,
        stream: false,
    }
}

async fn ask(model: &Model, pace: &dyn Pace) -> Result<ModelReply, ModelError> {
    model.within(pace, "llm").ask(question(), &mut |_| {}).await
}

fn refusal(retry_after: &str) -> Vec<Vec<u8>> {
    let head = format!("HTTP/1.1 429 Too Many\r\nretry-after: {retry_after}\r\nconnection: close\r\n");
    vec![format!("{head}content-length: 2\r\n\r\n{{}}").into_bytes()]
}

fn reply(headers: &str) -> Vec<Vec<u8>> {
    let body = json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 10},
    });
    let body = body.to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}");
    vec![format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()]
}

#[tokio::test]
async fn a_model_that_refuses_is_left_alone_by_all_workers_until_it_is_due() {
    let (clock, store) = shared();
    let url = serve(vec![refusal("30"), reply(""), reply("")]).await;
    let (one, other) =
        (model(&store, &url, json!({"limits": {}})), model(&store, &url, json!({"limits": {}})));
    let parked = Parked::default();
    tokio::select! {
        reply = ask(&one, &parked) => panic!("it should wait: {reply:?}"),
        () = until_waiting(&parked) => {}
    }
    let why = "the model m of p: its provider asks to wait".to_owned();
    assert_eq!(*parked.0.lock().unwrap(), [(30_000, why.clone())]);
    // A request now would take the next answer of the server, and the clock would stand still.
    let second = Moving::new("second", &clock);
    assert_eq!(ask(&other, &second).await.unwrap().text, "ok");
    assert_eq!(second.waits(), [(30_000, why)]);
    assert_eq!(ask(&one, &parked).await.unwrap().text, "ok", "the parked job goes on when it is due");
}

async fn until_waiting(parked: &Parked) {
    while parked.0.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_call_that_is_refused_too_often_fails_as_without_limits() {
    let (clock, store) = shared();
    let url = serve(vec![refusal("2"), refusal("3"), refusal("4")]).await;
    let model = model(&store, &url, json!({"limits": {"refusals_max": 2}}));
    let pace = Moving::new("a", &clock);
    let error = ask(&model, &pace).await.unwrap_err();
    assert_eq!((error.class, error.retry_after_ms), (ErrorClass::RateLimit, Some(4000)));
    assert_eq!(pace.waits().iter().map(|(ms, _)| *ms).collect::<Vec<_>>(), [2000, 3000]);
}

#[tokio::test]
async fn a_used_up_quota_is_not_waited_for() {
    let (clock, store) = shared();
    let body = r#"{"error":{"code":"insufficient_quota"}}"#;
    let head = "HTTP/1.1 429 Too Many\r\nconnection: close\r\ncontent-length: ";
    let url = serve(vec![vec![format!("{head}{}\r\n\r\n{body}", body.len()).into_bytes()]]).await;
    let pace = Moving::new("a", &clock);
    let error = ask(&model(&store, &url, json!({"limits": {}})), &pace).await.unwrap_err();
    assert_eq!((error.class, pace.waits()), (ErrorClass::RateLimit, Vec::new()));
}

#[tokio::test]
async fn calls_wait_for_their_turn_and_tokens_are_counted_as_they_were() {
    let (clock, store) = shared();
    let url = serve(vec![reply(""), reply("")]).await;
    // Four tokens short of two replies.
    let settings =
        json!({"max_tokens_default": 1, "limits": {"tokens_per_minute": 60, "requests_per_minute": 600}});
    let model = model(&store, &url, settings);
    let pace = Moving::new("a", &clock);
    ask(&model, &pace).await.unwrap();
    let second = Moving::new("b", &clock);
    until_given(&store).await;
    // 20 of 60 are left, so this one goes; what it takes is a debt.
    ask(&model, &second).await.unwrap();
    until_given(&store).await;
    let third = Moving::new("c", &clock);
    let turn = model.limited_for_tests().turn(&third, "llm", 1).await;
    let why = "the model m of p: no more than 60 tokens a minute".to_owned();
    assert_eq!(third.waits(), [(21_000, why)], "20 of debt, and one");
    drop(turn);
}

#[tokio::test]
async fn what_a_provider_says_is_left_is_all_that_any_worker_has() {
    let (clock, store) = shared();
    let url = serve(vec![reply("x-ratelimit-remaining-requests: 0\r\n")]).await;
    let model = model(&store, &url, json!({"limits": {"requests_per_minute": 600}}));
    ask(&model, &Moving::new("a", &clock)).await.unwrap();
    until_given(&store).await;
    let second = Moving::new("b", &clock);
    drop(model.limited_for_tests().turn(&second, "llm", 1).await);
    assert_eq!(second.waits(), [(100, "the model m of p: no more than 600 requests a minute".to_owned())]);
}

/// What a call took is told in the background.
async fn until_given(_: &Arc<MemoryStore>) {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_turn_of_a_call_that_is_dropped_is_free_for_others() {
    let (clock, store) = shared();
    let limited = model(&store, "http://127.0.0.1:1/v1", json!({"limits": {"concurrency": 1}}));
    let limited = limited.limited_for_tests();
    let (first, second) = (Moving::new("a", &clock), Moving::new("b", &clock));
    let turn = limited.turn(&first, "llm", 1).await;
    let parked = Parked::default();
    tokio::select! {
        _ = limited.turn(&parked, "llm", 1) => panic!("there is one place"),
        () = until_waiting(&parked) => {}
    }
    assert_eq!(parked.0.lock().unwrap()[0].1, "the model m of p: no more than 1 calls at the same time");
    drop(turn);
    until_given(&store).await;
    drop(limited.turn(&second, "llm", 1).await);
    assert_eq!(second.waits(), Vec::new());
}

#[test]
fn only_what_has_limits_in_its_profile_is_limited() {
    let (_, store) = shared();
    let limits = json!({"requests_per_minute": 5});
    for (of_model, of_all, buckets) in [
        (None, None, None),
        (Some(json!({})), None, Some(vec![(true, 0)])),
        (Some(limits.clone()), None, Some(vec![(true, 5)])),
        (None, Some(limits.clone()), Some(vec![(true, 0), (false, 5)])),
        (Some(limits.clone()), Some(limits), Some(vec![(true, 5), (false, 5)])),
    ] {
        let config = |limits: &Option<Json>| -> Option<LimitsConfig> {
            limits.clone().map(|limits| serde_json::from_value(limits).unwrap())
        };
        let (one, all) = (config(&of_model), config(&of_all));
        let limited = Limited::new(&Turns(store.clone()), "p/1", "m", (one.as_ref(), all.as_ref()));
        let found = limited.map(|limited| {
            limited
                .buckets
                .iter()
                .map(|b| (b.model.is_some(), b.bounds.requests_per_minute))
                .collect::<Vec<_>>()
        });
        assert_eq!(found, buckets, "{of_model:?} {of_all:?}");
    }
}

#[test]
fn a_limit_of_nothing_is_a_mistake() {
    for text in [r#"{"requests_per_minute": 0}"#, r#"{"concurrency": -1}"#, r#"{"rpm": 1}"#] {
        assert!(serde_json::from_str::<LimitsConfig>(text).is_err(), "{text}");
    }
}

#[test]
fn an_answer_that_leaves_nothing_makes_the_model_rest_until_the_next_call_can_go() {
    let window = |limit, remaining, reset_ms| RateWindow { limit, remaining, reset_ms };
    let nothing = RateWindow::default();
    for (requests, tokens, ms) in [
        (nothing, nothing, 0),
        (window(Some(60), Some(1), Some(60_000)), nothing, 0),
        (window(Some(60), Some(0), Some(60_000)), nothing, 1000),
        (window(None, Some(0), Some(60_000)), nothing, 60_000),
        (nothing, window(Some(1000), Some(0), Some(60_000)), 6000),
        (nothing, window(Some(50), Some(0), Some(60_000)), 60_000),
        (window(Some(60), Some(0), None), nothing, 0),
    ] {
        let rests = rest(RateFacts { requests, tokens }, 100);
        assert_eq!(rests, Duration::from_millis(ms), "{requests:?} {tokens:?}");
    }
}
