//! Tests a model with the smallest possible real call. It is a run of one node, because only workers have the keys, the
//! network and the settings that a workflow uses.

use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};
use tokio::time::{Instant, sleep};

use super::common::Common;
use crate::client::Client;
use crate::client::view::has_ended;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

/// Time between two checks whether the run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest part of an answer that is shown, in characters.
const ANSWER_CHARS_MAX: usize = 60;

#[derive(Debug, Args)]
pub(super) struct TrialArgs {
    /// Longest wait for an answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
}

/// Calls models. Each is given as the provider and the name that a workflow would use.
pub(super) async fn perform(
    asked: &[(String, String)],
    arguments: &TrialArgs,
    common: &Common,
    console: &mut Console,
) -> Result<Exit, Error> {
    let client = common.client()?;
    let mut results = Vec::with_capacity(asked.len());
    for (provider, model) in asked {
        results.push(call(&client, provider, model, Duration::from_secs(arguments.wait)).await?);
    }
    let all_well = results.iter().all(|result| result["error"].is_null());
    if common.json {
        json::whole(&json!({"data": results}), console)?;
    } else {
        console.text(render(&results))?;
        for result in results.iter().filter(|result| !result["error"].is_null()) {
            let (model, error) = (word(&result["model"]), text::one_line(&word(&result["error"])));
            console.note(format_args!("{model}: {error} (tidemill show {})", word(&result["run"])));
        }
    }
    Ok(if all_well { Exit::Succeeded } else { Exit::Failed })
}

async fn call(client: &Client, provider: &str, model: &str, at_most: Duration) -> Result<Json, Error> {
    let body = json!({"workflow": workflow(provider, model).to_string(), "inputs": {}, "user": "tidemill"});
    let run = client.submit(&body).await?;
    let deadline = Instant::now() + at_most;
    loop {
        let shown = client.run(&run).await?;
        if shown["status"].as_str().is_some_and(has_ended) {
            return Ok(result(provider, model, &run, &shown));
        }
        if Instant::now() >= deadline {
            let stop = json!({"command": "stop", "reason": "The test took too long."});
            // If the run has ended in the meantime, there is nothing to stop.
            let _ = client.command(&run, &stop).await;
            let seconds = at_most.as_secs();
            let error = format!("no answer within {seconds} s (--wait); is a worker running?");
            return Ok(json!({"provider": provider, "model": model, "run": run, "error": error}));
        }
        sleep(LOOK_EVERY).await;
    }
}

fn workflow(provider: &str, model: &str) -> Json {
    let output = |name: &str| json!({"variable": name, "value_selector": ["model", name]});
    let edge = |from: &str, to: &str| json!({"id": from, "source": from, "target": to, "sourceHandle": "source", "targetHandle": "target"});
    json!({
        "kind": "app", "version": "0.6.0",
        "app": {"mode": "workflow", "name": format!("Test of {provider}")},
        "workflow": {"environment_variables": [], "conversation_variables": [], "graph": {
            "nodes": [
                {"id": "start", "data": {"type": "start", "title": "Start", "variables": []}},
                {"id": "model", "data": {
                    "type": "llm", "title": "Model",
                    "model": {"provider": provider, "name": model, "mode": "chat", "completion_params": {}},
                    "prompt_template": [{"role": "user", "text": "Reply with the one word: OK"}],
                    "context": {"enabled": false, "variable_selector": []}, "vision": {"enabled": false},
                }},
                {"id": "end", "data": {"type": "end", "title": "End", "outputs": [output("text"), output("usage")]}},
            ],
            "edges": [edge("start", "model"), edge("model", "end")],
        }},
    })
}

fn result(provider: &str, model: &str, run: &str, shown: &Json) -> Json {
    let mut result = json!({"provider": provider, "model": model, "run": run});
    if shown["status"] != "succeeded" {
        let status = || format!("the run is {}", word(&shown["status"]));
        result["error"] = shown["error"].as_str().map_or_else(status, Into::into).into();
        return result;
    }
    let (text, usage) = (word(&shown["outputs"]["text"]), &shown["outputs"]["usage"]);
    result["answer"] = match serde_json::from_str::<Vec<f64>>(&text) {
        Ok(vector) => format!("a vector of {} numbers", vector.len()).into(),
        Err(_) => text.into(),
    };
    for name in ["latency", "prompt_tokens", "completion_tokens", "total_price", "currency"] {
        result[name] = usage[name].clone();
    }
    result
}

fn render(results: &[Json]) -> String {
    let row = |result: &Json| {
        let outcome = if result["error"].is_null() { "ok" } else { "failed" };
        let latency = result["latency"].as_f64().map(|seconds| format!("{:.0} ms", seconds * 1000.0));
        let tokens = result["prompt_tokens"].as_u64().zip(result["completion_tokens"].as_u64());
        let tokens = tokens.map(|(of_prompt, of_reply)| format!("{of_prompt} + {of_reply}"));
        let answer = text::shortened(&text::one_line(&word(&result["answer"])), ANSWER_CHARS_MAX);
        let of = |text: Option<String>| text.unwrap_or_default();
        vec![word(&result["model"]), outcome.into(), of(latency), of(tokens), answer]
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    table::render(&["MODEL", "RESULT", "LATENCY", "TOKENS", "ANSWER"], &rows)
}

fn word(value: &Json) -> String {
    super::catalog::text(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::graph::import;

    #[test]
    fn the_workflow_of_a_test_can_be_run() {
        let imported = import(workflow("langgenius/openai/openai", "m").to_string().as_bytes());
        assert!(imported.graph.is_some(), "{:?}", imported.diagnostics);
        assert_eq!(imported.diagnostics, []);
    }

    #[test]
    fn each_result_is_a_row() {
        let usage = json!({"latency": 0.1234, "prompt_tokens": 9, "completion_tokens": 1, "total_price": "0.0", "currency": "USD"});
        let well = |text: &str| json!({"status": "succeeded", "outputs": {"text": text, "usage": usage}});
        let failed = json!({"status": "failed", "error": "[p] Connection Error", "outputs": {}});
        let results = [
            result("p", "chat", "r1", &well("OK")),
            result("p", "embed", "r2", &well("[0.5,1]")),
            result("p", "none", "r3", &failed),
        ];
        assert_eq!(results[2]["error"], "[p] Connection Error");
        let expected = "\
MODEL  RESULT  LATENCY  TOKENS  ANSWER
chat   ok      123 ms   9 + 1   OK
embed  ok      123 ms   9 + 1   a vector of 2 numbers
none   failed  -        -       -
";
        assert_eq!(render(&results), expected);
    }
}
