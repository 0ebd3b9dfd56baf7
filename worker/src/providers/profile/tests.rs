use super::*;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::llm::ModelMode;
use tidemill_common::value::JsonMap;

fn config(tables: Json) -> ProvidersConfig {
    serde_json::from_value(tables).unwrap()
}

fn providers(tables: Json, environment: &[(&str, &str)]) -> Result<Providers, ProfileError> {
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
        assert_eq!(providers.find(provider, name).unwrap().0, profile, "{provider} {name}");
    }
}

#[test]
fn the_environment_alone_serves_every_provider() {
    for environment in [&[("OPENAI_API_KEY", "k")][..], &[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]] {
        let providers = providers(json!({}), environment).unwrap();
        assert!(providers.resolve(&model("any/thing/at_all", "m")).is_ok(), "{environment:?}");
    }
}

#[test]
fn a_missing_key_says_what_to_set() {
    for (tables, environment, part) in [
        (json!({}), &[][..], "[providers.openai]"),
        (json!({}), &[("OPENAI_API_KEY", " ")], "OPENAI_API_KEY"),
        (json!({"openai": {"api_key_env": "MY_KEY"}}), &[], "MY_KEY"),
        (json!({"openai": {}}), &[], "api_key_env"),
    ] {
        let providers = providers(tables.clone(), environment).unwrap();
        let error = providers.resolve(&model("langgenius/openai/openai", "gpt")).unwrap_err();
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
