use super::*;
use crate::registry::{opened, provider_of, public_form};
use serde_json::{Value as Json, json};
use tidemill_base::clock::Timestamp;

const PROVIDER: CatalogKind = CatalogKind::Provider;
const PROFILE: CatalogKind = CatalogKind::Profile;
const KEY: &str = "sk-never-to-be-seen";

fn object(value: Json) -> JsonMap {
    value.as_object().cloned().unwrap()
}

fn key() -> SealingKey {
    SealingKey::from_passphrase("a passphrase")
}

fn made(kind: CatalogKind, id: &str, value: Json, catalog: &Catalog) -> Result<Draft, String> {
    let earlier = catalog.find(kind, id);
    draft(kind, id, object(value), (earlier, catalog), Some(&key())).map_err(|error| error.to_string())
}

fn entry(id: &str, draft: Draft) -> CatalogEntry {
    let at = Timestamp::from_millis(1_500);
    CatalogEntry { id: id.into(), version: 7, created_at: at, updated_at: at, fields: draft.fields }
}

#[test]
fn a_stored_entry_is_readable_and_shows_no_secret() {
    let written = json!({
        "kind": "anthropic", "base_url": "https://gateway/v1", "api_key": KEY, "headers": {"X-Team": "secret-team"},
        "models": {"m": {"context_size": 9}}, "max_retries": 0, "connect_timeout_ms": null
    });
    let none = Catalog::default();
    let draft = made(PROVIDER, "acme", written.clone(), &none).unwrap();
    let stored = |name: &str| draft.fields[name].as_str();
    assert_eq!((stored("kind"), stored("base_url")), ("anthropic", "https://gateway/v1"));
    assert_eq!((stored("models"), stored("max_retries")), (r#"{"m":{"context_size":9}}"#, "0"));
    assert!(stored("api_key").starts_with("sealed:v1:") && stored("headers").contains("sealed:v1:"));
    assert!(!draft.fields.contains_key("connect_timeout_ms"), "what is null is not there");
    assert!(!format!("{draft:?}").contains(KEY) && !format!("{draft:?}").contains("secret-team"));

    let entry = entry("acme", draft);
    let seen = Json::Object(public_form(PROVIDER, &entry));
    let expected = json!({
        "id": "acme", "kind": "anthropic", "base_url": "https://gateway/v1", "api_key": "***",
        "headers": {"X-Team": "***"}, "models": {"m": {"context_size": 9}}, "max_retries": 0, "version": 7,
        "created_at": 1.5, "updated_at": 1.5
    });
    assert_eq!(seen, expected);
    let config = provider_of(opened(PROVIDER, &entry, Some(&key())).unwrap()).unwrap();
    assert_eq!(
        (config.api_key.unwrap().0.as_str(), config.headers["X-Team"].0.as_str()),
        (KEY, "secret-team")
    );
}

#[test]
fn a_secret_opens_only_where_it_was_sealed() {
    let none = Catalog::default();
    let one = entry("one", made(PROVIDER, "one", json!({"api_key": KEY}), &none).unwrap());
    let moved = CatalogEntry { id: "two".into(), ..one.clone() };
    let error = opened(PROVIDER, &moved, Some(&key())).unwrap_err().to_string();
    assert!(error.contains("api_key of the provider two does not open"), "{error}");
    let other = SealingKey::from_passphrase("another");
    let error = opened(PROVIDER, &one, Some(&other)).unwrap_err().to_string();
    assert!(error.contains("TIDEMILL_SECRET_KEY") && !error.contains(KEY), "{error}");
    let error = opened(PROVIDER, &one, None).unwrap_err().to_string();
    assert!(error.contains("api_key of the provider one is sealed: set TIDEMILL_SECRET_KEY"), "{error}");
}

#[test]
fn without_a_key_to_seal_with_a_secret_is_refused_and_a_reference_is_not() {
    let none = Catalog::default();
    let unsealed = |value: Json| draft(PROVIDER, "p", object(value), (None, &none), None);
    for secret in [json!({"api_key": KEY}), json!({"base_url": "http://h/v1", "headers": {"X": KEY}})] {
        let error = unsealed(secret).unwrap_err().to_string();
        assert!(error.contains("TIDEMILL_SECRET_KEY") && error.contains("--api-key-env"), "{error}");
        assert!(!error.contains(KEY), "{error}");
    }
    assert!(unsealed(json!({"api_key_env": "ACME_KEY"})).is_ok());
}

#[test]
fn a_masked_secret_keeps_its_stored_value() {
    let mut catalog = Catalog::default();
    let written = json!({"api_key": KEY, "headers": {"X": "one"}});
    catalog.providers.push(entry("p", made(PROVIDER, "p", written, &catalog).unwrap()));
    let changed = json!({"api_key": "***", "headers": {"X": "***", "Y": "two"}, "base_url": "http://h/v1"});
    let again = entry("p", made(PROVIDER, "p", changed, &catalog).unwrap());
    assert_eq!(again.fields["api_key"], catalog.providers[0].fields["api_key"]);
    let config = provider_of(opened(PROVIDER, &again, Some(&key())).unwrap()).unwrap();
    assert_eq!((config.headers["X"].0.as_str(), config.headers["Y"].0.as_str()), ("one", "two"));
    for nothing in [json!({"api_key_env": "E", "headers": {"Z": "***"}}), json!({"base_url": "sealed:v1:x"})]
    {
        assert!(made(PROVIDER, "p", nothing, &catalog).is_err());
    }
    let error = made(PROVIDER, "q", json!({"api_key": "***"}), &catalog).unwrap_err();
    assert!(error.contains("api_key of the provider q is ***") && error.contains("there is none"), "{error}");
    let error = made(PROVIDER, "q", json!({"api_key": "sealed:v1:abc"}), &catalog).unwrap_err();
    assert!(error.contains("give the key itself"), "{error}");
}

#[test]
fn errors_in_a_provider_name_the_most_similar_key() {
    let none = Catalog::default();
    for (id, written, parts) in [
        (
            "p",
            json!({"base_ulr": "http://h"}),
            &["the provider p", "unknown field", "did you mean `base_url`?"][..],
        ),
        ("p", json!({"kind": "anthropc"}), &["unknown variant", "did you mean `anthropic`?", "`ollama`"]),
        ("p", json!({"kind": "telepathy"}), &["unknown variant `telepathy`", "`openai_compatible`"]),
        (
            "p",
            json!({"base_url": "http://h", "models": {"m": {"feature": []}}}),
            &["did you mean `features`?"],
        ),
        ("p", json!({"base_url": "localhost:1"}), &["wrong base_url"]),
        ("p", json!({"base_url": "https://u:pw@h/"}), &["wrong base_url", "api_key_env"]),
        ("p", json!({"kind": "azure_openai", "api_key": "k"}), &["needs a base_url"]),
        ("p", json!({}), &["set api_key_env"]),
        ("p", json!({"api_key": " "}), &["empty key"]),
        ("p", json!({"api_key": "k", "api_key_env": "E"}), &["both"]),
        ("p", json!({"base_url": "http://h", "headers": {"a b": "c"}}), &["header \"a b\""]),
        ("", json!({}), &["Provider id is required"]),
        ("a b", json!({}), &["Provider id \"a b\" cannot be used"]),
        ("/a", json!({}), &["cannot be used"]),
        ("profile/x", json!({}), &["profile/ stands for profiles"]),
        ("p", json!({"base_url": "http://h", "api_version": "x".repeat(70_000)}), &["more than 65536"]),
    ] {
        let error = made(PROVIDER, id, written.clone(), &none).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{written}: no {part:?} in {error}");
        }
        assert!(!error.contains("pw"), "{error}");
    }
}

#[test]
fn a_profile_is_refused_with_the_known_messages() {
    let full = json!({"name": "Fast", "provider": "OPENAI_CHAT", "model": "m", "apiKey": KEY});
    let without = |name: &str| {
        let mut some = full.clone();
        some.as_object_mut().unwrap().remove(name);
        some
    };
    let with = |name: &str, value: Json| {
        let mut some = full.clone();
        some[name] = value;
        some
    };
    let none = Catalog::default();
    for (id, written, expected) in [
        ("", full.clone(), "Profile ID is required"),
        ("f", without("name"), "Profile name is required"),
        ("f", without("provider"), "Profile provider is required"),
        ("f", without("model"), "Profile model is required"),
        ("f", without("apiKey"), "Profile apiKey is required"),
        (
            "f",
            with("provider", json!("OPENAI_RESPONSE")),
            "Profile provider OPENAI_RESPONSE is not supported: there are OPENAI_CHAT, GEMINI_OPENAI, ANTHROPIC, HUMAN_RELAY, openai_compatible, anthropic, azure_openai, ollama, and providers by their ids",
        ),
        ("f", with("provider", json!("GEMINI_NATIVE")), "is not supported: there are OPENAI_CHAT"),
        ("f", with("provider", json!("OPENAI_CHATS")), "did you mean OPENAI_CHAT?"),
        ("f", with("paramters", json!({})), "did you mean `parameters`?"),
        ("f", with("toolMode", json!("telepathy")), "`function_call`"),
        ("f", with("timeout", json!(0)), "timeout must be milliseconds"),
        ("f", with("baseUrl", json!("nowhere")), "wrong base_url"),
        ("f", with("api_key_env", json!("E")), "both api_key and api_key_env"),
    ] {
        let error = made(PROFILE, id, written.clone(), &none).unwrap_err();
        assert!(error.contains(expected), "{written}: {error}");
        assert!(!error.contains(KEY), "{error}");
    }
    assert_eq!(made(PROFILE, "f", full, &none).unwrap().warnings, Vec::<String>::new());
}

#[test]
fn a_profile_may_be_over_a_provider_or_need_no_key() {
    let mut catalog = Catalog::default();
    catalog
        .providers
        .push(entry("acme", made(PROVIDER, "acme", json!({"api_key_env": "E"}), &catalog).unwrap()));
    let profile = |provider: &str| json!({"name": "n", "provider": provider, "model": "m"});
    let warned = |value: Json| made(PROFILE, "f", value, &catalog).unwrap().warnings.join(" ");
    for provider in ["acme", "ollama", "HUMAN_RELAY"] {
        assert_eq!(warned(profile(provider)), "", "{provider}");
    }
    assert!(warned(profile("elsewhere")).contains("no provider elsewhere is kept in Redis"));
    let own = json!({"name": "n", "provider": "openai_compatible", "model": "m", "base_url": "http://h/v1"});
    assert_eq!(warned(own), "");
    let delayed = json!({"name": "n", "provider": "acme", "model": "m", "retry_delay": 5});
    let kept = made(PROFILE, "f", delayed, &catalog).unwrap();
    assert!(kept.warnings[0].contains("retryDelay") && kept.fields["retryDelay"] == "5");
    let parameters =
        json!({"name": "n", "provider": "acme", "model": "m", "parameters": {"top_p": 1, "snake_case": 2}});
    let kept = made(PROFILE, "f", parameters, &catalog).unwrap();
    assert_eq!(kept.fields["parameters"], r#"{"top_p":1,"snake_case":2}"#, "parameters keep their names");
}

#[test]
fn a_profile_cannot_use_a_provider_that_a_plugin_serves() {
    let mut catalog = Catalog::default();
    let provider = made(PROVIDER, "acme", json!({"plugin": true}), &catalog).unwrap();
    catalog.providers.push(entry("acme", provider));
    let profile = json!({"name": "n", "provider": "acme", "model": "m"});
    let error = made(PROFILE, "fast", profile.clone(), &catalog).unwrap_err();
    assert!(error.contains("profiles cannot use providers of plugins"), "{error}");
    let mut elsewhere = profile;
    elsewhere["baseUrl"] = "http://h/v1".into();
    made(PROFILE, "fast", elsewhere, &catalog).unwrap();
}

#[test]
fn an_id_of_plugin_credentials_may_be_long_and_an_error_names_its_parts() {
    let kind = CatalogKind::PluginCredentials;
    let id = |model: usize| format!("acme/maps/maps:llm:{}@{}", "m".repeat(model), "a".repeat(37));
    assert_eq!(check_id(kind, &id(400)), Ok(()));
    let error = check_id(kind, &id(500)).unwrap_err().to_string();
    assert!(error.contains("more than 512 (provider 14, model with its type 504, app 37)"), "{error}");
    let error = check_id(kind, "acme/maps/maps:llm:a b").unwrap_err().to_string();
    assert!(error.contains("`=` with two hexadecimal digits"), "{error}");
}
