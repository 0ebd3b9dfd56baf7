//! `tidemill stop`, `pause` and `resume`: commands to a run that need no further values.

use clap::Args;
use serde_json::{Value as Json, json};
use tidemill_common::store::Durability;

use super::common::SchedulerArgs;
use crate::client::Client;
use crate::console::Console;
use crate::error::{Error, Exit};

/// The run, and how the command is sent.
#[derive(Debug, Args)]
pub(super) struct Common {
    /// Id of the run
    pub(super) run: String,
    /// Idempotency key: repeating the command with this key has no further effect
    #[arg(long, value_name = "KEY")]
    once: Option<String>,
    /// What must have happened before the scheduler answers: memory, replicated or fsync
    #[arg(long, value_name = "LEVEL", value_parser = durability)]
    durability: Option<Durability>,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

#[derive(Debug, Args)]
pub(super) struct WithReason {
    #[command(flatten)]
    common: Common,
    /// Reason, for the record
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Plain {
    #[command(flatten)]
    common: Common,
}

/// Reads a level.
pub(super) fn durability(text: &str) -> Result<Durability, String> {
    let known = Durability::ALL.map(Durability::name).join(", ");
    Durability::from_name(text).ok_or_else(|| format!("it must be one of {known}"))
}

impl Common {
    pub(super) fn client(&self) -> Result<Client, Error> {
        self.scheduler.client()
    }
    /// Adds the idempotency key and the durability to the body of a request.
    pub(super) fn keyed(&self, mut body: Json) -> Json {
        if let Some(key) = &self.once {
            body["key"] = key.as_str().into();
        }
        if let Some(level) = self.durability {
            body["durability"] = level.name().into();
        }
        body
    }
    /// Sends a command and shows what happens next.
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
    arguments.send("pause", "is asked to pause: running nodes finish, no more nodes start", console).await
}

pub(super) async fn resume(arguments: &Plain, console: &mut Console) -> Result<Exit, Error> {
    arguments.common.send(json!({"command": "resume"}), "is asked to resume", console).await
}
