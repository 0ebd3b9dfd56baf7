//! `tidemill run`: runs a workflow file once and prints its outputs. Without a scheduler or a Redis it runs in this
//! process and leaves nothing, unless a snapshot is kept.

mod inputs;
mod kept;
#[cfg(test)]
mod tests;
mod waiting;

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tidemill_common::store::Durability;
use tidemill_common::wire::event::kind;

use super::Interrupts;
use super::command::durability;
use crate::client::{Client, Follow};
use crate::console::Console;
use crate::data_folder::DataFolder;
use crate::embedded::Embedded;
use crate::error::{Error, Exit};
use crate::output::Report;
use crate::stack::{ModelArgs, Stack, StackSettings};
use crate::target::{FolderArgs, TargetArgs};
use crate::workflow_file::WorkflowFile;
use inputs::{InputArgs, Request};
use kept::Keep;
use waiting::{Home, Then};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The workflow file
    #[arg(required_unless_present = "resume")]
    file: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    /// Show every event, not only those of nodes
    #[arg(long)]
    events: bool,
    /// Show every event as a JSON object, and then the run as one
    #[arg(long)]
    json: bool,
    /// Write a snapshot of the run here when the command ends while it waits, and at Ctrl-C
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// Continue a run from a snapshot instead of a workflow file
    #[arg(long, value_name = "SNAPSHOT", conflicts_with_all = ["file", "input", "given_files", "inputs", "query", "option"])]
    resume: Option<PathBuf>,
    /// What must have happened to the run before the scheduler accepts it: memory, replicated or fsync
    #[arg(long, value_name = "LEVEL", value_parser = durability, conflicts_with = "resume")]
    durability: Option<Durability>,
    #[command(flatten)]
    models: ModelArgs,
    /// Run on this Redis, with a scheduler and a worker in this process beside those that it has
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    #[command(flatten)]
    target: TargetArgs,
}

/// What the run begins with.
enum Beginning {
    /// A workflow with inputs.
    Request(Request),
    /// The text of a snapshot.
    Snapshot(String),
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    if let Some(mistake) = arguments.mistake() {
        return Err(Error::Usage(mistake.into()));
    }
    let beginning = arguments.beginning(console).await?;
    if let Some(redis) = &arguments.redis {
        return on_redis(redis, &beginning, arguments, console).await;
    }
    if arguments.target.named().is_some() {
        // If the address is that of this folder's `tidemill dev`, its key is known.
        let client = Client::new(&arguments.target.resolve(&FolderArgs::default()))?;
        return drive(&client, &beginning, arguments, &Home::Fleet, console, &mut Interrupts::new()).await;
    }
    // Boxed, because a whole engine starts in it.
    Box::pin(here(&beginning, arguments, console)).await
}

impl Arguments {
    /// The reason why these arguments do not fit together.
    fn mistake(&self) -> Option<&'static str> {
        let at_scheduler = self.redis.is_none() && self.target.named().is_some();
        if at_scheduler && (self.models.mock_llm.is_some() || self.models.provider_url.is_some()) {
            return Some(
                "--mock-llm and --provider-url work only without --url and --key; that scheduler uses the models of its workers",
            );
        }
        if self.redis.is_some() && (self.models.mock_llm.is_some() || self.models.provider_url.is_some()) {
            return Some(
                "--mock-llm and --provider-url do not work with --redis: the worker of this command would answer other runs there, too; leave --redis out",
            );
        }
        let elsewhere = at_scheduler || self.redis.is_some();
        if !elsewhere && self.durability.is_some() {
            return Some(
                "--durability works only with --url, --key or --redis; here the run is in the memory of this process",
            );
        }
        (elsewhere && (self.keep.is_some() || self.resume.is_some())).then_some(
            "--keep and --resume work only without --url, --key and --redis: there the run stays in Redis; use tidemill export and tidemill import",
        )
    }

    async fn beginning(&self, console: &mut Console) -> Result<Beginning, Error> {
        if let Some(snapshot) = &self.resume {
            return kept::read(snapshot).map(Beginning::Snapshot);
        }
        let file = self.file.as_deref().unwrap_or(Path::new(""));
        let workflow = WorkflowFile::read(file)?.usable(console)?;
        // With --json a program reads the output, so no person is asked.
        self.inputs.request(&workflow, !self.json, console).await.map(Beginning::Request)
    }
}

/// Runs it in this process alone.
async fn here(beginning: &Beginning, arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let mut interrupts = Interrupts::new();
    // Before the run, which would be lost if it could not be kept.
    let home = Home::Here(arguments.keep.clone().map(Keep::at).transpose()?);
    let engine = Box::pin(Embedded::start(&arguments.models)).await?;
    let outcome = match engine.client() {
        Ok(client) => drive(&client, beginning, arguments, &home, console, &mut interrupts).await,
        Err(error) => Err(error),
    };
    engine.stop(async { interrupts.next().await }).await;
    outcome
}

/// Runs it on a Redis, with a scheduler and a worker of its own. They serve other runs there as well, until this one ends.
async fn on_redis(
    redis: &str,
    beginning: &Beginning,
    arguments: &Arguments,
    console: &mut Console,
) -> Result<Exit, Error> {
    let mut interrupts = Interrupts::new();
    let place = tempfile::Builder::new().prefix("tidemill-run-").tempdir();
    let place = place.map_err(|error| Error::Failed(format!("cannot make a temporary folder: {error}")))?;
    let folder = DataFolder::open(place.path())?;
    let settings = StackSettings {
        redis: Some(redis),
        listen: Some("127.0.0.1:0"),
        workers: 1,
        is_guest: true,
        models: &arguments.models,
        log_level: "error",
    };
    let stack = Stack::start(&folder, &settings).await?;
    let outcome = match Client::new(stack.target()) {
        Ok(client) => drive(&client, beginning, arguments, &Home::Fleet, console, &mut interrupts).await,
        Err(error) => Err(error.into()),
    };
    stack.stop(async { interrupts.next().await }).await;
    outcome
}

/// Starts a run and follows it; when it waits for a person, asks at the terminal. The first interrupt keeps or stops the
/// run, the second ends the command without waiting for the run.
async fn drive(
    client: &Client,
    beginning: &Beginning,
    arguments: &Arguments,
    home: &Home,
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> Result<Exit, Error> {
    let mut report = Report::new(arguments.json, arguments.events, console);
    let run = match beginning {
        Beginning::Request(request) => {
            let mut body = request.body(client).await?;
            if let Some(level) = arguments.durability {
                body["durability"] = level.name().into();
            }
            client.submit(&body).await?
        }
        Beginning::Snapshot(snapshot) => client.import(snapshot.clone()).await?,
    };
    let mut follow = Follow::new(client, &run, None);
    let (mut stopping, mut is_waiting) = (false, false);
    loop {
        tokio::select! {
            then = waiting::perform(client, &run, home, &mut report, console),
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
                if let Home::Here(Some(keep)) = home {
                    report.clear();
                    if keep.write(client, &run, console).await? {
                        return Ok(Exit::Waiting);
                    }
                    // It has just ended. Its last event will arrive.
                    stopping = true;
                    continue;
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
