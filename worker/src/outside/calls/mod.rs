//! Calls: the units of work that steps of a workflow run. A call declares its name and its input, and returns pieces of
//! text or objects.
//!
//! [`BUILT_IN`] lists the built-in calls; a [`CallCatalog`] provides library nodes and registered calls. The runner handles
//! parameters, missing input, events and outputs; the call does not.

mod api;
mod catalog;
mod custom;
mod empty;
pub(crate) mod explain;
mod facts;
mod llm;
pub(crate) mod model;
pub(crate) mod params;
pub(crate) mod prepare;
mod resolve;
pub(crate) mod run;
pub(crate) mod search;
mod slot;
mod sql;
pub(crate) mod step_events;
mod summary;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value as Json, json};
use tidemill_common::files::Files;
use tidemill_common::graph::{Graph, Node};
use tidemill_common::language::Language;
use tidemill_common::machine::state::options::RunOptions;
use tidemill_common::nodes::Usage;
use tidemill_common::nodes::llm::usage;
use tidemill_common::nodes::step::background::Background;
use tidemill_common::nodes::step::texts::Text;
use tidemill_common::nodes::step::{CallError, Chunk, Secrets};
use tidemill_common::registry::calls::{Named, Standard};
use tidemill_common::value::{JsonMap, Variables};

use crate::attempt::executor::AttemptName;
use crate::attempt::journal::Journal;
use crate::outside::http::Http;
use crate::outside::providers::Providers;
use crate::outside::tools::Tools;

pub use crate::outside::calls::catalog::{Calls, Versioned};
pub(crate) use crate::outside::calls::custom::NOT_HOSTED;
pub use crate::outside::calls::resolve::{CallRef, Resolved, resolve};

/// The name and description of a call, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallInfo {
    pub name: String,
    /// One sentence about what it does.
    pub description: String,
}

/// The context of a call.
#[derive(Clone, Copy)]
pub struct CallContext<'a> {
    /// The node that runs the call.
    pub node: &'a Node,
    /// The library node, if the node names one.
    pub library: Option<&'a LibraryNode>,
    /// The values the node may read.
    pub variables: &'a (dyn Variables + Send + Sync),
    pub options: &'a RunOptions,
    /// The language of texts for people.
    pub language: Language,
    pub providers: &'a Providers,
    /// The guarded client for other servers.
    pub http: &'a Http,
    pub tools: &'a Tools,
    /// The file storage.
    pub files: &'a dyn Files,
    /// Services and datasources.
    pub calls: &'a Calls,
    /// The job's journal. The call itself is the entry `call`; its other entries have their own keys.
    pub journal: &'a Journal,
    pub name: AttemptName,
    /// The `Idempotency-Key` of the call: the same for every delivery of a try.
    pub key: &'a str,
    pub graph: &'a Graph,
    /// The question, context and history of the run.
    pub background: &'a Background,
    /// The profile the node names, for calls that use a model.
    pub profile_id: Option<&'a str>,
    /// Results besides the pieces.
    pub made: &'a Made,
    /// Builds the events of the step.
    pub(crate) step_events: &'a step_events::StepEvents,
    /// Secrets in the call's input.
    pub(crate) secrets: &'a Secrets,
}

/// Results of a call besides its pieces.
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
    /// Takes all: the cost of model calls, values the run keeps, additional outputs.
    pub(crate) fn take(&self) -> (Option<Usage>, JsonMap, JsonMap) {
        let besides = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        (besides.usage, besides.runtime, besides.outputs)
    }
    /// The schema of the input, if the call determined it while building the input.
    pub(crate) fn schema(&self) -> Option<Json> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).schema.clone()
    }
    /// Copies all.
    pub(crate) fn seen(&self) -> (Option<Usage>, JsonMap, JsonMap) {
        let besides = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (besides.usage.clone(), besides.runtime.clone(), besides.outputs.clone())
    }
    /// Restores what was copied before.
    pub(crate) fn put(&self, usage: Option<Usage>, runtime: JsonMap, outputs: JsonMap) {
        self.with(|besides| *besides = Besides { usage, runtime, outputs, schema: None });
    }
    fn with(&self, change: impl FnOnce(&mut Besides)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<'a> CallContext<'a> {
    /// Adds the cost of a model call that is already charged.
    pub fn spend(&self, newer: Usage) {
        self.made.with(|besides| {
            let sum = besides.usage.take().map_or_else(|| newer.clone(), |older| usage::sum(&older, &newer));
            besides.usage = Some(sum);
        });
    }
    /// Lets the run keep a value under a key of `rt`, if the step succeeds.
    pub fn keep(&self, key: &str, value: Json) {
        self.made.with(|besides| {
            besides.runtime.insert(key.to_owned(), value);
        });
    }
    /// Adds an output besides those from the pieces.
    pub fn output(&self, name: &str, value: Json) {
        self.made.with(|besides| {
            besides.outputs.insert(name.to_owned(), value);
        });
    }
    /// Sets the input's schema, if it depends on the parameters.
    pub fn takes(&self, schema: Json) {
        self.made.with(|besides| besides.schema = Some(schema));
    }
    /// The profile to use: of the input, else of the node; `None` for the default.
    pub fn profile<'b>(&'b self, input: &'b JsonMap) -> Option<&'b str> {
        let given = input.get("profile_id").and_then(Json::as_str).filter(|id| !id.is_empty());
        given.or(self.profile_id)
    }
}

/// Receives the pieces as they arrive.
pub type ChunkSink<'a> = &'a mut (dyn FnMut(Chunk) + Send);

/// A call that a step can run. Dropping a future of it stops the call.
#[async_trait::async_trait]
pub trait Call: Send + Sync {
    /// The description of a built-in call; the following functions use it.
    fn standard(&self) -> Option<Standard> {
        None
    }

    /// The name and description.
    fn info(&self, language: Language) -> CallInfo {
        let text = |text: Text| text.of(language).to_owned();
        let (name, description) =
            self.standard().map(|it| (text(it.name), text(it.description))).unwrap_or_default();
        CallInfo { name, description }
    }

    /// The JSON schema of the input.
    fn input_schema(&self) -> Json {
        self.standard().map_or_else(|| json!({"type": "object"}), |it| it.input_schema)
    }

    /// The JSON schema of the output; `None` if unknown.
    fn output_schema(&self) -> Option<Json> {
        Some(self.standard()?.output_schema)
    }

    /// Returns true if missing input is filled by default.
    fn enable_filling(&self) -> bool {
        self.standard().is_some_and(|it| it.enable_filling)
    }

    /// Returns true if the user sees the pieces by default.
    fn to_user(&self) -> bool {
        self.standard().is_some_and(|it| it.to_user)
    }

    /// Returns true if the journal keeps the result, so that a job that is delivered again does not repeat the call.
    /// Not needed for a call that only asks models, because their replies are kept.
    fn is_kept(&self) -> bool {
        true
    }

    /// Returns true if building the input needs an outside request. The journal then keeps the answer.
    fn keeps_init(&self) -> bool {
        false
    }

    /// Returns true if the output `branch_id` selects the node's outgoing handle, if an edge has it.
    fn chooses(&self) -> bool {
        false
    }

    /// Parameters that are Jinja templates. Values that a workflow inserts there are not rendered.
    fn templates(&self) -> &'static [&'static str] {
        &[]
    }

    /// Builds the input from the merged parameters.
    ///
    /// # Errors
    /// The reason there is no valid input.
    async fn init(&self, cx: CallContext<'_>, params: JsonMap) -> Result<JsonMap, CallError> {
        let _ = cx;
        Ok(params)
    }

    /// Runs the call; the pieces go to `out` as they arrive.
    ///
    /// # Errors
    /// The reason it failed. Earlier pieces are discarded.
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError>;
}

/// A library node: a call with its own parameters and schemas.
#[derive(Debug, Clone, PartialEq)]
pub struct LibraryNode {
    pub id: String,
    pub call_id: String,
    /// The name shown to people.
    pub name: Named,
    /// Preset parameters.
    pub known_params: JsonMap,
    /// Replaced properties of the input's schema.
    pub override_input: JsonMap,
    /// Replaced properties of the output's schema.
    pub override_output: JsonMap,
    /// The service whose credentials it uses.
    pub service_id: Option<String>,
    /// Changes with each update.
    pub version: u64,
}

/// Provides library nodes and registered calls.
#[async_trait::async_trait]
pub trait CallCatalog: Send + Sync {
    /// Returns the library node of an id.
    ///
    /// # Errors
    /// The catalog cannot be read.
    async fn library(&self, id: &str) -> Result<Option<Arc<LibraryNode>>, CallError>;

    /// Returns the call of an id, with its version.
    ///
    /// # Errors
    /// The catalog cannot be read.
    async fn call(&self, id: &str) -> Result<Option<(Arc<dyn Call>, u64)>, CallError>;
}

/// A catalog without entries.
#[derive(Debug)]
pub struct EmptyCatalog;

#[async_trait::async_trait]
impl CallCatalog for EmptyCatalog {
    async fn library(&self, _: &str) -> Result<Option<Arc<LibraryNode>>, CallError> {
        Ok(None)
    }
    async fn call(&self, _: &str) -> Result<Option<(Arc<dyn Call>, u64)>, CallError> {
        Ok(None)
    }
}

/// The built-in calls; their ids ignore case.
pub static BUILT_IN: &[(&str, &dyn Call)] = &[
    ("EMPTY", &empty::Empty),
    ("SUMMARY", &summary::Summary),
    ("FACTS", &facts::Facts),
    ("SLOT", &slot::Slot),
    ("LLM", &llm::Llm),
    ("API", &api::Api),
    ("SQL", &sql::Sql),
];
