//! Tests of permits for models with the in-memory store, whose clock the tests move, and servers that refuse.

use std::sync::Mutex;

use futures_util::FutureExt as _;
use serde_json::{Value as Json, json};
use tidemill_common::clock::{ManualClock, Timestamp};
use tidemill_common::files::FilesError;
use tidemill_common::nodes::llm::message::Message;
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::{ModelMode, Role};
use tidemill_common::store::memory::MemoryStore;
use tidemill_common::value::JsonMap;

use crate::outside::providers::limiter::*;
use crate::outside::providers::tests::serve;
use crate::outside::providers::{Model, ModelReply, Providers, Question};

/// Records the reason of each wait and moves the clock by its length.
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
impl Waiter for Moving<'_> {
    fn attempt(&self) -> String {
        self.name.into()
    }
    async fn wait(&self, wait: Duration, reason: &str) {
        self.waits.lock().unwrap().push((wait.as_millis() as u64, reason.into()));
        self.clock.advance(wait);
    }
    async fn check_file(&self, _reference: &str) -> Result<(), FilesError> {
        Ok(())
    }
}

/// Records the reason of each wait and never returns, like a parked job.
#[derive(Default)]
struct Parked(Mutex<Vec<(u64, String)>>);

#[async_trait::async_trait]
impl Waiter for Parked {
    fn attempt(&self) -> String {
        "parked".into()
    }
    async fn wait(&self, wait: Duration, reason: &str) {
        self.0.lock().unwrap().push((wait.as_millis() as u64, reason.into()));
        std::future::pending().await
    }
    async fn check_file(&self, _reference: &str) -> Result<(), FilesError> {
        Ok(())
    }
}

fn shared() -> (Arc<ManualClock>, Arc<MemoryStore>) {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_754_339_718_000)));
    (clock.clone(), Arc::new(MemoryStore::new(clock)))
}

/// The model `m` as a separate worker sees it.
fn model(store: &Arc<MemoryStore>, base_url: &str, settings: Json) -> Model {
    let tables = json!({"p": {"base_url": base_url, "api_key": "k", "models": {"m": settings}}});
    let providers = Providers::new(&serde_json::from_value(tables).unwrap(), &|_| None).unwrap();
    providers.with_call_permits(CallPermits(store.clone())).model("p", "m").now_or_never().unwrap().unwrap()
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

async fn ask(model: &Model, waiter: &dyn Waiter) -> Result<ModelReply, ModelError> {
    model.for_job(waiter, "llm").ask(question(), &mut |_| {}).await
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
    // A request now would consume the server's next answer, and the clock would not move.
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
    let waiter = Moving::new("a", &clock);
    let error = ask(&model, &waiter).await.unwrap_err();
    assert_eq!((error.class, error.retry_after_ms), (ErrorClass::RateLimit, Some(4000)));
    assert_eq!(waiter.waits().iter().map(|(ms, _)| *ms).collect::<Vec<_>>(), [2000, 3000]);
}

#[tokio::test]
async fn a_used_up_quota_is_not_waited_for() {
    let (clock, store) = shared();
    let body = r#"{"error":{"code":"insufficient_quota"}}"#;
    let head = "HTTP/1.1 429 Too Many\r\nconnection: close\r\ncontent-length: ";
    let url = serve(vec![vec![format!("{head}{}\r\n\r\n{body}", body.len()).into_bytes()]]).await;
    let waiter = Moving::new("a", &clock);
    let error = ask(&model(&store, &url, json!({"limits": {}})), &waiter).await.unwrap_err();
    assert_eq!((error.class, waiter.waits()), (ErrorClass::RateLimit, Vec::new()));
}

#[tokio::test]
async fn calls_wait_for_their_turn_and_tokens_are_counted_as_they_were() {
    let (clock, store) = shared();
    let url = serve(vec![reply(""), reply("")]).await;
    // Four tokens fewer than two replies need.
    let settings =
        json!({"max_tokens_default": 1, "limits": {"tokens_per_minute": 60, "requests_per_minute": 600}});
    let model = model(&store, &url, settings);
    let waiter = Moving::new("a", &clock);
    ask(&model, &waiter).await.unwrap();
    let second = Moving::new("b", &clock);
    until_given(&store).await;
    // 20 of 60 are left, so this call may run and leaves a debt.
    ask(&model, &second).await.unwrap();
    until_given(&store).await;
    let third = Moving::new("c", &clock);
    let call = model.limited_for_tests().new_call(&third, "llm", 1);
    let permit = call.permit().await;
    let why = "the model m of p: no more than 60 tokens a minute".to_owned();
    assert_eq!(third.waits(), [(21_000, why)], "20 of debt, and one");
    drop(permit);
}

#[tokio::test]
async fn what_a_provider_says_is_left_is_all_that_any_worker_has() {
    let (clock, store) = shared();
    let url = serve(vec![reply("x-ratelimit-remaining-requests: 0\r\n")]).await;
    let model = model(&store, &url, json!({"limits": {"requests_per_minute": 600}}));
    ask(&model, &Moving::new("a", &clock)).await.unwrap();
    until_given(&store).await;
    let second = Moving::new("b", &clock);
    drop(model.limited_for_tests().new_call(&second, "llm", 1).permit().await);
    assert_eq!(second.waits(), [(100, "the model m of p: no more than 600 requests a minute".to_owned())]);
}

/// Waits until the background task has reported a call's cost.
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
    let call = limited.new_call(&first, "llm", 1);
    let permit = call.permit().await;
    let parked = Parked::default();
    let waiting = limited.new_call(&parked, "llm", 1);
    tokio::select! {
        _ = waiting.permit() => panic!("there is one place"),
        () = until_waiting(&parked) => {}
    }
    assert_eq!(parked.0.lock().unwrap()[0].1, "the model m of p: no more than 1 calls at the same time");
    drop(permit);
    until_given(&store).await;
    drop(limited.new_call(&second, "llm", 1).permit().await);
    assert_eq!(second.waits(), Vec::new());
}

#[test]
fn only_what_has_limits_in_its_profile_is_limited() {
    let (_, store) = shared();
    let limits = json!({"requests_per_minute": 5});
    for (of_model, of_all, bounded, buckets) in [
        (None, None, false, vec![(true, 0)]),
        (Some(json!({})), None, true, vec![(true, 0)]),
        (Some(limits.clone()), None, true, vec![(true, 5)]),
        (None, Some(limits.clone()), true, vec![(true, 0), (false, 5)]),
        (Some(limits.clone()), Some(limits), true, vec![(true, 5), (false, 5)]),
    ] {
        let config = |limits: &Option<Json>| -> Option<LimitsConfig> {
            limits.clone().map(|limits| serde_json::from_value(limits).unwrap())
        };
        let (one, all) = (config(&of_model), config(&of_all));
        let tables = (one.as_ref(), all.as_ref());
        let limited =
            Limited::new(&CallPermits(store.clone()), ("p/1", "p"), "m", tables, (2, &Arc::default()));
        let found: Vec<_> =
            limited.buckets.iter().map(|b| (b.model.is_some(), b.bounds.requests_per_minute)).collect();
        assert_eq!((limited.bounded, found), (bounded, buckets), "{of_model:?} {of_all:?}");
    }
}

fn failure(status: u16, headers: &str) -> Vec<Vec<u8>> {
    let head = format!("HTTP/1.1 {status} Oh\r\n{headers}connection: close\r\ncontent-length: 2\r\n\r\n{{}}");
    vec![head.into_bytes()]
}

#[tokio::test]
async fn a_model_without_limits_is_waited_for_as_a_job_waits() {
    for status in [429, 503, 529] {
        let (clock, store) = shared();
        let url = serve(vec![failure(status, "retry-after: 30\r\n"), reply("")]).await;
        let model = model(&store, &url, json!({}));
        let parked = Parked::default();
        tokio::select! {
            reply = ask(&model, &parked) => panic!("it should wait: {reply:?}"),
            () = until_waiting(&parked) => {}
        }
        let why = "the model m of p: its provider asks to wait".to_owned();
        assert_eq!(*parked.0.lock().unwrap(), [(30_000, why.clone())], "{status}");
        // Other calls of this worker learn of the wait and send no request.
        let second = Moving::new("second", &clock);
        assert_eq!(ask(&model, &second).await.unwrap().text, "ok");
        assert_eq!(second.waits(), [(30_000, why)], "{status}");
    }
}

/// A waiter of a node inside another, which counts its tries itself.
struct Inside<'a>(Moving<'a>);

#[async_trait::async_trait]
impl Waiter for Inside<'_> {
    fn attempt(&self) -> String {
        self.0.attempt()
    }
    async fn wait(&self, wait: Duration, reason: &str) {
        self.0.wait(wait, reason).await;
    }
    fn leaves_tries(&self) -> bool {
        false
    }
    async fn check_file(&self, _reference: &str) -> Result<(), FilesError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_call_inside_another_node_makes_no_tries_of_its_own_and_waits_only_for_set_limits() {
    let no_waits: &[u64] = &[];
    for (answers, settings, is_answered, waits) in [
        (vec![failure(500, ""), reply("")], json!({}), false, no_waits),
        (vec![refusal("2"), reply("")], json!({}), false, no_waits),
        (vec![failure(500, ""), reply("")], json!({"limits": {}}), false, no_waits),
        (vec![refusal("2"), reply("")], json!({"limits": {}}), true, &[2000]),
    ] {
        let (clock, store) = shared();
        let model = model(&store, &serve(answers).await, settings.clone());
        let waiter = Inside(Moving::new("a", &clock));
        assert_eq!(ask(&model, &waiter).await.is_ok(), is_answered, "{settings}");
        assert_eq!(waiter.0.waits().iter().map(|(ms, _)| *ms).collect::<Vec<_>>(), waits, "{settings}");
    }
}

#[tokio::test]
async fn tries_of_a_model_without_limits_are_counted_over_all_workers() {
    let (clock, store) = shared();
    let long = || failure(503, "retry-after: 7\r\n");
    let url = serve(vec![failure(500, ""), long(), long(), reply("")]).await;
    // Each delivery of the job goes to a new worker, which does not know the earlier one.
    for waits in [vec![7000], vec![7000]] {
        let parked = Parked::default();
        let elsewhere = model(&store, &url, json!({}));
        let waiter = Patient { parked: &parked, clock: &clock };
        tokio::select! {
            reply = ask(&elsewhere, &waiter) => {
                let error = reply.unwrap_err();
                assert_eq!((error.class, error.retry_after_ms), (ErrorClass::ServerUnavailable, Some(7000)));
                return;
            }
            () = until_waiting(&parked) => {}
        }
        let said: Vec<u64> = parked.0.lock().unwrap().iter().map(|(ms, _)| *ms).collect();
        assert_eq!(said, waits);
        clock.advance(Duration::from_secs(7));
    }
    panic!("the third failure is one too many (max_retries)");
}

/// Passes short waits by moving the clock, and parks for long ones.
struct Patient<'a> {
    parked: &'a Parked,
    clock: &'a ManualClock,
}

#[async_trait::async_trait]
impl Waiter for Patient<'_> {
    fn attempt(&self) -> String {
        "parked".into()
    }
    async fn wait(&self, wait: Duration, reason: &str) {
        if wait > Duration::from_secs(1) {
            return self.parked.wait(wait, reason).await;
        }
        self.clock.advance(wait);
    }
    async fn check_file(&self, _reference: &str) -> Result<(), FilesError> {
        Ok(())
    }
}

#[tokio::test]
async fn a_model_without_limits_that_never_fails_costs_no_request_to_the_store() {
    let (_, store) = shared();
    let url = serve(vec![reply("")]).await;
    let model = model(&store, &url, json!({}));
    let parked = Parked::default();
    let call = model.limited_for_tests().new_call(&parked, "llm", 1);
    assert!(call.permit().await.over, "nothing was taken, so nothing is given back");
    assert_eq!(ask(&model, &parked).await.unwrap().text, "ok");
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
