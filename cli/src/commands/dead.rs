//! `tidemill dead`: lists dead letters, retries and removes them.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::common::SchedulerArgs;
use super::dead_all::RetryAll;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

/// Longest reason in the table, in characters; `show` prints all of it.
const REASON_CHARS_MAX: usize = 80;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List dead letters (jobs and facts that were given up), newest first
    Ls {
        /// Number of dead letters at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Only those after this id in the list: the last id of an earlier list
        #[arg(long, value_name = "ID")]
        before: Option<String>,
        /// Show them as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scheduler: SchedulerArgs,
    },
    /// Show a dead letter with its content
    Show {
        /// Id of the dead letter
        id: String,
        /// Show it as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scheduler: SchedulerArgs,
    },
    /// Try again: a job in a new run that begins at its node, a fact by applying it
    Retry {
        /// Id of the dead letter
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Show the answer as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        many: RetryAll,
        #[command(flatten)]
        scheduler: SchedulerArgs,
    },
    /// Remove a dead letter
    Drop {
        /// Id of the dead letter
        id: String,
        #[command(flatten)]
        scheduler: SchedulerArgs,
    },
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Ls { limit, before, json, scheduler } => {
            let letters = scheduler.client()?.dead_letters(*limit, before.as_deref()).await?;
            if *json {
                json::whole(&letters, console)?;
            } else if letters["data"].as_array().is_none_or(Vec::is_empty) {
                console.note("there are no dead letters");
            } else {
                console.text(render_list(&letters))?;
            }
        }
        Verb::Show { id, json, scheduler } => {
            let letter = scheduler.client()?.dead_letter(id).await?;
            if *json { json::whole(&letter, console)? } else { console.text(render(&letter))? }
        }
        Verb::Retry { id: Some(id), json, scheduler, .. } => {
            let answer = scheduler.client()?.retry_dead_letter(id).await?;
            if *json { json::whole(&answer, console)? } else { console.note(retried(&answer)) }
        }
        Verb::Retry { id: None, json, many, scheduler } => {
            return many.perform(&scheduler.client()?, *json, console).await;
        }
        Verb::Drop { id, scheduler } => {
            scheduler.client()?.drop_dead_letter(id).await?;
            console.note(format_args!("dead letter {id} is removed"));
        }
    }
    Ok(Exit::Succeeded)
}

fn render_list(letters: &Json) -> String {
    let row = |letter: &Json| {
        let reason = text::shortened(&shown(&letter["reason"]), REASON_CHARS_MAX);
        vec![shown(&letter["id"]), shown(&letter["what"]), shown(&letter["run"]), node(letter), reason]
    };
    let rows: Vec<_> = letters["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["ID", "WHAT", "RUN", "NODE", "REASON"], &rows)
}

fn render(letter: &Json) -> String {
    let at = letter["at"].as_f64().map(text::moment).unwrap_or_default();
    let mut shown_as = table::pairs(&[
        ("id", shown(&letter["id"])),
        ("what", shown(&letter["what"])),
        ("run", shown(&letter["run"])),
        ("node", node(letter)),
        ("at", at),
        ("reason", shown(&letter["reason"])),
    ]);
    shown_as.push_str(&format!("\n{}\n", shown(&letter["content"])));
    if letter["is_whole"] == false {
        shown_as.push_str("(only the beginning was stored)\n");
    }
    shown_as
}

pub(super) fn retried(answer: &Json) -> String {
    let id = shown(&answer["id"]);
    match answer["retry_of"].as_str() {
        Some(of) => format!("run {id} continues run {of} at node {}", shown(&answer["begins_at"])),
        None => format!("the fact is applied to run {id}"),
    }
}

/// The node and the container that it runs in.
fn node(letter: &Json) -> String {
    let node = shown(&letter["node_id"]);
    match letter["frame"].as_str() {
        None | Some("") => node,
        Some(frame) => format!("{node} in {frame}"),
    }
}

pub(super) fn shown(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn dead_letters_are_rows_and_show_prints_one_in_full() {
        let job = json!({"id": "0-17-0", "what": "job", "run": "r1", "node_id": "llm", "frame": "it#1",
            "reason": "no worker sent a result", "at": 0.0, "content": "{}", "is_whole": false});
        let fact = json!({"id": "1-16-0", "what": "fact", "run": null, "node_id": null, "frame": null,
            "reason": "it names no run"});
        let expected = "\
ID      WHAT  RUN  NODE         REASON
0-17-0  job   r1   llm in it#1  no worker sent a result
1-16-0  fact  -    -            it names no run
";
        assert_eq!(render_list(&json!({"data": [job.clone(), fact]})), expected);
        let shown = render(&job);
        assert!(shown.starts_with("id      0-17-0\nwhat    job\n"), "{shown}");
        assert!(shown.ends_with("\n{}\n(only the beginning was stored)\n"), "{shown}");
    }

    #[test]
    fn a_retry_says_which_run_continues() {
        let answer = json!({"id": "r2", "retry_of": "r1", "begins_at": "llm"});
        assert_eq!(retried(&answer), "run r2 continues run r1 at node llm");
        assert_eq!(retried(&json!({"id": "r1", "accepted": true})), "the fact is applied to run r1");
    }
}
