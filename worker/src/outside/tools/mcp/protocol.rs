//! The JSON-RPC messages of MCP.

use serde_json::{Value as Json, json};

/// The offered protocol version.
pub const VERSION: &str = "2025-06-18";
/// The supported protocol versions.
pub const VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Reasons why a request failed. None of them shows a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum McpError {
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(String),
    /// The server sent an invalid message, or the connection broke off.
    #[error("{0}")]
    Broken(String),
    /// The server answered the first message with a status of 4xx: it may have another version of the transport.
    #[error("{0}")]
    NotSpoken(String),
    /// No answer within this number of seconds.
    #[error("no answer within {0} s")]
    Silent(u64),
    /// The server refused the request.
    #[error("{message} (code {code})")]
    Refused { code: i64, message: String },
    /// The server no longer knows the session.
    #[error("the server has forgotten the session twice")]
    Expired,
}

impl McpError {
    /// Returns true if a retry could help.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Expired => true,
            Self::Broken(_) | Self::NotSpoken(_) | Self::Silent(_) | Self::Refused { .. } => false,
        }
    }

    /// Returns the kind of the error, for logs: its text may contain what the server was sent.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Unreachable(_) => "unreachable",
            Self::Broken(_) => "broken off",
            Self::NotSpoken(_) => "another transport",
            Self::Silent(_) => "no answer",
            Self::Refused { .. } => "refused",
            Self::Expired => "expired",
        }
    }

    /// Changes the text of the error.
    #[must_use]
    pub fn worded(self, change: impl Fn(String) -> String) -> Self {
        match self {
            Self::Unreachable(text) => Self::Unreachable(change(text)),
            Self::Broken(text) => Self::Broken(change(text)),
            Self::NotSpoken(text) => Self::NotSpoken(change(text)),
            Self::Refused { code, message } => Self::Refused { code, message: change(message) },
            Self::Silent(_) | Self::Expired => self,
        }
    }
}

/// A message from a server.
#[derive(Debug, Clone, PartialEq)]
pub enum Incoming {
    /// The answer to a request.
    Answer { id: u64, result: Result<Json, McpError> },
    /// A request from the server, with its answer.
    Request {
        /// The whole answer.
        answer: Json,
    },
    /// Anything else: progress, logs.
    Other,
}

/// Builds a request.
pub fn request(id: u64, method: &str, params: &Json) -> Json {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Builds a message that needs no answer.
pub fn notification(method: &str) -> Json {
    json!({"jsonrpc": "2.0", "method": method})
}

/// The first message. It announces no capabilities, so that the server sends no requests.
pub fn introduction() -> Json {
    json!({
        "protocolVersion": VERSION,
        "capabilities": {},
        "clientInfo": {"name": "tidemill", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// The version the server has chosen.
///
/// # Errors
/// The version is not supported.
pub fn chosen_version(result: &Json) -> Result<String, McpError> {
    let version = result.get("protocolVersion").and_then(Json::as_str).unwrap_or_default();
    if VERSIONS.contains(&version) {
        return Ok(version.to_owned());
    }
    Err(McpError::Broken(format!(
        "the server speaks version {version:?} of the protocol, not one of {VERSIONS:?}"
    )))
}

/// Reads a message or a list of messages.
pub fn incoming(value: &Json) -> Vec<Incoming> {
    match value {
        Json::Array(all) => all.iter().map(one).collect(),
        other => vec![one(other)],
    }
}

fn one(value: &Json) -> Incoming {
    let id = value.get("id").filter(|id| !id.is_null());
    match (value.get("method").and_then(Json::as_str), id) {
        (Some(method), Some(id)) => Incoming::Request { answer: answer_to(method, id) },
        (None, Some(id)) => match id.as_u64().or_else(|| id.as_str().and_then(|id| id.parse().ok())) {
            Some(id) => Incoming::Answer { id, result: result(value) },
            None => Incoming::Other,
        },
        (Some(_) | None, None) => Incoming::Other,
    }
}

fn result(value: &Json) -> Result<Json, McpError> {
    // Some servers send a null error with a success.
    match value.get("error").filter(|error| !error.is_null()) {
        None => Ok(value.get("result").cloned().unwrap_or_default()),
        Some(error) => {
            let message = error.get("message").and_then(Json::as_str).unwrap_or("no message").to_owned();
            Err(McpError::Refused { code: error.get("code").and_then(Json::as_i64).unwrap_or(0), message })
        }
    }
}

/// The answer to a server's request. Without an answer the server would wait forever.
fn answer_to(method: &str, id: &Json) -> Json {
    let result = match method {
        "ping" => json!({}),
        "roots/list" => json!({"roots": []}),
        "elicitation/create" => json!({"action": "decline"}),
        _ => {
            let message = format!("{method} is not supported");
            return json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": message}});
        }
    };
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_a_server_are_told_apart() {
        let refused = |code| McpError::Refused { code, message: "no".into() };
        for (value, expected) in [
            (json!({"id": 1, "result": {"a": 1}}), Incoming::Answer { id: 1, result: Ok(json!({"a": 1})) }),
            (json!({"id": "2", "result": {}}), Incoming::Answer { id: 2, result: Ok(json!({})) }),
            (
                json!({"id": 3, "error": {"code": -32602, "message": "no"}}),
                Incoming::Answer { id: 3, result: Err(refused(-32602)) },
            ),
            (
                json!({"id": 4, "result": {"a": 1}, "error": null}),
                Incoming::Answer { id: 4, result: Ok(json!({"a": 1})) },
            ),
            (json!({"method": "notifications/progress", "params": {}}), Incoming::Other),
            (json!({"id": null, "error": {}}), Incoming::Other),
            (
                json!({"id": "x", "method": "ping"}),
                Incoming::Request { answer: json!({"jsonrpc": "2.0", "id": "x", "result": {}}) },
            ),
        ] {
            assert_eq!(incoming(&value), [expected], "{value}");
        }
        assert_eq!(incoming(&json!([{}, {}])).len(), 2);
    }

    #[test]
    fn what_we_cannot_do_is_declined() {
        for (method, part, expected) in [
            ("sampling/createMessage", "/error/code", json!(-32601)),
            ("elicitation/create", "/result/action", json!("decline")),
            ("roots/list", "/result/roots", json!([])),
        ] {
            assert_eq!(answer_to(method, &json!(7)).pointer(part), Some(&expected), "{method}");
        }
    }

    #[test]
    fn a_version_that_nobody_knows_is_refused() {
        assert_eq!(chosen_version(&json!({"protocolVersion": "2025-03-26"})), Ok("2025-03-26".into()));
        assert!(chosen_version(&json!({"protocolVersion": "1999-01-01"})).is_err());
    }
}
