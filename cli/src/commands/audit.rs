//! `tidemill audit`: lists who changed what through the native API, the newest first.

use clap::Args;
use serde_json::{Value as Json, json};

use super::common::Common;
use crate::client::Client;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Number of entries at most
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Only entries since this Unix time
    #[arg(long, value_name = "SECONDS")]
    since: Option<String>,
    /// Only entries before this Unix time, or before the entry with this id
    #[arg(long, value_name = "SECONDS|ID")]
    before: Option<String>,
    /// Only entries of this admin key (its id or label), or of the key of the `settings`
    #[arg(long)]
    who: Option<String>,
    /// Only actions with this text, such as DELETE or /keys
    #[arg(long, value_name = "TEXT")]
    action: Option<String>,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let entries = entries(arguments, &arguments.common.client()?).await?;
    if arguments.common.json {
        json::whole(&entries, console)?;
    } else if entries["data"].as_array().is_none_or(Vec::is_empty) {
        console.note("there are no entries");
    } else {
        console.text(render(&entries))?;
    }
    Ok(Exit::Succeeded)
}

/// Reads pages until there are enough entries.
async fn entries(arguments: &Arguments, client: &Client) -> Result<Json, Error> {
    let filters = [("since", &arguments.since), ("who", &arguments.who), ("action", &arguments.action)];
    let filters = filters.into_iter().filter_map(|(name, value)| Some((name, value.clone()?)));
    let filters: Vec<(&str, String)> = filters.collect();
    let (mut data, mut before) = (Vec::new(), arguments.before.clone());
    loop {
        let left = arguments.limit as usize - data.len();
        let mut query = filters.clone();
        query.push(("limit", left.min(500).to_string()));
        query.extend(before.map(|before| ("before", before)));
        let page = client.audit(&query).await?;
        data.extend(page["data"].as_array().into_iter().flatten().cloned());
        before = page["next"].as_str().map(str::to_string);
        if before.is_none() || data.len() >= arguments.limit as usize {
            return Ok(json!({"data": data, "next": before}));
        }
    }
}

fn render(entries: &Json) -> String {
    let row = |entry: &Json| {
        let word = |name: &str| text::one_line(entry[name].as_str().unwrap_or_default());
        let named = entry["named"].as_object().into_iter().flatten();
        let named = named.map(|(kind, id)| format!("{kind} {}", id.as_str().unwrap_or_default()));
        let who = if entry["label"].is_string() { word("label") } else { word("who") };
        let moment = entry["at"].as_f64().map(text::moment).unwrap_or_default();
        let named = text::one_line(&named.collect::<Vec<_>>().join(", "));
        vec![moment, who, word("role"), word("address"), word("action"), named, entry["status"].to_string()]
    };
    let rows: Vec<_> = entries["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["WHEN", "WHO", "ROLE", "ADDRESS", "ACTION", "NAMED", "STATUS"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_who_did_what_to_what() {
        let entries = json!({"data": [
            {"id": "0-1", "at": 0.0, "who": "ab12", "label": "on call", "role": "operator", "address": "192.0.2.1",
                "action": "DELETE /dead/{id}", "named": {"dead_letter": "0/1-1"}, "status": 204},
            {"id": "0-0", "at": 0.0, "who": "settings", "label": null, "role": "admin", "address": null,
                "action": "POST /apps", "named": {"made": "a1"}, "status": 201},
        ]});
        let shown = render(&entries);
        for word in
            ["on call", "192.0.2.1", "DELETE /dead/{id}", "dead_letter 0/1-1", "settings", "made a1", "201"]
        {
            assert!(shown.contains(word), "{word}: {shown}");
        }
    }
}
