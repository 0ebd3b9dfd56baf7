//! `tidemill set`: changes variables of a run that has not ended.

use clap::Args;
use serde_json::{Value as Json, json};

use super::command::Common;
use super::pairs::{json_or_text, pair, selector};
use crate::console::Console;
use crate::error::{Error, Exit};

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Variables with values, as JSON or else text; NODE may be `conversation`
    #[arg(required = true, value_name = "NODE.NAME=VALUE", value_parser = pair)]
    updates: Vec<(String, String)>,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    let updates: Vec<Json> =
        arguments.updates.iter().map(|(name, value)| update(name, value)).collect::<Result<_, _>>()?;
    let body = json!({"command": "update_variables", "updates": updates});
    let done = if updates.len() == 1 { "will change the variable" } else { "will change the variables" };
    arguments.common.send(body, done, console).await
}

fn update(name: &str, value: &str) -> Result<Json, Error> {
    let (node, name) = selector(name)?;
    Ok(json!({"selector": [node, name], "value": json_or_text(value)}))
}
