//! Gives failures of plugins the classes that workflows branch on. The SDK names the class of an error of a model.

use tidemill_plugins::model::ModelError as CallError;
use tidemill_plugins::process::ProcessError;

use crate::outside::providers::{Detail, ErrorClass, ModelError};
use crate::outside::tools::ToolError;

/// This worker cannot run the plugin, or there are no credentials for the model.
pub(super) fn unready(label: &str, model: &str, error: ToolError) -> ModelError {
    let ToolError { message, retryable, retry_after_ms, lacks, .. } = error;
    if retryable {
        let failed = ModelError::new(label, ErrorClass::Connection, &message).passing();
        return ModelError { retry_after_ms, lacks, ..failed };
    }
    let message = format!("Model {model} credentials is not initialized. {message}");
    ModelError { class: ErrorClass::NotInitialized, lacks, ..ModelError::value(message) }
}

/// An answer that is not as the SDK writes it.
pub(super) fn unreadable(label: &str, reason: &str) -> ModelError {
    let cause = format!("the plugin's answer cannot be read: {reason}");
    let error = ModelError::new(label, ErrorClass::ServerUnavailable, &cause);
    ModelError { detail: Detail::Unreadable, ..error }
}

/// The plugin failed, or its process. A process that ended asks for no pause: a pause holds for all workers, and only this one
/// starts the process again. The next call waits here until it is started.
pub(super) fn of_call(label: &str, error: CallError) -> ModelError {
    let error = match error {
        CallError::Process(error) => error,
        CallError::Answer(reason) => return unreadable(label, &reason),
        CallError::Credentials(reason) => {
            return ModelError::new(label, ErrorClass::Authorization, &reason);
        }
    };
    let unavailable = |error: &ProcessError| {
        ModelError::new(label, ErrorClass::ServerUnavailable, &error.to_string()).passing()
    };
    match &error {
        ProcessError::Failed { kind, message, .. } => of_plugin(label, kind, message),
        ProcessError::BackingOff { .. }
        | ProcessError::Ended { .. }
        | ProcessError::Start { .. }
        | ProcessError::Busy { .. }
        | ProcessError::NotTaken { .. } => unavailable(&error),
        ProcessError::TimedOut { .. } => {
            let late = ModelError::new(label, ErrorClass::Connection, &error.to_string()).passing();
            ModelError { detail: Detail::Late, ..late }
        }
        ProcessError::TooMuch { .. }
        | ProcessError::TooManyQuestions { .. }
        | ProcessError::TooManyQuestionsInAll { .. } => {
            ModelError::new(label, ErrorClass::BadRequest, &error.to_string())
        }
    }
}

/// Errors of the libraries that plugins call, by the end of their names. The SDK gives an error its class only before the
/// first part of a reply.
const OF_LIBRARIES: [(&[&str], ErrorClass); 4] = [
    (
        &[
            "ConnectionError",
            "ConnectError",
            "Timeout",
            "TimeoutError",
            "ProtocolError",
            "ChunkedEncodingError",
        ],
        ErrorClass::Connection,
    ),
    (&["RateLimitError", "TooManyRequests"], ErrorClass::RateLimit),
    (&["AuthenticationError", "PermissionDeniedError"], ErrorClass::Authorization),
    (&["InternalServerError", "ServiceUnavailableError", "OverloadedError"], ErrorClass::ServerUnavailable),
];

/// An error that the plugin raised.
fn of_plugin(label: &str, kind: &str, message: &str) -> ModelError {
    let (class, is_passing) = match kind {
        "InvokeConnectionError" => (ErrorClass::Connection, true),
        "InvokeServerUnavailableError" => (ErrorClass::ServerUnavailable, true),
        "InvokeRateLimitError" => (ErrorClass::RateLimit, true),
        "InvokeAuthorizationError" | "CredentialsValidateFailedError" => (ErrorClass::Authorization, false),
        "InvokeBadRequestError" | "InvokeError" => (ErrorClass::BadRequest, false),
        other => {
            let is_it = |(names, _): &&(&[&str], ErrorClass)| names.iter().any(|name| other.ends_with(name));
            let class = OF_LIBRARIES.iter().find(is_it).map_or(ErrorClass::BadRequest, |(_, class)| *class);
            let error = ModelError::new(label, class, &format!("{other}: {message}"));
            let is_final = matches!(class, ErrorClass::BadRequest | ErrorClass::Authorization);
            return if is_final { error } else { error.passing() };
        }
    };
    let error = ModelError::new(label, class, message);
    // The SDK writes provider and class itself.
    let is_whole = message.starts_with('[');
    let error = if is_whole { ModelError { message: message.to_owned(), ..error } } else { error };
    if is_passing { error.passing() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::need::Need;

    fn raised(kind: &str, message: &str) -> ModelError {
        let (plugin, kind, message) = ("a/b:1".to_owned(), kind.to_owned(), message.to_owned());
        of_call("p", ProcessError::Failed { plugin, kind, message }.into())
    }

    #[test]
    fn errors_of_the_sdk_have_the_classes_of_dify() {
        for (kind, expected, is_passing) in [
            ("InvokeConnectionError", "InvokeConnectionError", true),
            ("InvokeServerUnavailableError", "InvokeServerUnavailableError", true),
            ("InvokeRateLimitError", "InvokeRateLimitError", true),
            ("InvokeAuthorizationError", "InvokeAuthorizationError", false),
            ("CredentialsValidateFailedError", "InvokeAuthorizationError", false),
            ("InvokeBadRequestError", "InvokeBadRequestError", false),
            ("InvokeError", "InvokeBadRequestError", false),
            ("KeyError", "InvokeBadRequestError", false),
            ("APIConnectionError", "InvokeConnectionError", true),
            ("ReadTimeout", "InvokeConnectionError", true),
            ("RateLimitError", "InvokeRateLimitError", true),
            ("AuthenticationError", "InvokeAuthorizationError", false),
            ("InternalServerError", "InvokeServerUnavailableError", true),
        ] {
            let error = raised(kind, "[own] words");
            assert_eq!((error.class.error_type(), error.retryable), (expected, is_passing), "{kind}");
        }
        let said = "[own] Rate Limit Error, slow down";
        assert_eq!(raised("InvokeRateLimitError", said).message, said);
        assert_eq!(raised("InvokeRateLimitError", "slow down").message, "[p] Rate Limit Error, slow down");
        assert_eq!(raised("KeyError", "'a'").message, "[p] Bad Request Error, KeyError: 'a'");
    }

    #[test]
    fn the_end_of_a_process_passes_and_a_missing_plugin_is_looked_for_elsewhere() {
        let ended = ProcessError::Ended { plugin: "a/b:1".into(), reason: "killed".into() };
        let error = of_call("p", ended.into());
        // A time would let the model rest on all workers.
        assert_eq!((error.retryable, error.retry_after_ms), (true, None));
        let need = Need::Plugin { id: "a/b:1".into(), sha256: "ab".into() };
        let error = unready("p", "m", ToolError::unavailable("not here").lacking(need.clone()));
        assert_eq!((error.class, error.lacks), (ErrorClass::NotInitialized, Some(Box::new(need))));
        assert!(error.message.ends_with("not here"), "{}", error.message);
    }
}
