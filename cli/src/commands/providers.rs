//! `tidemill providers`: connections to models that all workers share.

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use tidemill_common::registry::{check, provider_of};

use super::catalog::{self, AddArgs, PROVIDER};
use super::common::Common;
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
    /// Store a provider: the address and key of models; workflows name it by its id
    Add {
        #[command(flatten)]
        add: AddArgs,
        /// API of the provider: openai_compatible, anthropic, azure_openai, ollama [default: openai_compatible]
        #[arg(long)]
        kind: Option<String>,
        /// Address, up to /v1
        #[arg(long, value_name = "URL")]
        base_url: Option<String>,
        /// Version of the API, for APIs that have one
        #[arg(long, value_name = "VERSION")]
        api_version: Option<String>,
        /// A model of this provider, for `test`; may be given several times
        #[arg(long = "model", value_name = "NAME")]
        models: Vec<String>,
        /// An embedding model; may be given several times
        #[arg(long = "embedding-model", value_name = "NAME")]
        embedding_models: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
    /// List providers
    Ls {
        #[command(flatten)]
        common: Common,
    },
    /// Show a provider, without its key
    Show {
        /// Id of the provider
        id: String,
        #[command(flatten)]
        common: Common,
    },
    /// Remove a provider
    Rm {
        /// Id of the provider
        id: String,
        /// Remove it even if profiles use it
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Common,
    },
    /// Call the provider's models once on a worker and show the results
    Test {
        /// Id of the provider, or any name that workflows use for it
        id: String,
        /// Only this model; may be given several times [default: all models of the provider]
        #[arg(long = "model", value_name = "NAME")]
        models: Vec<String>,
        #[command(flatten)]
        trial: TrialArgs,
        #[command(flatten)]
        common: Common,
    },
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Add { add, kind, base_url, api_version, models, embedding_models, common } => {
            let mut table = add.file.table(PROVIDER, common).await?;
            catalog::put(&mut table, "kind", kind.as_deref());
            catalog::put(&mut table, "base_url", base_url.as_deref());
            catalog::put(&mut table, "api_version", api_version.as_deref());
            let chat = models.iter().map(|name| (name, json!({})));
            let declared =
                chat.chain(embedding_models.iter().map(|name| (name, json!({"mode": "embedding"}))));
            for (name, settings) in declared {
                if let Some(models) = catalog::object(&mut table, "models") {
                    models.insert(name.clone(), settings);
                }
            }
            let wants_key = provider_of(table.clone()).is_ok_and(|config| check::needs_key(&config));
            add.put_key(PROVIDER, &mut table, wants_key, console).await?;
            add.file.send(PROVIDER, table, common, console).await
        }
        Verb::Ls { common } => catalog::list(PROVIDER, common, render, console).await,
        Verb::Show { id, common } => catalog::show(PROVIDER, id, common, console).await,
        Verb::Rm { id, force, common } => catalog::forget(PROVIDER, id, *force, common, console).await,
        Verb::Test { id, models, trial, common } => {
            let models = if models.is_empty() { declared(id, common).await? } else { models.clone() };
            let asked: Vec<_> = models.into_iter().map(|model| (id.clone(), model)).collect();
            trial::perform(&asked, trial, common, console).await
        }
    }
}

/// Returns the models that a provider declares.
async fn declared(id: &str, common: &Common) -> Result<Vec<String>, Error> {
    let provider = common.client()?.entry(PROVIDER.many, id).await?;
    let models: Vec<String> =
        provider["models"].as_object().into_iter().flat_map(|models| models.keys().cloned()).collect();
    if models.is_empty() {
        return Err(Error::Usage(format!("the provider {id} declares no models: name one with --model")));
    }
    Ok(models)
}

fn render(providers: &Json) -> String {
    let row = |entry: &Json| {
        let word = |key: &str| catalog::text(&entry[key]);
        let kind = if entry["kind"].is_null() { "openai_compatible".into() } else { word("kind") };
        let models: Vec<&str> = entry["models"]
            .as_object()
            .into_iter()
            .flat_map(|models| models.keys().map(String::as_str))
            .collect();
        vec![
            word("id"),
            kind,
            word("base_url"),
            catalog::key(entry),
            models.join(" "),
            catalog::changed(entry),
        ]
    };
    let rows: Vec<_> = providers["data"].as_array().into_iter().flatten().map(row).collect();
    table::render(&["PROVIDER", "KIND", "URL", "KEY", "MODELS", "CHANGED"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_are_rows_that_show_where_their_key_is() {
        let list = render(&json!({"data": [
            {"id": "acme", "base_url": "http://h/v1", "api_key": "***", "models": {"a": {}, "b": {}}, "updated_at": 0},
            {"id": "claude", "kind": "anthropic", "api_key_env": "CLAUDE_KEY", "updated_at": 60},
        ]}));
        let expected = "\
PROVIDER  KIND               URL          KEY          MODELS  CHANGED
acme      openai_compatible  http://h/v1  ***          a b     1970-01-01 00:00:00 UTC
claude    anthropic          -            $CLAUDE_KEY  -       1970-01-01 00:01:00 UTC
";
        assert_eq!(list, expected);
    }
}
