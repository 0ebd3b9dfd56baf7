//! `tidemill workers` and `tidemill queues`: who works, and what waits.

use serde_json::Value as Json;

use super::common::Common;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

/// Longest list of queues in the table of workers, in characters; `--json` has all of it.
const QUEUES_CHARS_MAX: usize = 40;
/// A living worker gives a sign of life every few seconds, so one of which nothing is seen for longer is marked.
const SILENT_SECONDS: f64 = 10.0;

/// Lists the workers, with what is missing below the table.
pub(super) async fn workers(common: &Common, console: &mut Console) -> Result<Exit, Error> {
    let workers = common.client()?.workers().await?;
    if common.json {
        json::whole(&workers, console)?;
        return Ok(Exit::Succeeded);
    }
    match list(&workers) {
        [] => console.note("no worker lives"),
        some => console.text(render_workers(some))?,
    }
    Ok(Exit::Succeeded)
}

/// Lists the queues.
pub(super) async fn queues(common: &Common, console: &mut Console) -> Result<Exit, Error> {
    let queues = common.client()?.queues().await?;
    if common.json {
        json::whole(&queues, console)?;
    } else {
        console.text(render_queues(list(&queues)))?;
        if queues["is_whole"] == false {
            console.note("there are more queues");
        }
    }
    Ok(Exit::Succeeded)
}

fn list(answer: &Json) -> &[Json] {
    answer["data"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn word(value: &Json) -> String {
    text::one_line(value.as_str().unwrap_or_default())
}

/// When a worker gave its last sign of life. One that has missed several may be dead, and is listed until it counts as such.
fn seen(seconds: f64) -> String {
    let age = text::age(0.0, seconds);
    if seconds > SILENT_SECONDS { format!("{age}, silent") } else { age }
}

fn render_workers(workers: &[Json]) -> String {
    let row = |worker: &Json| {
        let held = worker["jobs_held"].as_u64();
        let jobs = held.map(|held| match worker["permits"].as_u64() {
            Some(permits) => format!("{held} of {permits}"),
            None => held.to_string(),
        });
        let queues: Vec<String> = worker["queues"].as_array().into_iter().flatten().map(word).collect();
        let missing = worker["missing"].as_array().map_or(0, Vec::len);
        vec![
            word(&worker["name"]),
            word(&worker["version"]),
            worker["started_at"].as_f64().map(text::moment).unwrap_or_default(),
            worker["seen_seconds"].as_f64().map(seen).unwrap_or_default(),
            text::shortened(&queues.join(", "), QUEUES_CHARS_MAX),
            jobs.unwrap_or_default(),
            if missing > 0 { missing.to_string() } else { String::new() },
        ]
    };
    let rows: Vec<_> = workers.iter().map(row).collect();
    let heads = ["WORKER", "VERSION", "STARTED", "SEEN", "QUEUES", "JOBS", "MISSING"];
    let mut shown = table::render(&heads, &rows);
    for worker in workers {
        if let Some(hosted) = hosted(&worker["hosted"]) {
            shown.push_str(&format!("{} has executors of its program for {hosted}\n", word(&worker["name"])));
        }
        for plugin in worker["plugins"].as_array().into_iter().flatten() {
            if plugin["state"] != "ready" {
                let (name, id) = (word(&worker["name"]), word(&plugin["id"]));
                let (state, note) = (word(&plugin["state"]), word(&plugin["note"]));
                shown.push_str(&format!("{name} has the plugin {id} {state}: {note}\n"));
            }
        }
        for one in worker["missing"].as_array().into_iter().flatten() {
            let asked = if one["asked_at"].is_null() { "" } else { " (a job has asked for it)" };
            let (name, what, why) = (word(&worker["name"]), word(&one["text"]), word(&one["reason"]));
            shown.push_str(&format!("{name} lacks {what}{asked}: {why}\n"));
        }
    }
    shown
}

/// The nodes that the program around a worker executes itself; `None` if there are none.
fn hosted(hosted: &Json) -> Option<String> {
    const WORDS: [(&str, &str); 5] = [
        ("nodes", "the nodes"),
        ("types", "nodes of type"),
        ("tools", "tools of"),
        ("calls", "the Calls"),
        ("queues", "the queues"),
    ];
    let named = |(key, words): (&str, &str)| {
        let names: Vec<String> = hosted[key].as_array().into_iter().flatten().map(word).collect();
        (!names.is_empty()).then(|| format!("{words} {}", names.join(", ")))
    };
    let parts: Vec<String> = WORDS.into_iter().filter_map(named).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn render_queues(queues: &[Json]) -> String {
    let row = |queue: &Json| {
        let count = |key: &str| queue[key].as_u64().map(|count| count.to_string()).unwrap_or_default();
        let workers = queue["workers"].as_array().map_or(0, Vec::len);
        vec![
            word(&queue["name"]),
            count("waiting"),
            count("held"),
            queue["oldest_seconds"].as_f64().map(text::duration).unwrap_or_default(),
            match queue["served"].as_bool() {
                Some(false) => "none".into(),
                Some(true) => workers.to_string(),
                None => "unknown".into(),
            },
        ]
    };
    let rows: Vec<_> = queues.iter().map(row).collect();
    table::render(&["QUEUE", "WAITING", "HELD", "OLDEST WAIT", "WORKERS"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_worker_is_a_row_and_what_it_lacks_a_line() {
        let workers = [
            json!({"name": "w-1", "version": "0.1.0", "started_at": 0.0, "seen_seconds": 2.0, "jobs_held": 1,
                "permits": 8, "queues": ["default", "gpu"], "hosted": {"tools": ["acme"], "types": ["code", "llm"]},
                "missing": [
                    {"text": "the provider openai", "reason": "no\nkey", "asked_at": 5.0},
                    {"text": "a sandbox for python3", "reason": "no Python", "asked_at": null}]}),
            json!({"name": "w-2", "seen_seconds": 11.0, "jobs_held": null}),
        ];
        let expected = "\
WORKER  VERSION  STARTED                  SEEN             QUEUES        JOBS    MISSING
w-1     0.1.0    1970-01-01 00:00:00 UTC  2s ago           default, gpu  1 of 8  2
w-2     -        -                        11s ago, silent  -             -       -
w-1 has executors of its program for nodes of type code, llm; tools of acme
w-1 lacks the provider openai (a job has asked for it): no key
w-1 lacks a sandbox for python3: no Python
";
        assert_eq!(render_workers(&workers), expected);
    }

    #[test]
    fn a_queue_is_a_row() {
        let queues = [
            json!({"name": "default", "waiting": 0, "held": 3, "oldest_seconds": null, "served": true,
                "workers": ["a", "b"]}),
            json!({"name": "gpu", "waiting": 1812, "held": 0, "oldest_seconds": 125.0, "served": false, "workers": []}),
        ];
        let expected = "\
QUEUE    WAITING  HELD  OLDEST WAIT  WORKERS
default  0        3     -            2
gpu      1812     0     2m05s        none
";
        assert_eq!(render_queues(&queues), expected);
    }
}
