//! `tidemill stop`, `pause` and `resume`: a command to a run, in a word.

use clap::Args;
use serde_json::{Value as Json, json};

use super::common::Place;
use crate::client::Client;
use crate::console::Console;
use crate::error::{Error, Exit};

/// Which run, and how the command is sent.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// The run's id
    pub(super) run: String,
    /// A key under which repeating the command is still one command
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(super) struct WithReason {
    #[command(flatten)]
    common: Common,
    /// Why, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Plain {
    #[command(flatten)]
    common: Common,
}

impl Common {
    pub(super) fn client(&self) -> Result<Client, Error> {
        self.place.client()
    }
    /// The body of a request, with its key.
    pub(super) fn keyed(&self, mut body: Json) -> Json {
        if let Some(key) = &self.once {
            body["key"] = key.as_str().into();
        }
        body
    }
    /// Sends a command and says what it does.
    pub(super) async fn send(&self, body: Json, done: &str, console: &mut Console) -> Result<Exit, Error> {
        self.client()?.command(&self.run, &self.keyed(body)).await?;
        console.note(format_args!("run {} {done}", self.run));
        Ok(Exit::Succeeded)
    }
}

impl WithReason {
    async fn send(&self, word: &str, done: &str, console: &mut Console) -> Result<Exit, Error> {
        let mut body = json!({"command": word});
        if let Some(reason) = &self.reason {
            body["reason"] = reason.as_str().into();
        }
        self.common.send(body, done, console).await
    }
}

pub(super) async fn stop(arguments: &WithReason, console: &mut Console) -> Result<Exit, Error> {
    arguments.send("stop", "is asked to stop", console).await
}

pub(super) async fn pause(arguments: &WithReason, console: &mut Console) -> Result<Exit, Error> {
    arguments.send("pause", "is asked to pause: what runs ends, nothing begins", console).await
}

pub(super) async fn resume(arguments: &Plain, console: &mut Console) -> Result<Exit, Error> {
    arguments.common.send(json!({"command": "resume"}), "is asked to go on", console).await
}
