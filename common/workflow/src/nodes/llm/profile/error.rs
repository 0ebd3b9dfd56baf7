//! The error types of the profile form.

/// Error type of a failed call; `data.type` gives the kind of failure.
pub const LLM_ERROR: &str = "LLMError";
/// Error type of a missing profile.
pub const NOT_FOUND: &str = "NotFoundError";
/// Error type of a missing variable.
pub const VALIDATION: &str = "ValidationError";

/// Error type of a failed tool, when that fails the node, and of an unknown tool.
pub const TOOL_ERROR: &str = "ToolError";
/// Error type of a model that still calls tools after its last round.
pub const TOOL_ROUNDS_EXCEEDED: &str = "ToolRoundsExceeded";

/// Statuses after which a request is not retried, whatever their kind.
const LASTING: [u16; 16] = [404, 405, 410, 411, 412, 413, 414, 415, 416, 417, 418, 422, 426, 428, 431, 451];

/// The kinds of failed calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallErrorType {
    /// The key or its permissions are invalid, or the profile is unusable.
    Config,
    /// The request is invalid.
    Validation,
    RateLimit,
    /// The server failed, or refused for another reason.
    Api,
    /// No answer in time.
    Timeout,
    /// The server could not be reached.
    Network,
    /// The answer cannot be parsed.
    Parse,
    /// The call was cancelled.
    Cancelled,
    Unknown,
}

impl CallErrorType {
    /// The name in `data.type`.
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

    /// The kind for an error status.
    pub const fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Config,
            400 => Self::Validation,
            429 => Self::RateLimit,
            408 => Self::Timeout,
            _ => Self::Api,
        }
    }

    /// True when the same call can succeed later.
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
