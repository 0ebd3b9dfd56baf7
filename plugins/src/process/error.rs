//! The reasons why a session does not end well.

use std::time::Duration;

/// The reason why a plugin cannot be started, or why a session failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// The process does not come to its first heartbeat.
    #[error("the plugin {plugin} cannot be started: {reason}")]
    Start { plugin: String, reason: String },
    /// It failed before, and is not started again yet.
    #[error("the plugin {plugin} ended unexpectedly; it is started again in {} s at the earliest", .wait.as_secs() + 1)]
    BackingOff { plugin: String, wait: Duration },
    /// There is no place.
    #[error("the plugin {plugin} is busy: {limit} has been reached")]
    Busy { plugin: String, limit: &'static str },
    /// The process ended while the session ran.
    #[error("the plugin's process ended ({plugin}: {reason})")]
    Ended { plugin: String, reason: String },
    /// The session took too long.
    #[error("the plugin {plugin} did not end within {} s (session_timeout)", .limit.as_secs())]
    TimedOut { plugin: String, limit: Duration },
    /// The session wrote too much.
    #[error("the plugin {plugin} wrote more than {most} bytes ({limit})")]
    TooMuch { plugin: String, most: u64, limit: &'static str },
    /// The session asked too much at once.
    #[error("the plugin {plugin} asks more than {most} questions at once (questions_max)")]
    TooManyQuestions { plugin: String, most: usize },
    /// The session asked too much in all.
    #[error(
        "the plugin {plugin} asks more than {most} questions in an invocation (plugins.session_questions_max)"
    )]
    TooManyQuestionsInAll { plugin: String, most: u64 },
    /// The host does not take the parts of the result.
    #[error("the plugin {plugin} writes results that the host has not taken for {} s", .wait.as_secs())]
    NotTaken { plugin: String, wait: Duration },
    /// The plugin reported an error.
    #[error("{plugin}: {kind}: {message}")]
    Failed { plugin: String, kind: String, message: String },
}
