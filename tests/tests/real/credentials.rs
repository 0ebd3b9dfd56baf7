//! Credentials: sealed at rest, checked by the plugin, masked in what it writes, and only for the app that has them.

use serde_json::json;

use crate::lab::{Lab, Tool, constant, many, workflow};

/// What the plugin accepts.
const KEY: &str = "the-right-key";

#[tokio::test(flavor = "multi_thread")]
async fn credentials_are_sealed_checked_by_the_plugin_and_never_shown() {
    let Some(lab) = Lab::start(&[("log.level", "debug")]).await else { return };
    lab.install(&many(), "tidemill/many:0.1.0").await;
    let provider = "tidemill/many/many";
    let config = ["plugins", "config", provider, "--secret-stdin", "key"];
    let refused = lab.tidemill(&config, "a-wrong-key-of-many").await;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("the key *** is wrong"), "{said}");
    let said = lab.well(&config, KEY).await;
    assert!(said.contains("the plugin accepts the credentials") && !said.contains(KEY), "{said}");
    let shown = lab.client.get("/api/v1/plugin-credentials").await.text;
    assert!(shown.contains("***") && !shown.contains("sealed:"), "{shown}");

    let raised = lab.run(&[Tool::new("fail", "fail", json!({"how": constant("raise")}))]).await;
    assert!(raised["error"].as_str().unwrap().contains("failed with the key ***"), "{raised}");
    for entry in lab.cluster.redis.everything().await {
        assert!(!entry.text.contains(KEY), "{}: {}", entry.key, entry.text);
    }
    for worker in &lab.workers {
        assert!(!worker.process.log_text().contains(KEY), "the log of a worker has the key");
    }
    assert!(!lab.scheduler.process.log_text().contains(KEY), "the log of the scheduler has the key");
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_an_app_serve_no_other_app() {
    let Some(lab) = Lab::start(&[]).await else { return };
    lab.install(&many(), "tidemill/many:0.1.0").await;
    // What the tool says without a key differs from what it says with a masked one.
    let document = workflow(&[Tool::new("fail", "fail", json!({"how": constant("raise")}))]);
    let mut apps = Vec::new();
    for name in ["One", "Two"] {
        let mut document = document.clone();
        document["app"]["name"] = name.into();
        let made = lab.client.post("/api/v1/apps", &json!({"workflow": document.to_string()})).await;
        assert_eq!(made.status, 201, "{}", made.text);
        apps.push(made.body["id"].as_str().unwrap().to_owned());
    }
    let config = ["plugins", "config", "tidemill/many/many", "--app", &apps[0], "--secret-stdin", "key"];
    lab.well(&config, KEY).await;
    let mut errors = Vec::new();
    for app in &apps {
        let run = lab.client.submit(&json!({"app": app, "inputs": {}, "user": "tester"})).await;
        errors.push(lab.client.ended(&run).await["error"].as_str().unwrap_or_default().to_owned());
    }
    assert!(errors[0].contains("failed with the key ***"), "{errors:?}");
    assert!(errors[1].contains("failed with the key None"), "{errors:?}");
}
