use serde_json::json;

use super::*;
use crate::registry::{draft, public_form};
use tidemill_base::clock::Timestamp;
use tidemill_base::language::Language;
use tidemill_storage::store::{Catalog, CatalogKind};
use tidemill_workflow::dsl::SealingKey;

const LIBRARY: CatalogKind = CatalogKind::Library;
const CALL: CatalogKind = CatalogKind::Call;
const SERVICE: CatalogKind = CatalogKind::Service;
const DATASOURCE: CatalogKind = CatalogKind::Datasource;
const MARKER: &str = "secret-never-to-be-seen";

fn key() -> SealingKey {
    SealingKey::from_passphrase("a passphrase")
}

fn keep(catalog: &mut Catalog, kind: CatalogKind, id: &str, value: Json) -> Result<Vec<String>, String> {
    let object = value.as_object().cloned().expect("an object");
    let earlier = catalog.find(kind, id).cloned();
    let made = draft(kind, id, object, (earlier.as_ref(), catalog), Some(&key()));
    let made = made.map_err(|error| error.to_string())?;
    let at = Timestamp::from_millis(1_500);
    let entry =
        CatalogEntry { id: id.into(), version: 7, created_at: at, updated_at: at, fields: made.fields };
    let entries = catalog.of_mut(kind);
    entries.retain(|entry| entry.id != id);
    entries.push(entry);
    Ok(made.warnings)
}

fn n1() -> Json {
    json!({
        "callId": "API", "name": {"zh": "天气", "en": "Weather"},
        "knownParams": {"url": "http://svc/weather", "method": "get", "query": {"unit": "C"}},
        "overrideInput": {"query": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
    })
}

fn manifest() -> Json {
    json!({
        "info": {"zh": {"name": "问候", "description": "说你好"}, "en": {"name": "Greet", "description": "Says hello"}},
        "input_schema": {"type": "object", "properties": {"who": {"type": "string"}}},
        "operations": ["init", "exec"], "streaming": true,
        "transport": {"type": "http", "url": "http://calls/greet", "headers": {"Authorization": MARKER}}
    })
}

#[test]
fn a_library_node_is_read_in_both_spellings() {
    let mut catalog = Catalog::default();
    keep(&mut catalog, LIBRARY, "n1", n1()).unwrap();
    let snake =
        json!({"call_id": "API", "known_params": {"method": "get"}, "override_input": {}, "serviceId": "s"});
    let warnings = keep(&mut catalog, LIBRARY, "n2", snake).unwrap();
    assert!(warnings[0].contains("there is no service s yet"), "{warnings:?}");
    let entry = catalog.find(LIBRARY, "n2").unwrap();
    assert_eq!((&*entry.fields["callId"], &*entry.fields["service_id"]), ("API", "s"));

    let node = library_of(&catalog.library[0]).unwrap();
    assert_eq!((node.name.text(Language::Zh), node.name.text(Language::En)), ("天气", "Weather"));
    assert_eq!(node.override_input["query"]["required"], json!(["city"]));
    let warnings = keep(&mut catalog, LIBRARY, "n3", json!({"callId": "gone"})).unwrap();
    assert!(warnings[0].contains("there is no Call gone yet"), "{warnings:?}");
}

#[test]
fn se_a15_a_manifest_that_lacks_what_every_call_can_do_is_refused() {
    let without = |name: &str| {
        let mut some = manifest();
        some.as_object_mut().unwrap().remove(name);
        some
    };
    let with = |name: &str, value: Json| {
        let mut some = manifest();
        some[name] = value;
        some
    };
    for (written, part) in [
        (with("operations", json!(["init"])), "must name exec"),
        (with("operations", json!(["exec"])), "must name init"),
        (without("operations"), "must name init"),
        (with("streaming", json!(false)), "streaming must be true"),
        (without("info"), "info must have a name"),
        (with("info", json!({"fr": {"name": "n", "description": "d"}})), "there are zh and en"),
        (without("transport"), "transport is missing"),
        (with("transport", json!({"type": "http", "url": "nowhere"})), "wrong url"),
        (with("transport", json!({"type": "process", "command": []})), "must begin with a program"),
        (with("transport", json!({"type": "telepathy"})), "unknown variant"),
        (with("input_schema", json!({"type": "nothing"})), "input_schema is not a JSON Schema"),
        (with("input_shcema", json!({})), "did you mean `input_schema`?"),
    ] {
        let error = keep(&mut Catalog::default(), CALL, "greet", written.clone()).unwrap_err();
        assert!(error.starts_with("Call greet does not meet the Call standard: "), "{error}");
        assert!(error.contains(part), "{written}: no {part:?} in {error}");
    }
    let error = keep(&mut Catalog::default(), CALL, "sql", manifest()).unwrap_err();
    assert_eq!(error, "Call sql cannot be registered: SQL is built in");
}

#[test]
fn a_manifest_says_what_it_is_called_in_both_languages() {
    let mut catalog = Catalog::default();
    keep(&mut catalog, CALL, "greet", manifest()).unwrap();
    let manifest = manifest_of(&catalog.calls[0], Some(&key())).unwrap();
    assert_eq!(manifest.info(Language::Zh).name, "问候");
    assert_eq!(manifest.info(Language::En).name, "Greet");
}

#[test]
fn xc_07_no_secret_of_any_kind_is_kept_or_shown_in_clear() {
    let mut catalog = Catalog::default();
    let service = json!({
        "server": "http://svc",
        "auth": {
            "header": [{"name": "X-Key", "value": MARKER}], "cookie": [{"name": "sid", "value": MARKER}],
            "query": [{"name": "key", "value": MARKER}, {"name": "user", "value_env": "USER_OF_SVC"}],
            "oidc": {"token_url": "http://sso/token", "client_id": "me", "client_secret": MARKER}
        }
    });
    let datasource =
        json!({"type": "postgres", "host": "db", "username": "me", "password": MARKER, "database": "d"});
    let process = json!({"type": "process", "command": ["greet"], "env": {"TOKEN": MARKER}});
    keep(&mut catalog, SERVICE, "svc", service.clone()).unwrap();
    keep(&mut catalog, DATASOURCE, "db", datasource).unwrap();
    keep(&mut catalog, CALL, "greet", manifest()).unwrap();
    let mut other = manifest();
    other["transport"] = process;
    keep(&mut catalog, CALL, "run", other).unwrap();

    for kind in CatalogKind::ALL {
        for entry in catalog.of(kind) {
            assert!(!format!("{entry:?}").contains(MARKER), "{entry:?}");
            let seen = Json::Object(public_form(kind, entry)).to_string();
            assert!(!seen.contains(MARKER) && !seen.contains("sealed:") && seen.contains("***"), "{seen}");
        }
    }
    let opened = service_of(&catalog.services[0], Some(&key())).unwrap();
    let value = |list: &[Credential]| list[0].value.clone().unwrap().0;
    assert_eq!(value(&opened.auth.header), MARKER);
    assert_eq!(value(&opened.auth.cookie), MARKER);
    assert_eq!(value(&opened.auth.query), MARKER);
    assert!(!format!("{opened:?}").contains(MARKER));
    assert_eq!(datasource_of(&catalog.datasources[0], Some(&key())).unwrap().password.unwrap().0, MARKER);
    let error = datasource_of(&catalog.datasources[0], None).unwrap_err();
    assert!(error.contains("password of the datasource db is sealed"), "{error}");

    // A shown entry can be sent back: masked secrets keep their stored values, matched by the credential's
    // name.
    let mut shown = public_form(SERVICE, &catalog.services[0]);
    ["id", "version", "created_at", "updated_at"].iter().for_each(|name| drop(shown.remove(*name)));
    shown["auth"]["header"].as_array_mut().unwrap().insert(0, json!({"name": "Y", "value_env": "E"}));
    keep(&mut catalog, SERVICE, "svc", Json::Object(shown)).unwrap();
    let again = service_of(&catalog.services[0], Some(&key())).unwrap();
    assert_eq!(again.auth.header[1].value.clone().unwrap().0, MARKER);
    let unsealed =
        draft(SERVICE, "s", service.as_object().cloned().unwrap(), (None, &Catalog::default()), None);
    let error = unsealed.unwrap_err().to_string();
    assert!(error.contains("value_env") && !error.contains(MARKER), "{error}");
}

#[test]
fn invalid_entries_are_refused_with_what_to_do() {
    for (kind, written, part) in [
        (LIBRARY, json!({}), "callId is required"),
        (
            LIBRARY,
            json!({"callId": "API", "knownParams": {"headers": {"Authorization": "x"}}}),
            "knownParams.headers.Authorization looks like a secret",
        ),
        (
            LIBRARY,
            json!({"callId": "API", "knownParams": {"body": [{"deep": {"X-Api-Key": "x"}}]}}),
            "knownParams.body.deep.X-Api-Key looks like a secret",
        ),
        (LIBRARY, json!({"callId": "CHOICE"}), "write a node of type choice"),
        (
            LIBRARY,
            json!({"callId": "SQL", "knownParams": {"password": "x"}}),
            "credentials belong to a service",
        ),
        (LIBRARY, json!({"callId": "API", "overrideInput": {"query": 5}}), "overrideInput"),
        (LIBRARY, json!({"callId": "API", "knownParam": {}}), "did you mean `knownParams`?"),
        (SERVICE, json!({"server": "nowhere"}), "wrong server"),
        (SERVICE, json!({"server": "http://s", "openapi": {"openapi": "3.0.0"}}), "not an OpenAPI document"),
        (SERVICE, json!({"server": "http://s", "openapi": "a: ["}), "openapi: "),
        (SERVICE, json!({"server": "http://s", "openapiUrl": "nowhere"}), "wrong openapi_url"),
        (
            SERVICE,
            json!({"server": "http://s", "openapi_url": "http://s", "openapi": {"openapi": "3", "paths": {}}}),
            "both set",
        ),
        (
            SERVICE,
            json!({"server": "http://h", "auth": {"header": [{"name": "a b", "value": "x"}]}}),
            "cannot be sent",
        ),
        (SERVICE, json!({"server": "http://h", "auth": {"header": [{"name": "a"}]}}), "needs a value"),
        (
            SERVICE,
            json!({"server": "http://h", "auth": {"query": [{"name": "a", "value": "x"}, {"name": "A", "value": "y"}]}}),
            "twice",
        ),
        (SERVICE, json!({"server": "http://h", "auth": {"oidc": {}}}), "needs token or token_env"),
        (DATASOURCE, json!({"host": "h", "username": "u"}), "database is required"),
        (DATASOURCE, json!({"database": "d"}), "host is required"),
        (
            DATASOURCE,
            json!({"database_type": "sqlite", "database": "f", "host": "h"}),
            "no meaning for sqlite",
        ),
        (
            DATASOURCE,
            json!({"type": "mongodb", "host": "h", "username": "u", "database": "d"}),
            "through a service only",
        ),
        (
            DATASOURCE,
            json!({"host": "h", "username": "u", "database": "d", "password": "p", "password_env": "E"}),
            "both password and password_env",
        ),
        (DATASOURCE, json!({"type": "postgers"}), "did you mean `postgres`?"),
    ] {
        let error = keep(&mut Catalog::default(), kind, "x", written.clone()).unwrap_err();
        assert!(error.contains(part), "{written}: no {part:?} in {error}");
    }
}
