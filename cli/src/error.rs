//! How a command ends: with an exit code, or with an error that has an exit code.

use std::process::ExitCode;

use serde_json::Value as Json;

use crate::client::ClientError;
use crate::data_folder::FolderError;
use crate::local::LocalError;
use crate::output::text::one_line;
use crate::redis_server::RedisServerError;

/// The exit codes, as scripts see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done. A run that was followed succeeded, completely or partly.
    Succeeded,
    /// Something failed, or the run failed or was stopped.
    Failed,
    /// The arguments or settings are wrong.
    Usage,
    /// A scheduler or a Redis cannot be reached.
    Unreachable,
    /// The run waits for a person, and there was no terminal to ask at.
    Waiting,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Succeeded => Self::SUCCESS,
            Exit::Failed => Self::FAILURE,
            Exit::Usage => Self::from(2),
            Exit::Unreachable => Self::from(3),
            Exit::Waiting => Self::from(4),
        }
    }
}

/// The reason why a command failed. Its text is the one line that users see.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
    /// The reader of the output has ended (`| head`). This is not an error.
    #[error("the output was closed")]
    OutputClosed,
    /// The error is about one of several files.
    #[error("{path}: {error}")]
    OfFile { path: String, error: Box<Error> },
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    RedisServer(#[from] RedisServerError),
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Embedded(#[from] tidemill_embed::EmbedError),
}

impl Error {
    /// Returns further lines to show: the problems of a workflow that was refused.
    pub(crate) fn details(&self) -> Vec<String> {
        match self {
            Self::Client(ClientError::Refused { diagnostics, .. }) => {
                diagnostics.iter().map(problem).collect()
            }
            Self::OfFile { error, .. } => error.details(),
            Self::Client(_)
            | Self::Usage(_)
            | Self::Failed(_)
            | Self::OutputClosed
            | Self::Folder(_)
            | Self::RedisServer(_)
            | Self::Local(_)
            | Self::Embedded(_) => Vec::new(),
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_) => Exit::Usage,
            Self::Failed(_) | Self::Folder(_) | Self::Embedded(_) => Exit::Failed,
            Self::OutputClosed => Exit::Succeeded,
            Self::OfFile { error, .. } => error.exit(),
            Self::Client(error) => error.exit(),
            Self::RedisServer(error) => match error {
                RedisServerError::NotInstalled => Exit::Unreachable,
                RedisServerError::Foreign { .. }
                | RedisServerError::Died { .. }
                | RedisServerError::Silent { .. }
                | RedisServerError::Io { .. } => Exit::Failed,
            },
            Self::Local(error) => error.exit(),
        }
    }
}

/// Formats a problem that the scheduler reported as one line.
fn problem(diagnostic: &Json) -> String {
    let text = |key: &str| diagnostic[key].as_str().unwrap_or("");
    let mut line = format!("{}[{}]: {}", text("severity"), text("code"), text("message"));
    if let Some(number) = diagnostic["line"].as_u64() {
        line = format!("line {number}: {line}");
    }
    for (key, before, after) in [("path", " (at ", ")"), ("hint", "; hint: ", "")] {
        if !text(key).is_empty() {
            line.push_str(&format!("{before}{}{after}", text(key)));
        }
    }
    one_line(&line)
}
