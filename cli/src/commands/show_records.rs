//! `tidemill show`: the data that a run stores besides its variables: messages, `rt` and the history.

use clap::Args;
use serde_json::Value as Json;

use crate::client::Client;
use crate::client::view::RunView;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

/// The part to show instead of the run.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(super) struct RecordArgs {
    /// Show a list of messages instead of the run (without a name: main)
    #[arg(long, value_name = "LIST", num_args = 0..=1, default_missing_value = "main")]
    messages: Option<String>,
    /// Show the history of steps instead of the run: all of it, or a view of it (lp, cx or se)
    #[arg(long, value_name = "VIEW", num_args = 0..=1, default_missing_value = "")]
    history: Option<String>,
    /// Show the runtime record of steps (rt) instead of the run
    #[arg(long)]
    rt: bool,
}

/// The part that the user asked for.
pub(super) enum Wanted<'a> {
    Messages(&'a str),
    History(&'a str),
    Runtime,
}

impl RecordArgs {
    pub(super) fn wanted(&self) -> Option<Wanted<'_>> {
        let runtime = self.rt.then_some(Wanted::Runtime);
        let history = self.history.as_deref().map(Wanted::History);
        self.messages.as_deref().map(Wanted::Messages).or(history).or(runtime)
    }
}

pub(super) async fn perform(
    client: &Client,
    run: &str,
    wanted: Wanted<'_>,
    as_json: bool,
    console: &mut Console,
) -> Result<Exit, Error> {
    match wanted {
        Wanted::Messages(list) => {
            let found = client.messages(run, list).await?;
            if as_json { json::whole(&found, console)? } else { console.text(messages(&found))? }
        }
        Wanted::History("") => {
            let found = client.history(run, None).await?;
            if as_json { json::whole(&found, console)? } else { console.text(history(&found))? }
        }
        // A view is for programs, so it is always JSON.
        Wanted::History(view) => json::whole(&client.history(run, Some(view)).await?, console)?,
        Wanted::Runtime => json::whole(&client.runtime(run).await?, console)?,
    }
    Ok(Exit::Succeeded)
}

/// Formats the message lists of a run; `None` when it has none.
pub(super) fn table(run: &RunView) -> Option<String> {
    if run.lists.is_empty() {
        return None;
    }
    let rows = run.lists.iter().map(|(name, list)| {
        let tokens = list.token_usage["lifetime"]["total_tokens"].as_u64().unwrap_or(0);
        let counts = [list.message_count, list.stored_count, list.current_batch, list.version, tokens];
        let mut row = vec![name.clone()];
        row.extend(counts.iter().map(u64::to_string));
        row
    });
    let head = ["MESSAGES", "VISIBLE", "STORED", "BATCH", "VERSION", "TOKENS"];
    Some(table::render(&head, &rows.collect::<Vec<_>>()))
}

fn messages(found: &Json) -> String {
    let row = |message: &Json| {
        let content = match &message["content"] {
            Json::String(text) => text.clone(),
            other => other.to_string(),
        };
        let word = |key: &str| message[key].as_str().unwrap_or_default().to_string();
        let is_visible = message["visible"].as_bool().unwrap_or(false);
        vec![
            message["idx"].to_string(),
            if is_visible { "yes" } else { "" }.to_string(),
            word("role"),
            word("by").trim_start_matches('/').to_string(),
            content,
        ]
    };
    let rows: Vec<_> = found["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["IDX", "VISIBLE", "ROLE", "BY", "CONTENT"], &rows)
}

fn history(found: &Json) -> String {
    let row = |record: &Json| {
        let word = |key: &str| record[key].as_str().unwrap_or_default().to_string();
        let at = record["timestamp"].as_f64().map(|ms| text::moment(ms / 1000.0)).unwrap_or_default();
        let took =
            record["execution_time"].as_f64().map(|ms| text::duration(ms / 1000.0)).unwrap_or_default();
        let output = record.get("output_data").map(Json::to_string).unwrap_or_default();
        vec![
            record["seq"].to_string(),
            at,
            word("node_id"),
            word("action"),
            word("step_status"),
            took,
            output,
        ]
    };
    let rows: Vec<_> = found["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["SEQ", "WHEN", "NODE", "ACTION", "STATUS", "TIME", "OUTPUT"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_list_shows_its_hidden_messages_too() {
        let found = json!({"data": [
            {"idx": 0, "role": "system", "content": "S", "visible": false, "by": ""},
            {"idx": 1, "role": "user", "content": {"text": "x"}, "visible": true, "by": "/ask"},
        ]});
        let expected = "\
IDX  VISIBLE  ROLE    BY   CONTENT
0    -        system  -    S
1    yes      user    ask  {\"text\":\"x\"}
";
        assert_eq!(messages(&found), expected);
    }

    #[test]
    fn message_lists_are_a_table_which_is_left_out_without_lists() {
        let run = RunView::read(&json!({"id": "r", "lists": {"main": {"message_count": 2, "stored_count": 5,
            "current_batch": 1, "version": 3, "token_usage": {"lifetime": {"total_tokens": 7}}}}}));
        let shown = table(&run).unwrap();
        assert!(shown.contains("main      2        5       1      3        7"), "{shown}");
        assert_eq!(table(&RunView::read(&json!({"id": "r"}))), None);
    }
}
