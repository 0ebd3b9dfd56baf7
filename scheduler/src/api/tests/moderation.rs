//! Tests of a workflow that enables moderation: it is refused, or runs without moderation if the settings allow that.

use serde_json::json;

use super::fixtures::{ADMIN, GREETER, Server, config};

fn moderated() -> String {
    let features = "workflow:\n  features: {sensitive_word_avoidance: {enabled: true, type: keywords}}\n";
    GREETER.replace("workflow:\n", features)
}

fn lenient() -> tidemill_common::config::Config {
    let mut config = config();
    config.compat.moderation_left_out = true;
    config
}

fn names_it(message: &str) {
    for named in ["sensitive_word_avoidance", "compat.moderation_left_out"] {
        assert!(message.contains(named), "{named}: {message}");
    }
}

#[tokio::test]
async fn a_moderated_workflow_is_neither_published_nor_run_by_default() {
    let server = Server::start();
    let (app, _) = server.app().await;
    for (path, body) in [
        ("/api/v1/apps", json!({"workflow": moderated()})),
        ("/api/v1/apps", json!({"workflow": moderated(), "id": app})),
        ("/api/v1/runs", json!({"workflow": moderated(), "inputs": {"name": "Ada"}})),
    ] {
        let refused = server.post(ADMIN, path, &body).await;
        let said = refused.json();
        assert_eq!((refused.status.as_u16(), &said["code"]), (422, &json!("invalid_workflow")), "{path}");
        names_it(said["message"].as_str().unwrap());
        let [found] = &said["diagnostics"].as_array().unwrap()[..] else { panic!("{said}") };
        assert_eq!((&found["severity"], &found["code"]), (&json!("error"), &json!("features.moderation")));
    }
    assert!(server.store.lock().created.is_empty(), "nothing was run");
}

#[tokio::test]
async fn if_moderation_may_be_left_out_it_is_published_with_a_warning_and_shown_as_off() {
    let server = Server::with(lenient());
    let published = server.post(ADMIN, "/api/v1/apps", &json!({"workflow": moderated()})).await;
    assert_eq!(published.status, 201, "{}", published.text);
    let said = published.json();
    let [warning] = &said["warnings"].as_array().unwrap()[..] else { panic!("{said}") };
    assert_eq!(warning["severity"], "warning");
    names_it(warning["message"].as_str().unwrap());
    let parameters = server.get(said["key"].as_str().unwrap(), "/v1/parameters").await.json();
    assert_eq!(parameters["sensitive_word_avoidance"]["enabled"], false, "nothing is checked");
    server.run(said["id"].as_str().unwrap()).await;
    let run = json!({"workflow": moderated(), "inputs": {"name": "Ada"}});
    assert_eq!(server.post(ADMIN, "/api/v1/runs", &run).await.status, 201);
}

#[tokio::test]
async fn an_app_that_was_published_earlier_is_refused_at_its_next_run() {
    // An earlier version published it without a check.
    let before = Server::with(lenient());
    let published = before.post(ADMIN, "/api/v1/apps", &json!({"workflow": moderated()})).await.json();
    let text = |name: &str| published[name].as_str().unwrap().to_string();
    let running = before.run(&text("id")).await;
    let snapshot = before.get(ADMIN, &format!("/api/v1/runs/{running}/snapshot")).await;

    let server = Server::over(config(), before.store.clone(), before.store.clone());
    let asked = |mode: &str| json!({"inputs": {"name": "Ada"}, "user": "u", "response_mode": mode});
    for (key, path, body) in [
        (text("key"), "/v1/workflows/run", asked("blocking")),
        (text("key"), "/v1/workflows/run", asked("streaming")),
        (ADMIN.into(), "/api/v1/runs", json!({"app": text("id"), "inputs": {"name": "Ada"}})),
    ] {
        let refused = server.post(&key, path, &body).await;
        assert_eq!(refused.status, 422, "{path}: {}", refused.text);
        let said = refused.json()["message"].as_str().unwrap().to_string();
        if key == ADMIN {
            names_it(&said);
        } else {
            // End users do not read names of settings.
            assert!(said.contains("moderation") && !refused.text.contains("compat."), "{}", refused.text);
        }
    }
    assert_eq!(snapshot.status, 200, "{}", snapshot.text);
    let refused = server.post(ADMIN, "/api/v1/runs/import", &snapshot.json()).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    assert_eq!(server.store.lock().created.len(), 1, "nothing was run");
    // A run that exists continues, and is shown.
    assert_eq!(server.get(ADMIN, &format!("/api/v1/runs/{running}")).await.status, 200);
    assert_eq!(server.get(&text("key"), "/v1/info").await.status, 200);
}

#[tokio::test]
async fn the_refusal_of_an_app_without_a_workflow_names_the_place_in_its_file() {
    let chat = "
kind: app
version: 0.6.0
app: {mode: chat, name: Chat}
model_config:
  model: {provider: openai, name: m, mode: chat, completion_params: {}}
  pre_prompt: Answer.
  sensitive_word_avoidance:
    enabled: true
    type: openai_moderation
    config: {inputs_config: {enabled: true, preset_response: No.}}
";
    let before = Server::with(lenient());
    let published = before.post(ADMIN, "/api/v1/apps", &json!({"workflow": chat})).await;
    assert_eq!(published.status, 201, "{}", published.text);
    let server = Server::over(config(), before.store.clone(), before.store.clone());
    let run = json!({"app": published.json()["id"], "inputs": {}, "user": "u", "query": "hi"});
    let refused = server.post(ADMIN, "/api/v1/runs", &run).await;
    assert_eq!(refused.status, 422, "{}", refused.text);
    let path = &refused.json()["diagnostics"][0]["path"];
    assert_eq!(path, "model_config.sensitive_word_avoidance", "{}", refused.text);
}
