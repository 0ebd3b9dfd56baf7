//! Tests of the choice between our strategy and that of a plugin, which a later worker follows.

use tidemill_common::config::{Config, Prefer};

use super::*;

/// A worker that prefers plugins. None is installed.
fn preferring(jobs: &Arc<FakeJobs>) -> Arc<PluginHost> {
    let mut config = Config::default();
    config.plugins.prefer = Prefer::Plugin;
    let http = Arc::new(Http::new(&config.http).unwrap());
    Arc::new(PluginHost::new(&config, jobs.clone(), http, None, "w"))
}

fn field(step: &str) -> String {
    format!("{}/{step}", execution(5))
}

fn record(jobs: &FakeJobs, step: &str, result: &Json) {
    jobs.state().journal.insert(field(step), result.to_string());
}

/// The recorded end of an invocation of a plugin.
fn ended() -> Json {
    json!({"outputs": [["text", "string", "The tide comes."]], "metadata": {}, "usage": {"total_tokens": 3}})
}

fn without_tools(strategy: Strategy) -> Setup {
    let parameters = json!({"tools": {"type": "constant", "value": []}});
    Setup { parameters, ..Setup::of(strategy) }
}

fn of_plugin() -> Setup {
    let fields = json!({"agent_strategy_name": "echo", "agent_strategy_provider_name": "tidemill/asks/echo"});
    Setup { fields, ..without_tools(Strategy::FunctionCalling) }
}

#[tokio::test]
async fn an_invocation_that_has_ended_is_not_lost_with_its_plugin() {
    let (server, jobs) = (mock_server(vec![], vec![]).await, FakeJobs::new());
    record(&jobs, "call", &ended());
    let ran = Setup { delivery: 2, ..of_plugin() }.run(&server, &jobs).await;
    assert_eq!((ran.text().as_str(), ran.pieces.concat().as_str()), ("The tide comes.", "The tide comes."));

    let lost = Setup { delivery: 2, ..of_plugin() }.run(&server, &FakeJobs::new()).await;
    let failure = lost.result.failure.unwrap();
    assert!(failure.message.contains("tidemill plugins add"), "{failure:?}");
}

#[tokio::test]
async fn a_worker_that_prefers_its_own_strategy_takes_what_a_plugin_has_ended() {
    for strategy in STRATEGIES {
        let (server, jobs) = (mock_server(vec![], vec![]).await, FakeJobs::new());
        record(&jobs, "strategy", &json!("tidemill/asks:0.1.0"));
        record(&jobs, "call", &ended());
        let ran = Setup { delivery: 2, ..without_tools(strategy) }.run(&server, &jobs).await;
        assert_eq!(ran.text(), "The tide comes.", "{strategy:?}");
        assert_eq!(server.model_requests().len(), 0, "{strategy:?}");
    }
}

#[tokio::test]
async fn a_worker_that_prefers_plugins_continues_rounds_that_have_begun() {
    for strategy in STRATEGIES {
        for (begun, recorded, looks) in
            [(None, None, true), (Some("llm:1"), None, false), (None, Some("own"), false)]
        {
            let server = mock_server(vec![answers(strategy, "No need.")], vec![]).await;
            let jobs = FakeJobs::new();
            jobs.state().begun.extend(begun.map(str::to_owned));
            if let Some(choice) = recorded {
                record(&jobs, "strategy", &json!(choice));
            }
            let plugins = Some(preferring(&jobs));
            let ran = Setup { delivery: 2, plugins, ..without_tools(strategy) }.run(&server, &jobs).await;
            assert!(ran.text().ends_with("No need."), "{strategy:?} {begun:?}: {}", ran.text());
            let has_looked = jobs.state().catalog_asked != (0, 0);
            assert_eq!(has_looked, looks, "{strategy:?} {begun:?} {recorded:?}");
            assert_eq!(jobs.state().journal[&field("strategy")], "\"own\"", "{strategy:?} {begun:?}");
        }
    }
}

#[tokio::test]
async fn a_worker_that_prefers_its_own_strategy_writes_no_choice_at_first() {
    let server = mock_server(vec![answers(Strategy::FunctionCalling, "No need.")], vec![]).await;
    let jobs = FakeJobs::new();
    without_tools(Strategy::FunctionCalling).run(&server, &jobs).await.text();
    assert!(!jobs.state().journal.contains_key(&field("strategy")));
}
