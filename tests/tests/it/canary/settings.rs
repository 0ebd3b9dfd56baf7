//! Secrets of the settings: keys, headers and URLs of every section that may have one. All processes log at `trace`,
//! and runs fail at each service that the settings name. Nothing that people can read afterwards may contain a
//! secret.

use serde_json::json;
use tidemill_tests::cluster::Cluster;
use tidemill_tests::flow::Flow;
use tidemill_tests::wait::{LONG, until};

use super::{Canary, VisibleTexts};

/// The beginning of every secret below.
const CANARY: &str = "canary";

/// Nothing listens at port 1, so each call fails with an error.
const SETTINGS: &str = r#"
[scheduler]
admin_key = "canary-admin-key-0123"
secret_key = "canary-secret-key-012"
[files]
access_key_id = "canary-files-id"
secret_access_key = "canary-files-secret"
[http]
guard = false
proxy = "http://canary-proxy-user:canary-proxy-password@127.0.0.1:1"
[code]
endpoint = "http://canary-code-user:canary-code-password@127.0.0.1:1"
api_key = "canary-code-key"
[documents]
unstructured_url = "http://canary-docs-user:canary-docs-password@127.0.0.1:1"
unstructured_key = "canary-docs-key"
[tools]
endpoint = "http://127.0.0.1:1/?token=canary-tools-token"
api_key = "canary-tools-key"
headers = { X-Own = "canary-tools-header" }
[tools.mcp.one]
url = "http://127.0.0.1:1/sse?key=canary-mcp-query"
headers = { Authorization = "canary-mcp-header" }
[knowledge.datasets.two]
endpoint = "http://127.0.0.1:1/?key=canary-knowledge-query"
knowledge_id = "k"
api_key = "canary-knowledge-key"
[providers.default]
base_url = "http://127.0.0.1:1"
api_key = "canary-provider-key"
headers = { X-Own = "canary-provider-header" }
[profiles.own]
provider = "OPENAI_CHAT"
model = "m"
base_url = "http://127.0.0.1:1"
api_key = "canary-profile-key"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_the_settings_is_logged_or_shown_whichever_part_fails() {
    let cluster = Cluster::start(&[("log.level", "trace")], None).await;
    let file = cluster.logs().join("settings.toml");
    std::fs::write(&file, SETTINGS).expect("it can be written");
    let config = ["--config", file.to_str().expect("temporary paths are text")];
    let (scheduler, worker) = (cluster.scheduler_with(&config).await, cluster.worker_with(&config).await);
    let client = scheduler.client();

    let mut shown = VisibleTexts::default();
    for (kind, mut data) in [
        (
            "llm",
            json!({"model": {"provider": "p", "name": "m", "mode": "chat"}, "prompt_template": [{"role": "user", "text": "hello"}], "context": {"enabled": false, "variable_selector": []}}),
        ),
        (
            "code",
            json!({"code_language": "python3", "code": "def main(): return {}", "outputs": {}, "variables": []}),
        ),
        (
            "http-request",
            json!({"method": "get", "url": "http://127.0.0.1:1/", "body": {"type": "none", "data": []},
            "authorization": {"type": "no-auth"}, "headers": "", "params": ""}),
        ),
        (
            "tool",
            json!({"provider_id": "any", "provider_type": "builtin", "provider_name": "any", "tool_name": "t",
            "tool_label": "t", "tool_configurations": {}, "tool_parameters": {}}),
        ),
        (
            "knowledge-retrieval",
            json!({"dataset_ids": ["two"], "query_variable_selector": ["sys", "query"],
            "retrieval_mode": "multiple", "multiple_retrieval_config": {"top_k": 1, "reranking_enable": false}}),
        ),
    ] {
        data["type"] = kind.into();
        let flow = Flow::new("start -> n -> answer").with("n", data);
        let run = client.start(&flow, &[]).await;
        let told = client.follow(&run, None).await.to_the_end().await;
        shown.add(format!("events of {kind}"), format!("{:?}", told.events));
        shown.add(format!("run of {kind}"), client.ended(&run).await.to_string());
    }
    shown.lists(&client).await;
    let broken = cluster.logs().join("broken.toml");
    std::fs::write(&broken, "[tools]\napi_key = canary-without-quotes\n").expect("it can be written");
    let broken = ["doctor", "--config", broken.to_str().expect("temporary paths are text")];
    let away = ["doctor", "--redis-url", "redis://canary-user:canary-password@127.0.0.1:1"];
    for arguments in [&["doctor", config[0], config[1]][..], &broken, &away] {
        shown.command(&cluster, &scheduler.address, arguments).await;
    }
    // A worker with a wrong setting prints it, while it has all the other settings.
    let mut wrong = cluster.command("tidemill-worker");
    wrong
        .args(config)
        .env("TIDEMILL_HTTP_PROXY", "canary-proxy-user:canary-pass word@")
        .env("TIDEMILL_LOG_LEVEL", "loud");
    let mut wrong = cluster.spawn("wrong", wrong);
    until("it to give up", LONG, async || wrong.end().ok_or_else(|| wrong.tail())).await;
    assert!(wrong.log_text().contains("log.level"), "{}", wrong.log_text());
    assert!(worker.process.log_text().contains("\"TRACE\""), "it logs at trace");
    shown.logs(&cluster);
    shown.redis(&cluster.redis, |_| false).await;
    shown.has_none_of(&[&Canary::of(CANARY)]);
}
