//! `tidemill triggers`: lists the triggers of runs: webhooks with their URLs, schedules with their next times.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::common::Common;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

/// Longest error in the list, in characters; `--json` has all of it.
const ERROR_CHARS_MAX: usize = 60;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List triggers: where or when each fires, and how it last went
    Ls {
        #[command(flatten)]
        common: Common,
    },
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let Verb::Ls { common } = &arguments.verb;
    let target = common.scheduler.target();
    let triggers = common.client()?.triggers().await?;
    if common.json {
        json::whole(&triggers, console)?;
    } else {
        console.text(render(&triggers, target.url.trim_end_matches('/')))?;
    }
    Ok(Exit::Succeeded)
}

fn render(triggers: &Json, base: &str) -> String {
    let row = |trigger: &Json| {
        let word = |key: &str| text::one_line(trigger[key].as_str().unwrap_or_default());
        let time = |key: &str| trigger[key].as_f64().map(text::moment).unwrap_or_default();
        let fires = match trigger["path"].as_str() {
            Some(path) => format!("{base}{path}"),
            None if trigger["cron"].is_string() => format!("{} {}", word("cron"), word("timezone")),
            None => "by the host application".into(),
        };
        let error = text::shortened(&word("error"), ERROR_CHARS_MAX);
        vec![word("kind"), word("workflow"), word("node_id"), fires, time("next_at"), time("fired_at"), error]
    };
    let rows: Vec<_> = triggers["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["KIND", "WORKFLOW", "NODE", "FIRES", "NEXT", "LAST FIRED", "LAST ERROR"], &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn webhooks_show_their_url_and_schedules_their_next_time() {
        let triggers = json!({"data": [
            {"kind": "webhook", "workflow": "Orders", "node_id": "hook", "path": "/triggers/webhook/abc", "fired_at": 0},
            {"kind": "schedule", "workflow": "Nightly", "node_id": "plan", "cron": "30 2 * * *", "timezone": "Europe/Paris",
                "next_at": 60, "fired_at": null, "error": "too\nbad"},
            {"kind": "plugin", "workflow": "Issues", "node_id": "event"},
        ]});
        let expected = "\
KIND      WORKFLOW  NODE   FIRES                          NEXT                     LAST FIRED               LAST ERROR
webhook   Orders    hook   http://h/triggers/webhook/abc  -                        1970-01-01 00:00:00 UTC  -
schedule  Nightly   plan   30 2 * * * Europe/Paris        1970-01-01 00:01:00 UTC  -                        too bad
plugin    Issues    event  by the host application        -                        -                        -
";
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&render(&triggers, "http://h")), trimmed(expected));
    }
}
