//! Tests of providers and profiles in Redis.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::dsl::SealingKey;
use tidemill_common::nodes::llm::message::Message;
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::{ModelMode, Role};
use tidemill_common::registry::ProfilesConfig;
use tidemill_common::store::CatalogKind;

use crate::outside::calls::model as call_model;
use crate::outside::providers::ErrorClass;
use crate::outside::providers::profile::catalog::ProviderCatalog;
use crate::outside::providers::profile::named::{ProfileError, Responder};
use crate::outside::providers::profile::{Model, Providers, Question};
use crate::tests::fake::FakeJobs;

const PROVIDER: CatalogKind = CatalogKind::Provider;
const PROFILE: CatalogKind = CatalogKind::Profile;
const REFRESH: Duration = Duration::from_secs(5);

fn key() -> SealingKey {
    SealingKey::from_passphrase("a passphrase")
}

/// A store, and a worker with these tables in its settings.
fn worker(tables: Json) -> (Arc<FakeJobs>, Providers) {
    worker_with(tables, Some(key()))
}

fn worker_with(tables: Json, key: Option<SealingKey>) -> (Arc<FakeJobs>, Providers) {
    let jobs = FakeJobs::new();
    let environment = |name: &str| (name == "SET").then(|| "key-of-the-environment".to_owned());
    let providers = Providers::new(&serde_json::from_value(tables).unwrap(), &|_| None).unwrap();
    let catalog = ProviderCatalog::new(jobs.clone(), key, environment, REFRESH);
    (jobs, providers.with_catalog(catalog))
}

/// Stores an entry, as a scheduler does.
fn keep(jobs: &FakeJobs, kind: CatalogKind, id: &str, object: Json) {
    jobs.keep(kind, id, object, &key());
}

fn at(url: &str) -> Json {
    json!({"base_url": url})
}

/// The account for limits, which names the provider found.
async fn served_by(providers: &Providers, provider: &str) -> String {
    let catalog_view = providers.catalog_view(provider, false).await.unwrap();
    let found = providers.find(&catalog_view, provider, "m").unwrap();
    format!("{:?} {}", found.configured_in, found.name)
}

fn question(params: Json) -> Question {
    Question {
        messages: vec![Message::text(Role::User, "hi")],
        params: Params { values: params.as_object().cloned().unwrap(), stop: Vec::new() },
        tools: Vec::new(),
        mode: ModelMode::Chat,
        stream: true,
    }
}

/// A server that receives one request and returns it.
async fn listener() -> (String, tokio::task::JoinHandle<(String, Json)>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let heard = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let (head, body) = crate::outside::providers::tests::read_request(&mut socket).await;
        (head, serde_json::from_str(&body).unwrap())
    });
    (url, heard)
}

async fn asks(model: &Model, params: Json) {
    let error = model.ask(question(params), &mut |_| {}).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Connection, "the server only listens");
}

#[tokio::test]
async fn lp_c1_a_step_is_told_apart_that_redis_is_away_and_that_there_is_no_such_profile() {
    let (jobs, providers) = worker(json!({}));
    jobs.state().catalog_silent = true;
    let away = call_model::find(&providers, Some("p")).await.err().unwrap();
    assert_eq!((away.error_type.as_str(), away.retryable), ("LLMProfileError", true));
    assert!(away.failure().retryable, "another attempt may find it");
    let (_jobs, providers) = worker(json!({}));
    let gone = call_model::find(&providers, Some("p")).await.err().unwrap();
    assert_eq!((gone.error_type.as_str(), gone.retryable), ("NotFoundError", false));
    assert_eq!(gone.message, "LLM Profile not found: p");
}

#[tokio::test(start_paused = true)]
async fn an_entry_that_has_not_changed_keeps_its_client() {
    let (jobs, providers) = worker(json!({}));
    keep(&jobs, PROVIDER, "a", at("http://a/v1"));
    keep(&jobs, PROVIDER, "b", at("http://b/v1"));
    let connections = async || {
        let catalog_view = providers.catalog_view("x", false).await.unwrap();
        catalog_view
            .providers
            .iter()
            .map(|(id, (_, connection))| (id.clone(), connection.clone()))
            .collect::<Vec<_>>()
    };
    let first = connections().await;
    providers.model("a", "m").await.unwrap();
    providers.model("b", "m").await.unwrap();
    assert_eq!(jobs.state().catalog_asked, (0, 1), "one copy serves all");

    keep(&jobs, PROVIDER, "b", at("http://other/v1"));
    keep(&jobs, PROVIDER, "c", at("http://c/v1"));
    tokio::time::advance(REFRESH).await;
    let second = connections().await;
    assert_eq!((second.len(), jobs.state().catalog_asked), (3, (1, 2)));
    assert!(Arc::ptr_eq(&first[0].1, &second[0].1), "what has not changed keeps the client");
    assert!(!Arc::ptr_eq(&first[1].1, &second[1].1), "what has changed gets another");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_right_after_it_was_added_is_found() {
    let (jobs, providers) = worker(json!({}));
    assert!(providers.model("a", "m").await.is_err());
    keep(&jobs, PROVIDER, "a", at("http://a/v1"));
    keep(&jobs, PROFILE, "p", json!({"name": "n", "provider": "a", "model": "m"}));
    assert!(providers.model("a", "m").await.is_ok());
    keep(&jobs, PROFILE, "q", json!({"name": "n", "provider": "a", "model": "m"}));
    assert!(providers.model("profile/q", "m").await.is_ok() && providers.profile("p").await.is_ok());
}

#[tokio::test]
async fn a_table_of_the_settings_wins_over_one_in_redis_that_matches_as_well() {
    let (jobs, providers) = worker(json!({
        "openai": at("http://settings/v1"), "default": at("http://settings/v1"),
        "full/name/x": at("http://settings/v1"),
    }));
    keep(&jobs, PROVIDER, "openai", at("http://redis/v1"));
    keep(&jobs, PROVIDER, "acme", at("http://redis/v1"));
    keep(&jobs, PROVIDER, "x", at("http://redis/v1"));
    keep(&jobs, PROVIDER, "gate", json!({"base_url": "http://redis/v1", "serves": [{"provider": "tongyi"}]}));
    for (provider, served) in [
        ("openai", "Settings openai"),
        ("langgenius/openai/openai", "Settings openai"),
        ("langgenius/acme/acme", "Redis acme"),
        ("tongyi", "Redis gate"),
        ("x", "Redis x"),
        ("full/name/x", "Settings full/name/x"),
        ("some/other/x", "Redis x"),
        ("unheard/of/it", "Settings default"),
    ] {
        assert_eq!(served_by(&providers, provider).await, served, "{provider}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_redis_what_is_known_goes_on_and_what_is_not_says_so() {
    let (jobs, providers) = worker(json!({}));
    keep(&jobs, PROVIDER, "a", at("http://a/v1"));
    jobs.state().catalog_silent = true;
    let error = providers.model("a", "m").await.unwrap_err();
    assert_eq!((error.class, error.retryable), (ErrorClass::Connection, true));
    assert!(error.message.starts_with("[a] ") && error.message.contains("redis.url"), "{error}");
    jobs.state().catalog_silent = false;
    providers.model("a", "m").await.unwrap();
    jobs.state().catalog_silent = true;
    tokio::time::advance(REFRESH).await;
    providers.model("a", "m").await.unwrap();
}

#[tokio::test]
async fn a_key_that_is_not_to_be_had_is_named_with_what_to_set() {
    for (key, parts) in [
        (None, ["provider sealed", "api_key of the provider sealed is sealed: set TIDEMILL_SECRET_KEY"]),
        (Some("another"), ["provider sealed", "does not open: TIDEMILL_SECRET_KEY"]),
    ] {
        let (jobs, providers) = worker_with(json!({}), key.map(SealingKey::from_passphrase));
        keep(&jobs, PROVIDER, "sealed", json!({"api_key": "sk-hidden"}));
        keep(&jobs, PROVIDER, "set", json!({"api_key_env": "SET"}));
        keep(&jobs, PROVIDER, "unset", json!({"api_key_env": "UNSET"}));
        keep(&jobs, PROFILE, "own", json!({"name": "n", "provider": "sealed", "model": "m", "timeout": 5}));
        let error = providers.model("sealed", "m").await.unwrap_err();
        assert_eq!(error.class, ErrorClass::NotInitialized);
        for part in parts {
            assert!(error.message.contains(part) && !error.message.contains("hidden"), "{error}");
        }
        let error = providers.model("unset", "m").await.unwrap_err();
        assert!(error.message.contains("The provider unset in Redis"), "{error}");
        assert!(error.message.contains("the environment variable UNSET (api_key_env) is not set"), "{error}");
        assert!(providers.model("set", "m").await.is_ok());
        let error = providers.profile("own").await.unwrap_err().to_string();
        assert!(error.contains("The profile own in Redis cannot be used: its provider sealed"), "{error}");
    }
}

#[tokio::test]
async fn a_profile_brings_its_model_and_its_parameters() {
    let (url, heard) = listener().await;
    let (jobs, providers) = worker(json!({}));
    keep(&jobs, PROVIDER, "acme", json!({"base_url": url, "api_key": "k", "max_retries": 0}));
    let parameters = json!({"temperature": 0.7, "opts": {"a": 1, "b": [1, 2]}});
    let fast = json!({"name": "Fast", "provider": "acme", "model": "m-small", "parameters": parameters, "toolMode": "xml"});
    keep(&jobs, PROFILE, "fast", fast);
    let profile = providers.profile("").await.unwrap();
    assert_eq!(
        (profile.id.as_str(), profile.version, profile.profile.model.as_str()),
        ("fast", 2, "m-small")
    );
    assert_eq!(Json::Object(profile.parameters().clone()), parameters);
    let Responder::Model(model) = profile.responder else { panic!("a model") };
    asks(&model, json!({"temperature": 0.1, "opts": {"b": [3], "c": 2}})).await;
    let (head, body) = heard.await.unwrap();
    assert!(head.contains("authorization: bearer k"), "{head}");
    assert_eq!((&body["model"], &body["temperature"]), (&json!("m-small"), &json!(0.1)));
    assert_eq!(body["opts"], json!({"a": 1, "b": [3], "c": 2}), "objects are merged, lists are not");
}

#[tokio::test]
async fn a_profile_with_an_address_of_its_own_sends_no_key_of_its_provider_there() {
    let (url, heard) = listener().await;
    let (jobs, providers) = worker(
        json!({"acme": {"base_url": "http://acme/v1", "api_key": "k-acme", "headers": {"X-Acme": "1"}}}),
    );
    keep(
        &jobs,
        PROFILE,
        "own",
        json!({"name": "n", "provider": "acme", "model": "m", "baseUrl": url, "maxRetries": 0, "headers": {"X-Own": "2"}}),
    );
    let model = providers.model("profile/own", "another").await.unwrap();
    asks(&model, json!({})).await;
    let (head, body) = heard.await.unwrap();
    assert!(head.contains("x-own: 2") && !head.contains("k-acme") && !head.contains("x-acme"), "{head}");
    assert_eq!(body["model"], "another");
}

#[tokio::test]
async fn a_profile_that_is_not_there_and_one_that_a_person_answers_are_told() {
    let (jobs, providers) = worker(json!({}));
    let not_found = |id: &str| ProfileError::NotFound { id: id.into() };
    for id in ["ghost", "default", "DEFAULT"] {
        assert_eq!(providers.profile(id).await.unwrap_err(), not_found(id));
        assert_eq!(not_found(id).to_string(), format!("LLM Profile not found: {id}"));
    }
    let error = providers.model("profile/ghost", "m").await.unwrap_err();
    assert!(error.message.contains("LLM Profile not found: ghost"), "{error}");

    let (jobs2, providers) = worker(json!({}));
    keep(&jobs2, PROFILE, "relay", json!({"name": "n", "provider": "HUMAN_RELAY", "model": "m"}));
    keep(&jobs2, PROFILE, "lost", json!({"name": "n", "provider": "nowhere", "model": "m"}));
    keep(
        &jobs2,
        PROFILE,
        "direct",
        json!({"name": "n", "provider": "ANTHROPIC", "model": "m", "apiKeyEnv": "SET"}),
    );
    assert!(matches!(providers.profile("DEFAULT").await.unwrap().responder, Responder::Person));
    let error = providers.model("profile/relay", "m").await.unwrap_err();
    assert!(error.message.contains("HUMAN_RELAY"), "{error}");
    let error = providers.profile("lost").await.unwrap_err().to_string();
    assert!(
        error.contains("there is no provider nowhere: add it with `tidemill providers add nowhere`"),
        "{error}"
    );
    assert!(matches!(providers.profile("direct").await.unwrap().responder, Responder::Model(_)));
    drop(jobs);
}

/// A worker with profiles in its settings, for a provider there or in Redis.
fn worker_of_profiles(profiles: Json, default: &str) -> (Arc<FakeJobs>, Providers) {
    let jobs = FakeJobs::new();
    let tables = serde_json::from_value(json!({"acme": at("http://acme/v1")})).unwrap();
    let tables = Providers::new(&tables, &|_| None).unwrap();
    let Json::Object(profiles) = profiles else { panic!("tables") };
    let read =
        ProfilesConfig::read(profiles.iter().map(|(id, table)| (id, table.clone())), default, &["acme"]);
    let catalog = ProviderCatalog::new(jobs.clone(), Some(key()), |_| None, REFRESH).after(read.unwrap());
    (jobs, tables.with_catalog(catalog))
}

#[tokio::test(start_paused = true)]
async fn a_profile_of_the_settings_comes_before_one_in_redis() {
    let profiles = json!({
        "fast": {"provider": "acme", "model": "m-settings"},
        "own": {"provider": "far", "model": "m", "baseUrl": "http://own/v1"},
        "unset": {"provider": "OPENAI_CHAT", "model": "m", "apiKeyEnv": "UNSET"},
    });
    let (jobs, providers) = worker_of_profiles(profiles.clone(), "fast");
    keep(&jobs, PROFILE, "fast", json!({"name": "n", "provider": "acme", "model": "m-redis"}));
    keep(&jobs, PROFILE, "slow", json!({"name": "n", "provider": "acme", "model": "m-slow"}));
    let named = async |id: &str| {
        let named = providers.profile(id).await.unwrap();
        (named.id, named.version, named.profile.model.clone())
    };
    assert_eq!(named("fast").await, ("fast".into(), 0, "m-settings".into()));
    assert_eq!(named("slow").await, ("slow".into(), 2, "m-slow".into()));
    assert_eq!(named("default").await.0, "fast", "the default of the settings wins");
    let error = providers.profile("own").await.unwrap_err().to_string();
    assert!(error.contains("The profile [profiles.own] cannot be used: there is no provider far"), "{error}");
    keep(&jobs, PROVIDER, "far", at("http://far/v1"));
    tokio::time::advance(REFRESH).await;
    assert_eq!(named("own").await.1, 0, "its provider may come later, in Redis");
    let error = providers.profile("unset").await.unwrap_err().to_string();
    assert!(
        error.contains("The profile [profiles.unset] cannot be used") && error.contains("UNSET"),
        "{error}"
    );

    let (jobs, providers) = worker_of_profiles(profiles, "");
    keep(&jobs, PROFILE, "fast", json!({"name": "n", "provider": "acme", "model": "m-redis"}));
    let default = providers.profile("").await.unwrap();
    assert_eq!(
        (default.id.as_str(), default.version),
        ("fast", 0),
        "the default of Redis, as the settings have it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_profile_follows_its_provider_and_keeps_its_client_while_neither_changes() {
    let (jobs, providers) = worker(json!({}));
    keep(&jobs, PROVIDER, "acme", at("http://one/v1"));
    keep(&jobs, PROFILE, "p", json!({"name": "n", "provider": "acme", "model": "m", "timeout": 9}));
    let client = async || {
        let catalog_view = providers.catalog_view("x", false).await.unwrap();
        match &catalog_view.profiles["p"].base {
            Ok(crate::outside::providers::profile::catalog::Base::Own(own, _)) => own.clone(),
            other => panic!("{other:?}"),
        }
    };
    let first = client().await;
    keep(&jobs, PROVIDER, "other", at("http://other/v1"));
    tokio::time::advance(REFRESH).await;
    assert!(Arc::ptr_eq(&first, &client().await));
    keep(&jobs, PROVIDER, "acme", at("http://two/v1"));
    tokio::time::advance(REFRESH).await;
    let second = client().await;
    assert_eq!(second.table.base_url.as_deref(), Some("http://two/v1"));
    assert_eq!(second.table.read_timeout_ms, Some(9));
}

#[tokio::test]
async fn a_model_for_embeddings_answers_a_question_with_a_vector() {
    let body =
        r#"{"data":[{"index":0,"embedding":[0.5,-1.0]}],"usage":{"prompt_tokens":3,"total_tokens":3}}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let url = crate::outside::providers::tests::serve(vec![vec![answer.into()]]).await;
    let (jobs, providers) = worker(json!({}));
    keep(&jobs, PROVIDER, "p", json!({"base_url": url, "models": {"e": {"mode": "embedding"}}}));
    let model = providers.model("p", "e").await.unwrap();
    let mut told = String::new();
    let reply = model.ask(question(json!({})), &mut |piece| told.push_str(piece)).await.unwrap();
    assert_eq!((reply.text.as_str(), told.as_str(), reply.tokens.prompt), ("[0.5,-1.0]", "[0.5,-1.0]", 3));
}
