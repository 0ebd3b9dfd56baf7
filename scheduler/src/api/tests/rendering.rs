use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::config::CompatConfig;
use tidemill_common::ids::ShardId;
use tidemill_common::wire::event::EventRecord;

use super::fake::FakeStore;
use super::fixtures;
use crate::runs::render::Renderer;

async fn opened(value: Json) -> Json {
    opened_of("x", value, &CompatConfig::default()).await
}

async fn opened_of(kind: &str, value: Json, compat: &CompatConfig) -> Json {
    let store = Arc::new(FakeStore::default());
    let blobs = [("t", json!("täxt")), ("l", json!(["a", "b"]))];
    store.lock().blobs.extend(blobs.map(|(id, value)| (id.into(), value.to_string())));
    let render = Renderer::new(store, ShardId(0), fixtures::graph(), compat);
    let mut record = EventRecord {
        entry: Default::default(),
        last_of_entry: true,
        kind: kind.into(),
        seq: 1,
        ts: 0,
        data: value.as_object().cloned().unwrap(),
    };
    render.event(&mut record).await.unwrap();
    Json::Object(record.data)
}

#[tokio::test]
async fn stored_values_are_opened_and_secrets_masked() {
    let blob = |id: &str, ty: &str| json!({"$tm": "blob", "id": id, "type": ty, "size": 9});
    let secret = json!({"$tm": "secret", "name": "TOKEN"});
    for (stored, shown) in [
        (json!("plain"), json!("plain")),
        (json!({"a": {"$tm": "a user's own"}}), json!({"a": {"$tm": "a user's own"}})),
        (json!({"$tm": "value", "type": "array[string]", "value": []}), json!([])),
        (json!({"$tm": "value", "type": "secret", "value": "short"}), json!("*".repeat(20))),
        (blob("t", "string"), json!("täxt")),
        (blob("l", "array[string]"), json!(["a", "b"])),
        (blob("gone", "string"), Json::Null),
        (secret, json!("hunter************re")),
        (json!({"$tm": "joined", "parts": ["one ", blob("t", "string")]}), json!("one täxt")),
    ] {
        let event = opened(json!({"outputs": {"it": stored}, "inputs": {"it": stored}})).await;
        let (outputs, inputs) = (&event["outputs"]["it"], &event["inputs"]["it"]);
        assert_eq!((outputs, inputs), (&shown, &shown));
    }
}

#[tokio::test]
async fn a_secret_is_shown_only_in_outputs_of_a_run_and_only_if_the_setting_allows_it() {
    let secret = json!({"$tm": "secret", "name": "TOKEN"});
    let joined = json!({"$tm": "joined", "parts": ["key: ", secret]});
    let event = json!({"outputs": {"a": secret, "b": joined}, "inputs": {"a": secret}});
    let masked = "hunter************re";
    let open = CompatConfig { secrets_in_outputs: true, ..CompatConfig::default() };
    for (kind, compat, shown) in [
        ("graph_run_succeeded", &CompatConfig::default(), masked),
        ("node_run_succeeded", &open, masked),
        ("graph_run_succeeded", &open, "hunter2-and-more"),
    ] {
        let told = opened_of(kind, event.clone(), compat).await;
        let expected =
            json!({"outputs": {"a": shown, "b": format!("key: {shown}")}, "inputs": {"a": masked}});
        assert_eq!(told, expected, "{kind}");
    }
}

#[tokio::test]
async fn a_chunk_in_a_blob_is_its_markdown_from_the_given_byte() {
    let chunk = |id: &str, ty: &str, from: u64| json!({"chunk": {"$tm": "blob", "id": id, "type": ty, "size": 9}, "from": from});
    assert_eq!(opened(chunk("t", "string", 3)).await, json!({"chunk": "xt"}));
    assert_eq!(opened(chunk("l", "array[string]", 0)).await, json!({"chunk": "- a\n- b"}));
    assert_eq!(opened(json!({"chunk": "as it is"})).await, json!({"chunk": "as it is"}));
}
