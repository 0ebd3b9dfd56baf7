//! `tidemill profiles`: models with parameters, stored under an id.

use clap::{Args, Subcommand};
use serde_json::Value as Json;
use tidemill_common::registry::PROFILE_PREFIX;

use super::catalog::{self, AddArgs, PROFILE};
use super::common::Common;
use super::pairs::{json_or_text, pair};
use super::trial::{self, TrialArgs};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::table;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Store a profile: a provider's model with parameters, under an id; the first one becomes the default
    Add(Box<New>),
    /// List profiles
    Ls {
        #[command(flatten)]
        common: Common,
    },
    /// Show a profile, without its key
    Show {
        /// Id of the profile
        id: String,
        #[command(flatten)]
        common: Common,
    },
    /// Remove a profile; if it is the default, the next one becomes the default
    Rm {
        /// Id of the profile
        id: String,
        #[command(flatten)]
        common: Common,
    },
    /// Call the profile's model once on a worker and show the result
    Test {
        /// Id of the profile
        id: String,
        #[command(flatten)]
        trial: TrialArgs,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct New {
    #[command(flatten)]
    add: AddArgs,
    /// Id of the provider, or the API of a profile without provider (OPENAI_CHAT, ANTHROPIC, ollama …)
    #[arg(long, value_name = "ID")]
    provider: Option<String>,
    /// Name of the model
    #[arg(long)]
    model: Option<String>,
    /// Display name [default: the id]
    #[arg(long)]
    name: Option<String>,
    /// Address to use instead of the provider's
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// A parameter of each call, as JSON or else text; may be given several times
    #[arg(long = "parameter", value_name = "NAME=VALUE", value_parser = pair)]
    parameters: Vec<(String, String)>,
    /// Longest time without any data, in milliseconds [default: the provider's]
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// Number of retries within one call [default: the provider's]
    #[arg(long, value_name = "N")]
    max_retries: Option<u32>,
    /// How the model calls tools: function_call, xml, json
    #[arg(long, value_name = "MODE")]
    tool_mode: Option<String>,
    /// Make it the default profile
    #[arg(long)]
    default: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Add(new) => add(new, console).await,
        Verb::Ls { common } => catalog::list(PROFILE, common, render, console).await,
        Verb::Show { id, common } => catalog::show(PROFILE, id, common, console).await,
        Verb::Rm { id, common } => catalog::forget(PROFILE, id, false, common, console).await,
        Verb::Test { id, trial, common } => {
            let profile = common.client()?.entry(PROFILE.many, id).await?;
            let asked = (format!("{PROFILE_PREFIX}{id}"), catalog::text(&profile["model"]));
            trial::perform(&[asked], trial, common, console).await
        }
    }
}

async fn add(new: &New, console: &mut Console) -> Result<Exit, Error> {
    let New {
        add,
        provider,
        model,
        name,
        base_url,
        parameters,
        timeout,
        max_retries,
        tool_mode,
        default,
        common,
    } = new;
    let mut table = add.file.table(PROFILE, common).await?;
    catalog::put(&mut table, "provider", provider.as_deref());
    catalog::put(&mut table, "model", model.as_deref());
    catalog::put(&mut table, "name", name.as_deref());
    catalog::put(&mut table, "baseUrl", base_url.as_deref());
    catalog::put(&mut table, "timeout", *timeout);
    catalog::put(&mut table, "maxRetries", *max_retries);
    catalog::put(&mut table, "toolMode", tool_mode.as_deref());
    catalog::put(&mut table, "default", default.then_some(true));
    for (name, value) in parameters {
        if let Some(parameters) = catalog::object(&mut table, "parameters") {
            parameters.insert(name.clone(), json_or_text(value));
        }
    }
    table.entry("name").or_insert_with(|| add.file.id.as_str().into());
    let speaks_by_itself = table
        .get("provider")
        .and_then(Json::as_str)
        .is_some_and(|name| name != "HUMAN_RELAY" && is_shouted(name));
    add.put_key(PROFILE, &mut table, speaks_by_itself, console).await?;
    add.file.send(PROFILE, table, common, console).await
}

fn is_shouted(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

fn render(profiles: &Json) -> String {
    let row = |entry: &Json| {
        let word = |key: &str| catalog::text(&entry[key]);
        let default = if entry["default"] == true { "default" } else { "" };
        vec![
            word("id"),
            word("provider"),
            word("model"),
            catalog::key(entry),
            default.into(),
            catalog::changed(entry),
        ]
    };
    let rows: Vec<_> = profiles["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["PROFILE", "PROVIDER", "MODEL", "KEY", "DEFAULT", "CHANGED"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn profiles_are_rows_and_one_is_the_default() {
        let list = render(&json!({"data": [
            {"id": "fast", "provider": "acme", "model": "m", "default": true, "updated_at": 0},
            {"id": "own", "provider": "OPENAI_CHAT", "model": "n", "apiKey": "***", "default": false, "updated_at": 60},
        ]}));
        let expected = "\
PROFILE  PROVIDER     MODEL  KEY  DEFAULT  CHANGED
fast     acme         m      -    default  1970-01-01 00:00:00 UTC
own      OPENAI_CHAT  n      ***  -        1970-01-01 00:01:00 UTC
";
        assert_eq!(list, expected);
    }
}
