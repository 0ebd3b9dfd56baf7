//! `tidemill run`: runs a workflow file once and prints its outputs. If no scheduler is named, it starts one with a
//! Redis in a temporary folder and removes everything afterwards.

mod inputs;
mod waiting;

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
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
use inputs::{InputArgs, Request};
use waiting::Then;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The workflow file
    file: PathBuf,
    #[command(flatten)]
    inputs: InputArgs,
    /// Show every event, not only those of nodes
    #[arg(long)]
    events: bool,
    /// Show every event as a JSON object, and then the run as one
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    models: ModelArgs,
    #[command(flatten)]
    target: TargetArgs,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let workflow = WorkflowFile::read(&arguments.file)?.usable(console)?;
    // With --json a program reads the output, so no person is asked.
    let request = arguments.inputs.request(&workflow, !arguments.json, console).await?;
    match arguments.target.named() {
        Some(_) => {
            if arguments.models.mock_llm.is_some() || arguments.models.provider_url.is_some() {
                let text = "--mock-llm and --provider-url work only without --url and --key; that scheduler uses the models of its workers";
                return Err(Error::Usage(text.into()));
            }
            // If the address is that of this folder's `tidemill dev`, its key is known.
            let client = Client::new(&arguments.target.resolve(&FolderArgs::default()))?;
            drive(&client, &request, arguments, false, console, &mut Interrupts::new()).await
        }
        None => locally(&workflow, &request, arguments, console).await,
    }
}

async fn locally(
    workflow: &Workflow,
    request: &Request,
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

/// Submits a run and follows it; when it waits for a person, asks at the terminal. The first interrupt stops the run,
/// the second ends the command without waiting for the run.
async fn drive(
    client: &Client,
    request: &Request,
    arguments: &Arguments,
    is_local: bool,
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> Result<Exit, Error> {
    let mut report = Report::new(arguments.json, arguments.events, console);
    let run = client.submit(&request.body(client).await?).await?;
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
                    report.note(&format!("the command ends; run {run} may still be stopping"), console);
                    return Ok(Exit::Failed);
                }
                stopping = true;
                report.note(&format!("stopping run {run}; press Ctrl-C again to end without waiting for it"), console);
                // A run that has just ended cannot be stopped. Its last event will arrive.
                let stop = json!({"command": "stop", "reason": "Stopped by user."});
                if let Err(error) = client.command(&run, &stop).await {
                    tracing::debug!(%error, "the run was not stopped");
                }
            }
        }
    }
    report.result(&client.run(&run).await?, console)
}
