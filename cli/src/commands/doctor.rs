//! `tidemill doctor`: checks whether the settings of Redis could lose runs. It changes nothing.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;
use tidemill_common::config::{Config, Sources, masked_url};
use tidemill_common::store::redis::RedisStore;
use tidemill_common::store::{Runs, ServerReport};

use crate::console::Console;
use crate::error::{Error, Exit};
use crate::local::LocalError;
use crate::output::json;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Settings file of schedulers and workers [default: tidemill.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of Redis, instead of the one in the settings
    #[arg(long, value_name = "URL")]
    redis_url: Option<String>,
    /// Show the findings as JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let flags = arguments.redis_url.iter().map(|url| ("redis.url".to_string(), url.clone())).collect();
    let config = Config::load(&Sources::of_process(arguments.config.clone(), flags));
    let config = config.map_err(|error| Error::Usage(error.to_string()))?;
    let store = RedisStore::new(&config.redis, config.store_limits()).map_err(LocalError::Store)?;
    let report = store.check().await.map_err(LocalError::Store)?;
    if arguments.json {
        let found = json!({"redis": report.version, "warnings": report.warnings, "hints": report.hints});
        json::whole(&found, console)?;
    } else {
        console.text(render(&report, &masked_url(&config.redis.url)))?;
    }
    Ok(if report.warnings.is_empty() { Exit::Succeeded } else { Exit::Failed })
}

fn render(report: &ServerReport, address: &str) -> String {
    let mut shown = format!("Redis {} at {address}\n", report.version);
    report.warnings.iter().for_each(|warning| shown.push_str(&format!("warning: {warning}\n")));
    report.hints.iter().for_each(|hint| shown.push_str(&format!("hint: {hint}\n")));
    if report.warnings.is_empty() {
        shown.push_str("its settings are fine\n");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_finding_is_a_line_and_no_warning_is_reported_too() {
        let report = |warnings: &[&str]| ServerReport {
            version: "7.0.15".into(),
            warnings: warnings.iter().map(|text| (*text).to_string()).collect(),
            hints: vec!["look".into()],
        };
        assert_eq!(
            render(&report(&["set x"]), "redis://r"),
            "Redis 7.0.15 at redis://r\nwarning: set x\nhint: look\n"
        );
        assert_eq!(
            render(&report(&[]), "redis://r"),
            "Redis 7.0.15 at redis://r\nhint: look\nits settings are fine\n"
        );
    }
}
