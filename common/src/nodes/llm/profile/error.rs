//! What the profile form calls its failures.

/// Type of a failed call: `data.type` says what kind of failure it was.
pub const LLM_ERROR: &str = "LLMError";
/// Type of a profile that is not there.
pub const NOT_FOUND: &str = "NotFoundError";
/// Type of a node that cannot be asked for: a variable that is not there.
pub const VALIDATION: &str = "ValidationError";

/// Type of a tool that failed, where that fails the node, and of one that nobody has.
pub const TOOL_ERROR: &str = "ToolError";
/// Type of a model that still calls tools after its last round.
pub const TOOL_ROUNDS_EXCEEDED: &str = "ToolRoundsExceeded";

/// Statuses after which the same request is not sent again, whatever their class.
const LASTING: [u16; 16] = [404, 405, 410, 411, 412, 413, 414, 415, 416, 417, 418, 422, 426, 428, 431, 451];

/// The kinds of failures of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorType {
    /// The key, or what it may be used for; a profile that cannot be used.
    Config,
    /// The request.
    Validation,
    /// Too many requests.
    RateLimit,
    /// The server, and refusals that are none of the others.
    Api,
    /// No answer in time.
    Timeout,
    /// The way to the server.
    Network,
    /// An answer that cannot be read.
    Parse,
    /// Somebody called it off.
    Cancelled,
    /// None of these.
    Unknown,
}

impl CallErrorType {
    /// Its name, in `data.type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Config => "CONFIG_ERROR",
            Self::Validation => "VALIDATION_ERROR",
            Self::RateLimit => "RATE_LIMIT_ERROR",
            Self::Api => "API_ERROR",
            Self::Timeout => "TIMEOUT_ERROR",
            Self::Network => "NETWORK_ERROR",
            Self::Parse => "PARSE_ERROR",
            Self::Cancelled => "CANCELLED_ERROR",
            Self::Unknown => "UNKNOWN_ERROR",
        }
    }

    /// The kind of a status that says that something went wrong.
    pub const fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Config,
            400 => Self::Validation,
            429 => Self::RateLimit,
            408 => Self::Timeout,
            _ => Self::Api,
        }
    }

    /// Whether the same call may succeed later.
    pub fn may_pass(self, status: Option<u16>) -> bool {
        match self {
            Self::Config | Self::Parse | Self::Cancelled | Self::Validation => false,
            Self::RateLimit | Self::Api | Self::Timeout | Self::Network | Self::Unknown => {
                !status.is_some_and(|status| LASTING.contains(&status))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_a_kind_that_says_whether_it_may_pass() {
        for (status, name, may_pass) in [
            (400, "VALIDATION_ERROR", false),
            (401, "CONFIG_ERROR", false),
            (403, "CONFIG_ERROR", false),
            (402, "API_ERROR", true),
            (404, "API_ERROR", false),
            (413, "API_ERROR", false),
            (422, "API_ERROR", false),
            (451, "API_ERROR", false),
            (408, "TIMEOUT_ERROR", true),
            (409, "API_ERROR", true),
            (429, "RATE_LIMIT_ERROR", true),
            (500, "API_ERROR", true),
            (503, "API_ERROR", true),
        ] {
            let kind = CallErrorType::of_status(status);
            assert_eq!((kind.name(), kind.may_pass(Some(status))), (name, may_pass), "{status}");
        }
    }
}
