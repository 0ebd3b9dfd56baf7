//! `tidemill dev`: runs everything on one machine until Ctrl-C, with one app per file. Keys, apps and data are kept for
//! the next start.

mod example;
mod welcome;

use std::path::PathBuf;

use clap::Args;
use tidemill_common::graph::import;

use super::Interrupts;
use super::apps::warnings as new_warnings;
use crate::client::Client;
use crate::console::Console;
use crate::data_folder::{Address, AppOfFile, Apps, DataFolder};
use crate::error::{Error, Exit};
use crate::stack::{ModelArgs, Stack, StackSettings};
use crate::target::FolderArgs;
use crate::workflow_file::{Workflow, WorkflowFile, leave_to_scheduler};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Workflow files; each becomes an app
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Use this Redis instead of a private one
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    #[command(flatten)]
    folder: FolderArgs,
    /// Address for the API [default: scheduler.listen of the settings, else 127.0.0.1:8700]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Number of workers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..))]
    workers: u8,
    #[command(flatten)]
    models: ModelArgs,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let workflows = arguments
        .files
        .iter()
        .map(|path| WorkflowFile::read(path)?.for_scheduler().usable(console))
        .collect::<Result<Vec<_>, _>>()?;
    let mut interrupts = Interrupts::new();
    let folder = DataFolder::open(&arguments.folder.data)?;
    let _lock = folder.lock()?;
    let settings = StackSettings {
        redis: arguments.redis.as_deref(),
        listen: arguments.listen.as_deref(),
        workers: usize::from(arguments.workers),
        is_guest: false,
        models: &arguments.models,
        log_level: "warn",
    };
    let mut stack = Stack::start(&folder, &settings).await?;
    let outcome = serve(&mut stack, &folder, &workflows, console, &mut interrupts).await;
    folder.remove_address();
    stack.stop(async { interrupts.next().await }).await;
    outcome
}

async fn serve(
    stack: &mut Stack,
    folder: &DataFolder,
    workflows: &[Workflow],
    console: &mut Console,
    interrupts: &mut Interrupts,
) -> Result<Exit, Error> {
    let target = stack.target().clone();
    folder.write_address(&Address { url: target.url.clone(), key: target.key.clone() })?;
    let client = Client::new(&target)?;
    let (apps, warnings) = tokio::select! {
        published = publish_all(&client, folder, workflows) => published?,
        () = interrupts.next() => return Ok(Exit::Succeeded),
    };
    for warning in warnings {
        console.note(format_args!("warning: {warning}"));
    }
    console.text(welcome::text(&target, workflows, &apps))?;
    tokio::select! {
        () = interrupts.next() => {
            console.note("stopping; press Ctrl-C again to stop without waiting for running nodes");
            Ok(Exit::Succeeded)
        }
        why = stack.broken() => Err(Error::Failed(format!("{why}; start `tidemill dev` again, its data is still there"))),
    }
}

/// Publishes each file as the next version of its earlier app, if that still exists, otherwise as a new app. Returns
/// the apps in the order of the files, and the warnings that only the scheduler can give.
async fn publish_all(
    client: &Client,
    folder: &DataFolder,
    workflows: &[Workflow],
) -> Result<(Vec<AppOfFile>, Vec<String>), Error> {
    let mut known: Apps = folder.apps()?;
    let (mut apps, mut warnings) = (Vec::new(), Vec::new());
    for workflow in workflows {
        let path = workflow.path.canonicalize().unwrap_or_else(|_| workflow.path.clone());
        let path = path.display().to_string();
        let mut before = match known.get(&path) {
            Some(app) if client.has_app(&app.id).await? => Some(app.clone()),
            Some(_) | None => None,
        };
        // A revoked key is neither printed again nor replaced.
        if let Some(app) = &mut before
            && !app.key.is_empty()
            && !client.opens(&app.key).await?
        {
            app.key.clear();
        }
        let id = before.as_ref().map(|app| app.id.as_str());
        let answer = client.publish(&workflow.text, id, false).await;
        let answer =
            answer.map_err(|error| Error::OfFile { path: path.clone(), error: Box::new(error.into()) })?;
        // The problems of the file itself were shown when it was read.
        let mut shown = import(workflow.text.as_bytes()).diagnostics;
        leave_to_scheduler(&mut shown);
        let shown: Vec<String> = shown.into_iter().map(|found| found.message).collect();
        let of_file = new_warnings(&answer, &shown);
        warnings.extend(of_file.into_iter().map(|warning| format!("{path}: {warning}")));
        let text = |name: &str| answer[name].as_str().map(String::from);
        let app = AppOfFile {
            id: text("id").or_else(|| before.as_ref().map(|app| app.id.clone())).unwrap_or_default(),
            // The scheduler sends a key only once; a new version keeps the key.
            key: text("key").or(before.map(|app| app.key)).unwrap_or_default(),
        };
        known.insert(path, app.clone());
        folder.write_apps(&known)?;
        apps.push(app);
    }
    Ok((apps, warnings))
}
