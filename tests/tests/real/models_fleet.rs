//! Models of a plugin on a fleet where not every worker, or not every version, can serve them.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_tests::llm;
use tidemill_tests::wait::until;
use tidemill_tests::workspace;

use crate::lab::{ENDED_WITHIN, Lab, another};
use crate::models::{KEY, PROVIDER, asking, begin, ended, install};

/// The states of a plugin on the workers.
async fn states(lab: &Lab, id: &str) -> Vec<Json> {
    let shown = lab.client.get("/api/v1/plugins").await.body;
    let all = shown["data"].as_array().cloned().unwrap_or_default();
    let of = all.into_iter().filter(|one| one["id"] == id);
    of.flat_map(|one| one["workers"].as_array().cloned().unwrap_or_default()).collect()
}

async fn config(lab: &Lab) {
    lab.well(&["plugins", "config", PROVIDER, "--secret-stdin", "key", "--no-test"], KEY).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_version_that_is_not_ready_leaves_the_models_to_the_one_that_is() {
    let Some(lab) = Lab::start(&[("worker.providers_refresh_ms", "0")]).await else { return };
    install(&lab).await;
    config(&lab).await;
    let brain = workspace().join("plugins/tests/plugins/brain");
    let newer = another(
        &brain,
        "0.2.0",
        &[("requirements.txt", "dify_plugin>=0.4,<0.8\ntidemill-has-no-such-package>=1.0,<2.0\n")],
    );
    let folder = newer.path().display().to_string();
    lab.well(&["plugins", "add", &folder, "--yes"], "").await;
    until("both workers to know the newer version", Duration::from_secs(60), async || {
        let states = states(&lab, "tidemill/brain:0.2.0").await;
        if states.len() == 2 { Ok(()) } else { Err(format!("{states:?}")) }
    })
    .await;
    for _ in 0..4 {
        let done = ended(&lab, &asking("echo", &json!({})), "hello").await;
        assert_eq!(done["outputs"]["text"], "echo heard hello", "{done}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_provider_serves_a_model_until_the_plugin_has_credentials() {
    let model = llm::rules(json!([{"match": {}, "reply": "the default answers"}])).await;
    let Some(lab) = Lab::with_model(&[("worker.providers_refresh_ms", "0")], Some(&model)).await else {
        return;
    };
    let plain = asking("echo", &json!({}));
    let before = ended(&lab, &plain, "hello").await;
    assert_eq!(before["outputs"]["text"], "the default answers", "{before}");
    install(&lab).await;
    let unconfigured = ended(&lab, &plain, "hello").await;
    assert_eq!(unconfigured["outputs"]["text"], "the default answers", "{unconfigured}");
    config(&lab).await;
    let after = ended(&lab, &plain, "hello").await;
    assert_eq!(after["outputs"]["text"], "echo heard hello", "{after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn classifiers_and_extractors_are_handed_to_the_workers_that_have_the_plugin() {
    let Some(lab) = Lab::start(&[]).await else { return };
    install(&lab).await;
    config(&lab).await;
    let mut command = lab.cluster.command("tidemill-worker");
    command.env("TIDEMILL_PLUGINS_ENABLED", "false");
    let without = lab.cluster.worker_of(command).await;
    until("the third worker to say that it runs no plugins", Duration::from_secs(30), async || {
        let states = states(&lab, "tidemill/brain:0.1.0").await;
        let is_it =
            |state: &&Json| state["worker"] == without.consumer.as_str() && state["state"] == "disabled";
        if states.iter().any(|state| is_it(&state)) { Ok(()) } else { Err(format!("{states:?}")) }
    })
    .await;
    let model = json!({"provider": PROVIDER, "name": "echo", "mode": "chat", "completion_params": {}});
    let nodes = [
        json!({
            "type": "parameter-extractor", "title": "Extract", "query": ["start", "q"], "model": model,
            "reasoning_mode": "function_call", "instruction": "", "vision": {"enabled": false},
            "parameters": [{"name": "city", "type": "string", "description": "a city", "required": true}],
        }),
        json!({
            "type": "question-classifier", "title": "Classify", "query_variable_selector": ["start", "q"],
            "model": model, "instruction": "", "vision": {"enabled": false},
            "classes": [{"id": "source", "name": "all"}],
        }),
    ];
    let mut runs = Vec::new();
    for node in nodes {
        let mut document = asking("echo", &json!({}));
        document["workflow"]["graph"]["nodes"][1]["data"] = node;
        document["workflow"]["graph"]["nodes"][2]["data"]["outputs"] = json!([]);
        for _ in 0..6 {
            runs.push(begin(&lab, &document, "where").await);
        }
    }
    for run in runs {
        let done = lab.client.ended_within(&run, ENDED_WITHIN).await;
        // What the model answers does not matter here.
        assert!(!done.to_string().contains("plugins.enabled"), "{done}");
    }
}
