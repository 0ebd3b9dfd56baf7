//! The `knowledge-retrieval` node: selects and searches datasets, then filters and ranks the results. The parts without
//! network are in `tidemill-common`.

use futures_util::StreamExt;
use serde_json::Value as Json;
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::nodes::NodeResult;
use tidemill_common::nodes::knowledge_retrieval::filter::Filters;
use tidemill_common::nodes::knowledge_retrieval::rank::{self, Indexing, Method};
use tidemill_common::nodes::knowledge_retrieval::router::{self, Choice};
use tidemill_common::nodes::knowledge_retrieval::{
    Filtering, KnowledgeRetrievalData, MultipleConfig, Passage, RetrievalMode, automatic, passage, question,
};
use tidemill_common::nodes::llm::message::Message;
use tidemill_common::nodes::llm::{ModelConfig, ModelMode, params, usage};
use tidemill_common::value::{JsonMap, Segment, SegmentType, Variables};
use tidemill_common::warning::{self, Warning};
use tidemill_common::wire::knowledge::ModelName;

use crate::outside::knowledge::models::Models;
use crate::outside::knowledge::{Dataset, Datasets, SearchRequest, not_ranked};
use crate::outside::providers::Question;
use crate::outside::providers::profile::ModelKind;

/// The journal key of the call in which a model chooses a dataset.
const ROUTER: &str = "llm:router";

/// Runs the node. A failure is part of the result. All variables the node mentions must be loaded. Dropping the future
/// stops the searches.
pub async fn run(
    data: &KnowledgeRetrievalData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    models: &Models<'_>,
    datasets: &Datasets,
) -> NodeResult {
    let asked = match question::read(data, variables) {
        Ok(Some(asked)) => asked,
        Ok(None) => return NodeResult::default(),
        Err(failure) => return NodeResult::failed(failure),
    };
    if let Some(files) = attachments(&asked.inputs) {
        let message =
            format!("{files} files of the question were not used: datasets are searched by text only");
        models.warn(Warning::new(warning::ATTACHMENTS_NOT_USED, message));
    }
    let retrieval = Retrieval { data, node, variables, models, query: &asked.query };
    let found = retrieval.run(datasets).await;
    let (usage, wasted) = (models.spent(), models.wasted());
    let result = NodeResult { inputs: asked.inputs, wasted, ..NodeResult::default() };
    match found {
        Ok(passages) => {
            let items = Segment::new(SegmentType::ArrayObject, Json::Array(passage::items(passages)));
            let mut process_data = JsonMap::new();
            process_data.insert("usage".into(), Json::Object(usage.record.clone()));
            NodeResult {
                outputs: vec![("result".into(), items)],
                process_data,
                metadata: usage::metadata(&usage),
                usage: Some(usage),
                ..result
            }
        }
        // Model calls before the failure are charged.
        Err(failure) => NodeResult { failure: Some(failure), usage: Some(usage), ..result },
    }
}

/// A run of the node.
struct Retrieval<'a> {
    data: &'a KnowledgeRetrievalData,
    node: &'a Node,
    variables: &'a (dyn Variables + Send + Sync),
    models: &'a Models<'a>,
    query: &'a str,
}

impl Retrieval<'_> {
    async fn run(&self, datasets: &Datasets) -> Result<Vec<Passage>, NodeFailure> {
        if self.query.is_empty() {
            return Ok(Vec::new());
        }
        self.data.check()?;
        let (ids, search) = (&self.data.dataset_ids, self.data.search.as_ref());
        let found = datasets.find_for(ids, search, &|warning| self.models.warn(warning)).await?;
        let found: Vec<&Dataset> = found.iter().map(|one| &**one).collect();
        if found.is_empty() {
            return Ok(Vec::new());
        }
        let filters = self.filters(&found).await;
        match (self.data.mode, &self.data.router, &self.data.multiple) {
            (RetrievalMode::Single, Some(model), _) => self.single(model, &found, filters.as_ref()).await,
            (RetrievalMode::Multiple, _, Some(config)) => {
                self.multiple(config, &found, filters.as_ref(), datasets.searches_max).await
            }
            // The configuration was already checked for the mode's settings.
            (RetrievalMode::Single, None, _) | (RetrievalMode::Multiple, _, None) => Ok(Vec::new()),
        }
    }

    fn asked<'f>(&'f self, filters: Option<&'f Filters>) -> SearchRequest<'f> {
        SearchRequest { query: self.query, filters, models: self.models }
    }

    /// Returns the filters. If a model cannot build them, the search runs unfiltered (Dify).
    async fn filters(&self, datasets: &[&Dataset]) -> Option<Filters> {
        let given = self.data.filters.as_ref();
        match (self.data.filtering, &self.data.filter_model) {
            (Filtering::Manual, _) => given.and_then(|filters| filters.fill(self.variables)),
            (Filtering::Automatic, Some(model)) => {
                let mut known = Vec::new();
                for one in datasets {
                    match one.fields().await {
                        Ok(fields) => known.extend(fields),
                        Err(error) => {
                            let (dataset, error_type) = (&one.id, error.class.name());
                            tracing::warn!(node = %self.node.id, dataset, error_type, "the fields of a dataset are not known; nothing is filtered");
                            let message = format!(
                                "the metadata fields of dataset {dataset} are not known ({error_type}), so documents were \
                                 not filtered"
                            );
                            let not_filtered = Warning::new(warning::DATASET_NOT_FILTERED, message);
                            self.models.warn(not_filtered.about("dataset", dataset));
                            return None;
                        }
                    }
                }
                let fields: Vec<&str> = known.iter().map(String::as_str).collect();
                // A reply of the model could not match any field.
                if fields.is_empty() {
                    return None;
                }
                let reply = self.ask("llm:filter", model, automatic::messages(self.query, &fields)).await;
                let logic = given.map(|filters| filters.logic);
                reply.and_then(|reply| automatic::filters(&reply, &fields, logic))
            }
            (Filtering::Automatic, None) | (Filtering::Disabled, _) => None,
        }
    }

    /// Searches one dataset, chosen by a model if there are several. Its failure fails the node.
    async fn single(
        &self,
        config: &ModelConfig,
        datasets: &[&Dataset],
        filters: Option<&Filters>,
    ) -> Result<Vec<Passage>, NodeFailure> {
        let chosen = match datasets {
            [only] => Some(*only),
            several => self.choose(config, several).await,
        };
        match chosen {
            Some(dataset) => Ok(dataset.search(self.asked(filters)).await?),
            None => Ok(Vec::new()),
        }
    }

    async fn choose<'d>(&self, config: &ModelConfig, datasets: &[&'d Dataset]) -> Option<&'d Dataset> {
        let choice =
            |one: &&'d Dataset| Choice { id: &one.id, name: &one.name, description: &one.description };
        let choices: Vec<Choice<'_>> = datasets.iter().map(choice).collect();
        let reply = self.ask(ROUTER, config, router::messages(self.query, &choices)).await;
        let chosen = reply.and_then(|reply| router::chosen(&reply, &choices));
        tracing::debug!(node = %self.node.id, dataset = chosen.map(|at| choices[at].id), "a model chose a dataset");
        chosen.map(|at| datasets[at])
    }

    /// Returns the model's reply. `None` if it cannot be called or fails, which is ignored here (Dify).
    async fn ask(&self, step: &str, config: &ModelConfig, messages: Vec<Message>) -> Option<String> {
        let question = Question {
            messages,
            params: params::resolve(&config.completion_params, self.variables),
            tools: Vec::new(),
            mode: ModelMode::Chat,
            stream: true,
        };
        match self.models.ask(step, config, question).await {
            Ok(said) => Some(said),
            Err(error) => {
                // The error may contain the question, which must not be logged.
                let error_type = NodeFailure::from(error).error_type;
                tracing::warn!(node = %self.node.id, model = config.name, error_type, "a model call for the search failed");
                self.models.warn(unasked(step, &config.name, &error_type));
                None
            }
        }
    }

    async fn multiple(
        &self,
        config: &MultipleConfig,
        datasets: &[&Dataset],
        filters: Option<&Filters>,
        searches_max: usize,
    ) -> Result<Vec<Passage>, NodeFailure> {
        let indexings: Vec<Indexing> = datasets.iter().map(|one| one.indexing.clone()).collect();
        let method = rank::method(config, &indexings)?;
        let asked = self.asked(filters);
        let searches = datasets.iter().map(|one| async move { (*one, one.search(asked).await) });
        // Keep the datasets' order, so that equal results are deterministic. Run all to the end, because model calls
        // are charged even if interrupted.
        let searches = futures_util::stream::iter(searches.collect::<Vec<_>>()).buffered(searches_max);
        let mut passages = Vec::new();
        for (dataset, found) in searches.collect::<Vec<_>>().await {
            match found {
                Ok(found) => passages.extend(found),
                Err(error) if dataset.strict => return Err(error.into()),
                Err(error) => {
                    // The error may contain the question, which must not be logged.
                    let (dataset, error_type) = (&dataset.id, error.class.name());
                    tracing::warn!(node = %self.node.id, dataset, error_type, "a dataset cannot be searched; it is skipped");
                    let message =
                        format!("dataset {dataset} could not be searched ({error_type}), so it was left out");
                    let hint = "set knowledge.strict, or strict of the dataset, and the node fails instead";
                    let not_searched = Warning::new(warning::DATASET_NOT_SEARCHED, message);
                    self.models.warn(not_searched.about("dataset", dataset).hint(hint));
                }
            }
        }
        let passages = rank::merge(passages);
        match method {
            Method::Model => self.ranked_by_model(config, passages).await,
            Method::Weights(_) | Method::Keywords | Method::Scores | Method::First => {
                Ok(rank::rank(method, self.query, passages, config))
            }
        }
    }

    /// Ranks with a model. Without a usable model all passages stay in order (Dify).
    async fn ranked_by_model(
        &self,
        config: &MultipleConfig,
        passages: Vec<Passage>,
    ) -> Result<Vec<Passage>, NodeFailure> {
        let Some((provider, name)) = &config.reranking_model else { return Ok(passages) };
        let name = ModelName { provider: provider.clone(), model: name.clone() };
        let model = match self.models.find(&name, ModelKind::Rerank).await {
            Ok(model) => model,
            Err(error) => {
                let (model, why) = (name.model, error.brief());
                tracing::warn!(node = %self.node.id, model, error = why, "passages are not ranked");
                self.models.warn(not_ranked(&model, &why));
                return Ok(passages);
            }
        };
        let texts: Vec<String> = passages.iter().map(|passage| passage.content.clone()).collect();
        let top_n = if config.top_k == 0 { texts.len() } else { config.top_k };
        let ranking = self.models.ranking("rerank", (&name, &model), self.query, (&texts, top_n)).await?;
        Ok(rank::by_model(&passages, &ranking, config))
    }
}

/// The number of files that belong to the question; `None` when there are none.
fn attachments(inputs: &[(String, Segment)]) -> Option<usize> {
    let (_, files) = inputs.iter().find(|(name, _)| name == "attachments")?;
    files.value.as_array().map(Vec::len).filter(|files| *files > 0)
}

/// The warning that a model's part of the search was left out.
fn unasked(step: &str, model: &str, error_type: &str) -> Warning {
    let (code, effect) = match step {
        ROUTER => (warning::DATASET_NOT_CHOSEN, "no dataset was chosen, and nothing was searched"),
        _ => (warning::DATASET_NOT_FILTERED, "documents were not filtered"),
    };
    let message = format!("model {model} could not be asked ({error_type}), so {effect}");
    Warning::new(code, message).about("model", model)
}

#[cfg(test)]
mod tests;
