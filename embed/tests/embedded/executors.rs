//! Executors of the host: they run what they are registered for; the engine runs the rest.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::json;
use tidemill_embed::host::{Hosts, NodeCall, NodeEvent, NodeExecutor, NodeOutcome};
use tidemill_embed::{Engine, EngineConfig, Inputs, Outcome};

use crate::GREET;

/// Answers with a text about what it was given.
struct Loud;

impl NodeExecutor for Loud {
    fn execute(&self, call: NodeCall) -> BoxStream<'static, NodeEvent> {
        let event = match call.inputs["name"].as_str() {
            Some("unnamed") => NodeEvent::Failed { class: "NoName".into(), message: "give a name".into() },
            name => {
                let text = format!("{} SAYS {}", call.node_type, name.unwrap_or_default().to_uppercase());
                let outputs = json!({"output": text}).as_object().cloned().unwrap_or_default();
                NodeEvent::Succeeded(NodeOutcome { outputs, ..NodeOutcome::default() })
            }
        };
        stream::iter([NodeEvent::Started, event]).boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pure_node_is_executed_by_the_host_that_registered_for_it() {
    let by_type = Hosts::default().node_type("template-transform", Arc::new(Loud)).expect("a known type");
    for hosts in [by_type, Hosts::default().node("greet", Arc::new(Loud))] {
        let engine =
            Engine::create(EngineConfig { hosts, ..EngineConfig::default() }).await.expect("it starts");
        let run = engine.run(GREET, Inputs::new().input("name", "Ada")).await.expect("the run starts");
        let Outcome::Succeeded { outputs, .. } = run.result().await.expect("it ends") else {
            panic!("it fails")
        };
        assert_eq!(outputs["text"], "template-transform SAYS ADA");

        let run = engine.run(GREET, Inputs::new().input("name", "unnamed")).await.expect("the run starts");
        let Outcome::Failed { error } = run.result().await.expect("it ends") else { panic!("it succeeds") };
        assert!(error.contains("give a name"), "{error}");
        engine.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_queue_runs_here_whether_the_host_serves_that_queue_or_not() {
    let file = GREET.replace("title: Greet,", "title: Greet, tidemill: {queue: gpu, runs_on: worker},");
    for (hosts, expected) in [
        (Hosts::default(), "Good morning, Ada"),
        (Hosts::default().queue("gpu", Arc::new(Loud)), "template-transform SAYS ADA"),
    ] {
        let engine =
            Engine::create(EngineConfig { hosts, ..EngineConfig::default() }).await.expect("it starts");
        let run = engine.run(&file, Inputs::new().input("name", "Ada")).await.expect("the run starts");
        let Outcome::Succeeded { outputs, .. } = run.result().await.expect("it ends") else {
            panic!("it fails")
        };
        assert_eq!(outputs["text"], expected);
        engine.stop().await;
    }
}
