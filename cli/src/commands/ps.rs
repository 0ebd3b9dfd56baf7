//! `tidemill ps`: lists the newest runs.

use clap::Args;
use serde_json::Value as Json;

use super::common::SchedulerArgs;
use crate::client::view::RunView;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

/// Longest error in the table, in characters; `show` prints all of it.
const ERROR_CHARS_MAX: usize = 60;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Only runs with this status: scheduled, running, paused, succeeded, partial-succeeded, failed, stopped
    #[arg(long, value_parser = super::ps::status)]
    status: Option<String>,
    /// Number of runs at most; more than 100 are read page by page
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Show them as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

/// Checks the name of a status.
pub(super) fn status(text: &str) -> Result<String, String> {
    use tidemill_common::machine::state::run::RunStatus;
    let names = RunStatus::ALL.map(RunStatus::name);
    if names.contains(&text) {
        Ok(text.into())
    } else {
        Err(format!("it must be one of {}", names.join(", ")))
    }
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let client = arguments.scheduler.client()?;
    let runs = client.runs(arguments.status.as_deref(), arguments.limit).await?;
    if arguments.json {
        json::whole(&runs, console)?;
        return Ok(Exit::Succeeded);
    }
    let now = chrono::Utc::now().timestamp_millis() as f64 / 1000.0;
    let runs = runs["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    if runs.is_empty() {
        console.note("no runs");
    } else {
        console.text(render(runs, now))?;
    }
    Ok(Exit::Succeeded)
}

fn render(runs: &[Json], now: f64) -> String {
    let row = |run: &Json| {
        let run = RunView::read(run);
        vec![
            run.id.clone(),
            run.status.clone(),
            run.workflow_name(),
            run.created_at.map(|at| text::age(at, now)).unwrap_or_default(),
            run.elapsed_time.map(text::duration).unwrap_or_default(),
            text::shortened(run.error.as_deref().unwrap_or(""), ERROR_CHARS_MAX),
        ]
    };
    let rows: Vec<_> = runs.iter().map(row).collect();
    table::render(&["RUN", "STATUS", "WORKFLOW", "CREATED", "TIME", "ERROR"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn runs_are_rows() {
        let runs = [
            json!({"id": "r2", "status": "running", "workflow": "Chat", "created_at": 990.0, "elapsed_time": null}),
            json!({"id": "r1", "status": "failed", "workflow": {"name": "Triage"}, "created_at": 400.5,
                "elapsed_time": 1.25, "error": "it broke"}),
        ];
        let expected = "\
RUN  STATUS   WORKFLOW  CREATED  TIME  ERROR
r2   running  Chat      10s ago  -     -
r1   failed   Triage    9m ago   1.2s  it broke
";
        assert_eq!(render(&runs, 1000.0), expected);
    }
}
