//! `tidemill plugins test`: calls a tool of an installed plugin, or lets the plugin check its credentials, with a run of one
//! node, because only workers have the plugin, the credentials and the network.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::registry::plugins::VALIDATE;
use tidemill_common::registry::trial;
use tidemill_common::value::JsonMap;
use tokio::time::{Instant, sleep};

use super::Test;
use crate::client::Client;
use crate::client::view::has_ended;
use crate::commands::catalog;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::json;
use crate::output::text::safe;

/// Time between two checks whether the run has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What is called.
pub(super) struct Trial<'a> {
    /// `AUTHOR/PLUGIN/PROVIDER`.
    pub(super) provider: &'a str,
    pub(super) version: Option<&'a str>,
    pub(super) tool: &'a str,
    pub(super) params: JsonMap,
    pub(super) at_most: Duration,
}

pub(super) async fn perform(arguments: &Test, console: &mut Console) -> Result<Exit, Error> {
    let client = arguments.common.client()?;
    // A worker converts texts to the types that the tool declares, as it does for workflows.
    let given = arguments.params.iter().map(|(name, text)| (name.clone(), Json::from(text.as_str())));
    let params = if arguments.tool.is_some() { given.collect() } else { arguments.whose.params() };
    let trial = Trial {
        provider: &arguments.provider,
        version: arguments.version.as_deref(),
        tool: arguments.tool.as_deref().unwrap_or(VALIDATE),
        params,
        at_most: Duration::from_secs(arguments.wait),
    };
    let result = run(&client, &trial).await?;
    let failed = result["error"].as_str().map(str::to_owned);
    if arguments.common.json {
        json::whole(&result, console)?;
    } else if failed.is_none() {
        match &arguments.tool {
            None => console.note("the plugin accepts the credentials"),
            Some(_) => {
                for (name, value) in result["outputs"].as_object().into_iter().flatten() {
                    console.line(format_args!("{name}  {}", safe(&catalog::text(value))))?;
                }
            }
        }
    }
    if let Some(error) = &failed {
        let run = catalog::text(&result["run"]);
        console.note(format_args!("{} (tidemill show {run})", safe(error)));
    }
    Ok(if failed.is_none() { Exit::Succeeded } else { Exit::Failed })
}

/// Runs the trial: `run`, and `outputs` or `error`.
pub(super) async fn run(client: &Client, trial: &Trial<'_>) -> Result<Json, Error> {
    let body = json!({"workflow": workflow(trial)?.to_string(), "inputs": {}, "user": "tidemill"});
    let run = client.submit(&body).await?;
    let deadline = Instant::now() + trial.at_most;
    loop {
        let shown = client.run(&run).await?;
        if shown["status"].as_str().is_some_and(has_ended) {
            if shown["status"] == "succeeded" {
                return Ok(json!({"run": run, "outputs": shown["outputs"]}));
            }
            let status = || format!("the run is {}", catalog::text(&shown["status"]));
            let error = shown["error"].as_str().map_or_else(status, Into::into);
            return Ok(json!({"run": run, "error": error}));
        }
        if Instant::now() >= deadline {
            let stop = json!({"command": "stop", "reason": "The test took too long."});
            // If the run has ended in the meantime, there is nothing to stop.
            let _ = client.command(&run, &stop).await;
            let seconds = trial.at_most.as_secs();
            let error = format!(
                "no answer within {seconds} s (--wait); is a worker running, and has it prepared the plugin (`tidemill plugins ls`)?"
            );
            return Ok(json!({"run": run, "error": error}));
        }
        sleep(LOOK_EVERY).await;
    }
}

fn workflow(trial: &Trial<'_>) -> Result<Json, Error> {
    let Trial { provider, version, tool, params, .. } = trial;
    trial::workflow(provider, *version, tool, params).map_err(Error::Usage)
}
