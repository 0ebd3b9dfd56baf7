//! Errors between the command and a scheduler. Each text also says what the user can do about it.

use std::time::Duration;

use serde_json::Value as Json;

use crate::error::Exit;

/// The reason why a request to the scheduler failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// No program listens at the address.
    #[error(
        "cannot reach {url}: {reason}; start Tidemill there with `tidemill dev`, or name another address with --url or TIDEMILL_URL"
    )]
    Unreachable { url: String, reason: String },
    /// The connection broke. The scheduler may have carried out the request.
    #[error("the connection to {url} broke: {reason}; try again")]
    Broken { url: String, reason: String },
    /// The scheduler refused the request.
    #[error("{}", refusal(*status, code, message))]
    Refused { status: u16, code: String, message: String, diagnostics: Vec<Json>, retry_after: Duration },
    /// A program that is not Tidemill listens at the address.
    #[error("{url} does not answer as Tidemill does: {reason}; check --url or TIDEMILL_URL")]
    NotTidemill { url: String, reason: String },
    /// The address cannot be used.
    #[error("the address {url:?} cannot be used: {reason}")]
    Url { url: String, reason: String },
}

impl ClientError {
    /// Classifies an error of the HTTP client.
    pub(super) fn of_connection(url: &str, error: &reqwest::Error) -> Self {
        let (url, reason) = (url.to_string(), chain(error));
        if error.is_builder() {
            Self::Url { url, reason }
        } else if error.is_connect() {
            Self::Unreachable { url, reason }
        } else {
            Self::Broken { url, reason }
        }
    }

    /// Returns true when another try can succeed.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } => true,
            Self::Refused { status, .. } => *status == 429 || *status >= 500,
            // A proxy in front of the scheduler may answer while the scheduler restarts.
            Self::NotTidemill { .. } => true,
            Self::Url { .. } => false,
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Unreachable { .. } | Self::Broken { .. } | Self::NotTidemill { .. } => Exit::Unreachable,
            Self::Refused { status: 401 | 403, .. } | Self::Url { .. } => Exit::Usage,
            Self::Refused { .. } => Exit::Failed,
        }
    }
}

fn refusal(status: u16, code: &str, message: &str) -> String {
    match status {
        401 | 403 => format!("{message} ({code}); give the admin key with --key or TIDEMILL_KEY"),
        _ => format!("{message} ({code})"),
    }
}

/// Returns the innermost error text. The outer ones only say that a request failed.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
