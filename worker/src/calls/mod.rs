//! Calls: what the steps of a workflow run. A call says what it is and what it takes, and brings pieces of text or objects.
//!
//! [`BUILT_IN`] lists those that are part of this program; [`Shelf`] is where library nodes and further calls are kept.
//! What is around a call (parameters, missing ones, events, outputs) is the runner's, not the call's.

mod api;
pub(crate) mod ask;
mod custom;
mod empty;
pub(crate) mod explain;
mod facts;
mod hide;
mod kept;
mod llm;
pub(crate) mod params;
pub(crate) mod prepare;
mod resolve;
pub(crate) mod run;
pub(crate) mod search;
mod slot;
mod sql;
mod summary;
pub(crate) mod tell;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value as Json;
use tidemill_common::calls::Named;
use tidemill_common::files::Files;
use tidemill_common::graph::{Graph, Node};
use tidemill_common::language::Language;
use tidemill_common::machine::run::RunOptions;
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::llm::usage;
use tidemill_common::nodes::step::background::Background;
use tidemill_common::nodes::step::texts::Text;
use tidemill_common::nodes::step::{CallError, Chunk, Secrets};
use tidemill_common::value::{JsonMap, Variables};

use crate::executor::AttemptName;
use crate::http::Http;
use crate::providers::Providers;
use crate::steps::Steps;
use crate::tools::Tools;

pub use kept::{Calls, Version};
pub use resolve::{CallRef, Resolved, resolve};

/// What a call says of itself to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallInfo {
    /// Its name.
    pub name: String,
    /// What it does, in a sentence.
    pub description: String,
}

/// All that a call may touch.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    /// The node whose step it is.
    pub node: &'a Node,
    /// The library node that was named, if any.
    pub library: Option<&'a LibraryNode>,
    /// What the node may read.
    pub variables: &'a (dyn Variables + Send + Sync),
    /// The run's options.
    pub options: &'a RunOptions,
    /// The language of texts for people.
    pub language: Language,
    /// Models.
    pub providers: &'a Providers,
    /// The guarded way to other servers.
    pub http: &'a Http,
    /// The ways to tools.
    pub tools: &'a Tools,
    /// Where files lie.
    pub files: &'a dyn Files,
    /// Services and datasources.
    pub calls: &'a Calls,
    /// What it must not do twice. The call itself is the step `call`; what it keeps besides has keys of its own.
    pub steps: &'a Steps,
    /// Which attempt it is.
    pub name: AttemptName,
    /// What it carries as `Idempotency-Key`: the same for every delivery of a try.
    pub key: &'a str,
    /// The workflow.
    pub graph: &'a Graph,
    /// What it knows of its run.
    pub background: &'a Background,
    /// The profile that the node names, for calls that ask a model.
    pub profile_id: Option<&'a str>,
    /// What it makes besides its pieces.
    pub made: &'a Made,
    /// Who tells of the step.
    pub(crate) teller: &'a tell::Teller,
    /// Secrets that went into its input.
    pub(crate) secrets: &'a Secrets,
}

/// What a call makes besides its pieces.
#[derive(Debug, Default)]
pub struct Made(Mutex<Besides>);

#[derive(Debug, Default)]
struct Besides {
    usage: Option<Usage>,
    runtime: JsonMap,
    outputs: JsonMap,
    schema: Option<Json>,
}

impl Made {
    /// All of it: what its model calls cost, what the run is to keep, outputs of its own.
    pub(crate) fn take(&self) -> (Option<Usage>, JsonMap, JsonMap) {
        let besides = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (besides.usage, besides.runtime, besides.outputs)
    }
    /// The schema of the input, where the call found it when it made that.
    pub(crate) fn schema(&self) -> Option<Json> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).schema.clone()
    }
    /// A copy of all of it.
    pub(crate) fn seen(&self) -> (Option<Usage>, JsonMap, JsonMap) {
        let besides = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (besides.usage.clone(), besides.runtime.clone(), besides.outputs.clone())
    }
    /// All of it, as it was taken before.
    pub(crate) fn put(&self, usage: Option<Usage>, runtime: JsonMap, outputs: JsonMap) {
        self.with(|besides| *besides = Besides { usage, runtime, outputs, schema: None });
    }
    fn with(&self, change: impl FnOnce(&mut Besides)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<'a> CallContext<'a> {
    /// Notes what a model call of this call cost, one that is charged already.
    pub fn spend(&self, newer: Usage) {
        self.made.with(|besides| {
            let sum = besides.usage.take().map_or_else(|| newer.clone(), |older| usage::sum(&older, &newer));
            besides.usage = Some(sum);
        });
    }
    /// Has the run keep a value under a key of `rt`, with the step's success.
    pub fn keep(&self, key: &str, value: Json) {
        self.made.with(|besides| {
            besides.runtime.insert(key.to_owned(), value);
        });
    }
    /// Adds an output to those that follow from the pieces.
    pub fn output(&self, name: &str, value: Json) {
        self.made.with(|besides| {
            besides.outputs.insert(name.to_owned(), value);
        });
    }
    /// Says what its input is, where that follows from the parameters.
    pub fn takes(&self, schema: Json) {
        self.made.with(|besides| besides.schema = Some(schema));
    }
    /// The profile that is asked: that of the input, of the node, or none for the default.
    pub fn profile<'b>(&'b self, input: &'b JsonMap) -> Option<&'b str> {
        let given = input.get("profile_id").and_then(Json::as_str).filter(|id| !id.is_empty());
        given.or(self.profile_id)
    }
}

fn info(language: Language, name: Text, description: Text) -> CallInfo {
    CallInfo { name: name.of(language).into(), description: description.of(language).into() }
}

/// Takes the pieces as they come.
pub type ChunkSink<'a> = &'a mut (dyn FnMut(Chunk) + Send);

/// Something that a step can run. Dropping a future of it ends it.
#[async_trait::async_trait]
pub trait Call: Send + Sync {
    /// Its name and what it does.
    fn info(&self, language: Language) -> CallInfo;

    /// The JSON schema of its input.
    fn input_schema(&self) -> Json;

    /// The JSON schema of its output; none where it is not known.
    fn output_schema(&self) -> Option<Json> {
        None
    }

    /// Whether missing input is looked for unless the node says otherwise.
    fn enable_filling(&self) -> bool {
        false
    }

    /// Whether the user sees its pieces unless the node says otherwise.
    fn to_user(&self) -> bool {
        false
    }

    /// Whether what came of it is kept in the run's journal, so that a job that is handed out again does not make it twice. Not
    /// needed by one that does nothing outside but ask models, whose replies are kept.
    fn is_kept(&self) -> bool {
        true
    }

    /// Whether its input is made outside: what came of that is kept then, and not made again.
    fn keeps_init(&self) -> bool {
        false
    }

    /// Whether the node leaves by the handle that its output `branch_id` names, where an edge has it.
    fn chooses(&self) -> bool {
        false
    }

    /// Parameters that are templates in Jinja: values that a workflow puts into them stay what they are.
    fn templates(&self) -> &'static [&'static str] {
        &[]
    }

    /// Makes its input of the merged parameters.
    ///
    /// # Errors
    /// Why there is none.
    async fn init(&self, cx: CallContext<'_>, params: JsonMap) -> Result<JsonMap, CallError> {
        let _ = cx;
        Ok(params)
    }

    /// Does it; the pieces go to `out` as they come.
    ///
    /// # Errors
    /// Why it did not come to its end. What came before is void.
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError>;
}

/// A node of the library: a call with parameters and schemas of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct LibraryNode {
    /// Its id.
    pub id: String,
    /// The call's id.
    pub call_id: String,
    /// Shown to people.
    pub name: Named,
    /// Parameters that are known beforehand.
    pub known_params: JsonMap,
    /// Properties of the input's schema that are replaced.
    pub override_input: JsonMap,
    /// Properties of the output's schema that are replaced.
    pub override_output: JsonMap,
    /// Whose credentials it uses.
    pub service_id: Option<String>,
    /// Another one with each change.
    pub version: u64,
}

/// Where library nodes and calls that are no part of this program are kept.
#[async_trait::async_trait]
pub trait Shelf: Send + Sync {
    /// The library node of an id.
    ///
    /// # Errors
    /// Why that cannot be told.
    async fn library(&self, id: &str) -> Result<Option<Arc<LibraryNode>>, CallError>;

    /// The call of an id, and the version of what is kept of it.
    ///
    /// # Errors
    /// Why that cannot be told.
    async fn call(&self, id: &str) -> Result<Option<(Arc<dyn Call>, u64)>, CallError>;
}

/// A shelf with nothing on it.
#[derive(Debug)]
pub struct EmptyShelf;

#[async_trait::async_trait]
impl Shelf for EmptyShelf {
    async fn library(&self, _: &str) -> Result<Option<Arc<LibraryNode>>, CallError> {
        Ok(None)
    }
    async fn call(&self, _: &str) -> Result<Option<(Arc<dyn Call>, u64)>, CallError> {
        Ok(None)
    }
}

/// The calls of this program, by ids that are compared without regard to case.
pub static BUILT_IN: &[(&str, &dyn Call)] = &[
    ("EMPTY", &empty::Empty),
    ("SUMMARY", &summary::Summary),
    ("FACTS", &facts::Facts),
    ("SLOT", &slot::Slot),
    ("LLM", &llm::Llm),
    ("API", &api::Api),
    ("SQL", &sql::Sql),
];
