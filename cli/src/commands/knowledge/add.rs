//! `tidemill knowledge add`: adds documents one after the other and waits until they can be found.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value as Json, json};

use super::files::{self, Reader};
use super::{Kind, SchedulerArgs};
use crate::client::{Client, ClientError};
use crate::commands::pairs::{json_or_text, pair};
use crate::console::Console;
use crate::error::{Error, Exit};

/// First and longest time between two checks of a document.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

#[derive(Debug, Args)]
pub(super) struct Add {
    /// Id or name of the dataset
    dataset: String,
    /// Files, folders with everything in them, or - for standard input
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Name of the document, if only one is added [default: the name of its file]
    #[arg(long)]
    name: Option<String>,
    /// Id of the document, if only one is added [default: the id of the document with this name, or a new one]
    #[arg(long)]
    id: Option<String>,
    /// Metadata of the documents, for filters; a value that looks like a number is one
    #[arg(long = "meta", value_name = "NAME=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
    /// Greatest length of a segment
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    size: u32,
    /// Length of the text that a segment repeats from the segment before it, at most
    #[arg(long, default_value_t = 50)]
    overlap: u32,
    /// Unit of both: characters, or estimated tokens
    #[arg(long, default_value = "characters", value_parser = ["characters", "tokens"])]
    unit: String,
    /// The files are tables with the columns question and answer; each row becomes a segment
    #[arg(long)]
    qa: bool,
    /// Create the dataset if it does not exist
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    kind: Kind,
    /// Do not wait until the documents can be found
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

/// A document that the scheduler has accepted.
struct Added {
    name: String,
    id: String,
    run: String,
}

pub(super) async fn perform(add: &Add, console: &mut Console) -> Result<Exit, Error> {
    let (documents, passed_over) = files::find(&add.paths, add.name.as_deref())?;
    for path in passed_over {
        console.note(format_args!("{} is skipped: files of this type cannot be read", path.display()));
    }
    if documents.len() != 1 && (add.name.is_some() || add.id.is_some()) {
        return Err(Error::Usage("--name and --id are for one document".into()));
    }
    let client = add.scheduler.client()?;
    if add.create {
        match client.make_dataset(&add.kind.request(&add.dataset)).await {
            Ok(_) => console.note(format_args!("dataset {} is created", add.dataset)),
            Err(ClientError::Refused { status: 409, .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let metadata: Json = add.metadata.iter().map(|(name, text)| (name.clone(), json_or_text(text))).collect();
    let reader = Reader::new();
    let (mut added, mut failed) = (Vec::new(), 0);
    for document in &documents {
        let content = reader.content(document, add.qa).await;
        let outcome = match content {
            Ok((key, content)) => {
                let mut body = json!({
                    "name": document.name, "id": add.id, "doc_metadata": metadata,
                    "split": {"size": add.size, "overlap": add.overlap.min(add.size - 1), "unit": add.unit},
                });
                body[key] = content;
                client.add_document(&add.dataset, &body).await.map_err(Error::from)
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(answer) => {
                let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
                added.push(Added { name: document.name.clone(), id: text("document_id"), run: text("run") });
            }
            // One unreadable document must not keep the others out.
            Err(
                error @ (Error::Failed(_) | Error::Client(ClientError::Refused { status: 400 | 413, .. })),
            ) => {
                failed += 1;
                console.note(format_args!("{} is not added: {error}", document.name));
            }
            Err(error) => return Err(error),
        }
    }
    if add.no_wait {
        for one in &added {
            console.line(format_args!("{}  {}  run {}", one.name, one.id, one.run))?;
        }
    } else {
        for one in &added {
            failed += u32::from(!wait(&client, &add.dataset, one, console).await?);
        }
    }
    Ok(if failed == 0 { Exit::Succeeded } else { Exit::Failed })
}

/// Waits until a document can be found. Returns false if indexing fails.
async fn wait(client: &Client, dataset: &str, added: &Added, console: &mut Console) -> Result<bool, Error> {
    let (mut pause, mut shown) = (LOOK_EVERY.0, 0);
    loop {
        let document = client.document(dataset, &added.id, 0).await?;
        let indexing = &document["indexing"];
        if indexing.is_null() {
            let segments = document["segments"].as_u64().unwrap_or(0);
            let s = if segments == 1 { "" } else { "s" };
            console.line(format_args!("{}  {segments} segment{s}", added.name))?;
            return Ok(true);
        }
        if indexing["run"] != added.run.as_str() {
            console.note(format_args!("{}: a newer version was added in the meantime", added.name));
            return Ok(true);
        }
        if document["status"] == "error" {
            let error = indexing["error"].as_str().unwrap_or_default();
            console.note(format_args!("{} is not indexed (run {}): {error}", added.name, added.run));
            return Ok(false);
        }
        let done = indexing["done"].as_u64().unwrap_or(0);
        if done > shown {
            console.note(format_args!("{}  {done} of {} segments", added.name, indexing["total"]));
            shown = done;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY.1);
    }
}
