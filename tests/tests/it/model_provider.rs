//! The worker's model client against the mock, over real HTTP: streams, usage, failures, retries.

#![allow(
    clippy::unwrap_used,
    reason = "everything here is a test; clippy only knows that of functions with #[test]"
)]

use std::borrow::Cow;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use tidemill_common::config::HttpConfig;
use tidemill_common::dsl::Problems;
use tidemill_common::files::FilesError;
use tidemill_common::files::Folder;
use tidemill_common::graph::{Node, NodeSettings, RetryConfig};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::nodes::evaluate::UndefinedNames;
use tidemill_common::nodes::llm::LlmData;
use tidemill_common::nodes::question_classifier::QuestionClassifierData;
use tidemill_common::nodes::{NodeData, NodeKind, NodeResult};
use tidemill_common::value::{Lookup, Segment, Variables};
use tidemill_mock_llm::{MockLlm, Rules, Running, rules};
use tidemill_worker::nodes::model_files::FileStore;
use tidemill_worker::nodes::{llm, question_classifier};
use tidemill_worker::outside::http::Http;
use tidemill_worker::outside::providers::limiter::Waiter;
use tidemill_worker::outside::providers::{Providers, ProvidersConfig};

async fn start(rules: Rules) -> Running {
    MockLlm::start(rules, SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap()
}

async fn mock(document: Json) -> Running {
    start(rules::parse(&document).unwrap()).await
}

/// Variables of the node `start`.
struct Start(Vec<(&'static str, Segment)>);
impl Variables for Start {
    fn variable(&self, node: &str, name: &str) -> Lookup<'_> {
        let found = self.0.iter().find(|(key, _)| node == "start" && *key == name);
        found.map_or(Lookup::Missing, |(_, segment)| Lookup::Found(Cow::Borrowed(segment)))
    }
    fn names(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(key, _)| ("start".into(), (*key).into())).collect()
    }
}

/// A call of the node: the settings of the profile besides the address, and the prompt.
struct Call {
    profile: Json,
    text: &'static str,
    params: Json,
}

impl Call {
    fn of(text: &'static str) -> Self {
        Self { profile: json!({}), text, params: json!({}) }
    }

    /// Runs the node against the mock; returns the streamed pieces and the result.
    async fn run(self, mock: &Running) -> (Vec<String>, NodeResult) {
        let mut profile = self.profile;
        profile["base_url"] = json!(mock.base_url());
        let config: ProvidersConfig = serde_json::from_value(json!({"default": profile})).unwrap();
        let providers = Providers::new(&config, &|_| None).unwrap();
        let data = json!({
            "model": {"provider": "acme/llm/chat", "name": "mock-chat", "mode": "chat", "completion_params": self.params},
            "prompt_template": [{"role": "user", "text": self.text}],
            "context": {"enabled": false}
        });
        let data = LlmData::parse(data.as_object().unwrap(), &mut Problems::new()).unwrap();
        let variables = Start(vec![("q", Segment::string("tea"))]);
        let mut pieces = Vec::new();
        let mut on_delta = |piece: &str| pieces.push(piece.to_owned());
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::at(&format!("file://{}", folder.path().display())).unwrap();
        let (http, run) = (Http::new(&HttpConfig::default()).unwrap(), RunId::generate(ShardId(0)));
        let means = llm::Means {
            file_store: FileStore { run: &run, http: &http, files: &files },
            undefined: UndefinedNames::Empty,
            providers: &providers,
            waiter: &Unhurried,
            on_delta: &mut on_delta,
            on_thought: &mut |_, _| {},
            warn: &|_| {},
            emit: &|_, _| {},
        };
        let result = llm::run(&data, &node(), &variables, means).await;
        (pieces, result)
    }
}

/// A client without limits.
struct Unhurried;

#[async_trait::async_trait]
impl Waiter for Unhurried {
    fn attempt(&self) -> String {
        "e/1".into()
    }
    async fn wait(&self, wait: std::time::Duration, _: &str) {
        tokio::time::sleep(wait).await;
    }
    async fn check_file(&self, _: &str) -> Result<(), FilesError> {
        Ok(())
    }
}

fn node() -> Node {
    Node {
        id: "m".into(),
        kind: NodeKind::Llm,
        title: String::new(),
        version: "1".into(),
        data: NodeData::IterationStart,
        error_strategy: None,
        retry: RetryConfig::default(),
        settings: NodeSettings::default(),
        chooses: false,
        ins: Vec::new(),
        outs: Vec::new(),
        parent: None,
        loop_id: None,
        mentions: Vec::new(),
        gives_context: false,
        work: None,
        children: Vec::new(),
        child: None,
        quoted: Default::default(),
    }
}

fn output<'a>(result: &'a NodeResult, name: &str) -> &'a Json {
    &result.outputs.iter().find(|(key, _)| key == name).unwrap().1.value
}

fn failure(result: &NodeResult) -> (&str, &str) {
    let failure = result.failure.as_ref().unwrap();
    (&failure.error_type, &failure.message)
}

#[tokio::test]
async fn text_streams_piece_by_piece_and_the_result_has_everything() {
    let mock =
        mock(json!([{"chunks": ["one ", "two"], "usage": {"prompt_tokens": 100, "completion_tokens": 10}}]))
            .await;
    let pricing = json!({"input": "2.5", "output": "10", "unit": "0.000001"});
    let profile = json!({"models": {"mock-chat": {"pricing": pricing}}});
    let (pieces, result) = Call { profile, ..Call::of("About {{#start.q#}}") }.run(&mock).await;
    assert_eq!(result.failure, None);
    assert_eq!(pieces, ["one ", "two"]);
    let names: Vec<&str> = result.outputs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["text", "reasoning_content", "usage", "finish_reason"]);
    assert_eq!(output(&result, "text"), "one two");
    assert_eq!(output(&result, "finish_reason"), "stop");
    let usage = output(&result, "usage");
    assert_eq!(
        (&usage["total_tokens"], &usage["total_price"], &usage["prompt_price"]),
        (&json!(110), &json!("0.0003500"), &json!("0.0002500"))
    );
    assert!(usage["time_to_first_token"].is_f64() && usage["latency"].is_f64());
    assert_eq!(
        Json::Object(result.metadata.clone()),
        json!({"total_tokens": 110, "total_price": "0.0003500", "currency": "USD"})
    );
    assert_eq!(result.process_data["model_provider"], "acme/llm/chat");
    assert_eq!(result.process_data["model_mode"], "chat");
    assert_eq!(result.process_data["prompts"], json!([{"role": "user", "text": "About tea", "files": []}]));
    assert_eq!(mock.requests()[0]["messages"], json!([{"role": "user", "content": "About tea"}]));
    assert_eq!(result.usage.unwrap().total_tokens, 110);
}

#[tokio::test]
async fn parameters_are_sent_as_fields_of_the_request() {
    let mock = mock(json!([{"echo": "params"}])).await;
    let params = json!({"stop": ["END"], "temperature": "0.{{#start.q#}}", "max_tokens": 5, "seed": 1});
    let model = json!({"param_map": {"max_tokens": "max_completion_tokens"}, "drop_params": ["seed"]});
    let call = Call { profile: json!({"models": {"mock-chat": model}}), params, ..Call::of("x") };
    let (_, result) = call.run(&mock).await;
    assert_eq!(
        output(&result, "text"),
        r#"{"max_completion_tokens":5,"stop":["END"],"temperature":"0.tea"}"#
    );
}

#[tokio::test]
async fn failures_have_difys_class_and_the_providers_message() {
    for (status, error_type, text) in [
        (400, "InvokeBadRequestError", "[chat] Bad Request Error, HTTP 400: told so"),
        (
            401,
            "InvokeAuthorizationError",
            "[chat] Incorrect model credentials provided, please check and try again, HTTP 401: told so",
        ),
        (429, "InvokeRateLimitError", "[chat] Rate Limit Error, HTTP 429: told so"),
        (500, "InvokeServerUnavailableError", "[chat] Server Unavailable Error, HTTP 500: told so"),
    ] {
        let mock = mock(json!([{"status": status, "error": "told so"}])).await;
        let (pieces, result) = Call { profile: json!({"max_retries": 0}), ..Call::of("x") }.run(&mock).await;
        assert_eq!(failure(&result), (error_type, text));
        assert!(pieces.is_empty() && result.outputs.is_empty());
        assert_eq!(result.inputs.len(), 2, "provider and name are known");
        assert_eq!(mock.requests().len(), 1);
    }
    let (_, result) =
        Call { profile: json!({"max_retries": 0}), ..Call::of("x") }.run(&mock(json!([])).await).await;
    assert_eq!(failure(&result).1, "[chat] Bad Request Error, HTTP 404: no mock rule matches");
}

#[tokio::test]
async fn a_temporary_failure_is_retried_after_the_time_that_the_server_asks_for() {
    let rule = json!({"fail_times": 1, "status": 429, "error": "slow down", "headers": {"Retry-After": "0.2"}, "reply": "ok"});
    let mock = mock(json!([rule])).await;
    let began = Instant::now();
    let (pieces, result) = Call::of("x").run(&mock).await;
    assert_eq!((pieces.concat().as_str(), result.failure), ("ok", None));
    assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
    assert_eq!(mock.requests().len(), 2);
}

#[tokio::test]
async fn a_server_error_followed_by_success_is_no_failure() {
    let headers = json!({"retry-after-ms": "1"});
    let mock =
        mock(json!([{"fail_times": 2, "status": 500, "headers": headers, "reply": "recovered"}])).await;
    let (_, result) = Call::of("x").run(&mock).await;
    assert_eq!(output(&result, "text"), "recovered");
    assert_eq!(mock.requests().len(), 3);
}

#[tokio::test]
async fn a_long_wait_is_reported_and_not_slept() {
    let mock = mock(json!([{"status": 429, "error": "later", "headers": {"Retry-After": "120"}}])).await;
    let (_, result) = Call::of("x").run(&mock).await;
    let failure = result.failure.unwrap();
    assert_eq!((failure.retryable, failure.retry_after_ms), (true, Some(120_000)));
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn a_stream_that_breaks_off_fails_once_and_keeps_the_streamed_text() {
    let mock = mock(json!([{"chunks": ["part one ", "part two"], "break_stream": true}])).await;
    let (pieces, result) = Call::of("x").run(&mock).await;
    assert_eq!(pieces, ["part one ", "part two"]);
    assert_eq!(
        failure(&result),
        ("InvokeConnectionError", "[chat] Connection Error, the reply broke off before its end")
    );
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn a_slow_stream_is_read_to_its_end_when_each_piece_comes_in_time() {
    let chunks = json!(["a", "b", "c", "d"]);
    let quick = mock(json!([{"chunks": chunks, "chunk_delay_ms": 50}])).await;
    let (pieces, result) =
        Call { profile: json!({"read_timeout_ms": 5000}), ..Call::of("x") }.run(&quick).await;
    assert_eq!((pieces.len(), result.failure), (4, None));
    let slow = mock(json!([{"chunks": chunks, "chunk_delay_ms": 10_000}])).await;
    let (pieces, result) =
        Call { profile: json!({"read_timeout_ms": 500}), ..Call::of("x") }.run(&slow).await;
    assert_eq!((pieces.concat().as_str(), failure(&result).0), ("a", "InvokeConnectionError"));
}

#[tokio::test]
async fn silence_before_the_answer_is_retried_once() {
    let mock = mock(json!([{"delay_ms": 5000, "reply": "late"}])).await;
    let (_, result) =
        Call { profile: json!({"read_timeout_ms": 250, "max_retries": 5}), ..Call::of("x") }.run(&mock).await;
    assert_eq!(failure(&result).0, "InvokeConnectionError");
    assert_eq!(mock.requests().len(), 2);
}

#[tokio::test]
async fn without_rules_the_mock_repeats_the_prompt_and_lists_its_requests() {
    let mock = start(Rules::Friendly).await;
    let (pieces, _) = Call::of("good {{#start.q#}}").run(&mock).await;
    assert_eq!(pieces, ["You ", "said: ", "good ", "tea"]);
    let get = async |path: &str| {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        client.get(format!("http://{}{path}", mock.addr())).send().await.unwrap().text().await.unwrap()
    };
    assert_eq!(get("/health").await, "ok");
    let requests: Json = serde_json::from_str(&get("/requests").await).unwrap();
    assert_eq!(
        (&requests[0]["path"], &requests[0]["model"]),
        (&json!("/v1/chat/completions"), &json!("mock-chat"))
    );
    let models: Json = serde_json::from_str(&get("/v1/models").await).unwrap();
    assert_eq!(models["data"][0]["id"], "mock-chat");
    mock.stop().await;
}

#[tokio::test]
async fn a_picture_that_a_model_makes_is_stored_and_linked_at_its_place() {
    let url = "data:image/png;base64,Ynl0ZXM=";
    let mock = mock(json!([{"chunks": ["Here ", "it is: "], "images": [url]}])).await;
    let (pieces, result) = Call::of("draw").run(&mock).await;
    let output = |name: &str| result.outputs.iter().find(|(known, _)| known == name).map(|(_, it)| it);
    let files = output("files").unwrap().value.clone();
    let reference = files[0]["reference"].as_str().unwrap();
    assert_eq!((files.as_array().unwrap().len(), &files[0]["type"]), (1, &json!("image")));
    assert_eq!(output("text").unwrap().text(), format!("Here it is: ![]({reference})"));
    assert_eq!(pieces, ["Here ", "it is: ", &format!("![]({reference})")]);
    let (_, plain) = Call::of("draw").run(&self::mock(json!([{"reply": "no"}])).await).await;
    assert!(plain.outputs.iter().all(|(name, _)| name != "files"), "the output is there only with files");
}

#[tokio::test]
async fn a_classifier_requests_a_stream_although_it_streams_no_text() {
    let mock =
        mock(json!([{"chunks": ["```json\n{\"category_id\": \"2\",", " \"category_name\": \"b\"}\n```"]}]))
            .await;
    let config = json!({"default": {"base_url": mock.base_url()}});
    let config: ProvidersConfig = serde_json::from_value(config).unwrap();
    let providers = Providers::new(&config, &|_| None).unwrap();
    let data = json!({
        "query_variable_selector": ["start", "q"],
        "model": {"provider": "acme/llm/chat", "name": "mock-chat", "mode": "chat", "completion_params": {}},
        "classes": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}]
    });
    let data = QuestionClassifierData::parse(data.as_object().unwrap(), &mut Problems::new()).unwrap();
    let variables = Start(vec![("q", Segment::string("tea"))]);
    let result = question_classifier::run(&data, &node(), &variables, &providers, &Unhurried, &|_| {}).await;
    assert_eq!((result.failure.as_ref(), result.handle.as_str()), (None, "2"));
    assert_eq!(mock.requests()[0]["stream"], true);
}
