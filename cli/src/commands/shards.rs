//! `tidemill shards`: the shards with their owners and runs; `tidemill shards raise N`: more of them.

use clap::{Args, Subcommand};
use serde_json::Value as Json;

use super::common::Common;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table, text};

/// The arguments of `tidemill shards`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Raise the number of shards while everything runs; it can never be lowered
    Raise {
        /// The new number of shards
        shards: u16,
        #[command(flatten)]
        common: Common,
    },
}

/// Lists the shards, or raises their number.
pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        None => list(&arguments.common, console).await,
        Some(Verb::Raise { shards, common }) => raise(*shards, common, console).await,
    }
}

async fn list(common: &Common, console: &mut Console) -> Result<Exit, Error> {
    let shards = common.client()?.shards().await?;
    if common.json {
        json::whole(&shards, console)?;
    } else {
        console.text(render(shards["data"].as_array().map(Vec::as_slice).unwrap_or_default()))?;
    }
    Ok(Exit::Succeeded)
}

async fn raise(shards: u16, common: &Common, console: &mut Console) -> Result<Exit, Error> {
    let raised = common.client()?.raise_shards(shards).await?;
    if common.json {
        json::whole(&raised, console)?;
        return Ok(Exit::Succeeded);
    }
    match raised["raised_from"].as_u64() {
        Some(from) if from != u64::from(shards) => console.text(format!("{from} → {shards} shards\n"))?,
        Some(_) | None => console.text(format!("there are {shards} shards already\n"))?,
    }
    Ok(Exit::Succeeded)
}

fn render(shards: &[Json]) -> String {
    let row = |shard: &Json| {
        let count = |key: &str| shard[key].as_u64().map(|count| count.to_string()).unwrap_or_default();
        let owner = shard["owner"].as_str().map_or("none".into(), text::one_line);
        let counts = ["scheduled", "running", "paused", "ended", "inbox"].map(count);
        [vec![count("shard"), owner], counts.to_vec()].concat()
    };
    let rows: Vec<_> = shards.iter().map(row).collect();
    table::render(&["SHARD", "OWNER", "SCHEDULED", "RUNNING", "PAUSED", "ENDED", "INBOX"], &rows)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shard_without_an_owner_says_so() {
        let shards = [
            json!({"shard": 0, "owner": "s-a", "scheduled": 1, "running": 2, "paused": 30, "ended": 4, "inbox": 5}),
            json!({"shard": 1, "owner": null, "scheduled": 0, "running": 0, "paused": 0, "ended": 0, "inbox": 0}),
        ];
        let expected = "\
SHARD  OWNER  SCHEDULED  RUNNING  PAUSED  ENDED  INBOX
0      s-a    1          2        30      4      5
1      none   0          0        0       0      0
";
        assert_eq!(render(&shards), expected);
    }
}
