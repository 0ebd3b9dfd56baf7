//! Logs and metrics, set up the same way in every process.

mod config;
pub mod fields;
mod metrics;
mod panics;

use std::ffi::OsStr;
use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

pub use self::config::{LogConfig, LogFormat};
pub use self::metrics::start_metrics;
pub use self::panics::{panic_message, start_panics};

/// The levels of log lines.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Checks the setting `log.level`: a level, or directives such as `info,tidemill_worker=debug`.
///
/// # Errors
/// An invalid directive. Without this check an unknown level would be read as a module name, and nothing
/// would be logged.
pub fn check_level(directives: &str) -> Result<(), String> {
    for directive in directives.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        // The level comes last; a span filter (`[…]`) may contain `=` itself.
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        if !LEVELS.contains(&level.to_lowercase().as_str()) {
            return Err(format!(
                "{directive:?}: {level:?} is not a level; use one of {}, or a directive module=level",
                LEVELS.join(", ")
            ));
        }
    }
    EnvFilter::try_new(directives).map(|_| ()).map_err(|error| error.to_string())
}

/// Reports on standard error why a process cannot start: as a log line where logs are JSON, else as plain
/// text.
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

/// True if log lines may have codes of colours: they are for people, not for files. `no_color` is the variable `NO_COLOR`
/// (<https://no-color.org>).
fn has_colors(is_terminal: bool, no_color: Option<&OsStr>) -> bool {
    is_terminal && no_color.is_none_or(OsStr::is_empty)
}

/// Starts logging to standard error. A second call changes nothing.
pub fn start_logs(config: &LogConfig) {
    let filter = EnvFilter::try_new(&config.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let colors = has_colors(std::io::stderr().is_terminal(), std::env::var_os("NO_COLOR").as_deref());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colors)
        .with_target(true);
    let started = if is_json(config.format) {
        builder.json().flatten_event(true).with_current_span(true).with_span_list(false).try_init()
    } else {
        builder.try_init()
    };
    // Tests and `dev` run the code of several processes in one; the first call wins.
    drop(started);
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::{check_level, has_colors};

    #[test]
    fn only_lines_for_a_terminal_have_colors() {
        for (is_terminal, no_color, expected) in [
            (true, None, true),
            (true, Some(""), true),
            (true, Some("1"), false),
            (false, None, false),
            (false, Some(""), false),
        ] {
            assert_eq!(
                has_colors(is_terminal, no_color.map(OsStr::new)),
                expected,
                "{is_terminal} {no_color:?}"
            );
        }
    }

    #[test]
    fn an_unknown_level_is_refused_with_the_known_ones() {
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
