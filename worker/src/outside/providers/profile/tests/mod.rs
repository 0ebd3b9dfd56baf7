mod catalog;
#[cfg(target_os = "linux")]
mod plugins;

use crate::outside::providers::profile::*;
use serde_json::{Value as Json, json};
use tidemill_common::config::{Config, Sources};
use tidemill_common::nodes::llm::message::Message;
use tidemill_common::nodes::llm::params::Params;
use tidemill_common::nodes::llm::{ModelMode, Role};
use tidemill_common::registry::ProfilesConfig;
use tidemill_common::value::JsonMap;

fn config(tables: Json) -> ProvidersConfig {
    serde_json::from_value(tables).unwrap()
}

fn providers(tables: Json, environment: &[(&str, &str)]) -> Result<Providers, TableError> {
    let lookup =
        |name: &str| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    Providers::new(&config(tables), &lookup)
}

fn model(provider: &str, name: &str) -> ModelConfig {
    let completion_params = JsonMap::new();
    ModelConfig { provider: provider.into(), name: name.into(), mode: ModelMode::Chat, completion_params }
}

#[test]
fn the_first_profile_that_matches_serves_a_model() {
    let at = |url: &str| json!({"base_url": url});
    let tables = json!({
        "openai": at("http://last-part/v1"),
        "acme/llm/chat": at("http://exact/v1"),
        "mine": {"base_url": "http://mine/v1", "serves": [{"provider": "acme/llm/other"}]},
        "one": {"base_url": "http://one/v1", "serves": [{"provider": "openai", "model": "gpt-special"}]},
        "google": at("http://google/v1"),
        "default": at("http://default/v1"),
    });
    let providers = providers(tables, &[]).unwrap();
    for (provider, name, profile) in [
        ("langgenius/openai/openai", "gpt", "openai"),
        ("openai", "gpt", "openai"),
        ("somebody/plugin/openai", "gpt", "openai"),
        ("langgenius/openai/openai", "gpt-special", "one"),
        ("acme/llm/chat", "m", "acme/llm/chat"),
        ("acme/llm/other", "m", "mine"),
        ("langgenius/gemini/google", "m", "google"),
        ("x/y/z", "m", "default"),
    ] {
        assert_eq!(
            providers.find(&CatalogView::default(), provider, name).unwrap().name,
            profile,
            "{provider} {name}"
        );
    }
}

#[tokio::test]
async fn the_environment_alone_serves_every_provider() {
    for environment in [&[("OPENAI_API_KEY", "k")][..], &[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]] {
        let providers = providers(json!({}), environment).unwrap();
        assert!(providers.resolve(&model("any/thing/at_all", "m")).await.is_ok(), "{environment:?}");
    }
}

#[tokio::test]
async fn a_missing_key_says_what_to_set() {
    for (tables, environment, part) in [
        (json!({}), &[][..], "[providers.openai]"),
        (json!({}), &[("OPENAI_API_KEY", " ")], "OPENAI_API_KEY"),
        (json!({"openai": {"api_key_env": "MY_KEY"}}), &[], "MY_KEY"),
        (json!({"openai": {}}), &[], "api_key_env"),
    ] {
        let providers = providers(tables.clone(), environment).unwrap();
        let error = providers.resolve(&model("langgenius/openai/openai", "gpt")).await.unwrap_err();
        assert_eq!(error.class.error_type(), "ProviderTokenNotInitError");
        assert!(error.message.starts_with("Model gpt credentials is not initialized."), "{error}");
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn a_table_that_cannot_be_used_is_named() {
    for (table, part) in [
        (json!({"base_url": "localhost:8000"}), "base_url"),
        (json!({"base_url": "ftp://host/v1"}), "base_url"),
        (json!({"base_url": "https://user:secret@host/v1"}), "api_key_env"),
        (json!({"api_key": "a", "api_key_env": "B"}), "both"),
        (json!({"api_key": "secret\nline"}), "key"),
        (json!({"base_url": "http://h/v1", "headers": {"a b": "c"}}), "header"),
        (
            json!({"base_url": "http://h/v1", "models": {"m": {"pricing": {"input": "x", "unit": "1"}}}}),
            "price",
        ),
    ] {
        let error = providers(json!({"acme": table}), &[]).unwrap_err().to_string();
        assert!(error.starts_with("[providers.acme]") && error.contains(part), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn unknown_keys_are_refused() {
    for table in [
        json!({"base_ulr": "http://h"}),
        json!({"models": {"m": {"price": 1}}}),
        json!({"kind": "telepathy"}),
    ] {
        assert!(serde_json::from_value::<ProvidersConfig>(json!({"p": table.clone()})).is_err(), "{table}");
    }
}

#[test]
fn no_form_of_a_profile_shows_its_keys() {
    let table =
        json!({"base_url": "http://h/v1", "api_key": "sk-hidden", "headers": {"X-Key": "also-hidden"}});
    let shown = format!("{:?}", config(json!({"p": table.clone()})));
    let built = format!("{:?}", providers(json!({"p": table}), &[]).unwrap());
    for text in [shown, built] {
        assert!(!text.contains("hidden"), "{text}");
    }
}

/// Returns the head and body a server receives for a question to model `m`.
async fn heard(mut table: Json, params: Json, mode: ModelMode) -> (String, Json) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    table["base_url"] =
        json!(format!("http://{}{}", listener.local_addr().unwrap(), table["base_url"].as_str().unwrap()));
    table["max_retries"] = json!(0);
    let server = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        crate::outside::providers::tests::read_request(&mut socket).await
    });
    let model = providers(json!({"p": table}), &[]).unwrap().model("p", "m").await.unwrap();
    let Json::Object(values) = params else { panic!("parameters are an object") };
    let question = Question {
        messages: vec![Message::text(Role::User, "hi")],
        params: Params { values, stop: Vec::new() },
        tools: Vec::new(),
        mode,
        stream: true,
    };
    let reply = model.ask(question, &mut |_| {}).await;
    assert_eq!(reply.unwrap_err().class, ErrorClass::Connection, "the server only listens");
    let (head, body) = server.await.unwrap();
    (head, serde_json::from_str(&body).unwrap())
}

#[tokio::test]
async fn every_kind_has_its_own_address_and_its_own_way_to_send_the_key() {
    for (table, parts) in [
        (
            json!({"base_url": "/v1", "api_key": "k"}),
            &["post /v1/chat/completions http", "authorization: bearer k", "accept: text/event-stream"][..],
        ),
        (
            json!({"kind": "anthropic", "base_url": "/v1", "api_key": "k"}),
            &["post /v1/messages http", "x-api-key: k", "anthropic-version: 2023-06-01"],
        ),
        (
            json!({"kind": "anthropic", "base_url": "/", "api_version": "2030-01-01", "headers": {"anthropic-beta": "b"}}),
            &["post /v1/messages http", "anthropic-version: 2030-01-01", "anthropic-beta: b"],
        ),
        (
            json!({
                "kind": "azure_openai", "base_url": "/openai/", "api_key": "k", "api_version": "2024-10-21",
                "deployment_map": {"m": "d"}
            }),
            &["post /openai/deployments/d/chat/completions?api-version=2024-10-21 http", "api-key: k"],
        ),
        (
            json!({"kind": "azure_openai", "base_url": "", "headers": {"Authorization": "Bearer entra"}}),
            &["post /openai/v1/chat/completions http", "authorization: bearer entra"],
        ),
        (
            json!({"kind": "ollama", "base_url": "/v1"}),
            &["post /api/chat http", "accept: application/x-ndjson"],
        ),
        (
            json!({"base_url": "/v1", "api_key": "k", "headers": {"Authorization": "Other k"}}),
            &["authorization: other k"],
        ),
    ] {
        let (head, _) = heard(table.clone(), json!({}), ModelMode::Chat).await;
        for part in parts {
            assert!(head.contains(part), "{table}: no {part} in {head}");
        }
        assert_eq!(
            head.matches("authorization:").count(),
            usize::from(head.contains("authorization")),
            "{head}"
        );
    }
}

#[tokio::test]
async fn what_a_profile_knows_of_a_model_changes_what_is_sent() {
    let table = |model: Json| json!({"base_url": "/v1", "models": {"m": model}});
    for (model, params, mode, expected) in [
        (json!({"max_tokens_default": 9}), json!({}), ModelMode::Chat, json!({"max_tokens": 9})),
        (
            json!({"max_tokens_default": 9}),
            json!({"max_tokens": 5}),
            ModelMode::Chat,
            json!({"max_tokens": 5}),
        ),
        (
            json!({"max_tokens_default": 9, "reasoning": true}),
            json!({"temperature": 1}),
            ModelMode::Chat,
            json!({"max_completion_tokens": 9}),
        ),
        (
            json!({"param_map": {"max_tokens": "limit"}, "drop_params": ["seed"], "send_as": "sent"}),
            json!({"max_tokens": 5, "seed": 1}),
            ModelMode::Chat,
            json!({"limit": 5, "model": "sent"}),
        ),
        (json!({"mode": "completion"}), json!({}), ModelMode::Chat, json!({"prompt": "hi"})),
        (
            json!({"mode": "chat"}),
            json!({}),
            ModelMode::Completion,
            json!({"messages": [{"role": "user", "content": "hi"}]}),
        ),
    ] {
        let (_, body) = heard(table(model.clone()), params, mode).await;
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(&body[key], value, "{model}: {body}");
        }
        assert!(body.get("seed").is_none() && body.get("temperature").is_none(), "{body}");
    }
}

#[tokio::test]
async fn kinds_without_a_usual_address_ask_for_one() {
    for (table, error) in [
        (json!({"kind": "azure_openai", "api_key": "k"}), Some("base_url")),
        (json!({"kind": "anthropic", "api_key": "k"}), None),
        (json!({"kind": "ollama"}), None),
    ] {
        match providers(json!({"p": table}), &[]) {
            Ok(providers) => assert!(error.is_none() && providers.model("p", "m").await.is_ok(), "{table}"),
            Err(wrong) => assert!(wrong.to_string().contains(error.unwrap()), "{wrong}"),
        }
    }
    let missing =
        providers(json!({"p": {"kind": "anthropic"}}), &[]).unwrap().model("p", "m").await.unwrap_err();
    assert!(missing.message.contains("api_key_env"), "{missing}");
}

#[tokio::test]
async fn a_key_in_a_header_is_masked_in_errors() {
    let mock = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 23\r\n\r\nno entra-token-of-ours!";
    let base_url = crate::outside::providers::tests::serve(vec![vec![mock.into()]]).await;
    let table =
        json!({"base_url": base_url, "headers": {"Authorization": "Bearer entra-token-of-ours!", "X": "no"}});
    let model = providers(json!({"p": table}), &[]).unwrap().model("p", "m").await.unwrap();
    let question = Question {
        messages: vec![Message::text(Role::User, "hi")],
        params: Params::default(),
        tools: Vec::new(),
        mode: ModelMode::Chat,
        stream: true,
    };
    let error = model.ask(question, &mut |_| {}).await.unwrap_err();
    assert!(error.message.ends_with("HTTP 401: no ***"), "{error}");
}

#[tokio::test]
async fn the_example_of_the_settings_can_be_used_as_it_stands() {
    let example = include_str!("../../../../../../deploy/example.toml");
    let tables: String = example
        .lines()
        .skip_while(|line| *line != "# [providers.openai]")
        .map(|line| line.trim_start_matches('#').trim_start().to_owned() + "\n")
        .collect();
    let written = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(written.path(), tables).unwrap();
    let file = Some(written.path().to_owned());
    let sources = Sources { file, environment: Vec::new(), flags: Vec::new() };
    let config = Config::load(&sources).unwrap();
    let read = |(name, table): (&String, &_)| (name.clone(), serde_json::to_value(table).unwrap());
    let tables: Json = Json::Object(config.providers.iter().map(read).collect());
    let environment = [("GATEWAY_KEY", "k"), ("ANTHROPIC_API_KEY", "k"), ("AZURE_OPENAI_API_KEY", "k")];
    let providers = providers(tables, &environment).unwrap();
    for provider in ["openai", "langgenius/anthropic/anthropic", "azure_openai", "ollama"] {
        assert!(providers.model(provider, "gpt-4o").await.is_ok(), "{provider}");
    }
    let profiles = config.profiles.iter().map(|(id, table)| (id, serde_json::to_value(table).unwrap()));
    let profiles = ProfilesConfig::read(profiles, "", &["openai"]).unwrap().profiles;
    assert_eq!(profiles.keys().collect::<Vec<_>>(), ["fast", "own", "relay"]);
}
