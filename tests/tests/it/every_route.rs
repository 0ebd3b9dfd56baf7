//! Each operation of both APIs, with the wrong key: none, an unknown one, one of another kind. Keys with too few scopes are in
//! `key_rights`, admin keys with too little a role in `admin_keys`, ids of other apps and users in `foreign_ids`.

use reqwest::Method;
use serde_json::{Value as Json, json};
use tidemill_tests::client::Client;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;

use super::service_api_table::{concrete, is_of_datasets, rows};

/// The operations of our own API, from its description.
pub(crate) fn native() -> Vec<(Method, String)> {
    let file = tidemill_tests::workspace().join("docs/openapi/native.json");
    let text = std::fs::read_to_string(file).expect("the description can be read");
    let described: Json = serde_json::from_str(&text).expect("it is JSON");
    let mut operations = Vec::new();
    for (path, methods) in described["paths"].as_object().expect("it has paths") {
        for method in methods.as_object().into_iter().flatten().map(|(name, _)| name.to_uppercase()) {
            let Ok(method) = method.parse::<Method>() else { continue };
            if ["GET", "POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str()) {
                operations.push((method, format!("/api/v1{}", path.replace(['{', '}'], ""))));
            }
        }
    }
    operations
}

/// The operations of the service API that are there, those of datasets apart.
fn service(of_datasets: bool) -> Vec<(Method, String)> {
    rows()
        .into_iter()
        .filter(|(_, path, _)| is_of_datasets(path) == of_datasets)
        .map(|(method, path, _)| (method, concrete(&path)))
        .collect()
}

async fn all_refuse(what: &str, client: &Client, operations: &[(Method, String)]) {
    for (method, path) in operations {
        let answer = client.send(client.request(method.clone(), path)).await;
        assert_eq!(answer.status, 401, "{what}: {method} {path}: {}", answer.text);
        assert_eq!(answer.body["code"], "unauthorized", "{what}: {method} {path}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_refuses_each_key_that_is_not_its_own() {
    let cluster = Cluster::start(&[("scheduler.wrong_keys_max", "100000")], None).await;
    let scheduler = cluster.scheduler().await;
    let admin = scheduler.client();
    let (_, app) = admin.register(&Flow::new("start -> end")).await;
    let key = admin.post("/api/v1/keys", &json!({"scope": "datasets"})).await;
    let datasets = admin.with_key(Some(key.body["key"].as_str().unwrap_or_else(|| panic!("{}", key.text))));
    let named = admin.post("/api/v1/admin-keys", &json!({"label": "ci", "role": "admin"})).await;
    let named = admin.with_key(Some(named.body["key"].as_str().unwrap_or_else(|| panic!("{}", named.text))));
    let (native, service, of_datasets) = (native(), service(false), service(true));
    assert!(native.len() > 40 && service.len() > 30 && of_datasets.len() > 20, "{native:?}");

    for all in [&native, &service, &of_datasets] {
        all_refuse("no key", &admin.with_key(None), all).await;
        all_refuse("an unknown key", &admin.with_key(Some("app-00000000000000000000")), all).await;
        all_refuse("an unknown admin key", &admin.with_key(Some("admin-00000000000000000000")), all).await;
    }
    for (what, client, all) in [
        ("the key of an app", &app, &native),
        ("the key of an app", &app, &of_datasets),
        ("the key of datasets", &datasets, &native),
        ("the key of datasets", &datasets, &service),
        ("a stored admin key", &named, &service),
        ("a stored admin key", &named, &of_datasets),
        ("the admin key", &admin, &service),
        ("the admin key", &admin, &of_datasets),
    ] {
        all_refuse(what, client, all).await;
    }
}
