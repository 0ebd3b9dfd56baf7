//! `tidemill knowledge`: the documents that workflows search. [`files`] reads them, [`add`] adds them and waits,
//! [`search`] searches as a workflow does, [`shown`] formats the output.

mod add;
mod files;
mod search;
mod shown;

use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};

use super::common::SchedulerArgs;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::json as programs;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a dataset
    Create(Box<Create>),
    /// Add documents to a dataset; existing documents of the same name are replaced
    Add(Box<add::Add>),
    /// List datasets, or the documents of one
    Ls {
        /// Id or name of the dataset
        dataset: Option<String>,
        /// Show them as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scheduler: SchedulerArgs,
    },
    /// Show a document and its segments
    Show {
        /// Id or name of the dataset
        dataset: String,
        /// Id or name of the document
        document: String,
        /// Number of segments at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1000))]
        segments: u32,
        /// Show it as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scheduler: SchedulerArgs,
    },
    /// Search a dataset, as a knowledge-retrieval node does
    Search {
        /// Id or name of the dataset
        dataset: String,
        /// The question
        query: String,
        /// Number of passages at most; the settings of the dataset can limit them further
        #[arg(long, value_name = "N")]
        top_k: Option<u32>,
        /// Show them as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        scheduler: SchedulerArgs,
    },
    /// Remove a document, or a whole dataset
    Rm {
        /// Id or name of the dataset
        dataset: String,
        /// Id or name of the document
        document: Option<String>,
        /// Remove the dataset with everything in it
        #[arg(long, conflicts_with = "document")]
        all: bool,
        #[command(flatten)]
        scheduler: SchedulerArgs,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Id of the dataset, as workflows name it
    dataset: String,
    #[command(flatten)]
    kind: Kind,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

/// How a dataset is indexed and searched.
#[derive(Debug, Args)]
struct Kind {
    /// Name of the dataset [default: its id]
    #[arg(long)]
    dataset_name: Option<String>,
    /// Description of the content, for models that choose a dataset
    #[arg(long)]
    description: Option<String>,
    /// The embedding model; without one the dataset is searched by words
    #[arg(long, value_name = "PROVIDER:MODEL", value_parser = model)]
    embedding: Option<Json>,
    /// semantic_search, full_text_search, hybrid_search or keyword_search
    #[arg(long, value_name = "METHOD", value_parser = method)]
    search_method: Option<String>,
    /// Number of passages that a search returns at most
    #[arg(long, value_name = "N")]
    dataset_top_k: Option<u32>,
    /// Lowest score of a passage, from 0 to 1
    #[arg(long, value_name = "SCORE")]
    score_threshold: Option<f64>,
    /// A model that ranks the passages that were found
    #[arg(long, value_name = "PROVIDER:MODEL", value_parser = model)]
    reranking_model: Option<Json>,
}

impl Kind {
    /// Builds the request that creates the dataset.
    fn request(&self, dataset: &str) -> Json {
        let mut retrieval = json!({});
        for (key, value) in [
            ("search_method", json!(self.search_method)),
            ("top_k", json!(self.dataset_top_k)),
            ("score_threshold", json!(self.score_threshold)),
            ("reranking_model", json!(self.reranking_model)),
        ] {
            if !value.is_null() {
                retrieval[key] = value;
            }
        }
        json!({
            "id": dataset, "name": self.dataset_name, "description": self.description,
            "embedding": self.embedding, "retrieval": retrieval,
        })
    }
}

/// Parses a model on the command line. The id of a provider has no colon, the name of a model may have some.
fn model(text: &str) -> Result<Json, String> {
    match text.split_once(':') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(json!({"provider": provider, "model": model}))
        }
        _ => Err("write PROVIDER:MODEL".into()),
    }
}

fn method(text: &str) -> Result<String, String> {
    use tidemill_common::wire::knowledge::SearchMethod;
    match SearchMethod::from_name(text) {
        Some(method) => Ok(method.name().into()),
        None => Err(SearchMethod::ALL.map(SearchMethod::name).join(", ")),
    }
}

pub(super) async fn perform(arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Create(create) => {
            let Create { dataset, kind, scheduler } = &**create;
            let made = scheduler.client()?.make_dataset(&kind.request(dataset)).await?;
            console.text(shown::dataset(&made))?;
        }
        Verb::Add(add) => return add::perform(add, console).await,
        Verb::Ls { dataset, json, scheduler } => {
            let client = scheduler.client()?;
            let (answer, text) = match dataset {
                None => {
                    let all = client.knowledge().await?;
                    let text = shown::datasets(&all);
                    (all, text)
                }
                Some(dataset) => {
                    let one = client.dataset(dataset).await?;
                    let text = shown::documents(&one);
                    (one, text)
                }
            };
            if *json { programs::whole(&answer, console)? } else { console.text(text)? }
        }
        Verb::Show { dataset, document, segments, json, scheduler } => {
            let found = scheduler.client()?.document(dataset, document, *segments).await?;
            if *json { programs::whole(&found, console)? } else { console.text(shown::document(&found))? }
        }
        Verb::Search { dataset, query, top_k, json, scheduler } => {
            let found = search::ask(&scheduler.client()?, dataset, query, *top_k).await?;
            if *json {
                programs::whole(&found, console)?;
            } else if found.as_array().is_none_or(Vec::is_empty) {
                console.note("no passage was found");
            } else {
                console.text(shown::passages(&found))?;
            }
        }
        Verb::Rm { dataset, document, all, scheduler } => {
            if document.is_none() && !all {
                let text = format!("name a document, or remove the whole dataset {dataset} with --all");
                return Err(Error::Usage(text));
            }
            scheduler.client()?.remove_knowledge(dataset, document.as_deref()).await?;
            let what = document.as_ref().map_or("dataset", |_| "document");
            console.note(format_args!("{what} {} is removed", document.as_ref().unwrap_or(dataset)));
        }
    }
    Ok(Exit::Succeeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_describe_a_new_dataset() {
        assert_eq!(model("ollama:nomic:latest"), Ok(json!({"provider": "ollama", "model": "nomic:latest"})));
        assert!(model("x").is_err() && model(":x").is_err() && method("guess").is_err());
        let kind = Kind {
            dataset_name: None,
            description: None,
            embedding: model("p:m").ok(),
            search_method: method("hybrid_search").ok(),
            dataset_top_k: Some(7),
            score_threshold: None,
            reranking_model: None,
        };
        let expected = json!({"id": "k", "name": null, "description": null,
            "embedding": {"provider": "p", "model": "m"}, "retrieval": {"search_method": "hybrid_search", "top_k": 7}});
        assert_eq!(kind.request("k"), expected);
    }
}
