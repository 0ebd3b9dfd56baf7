//! Logs and metrics, set up the same way in every process.

pub mod fields;
mod metrics;

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::config::{LogConfig, LogFormat};

pub use self::metrics::start_metrics;

/// The levels that a line of the log may have.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Looks whether the setting `log.level` is one: a level, or directives such as `info,tidemill_worker=debug`.
///
/// # Errors
/// What does not fit. A word that is no level would else be taken for the name of a module, and nothing would be said.
pub fn check_level(directives: &str) -> Result<(), String> {
    for directive in directives.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        // A level stands last; what a span must hold (`[…]`) may have signs of its own.
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        if !LEVELS.contains(&level.to_lowercase().as_str()) {
            return Err(format!(
                "{directive:?}: {level:?} is no level; levels are {}, and a directive is module=level",
                LEVELS.join(", ")
            ));
        }
    }
    EnvFilter::try_new(directives).map(|_| ()).map_err(|error| error.to_string())
}

/// Says on standard error why a process ends before it has begun: as a line of the log where logs are JSON, else in words.
#[allow(clippy::print_stderr, reason = "people read it at a terminal, with or without logs")]
pub fn complain(program: &str, config: &LogConfig, error: &dyn std::error::Error) {
    if is_json(config.format) {
        start_logs(config);
        tracing::error!(program, error = %error, "cannot start");
    } else {
        eprintln!("{program}: {error}");
    }
}

fn is_json(format: LogFormat) -> bool {
    match format {
        LogFormat::Json => true,
        LogFormat::Text => false,
        LogFormat::Auto => !std::io::stderr().is_terminal(),
    }
}

/// Starts logging to standard error, by the settings. A second call changes nothing.
pub fn start_logs(config: &LogConfig) {
    let filter = EnvFilter::try_new(&config.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(true);
    let started = if is_json(config.format) {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    } else {
        builder.try_init()
    };
    // Tests and `dev` start several processes' worth of code in one; the first call decides.
    drop(started);
}

#[cfg(test)]
mod tests {
    use super::check_level;

    #[test]
    fn what_is_no_level_is_refused_with_the_levels_there_are() {
        for good in [
            "info",
            "WARN",
            "off",
            "info,tidemill_worker=debug",
            "tidemill_worker[step{run=1}]=trace,error",
            "",
        ] {
            assert_eq!(check_level(good), Ok(()), "{good}");
        }
        for bad in
            ["verbos", "info,tidemill_worker=debugg", "info,tidemill_worker", "debug=", "tidemill_worker=1"]
        {
            let error = check_level(bad).unwrap_err();
            assert!(error.contains("error, warn, info, debug, trace"), "{bad}: {error}");
        }
    }
}
