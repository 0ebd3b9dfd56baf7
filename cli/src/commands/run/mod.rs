//! `tidemill run`: a workflow file once, from its inputs to its outputs. Without a named scheduler it brings one of its
//! own, on a Redis in a temporary folder, and leaves nothing behind.

mod inputs;
mod waiting;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};
use tidemill_common::wire::event::kind;

use super::Interrupts;
use crate::client::{Client, Follow};
use crate::console::Console;
use crate::data_folder::DataFolder;
use crate::error::{Error, Exit};
use crate::output::Report;
use crate::stack::{ModelArgs, Stack, StackSettings};
use crate::target::{FolderArgs, TargetArgs};
use crate::workflow_file::{Workflow, WorkflowFile};
use inputs::InputArgs;
use waiting::Then;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The workflow file
    file: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    /// Show every event, not only what nodes do
    #[arg(long)]
    events: bool,
    /// Show every event as a JSON object, then the run as one
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    target: TargetArgs,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let workflow = WorkflowFile::read(&arguments.file)?.usable(console)?;
    let request = arguments.inputs.request(&workflow)?;
    match arguments.target.named() {
        Some(_) => {
            if arguments.models.mock_llm.is_some() || arguments.models.provider_url.is_some() {
                let text = "--mock-llm and --provider-url are for runs on this machine; a scheduler that was named uses the models of its workers";
                return Err(Error::Usage(text.into()));
            }
            // The address of this folder's `tidemill dev` needs no key.
            let client = Client::new(&arguments.target.resolve(&FolderArgs::default()))?;
            drive(&client, &request, arguments, false, console, &mut Interrupts::new()).await
        }
        None => locally(&workflow, &request, arguments, console).await,
    }
}

async fn locally(
    workflow: &Workflow,
    request: &Json,
    arguments: &Arguments,
    console: &mut Console,
) -> Result<Exit, Error> {
    let mut interrupts = Interrupts::new();
    let place = tempfile::Builder::new().prefix("tidemill-run-").tempdir();
    let place = place.map_err(|error| Error::Failed(format!("cannot make a temporary folder: {error}")))?;
    let folder = DataFolder::open(place.path())?;
    let settings = StackSettings {
        redis: None,
        listen: Some("127.0.0.1:0"),
        workers: 1,
        models: &arguments.models,
        log_level: "error",
    };
    tracing::debug!(workflow = workflow.name(), "running locally");
    let stack = Stack::start(&folder, &settings).await?;
    let outcome = match Client::new(stack.target()) {
        Ok(client) => drive(&client, request, arguments, true, console, &mut interrupts).await,
        Err(error) => Err(error.into()),
    };
    stack.stop(async { interrupts.next().await }).await;
    outcome
}

/// Submits a run and stays with it; asks when it waits for somebody. The first interrupt stops the run, the second
/// leaves it.
async fn drive(
    client: &Client,
    request: &Json,
    arguments: &Arguments,
    is_local: bool,
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> Result<Exit, Error> {
    let mut report = Report::new(arguments.json, arguments.events, console);
    let run = client.submit(request).await?;
    let mut follow = Follow::new(client, &run, None);
    let (mut stopping, mut is_waiting) = (false, false);
    loop {
        tokio::select! {
            then = waiting::perform(client, &run, is_local, &mut report, console),
                if is_waiting && !stopping =>
            {
                is_waiting = false;
                if then? == Then::Leave {
                    break;
                }
            }
            event = follow.next(), if !is_waiting || stopping => match event? {
                Some(event) => {
                    report.event(&event, console)?;
                    is_waiting = event.kind == kind::GRAPH_RUN_PAUSED;
                }
                None => break,
            },
            () = interrupts.next() => {
                if stopping {
                    report.note(&format!("left run {run}"), console);
                    return Ok(Exit::Failed);
                }
                stopping = true;
                report.note(&format!("stopping run {run}; Ctrl-C again leaves it"), console);
                // A run that has just ended cannot be stopped, and its end is on the way.
                let stop = json!({"command": "stop", "reason": "Stopped by user."});
                if let Err(error) = client.command(&run, &stop).await {
                    tracing::debug!(%error, "the run was not stopped");
                }
            }
        }
    }
    report.result(&client.run(&run).await?, console)
}
