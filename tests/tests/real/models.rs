//! Models of a plugin as providers: words, calls of tools, pictures and schemas of an LLM, vectors and ranks of a dataset,
//! credentials for all models, for one model and for one app, and failures.

use serde_json::{Value as Json, json};
use tidemill_tests::workspace;

use crate::lab::Lab;

const ID: &str = "tidemill/brain:0.1.0";
pub(crate) const PROVIDER: &str = "tidemill/brain/brain";
pub(crate) const KEY: &str = "the-right-key";

/// A workflow with an `llm` node that gets the input `q`.
pub(crate) fn asking(model: &str, more: &Json) -> Json {
    let mut ask = json!({
        "type": "llm", "title": "Ask",
        "model": {"provider": PROVIDER, "name": model, "mode": "chat", "completion_params": {"temperature": 0.5}},
        "prompt_template": [{"role": "user", "text": "{{#start.q#}}"}],
        "context": {"enabled": false, "variable_selector": []}, "vision": {"enabled": false},
    });
    for (key, value) in more.as_object().expect("an object") {
        ask[key] = value.clone();
    }
    let question = json!({"variable": "q", "label": "q", "type": "text-input", "required": true});
    let output = |name: &str| json!({"variable": name, "value_selector": ["ask", name]});
    let edge = |from: &str, to: &str| json!({"id": from, "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"});
    json!({
        "kind": "app", "version": "0.6.0", "app": {"mode": "workflow", "name": "Ask"},
        "workflow": {"environment_variables": [], "conversation_variables": [], "graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "Start", "variables": [question]}},
                {"id": "ask", "data": ask},
                {"id": "end", "data": {"type": "end", "title": "End", "outputs": [output("text"), output("usage"), output("structured_output")]}},
            ],
            "edges": [edge("start", "ask"), edge("ask", "end")],
        }},
    })
}

pub(crate) async fn begin(lab: &Lab, document: &Json, question: &str) -> String {
    let inputs = json!({"q": question});
    lab.client.submit(&json!({"workflow": document.to_string(), "inputs": inputs, "user": "tester"})).await
}

pub(crate) async fn ended(lab: &Lab, document: &Json, question: &str) -> Json {
    let run = begin(lab, document, question).await;
    lab.client.ended_within(&run, crate::lab::ENDED_WITHIN).await
}

pub(crate) async fn install(lab: &Lab) {
    let folder = workspace().join("plugins/tests/plugins/brain").display().to_string();
    lab.well(&["plugins", "add", &folder, "--yes"], "").await;
    lab.ready(ID, lab.workers.len()).await;
}

fn error(run: &Json) -> &str {
    run["error"].as_str().unwrap_or_else(|| panic!("it has not failed: {run}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_a_plugin_streams_its_words_counts_and_costs_as_others_do() {
    let Some(lab) = Lab::start(&[("worker.providers_refresh_ms", "0"), ("log.level", "debug")]).await else {
        return;
    };
    let plain = asking("echo", &json!({}));
    let unknown = ended(&lab, &plain, "hello").await;
    assert!(error(&unknown).contains("tidemill plugins add"), "{unknown}");
    install(&lab).await;
    let keyless = ended(&lab, &plain, "hello").await;
    assert!(error(&keyless).contains(&format!("tidemill plugins config {PROVIDER}")), "{keyless}");

    let config = ["plugins", "config", PROVIDER, "--secret-stdin", "key"];
    let refused = lab.tidemill(&config, "a-wrong-key-of-brain").await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("the key *** is wrong"), "{said}");
    let said = lab.well(&config, KEY).await;
    assert!(said.contains("the plugin accepts the credentials") && !said.contains(KEY), "{said}");

    let run = begin(&lab, &plain, "hello dear reader").await;
    let done = lab.client.ended_within(&run, crate::lab::ENDED_WITHIN).await;
    assert_eq!(done["outputs"]["text"], "echo heard hello dear reader", "{done}");
    let usage = &done["outputs"]["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(10), &json!(5)), "{usage}");
    // 10 × 1.00 + 5 × 2.00 for a thousand tokens.
    assert_eq!(
        usage["total_price"].as_str().and_then(|text| text.parse::<f64>().ok()),
        Some(0.02),
        "{usage}"
    );
    let events = lab.client.get(&format!("/api/v1/runs/{run}/events?follow=false")).await.text;
    // Words that come together are one piece; the last one is empty.
    let pieces = events.matches(r#""selector":["ask","text"]"#).count();
    assert!(pieces >= 2, "{pieces} pieces: {events}");

    let raised = ended(&lab, &plain, "no such thing").await;
    assert!(error(&raised).contains("Bad Request Error, refused with the key ***"), "{raised}");
    let forbidden = ended(&lab, &plain, "not allowed").await;
    assert!(error(&forbidden).contains("Incorrect model credentials"), "{forbidden}");
    let broken = ended(&lab, &plain, "it breaks here").await;
    assert!(error(&broken).contains("the line is cut"), "{broken}");
    for entry in lab.cluster.redis.everything().await {
        assert!(!entry.text.contains(KEY), "{}: {}", entry.key, entry.text);
    }
    for worker in &lab.workers {
        assert!(!worker.process.log_text().contains(KEY), "the log of a worker has the key");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_classes_and_calls_of_tools_reach_the_plugin() {
    let Some(lab) = Lab::start(&[]).await else { return };
    install(&lab).await;
    lab.well(&["plugins", "config", PROVIDER, "--secret-stdin", "key", "--no-test"], KEY).await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    let structured =
        asking("echo", &json!({"structured_output_enabled": true, "structured_output": {"schema": schema}}));
    let done = ended(&lab, &structured, "where").await;
    assert_eq!(done["outputs"]["structured_output"], json!({"city": "made up"}), "{done}");

    let mut extracting = asking("echo", &json!({}));
    extracting["workflow"]["graph"]["nodes"][1]["data"] = json!({
        "type": "parameter-extractor", "title": "Extract", "query": ["start", "q"], "reasoning_mode": "function_call",
        "model": {"provider": PROVIDER, "name": "echo", "mode": "chat", "completion_params": {}}, "instruction": "",
        "parameters": [{"name": "city", "type": "string", "description": "a city", "required": true}],
        "vision": {"enabled": false},
    });
    let output = json!([{"variable": "city", "value_selector": ["ask", "city"]}]);
    extracting["workflow"]["graph"]["nodes"][2]["data"]["outputs"] = output;
    let done = ended(&lab, &extracting, "where").await;
    assert_eq!(done["outputs"]["city"], "a", "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_by_its_name_has_its_own_credentials_and_an_app_its_own() {
    let Some(lab) = Lab::start(&[]).await else { return };
    install(&lab).await;
    let mine = asking("acme/mine:8b", &json!({}));
    let keyless = ended(&lab, &mine, "hello").await;
    assert!(error(&keyless).contains("needs credentials (key, loud)"), "{keyless}");
    assert!(error(&keyless).contains("--model acme/mine:8b --model-type llm"), "{keyless}");
    let both = ["--secret-stdin", "key", "--set", "loud=true"];
    let model = ["plugins", "config", PROVIDER, "--model", "acme/mine:8b"];
    let config = [&model[..], &both[..]].concat();
    let said = lab.well(&config, &format!("{KEY}\n")).await;
    assert!(said.contains("accepts"), "{said}");
    let again = lab.well(&["plugins", "test", PROVIDER, "--model", "acme/mine:8b"], "").await;
    assert!(again.contains("accepts"), "{again}");
    let done = ended(&lab, &mine, "hello").await;
    assert_eq!(done["outputs"]["text"], "ACME/MINE:8B HEARD HELLO", "{done}");

    // Those of an app serve only its runs.
    let mut apps = Vec::new();
    for name in ["One", "Two"] {
        let mut document = asking("echo", &json!({}));
        document["app"]["name"] = name.into();
        let made = lab.client.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        apps.push(made.body["id"].as_str().expect("it has an id").to_owned());
    }
    let config = ["plugins", "config", PROVIDER, "--app", &apps[0], "--secret-stdin", "key"];
    lab.well(&config, KEY).await;
    let mut outcomes = Vec::new();
    for app in &apps {
        let run = lab.client.submit(&json!({"app": app, "inputs": {"q": "hi"}, "user": "tester"})).await;
        outcomes.push(lab.client.ended_within(&run, crate::lab::ENDED_WITHIN).await);
    }
    assert_eq!(outcomes[0]["outputs"]["text"], "echo heard hi", "{outcomes:?}");
    assert!(error(&outcomes[1]).contains("needs credentials"), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dataset_is_embedded_and_ranked_by_models_of_a_plugin() {
    let Some(lab) = Lab::start(&[]).await else { return };
    install(&lab).await;
    lab.well(&["plugins", "config", PROVIDER, "--secret-stdin", "key", "--no-test"], KEY).await;
    let folder = tempfile::tempdir().expect("a folder");
    // By letters the long text comes first, by length the short one.
    let (short, long) = ("zz ae zz", "eeee eeee eeee eeee");
    for (name, text) in [("a.txt", short), ("b.txt", long)] {
        std::fs::write(folder.path().join(name), text).expect("it can be written");
    }
    let embedding = format!("{PROVIDER}:letters");
    let ranking = format!("{PROVIDER}:shortest");
    let place = folder.path().display().to_string();
    let add = ["knowledge", "add", "notes", &place, "--create", "--embedding", &embedding];
    lab.well(&[&add[..], &["--reranking-model", &ranking]].concat(), "").await;
    let found = lab.well(&["knowledge", "search", "notes", "eee"], "").await;
    let at = |text: &str| found.find(text).unwrap_or_else(|| panic!("{text} was not found: {found}"));
    assert!(at(short) < at(long), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_decides_whether_a_provider_of_the_settings_or_the_plugin_comes_first() {
    for (prefer, is_own) in [("own", true), ("plugin", false)] {
        let Some(lab) = Lab::start(&[("plugins.prefer", prefer)]).await else { return };
        install(&lab).await;
        lab.well(&["plugins", "config", PROVIDER, "--secret-stdin", "key", "--no-test"], KEY).await;
        // No server listens there.
        lab.well(&["providers", "add", "brain", "--base-url", "http://127.0.0.1:9/v1"], "").await;
        let done = ended(&lab, &asking("echo", &json!({})), "hello").await;
        if is_own {
            assert!(error(&done).contains("Connection Error"), "{done}");
        } else {
            assert_eq!(done["outputs"]["text"], "echo heard hello", "{done}");
        }
    }
}
