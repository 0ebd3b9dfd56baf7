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
    /// Only runs of this app, by its id
    #[arg(long, value_name = "ID")]
    app: Option<String>,
    /// Only runs of this user
    #[arg(long)]
    user: Option<String>,
    /// Only runs whose error has this text, in upper or lower case
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
    /// Only runs with this label; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = super::pairs::pair)]
    label: Vec<(String, String)>,
    /// Only runs created since: 30m, 12h or 7d ago, or a time such as 2026-01-31T08:00Z
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only runs created before: 30m, 12h or 7d ago, or a time
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
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
    let now = chrono::Utc::now().timestamp_millis() as f64 / 1000.0;
    let (since, until) = (arguments.since.as_deref(), arguments.until.as_deref());
    let (since, until) = (since.map(|text| moment(text, now)), until.map(|text| moment(text, now)));
    let labels: Vec<String> = arguments.label.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let labels = labels.iter().map(|label| ("label", label.as_str()));
    let filters: Vec<(&str, &str)> = [
        ("status", &arguments.status),
        ("app", &arguments.app),
        ("user", &arguments.user),
        ("error", &arguments.error),
        ("since", &since),
        ("until", &until),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value.as_deref()?)))
    .chain(labels)
    .collect();
    let runs = client.runs(&filters, arguments.limit).await?;
    if arguments.json {
        json::whole(&runs, console)?;
        return Ok(Exit::Succeeded);
    }
    let runs = runs["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    if runs.is_empty() {
        console.note("no runs");
    } else {
        console.text(render(runs, now))?;
    }
    Ok(Exit::Succeeded)
}

/// A time for the scheduler: `30m`, `12h` and `7d` are counted back from now, in seconds; the scheduler reads the rest.
fn moment(text: &str, now: f64) -> String {
    super::key_verbs::seconds(text)
        .map_or_else(|_| text.to_owned(), |seconds| (now - seconds as f64).to_string())
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
    fn times_are_counted_back_from_now() {
        for (text, expected) in [
            ("90s", "910"),
            ("5m", "700"),
            ("0h", "1000"),
            ("2026-01-31", "2026-01-31"),
            ("m", "m"),
            ("-5m", "-5m"),
        ] {
            assert_eq!(moment(text, 1000.0), expected, "{text}");
        }
    }

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
