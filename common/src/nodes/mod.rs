//! Node types: one file or folder per type, and one table that lists them.
//!
//! A file holds the type's configuration, its checks and, for a pure type, its evaluation. Types with side effects run
//! in the worker, in a file of the same name.

pub mod agent;
pub mod answer;
pub mod assigner;
pub mod choice;
pub mod code;
pub mod condition;
pub mod context_processor;
pub mod datasource;
pub mod default_value;
pub mod document_extractor;
pub mod end;
pub mod evaluate;
pub mod extraction;
pub mod fields;
pub mod hooks;
pub mod http_request;
pub mod human_input;
pub mod if_else;
pub mod iteration;
pub mod knowledge_index;
pub mod knowledge_retrieval;
pub mod list_operator;
pub mod llm;
pub mod loop_;
pub mod parameter_extractor;
mod parse;
pub mod pause;
pub mod question_classifier;
pub mod start;
pub mod step;
pub mod template_transform;
pub mod tool;
mod trigger;
pub mod trigger_plugin;
pub mod trigger_schedule;
pub mod trigger_webhook;
pub mod user_interaction;
pub mod variable_aggregator;

use crate::failure::NodeFailure;
use crate::objects::Effects;
use crate::value::names::Names;
use crate::value::{JsonMap, Segment};

pub use evaluate::{Deferred, EvaluationLimits, evaluate, evaluate_phase};
pub(crate) use parse::{mentions_of, parse_data};
pub use pause::{OnTimeout, PauseKind, PauseRequest};

/// The part a node plays in the traversal, with Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionType {
    /// Can begin a run.
    Root,
    /// The run goes on along all its edges.
    Executable,
    /// The run goes on along the edges with the result's handle.
    Branch,
    /// Runs a body of other nodes.
    Container,
    /// Streams a template.
    Response,
}

/// A row of the table of node types.
#[derive(Debug, Clone, Copy)]
pub struct NodeSpec {
    pub kind: NodeKind,
    /// `data.type` in the file.
    pub wire: &'static str,
    pub execution: ExecutionType,
    /// No side effects and bounded work: evaluated inside the scheduler's step.
    pub pure: bool,
    /// `retry_config` is honoured (Dify: four types only).
    pub retries: bool,
    /// False for a type that is parsed and checked but cannot run yet.
    pub implemented: bool,
}

macro_rules! node_types {
    ($($(#[$doc:meta])* $kind:ident $wire:literal $execution:ident $pure:literal $retries:literal $implemented:literal;)*) => {
        /// All known node types.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum NodeKind { $($(#[$doc])* $kind,)* }
        /// The table of node types: name in the file, part in the traversal, pure, retries, runnable.
        pub const NODE_TYPES: &[NodeSpec] = &[$(NodeSpec {
            kind: NodeKind::$kind, wire: $wire, execution: ExecutionType::$execution,
            pure: $pure, retries: $retries, implemented: $implemented,
        },)*];
    };
}

node_types! {
    //                                                     pure  retries  implemented
    /// declared inputs of a run
    Start "start" Root                                     true  false true;
    /// outputs of a run
    End "end" Response                                     true  false true;
    /// streamed response
    Answer "answer" Response                               true  false true;
    /// condition cases
    IfElse "if-else" Branch                                true  false true;
    /// text from values
    TemplateTransform "template-transform" Executable      true  false true;
    /// first value present
    VariableAggregator "variable-aggregator" Executable    true  false true;
    /// model call
    Llm "llm" Executable                                   false true  true;
    /// user code
    Code "code" Executable                                 false true  true;
    /// outgoing HTTP call
    HttpRequest "http-request" Executable                  false true  true;
    /// external tool, by name
    Tool "tool" Executable                                 false true  true;
    /// branch by meaning
    QuestionClassifier "question-classifier" Branch        false false true;
    /// fields from text
    ParameterExtractor "parameter-extractor" Executable    false false true;
    /// text from files
    DocumentExtractor "document-extractor" Executable      false false true;
    /// passages for a question
    KnowledgeRetrieval "knowledge-retrieval" Executable    false false true;
    /// writes documents to a knowledge base
    KnowledgeIndex "knowledge-index" Executable            false false true;
    /// model with tools
    Agent "agent" Executable                               false false true;
    /// writes a variable
    Assigner "assigner" Executable                         true  false true;
    /// filter, sort, slice
    ListOperator "list-operator" Executable                true  false true;
    /// waits for a form
    HumanInput "human-input" Branch                        true  false true;
    /// a body for each item
    Iteration "iteration" Container                        true  false true;
    /// start of an item's body
    IterationStart "iteration-start" Executable            true  false true;
    /// a body, repeated until a condition holds
    Loop "loop" Container                                  true  false true;
    /// start of a round
    LoopStart "loop-start" Executable                      true  false true;
    /// leaves the loop
    LoopEnd "loop-end" Executable                          true  false true;
    /// starts a pipeline run
    Datasource "datasource" Root                           true  false true;
    /// starts a run from a web hook
    TriggerWebhook "trigger-webhook" Root                  true  false true;
    /// starts a run by schedule
    TriggerSchedule "trigger-schedule" Root                true  false true;
    /// starts a run from a plugin
    TriggerPlugin "trigger-plugin" Root                    true  false true;
    /// does nothing
    Empty "empty" Executable                               false true  true;
    /// summary of a conversation
    Summary "summary" Executable                           false true  true;
    /// facts from a conversation
    Facts "facts" Executable                               false true  true;
    /// fields of a schema from a conversation
    Slot "slot" Executable                                 false true  true;
    /// an interface over HTTP
    Api "api" Executable                                   false true  true;
    /// a database
    Sql "sql" Executable                                   false true  true;
    /// a user-defined Call
    Call "call" Executable                                 false true  true;
    /// branches by typed conditions
    Choice "choice" Branch                                 true  false true;
    /// a question to the user
    UserInteraction "user-interaction" Executable          true  true  true;
    /// the visible part of a list of messages
    ContextProcessor "context-processor" Executable        true  false true;
}

impl NodeKind {
    /// The table row of this kind.
    pub fn spec(self) -> &'static NodeSpec {
        // The table has the same order as the enum; a test checks that.
        &NODE_TYPES[self as usize]
    }
    /// `data.type` in the file.
    pub fn wire(self) -> &'static str {
        self.spec().wire
    }
    /// The kind for a `data.type`; `variable-assigner` is the aggregator's old name.
    pub fn from_wire(name: &str) -> Option<Self> {
        if name == "variable-assigner" {
            return Some(Self::VariableAggregator);
        }
        NODE_TYPES.iter().find(|spec| spec.wire == name).map(|spec| spec.kind)
    }
}

/// True for node types and forms that Dify does not have. Such a node is retried by default, but only after a failure
/// that can pass.
pub fn is_own_form(kind: NodeKind, data: &JsonMap) -> bool {
    match kind {
        NodeKind::Llm => llm::profile::is_form_of(data) || step::is_llm_step(data),
        NodeKind::ContextProcessor
        | NodeKind::UserInteraction
        | NodeKind::Empty
        | NodeKind::Summary
        | NodeKind::Facts
        | NodeKind::Slot
        | NodeKind::Api
        | NodeKind::Sql
        | NodeKind::Call
        | NodeKind::Choice => true,
        _ => false,
    }
}

/// A node's parsed configuration, one variant per type.
#[derive(Debug, Clone)]
pub enum NodeData {
    /// See [`start`].
    Start(start::StartData),
    /// See [`end`].
    End(end::EndData),
    /// See [`answer`].
    Answer(answer::AnswerData),
    /// See [`if_else`].
    IfElse(if_else::IfElseData),
    /// See [`template_transform`].
    TemplateTransform(template_transform::TemplateTransformData),
    /// See [`variable_aggregator`].
    VariableAggregator(variable_aggregator::VariableAggregatorData),
    /// See [`assigner`].
    Assigner(assigner::AssignerData),
    /// See [`llm`].
    Llm(Box<llm::LlmData>),
    /// See [`llm::profile`].
    ProfileLlm(Box<llm::profile::ProfileData>),
    /// See [`question_classifier`].
    QuestionClassifier(Box<question_classifier::QuestionClassifierData>),
    /// See [`parameter_extractor`].
    ParameterExtractor(Box<parameter_extractor::ParameterExtractorData>),
    /// See [`http_request`].
    HttpRequest(Box<http_request::HttpRequestData>),
    /// See [`code`].
    Code(Box<code::CodeData>),
    /// See [`tool`].
    Tool(Box<tool::ToolData>),
    /// See [`agent`].
    Agent(Box<agent::AgentData>),
    /// See [`list_operator`].
    ListOperator(Box<list_operator::ListOperatorData>),
    /// See [`document_extractor`].
    DocumentExtractor(document_extractor::DocumentExtractorData),
    /// See [`iteration`].
    Iteration(iteration::IterationData),
    /// Start of an iteration's body: does nothing.
    IterationStart,
    /// See [`loop_`].
    Loop(Box<loop_::LoopData>),
    /// Start of a loop's body: does nothing.
    LoopStart,
    /// Ends the loop around it. The node itself does nothing.
    LoopEnd,
    /// See [`human_input`].
    HumanInput(Box<human_input::HumanInputData>),
    /// See [`datasource`].
    Datasource(datasource::DatasourceData),
    /// See [`knowledge_index`].
    KnowledgeIndex(knowledge_index::KnowledgeIndexData),
    /// See [`trigger_webhook`].
    TriggerWebhook(Box<trigger_webhook::TriggerWebhookData>),
    /// See [`trigger_schedule`].
    TriggerSchedule(Box<trigger_schedule::TriggerScheduleData>),
    /// See [`trigger_plugin`].
    TriggerPlugin(Box<trigger_plugin::TriggerPluginData>),
    /// See [`user_interaction`].
    UserInteraction(Box<user_interaction::UserInteractionData>),
    /// See [`context_processor`].
    ContextProcessor(Box<context_processor::ContextProcessorData>),
    /// See [`knowledge_retrieval`].
    KnowledgeRetrieval(Box<knowledge_retrieval::KnowledgeRetrievalData>),
    /// See [`choice`].
    Choice(Box<choice::ChoiceData>),
    /// See [`step`].
    Step(Box<step::StepData>),
}

impl NodeData {
    /// False when the node has streaming switched off.
    pub fn streams(&self) -> bool {
        if let Self::ProfileLlm(data) = self { data.stream } else { true }
    }
    /// True when its texts can use variables by bare name.
    pub(crate) fn has_names(&self) -> bool {
        match self {
            Self::ContextProcessor(data) => data.has_texts(),
            _ => matches!(self, Self::ProfileLlm(_)),
        }
    }
    /// The variables that those names can refer to.
    pub(crate) fn names_mut(&mut self) -> Option<&mut Names> {
        match self {
            Self::ProfileLlm(data) => Some(&mut data.names),
            Self::ContextProcessor(data) => Some(&mut data.names),
            _ => None,
        }
    }
}

/// The moments at which a container is evaluated. Between them the state machine runs its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The container begins: gives an iteration's items, or a loop's variables and whether it breaks at once.
    Open,
    /// A round has ended: decides whether the loop breaks.
    Check,
    /// All items have ended: gives the output of the iteration.
    Collect,
}

impl Phase {
    /// The name of the phase.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Check => "check",
            Self::Collect => "collect",
        }
    }
    /// Finds a phase by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Open, Self::Check, Self::Collect].into_iter().find(|phase| phase.name() == name)
    }
}

/// Tokens and prices of model calls. Prices are decimal texts, in Dify's format.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
    pub total_tokens: u64,
    /// Price of prompt and completion.
    pub total_price: String,
    /// The whole usage object, shown as `outputs.usage`.
    pub record: JsonMap,
    pub currency: String,
}

impl Usage {
    /// Reads the counters from a usage object and keeps the object.
    pub fn from_record(record: JsonMap) -> Self {
        let count = |key: &str| record.get(key).and_then(serde_json::Value::as_u64).unwrap_or(0);
        let text = |key: &str, default: &str| {
            record.get(key).and_then(serde_json::Value::as_str).unwrap_or(default).to_string()
        };
        Self {
            prompt_tokens: count("prompt_tokens"),
            completion_tokens: count("completion_tokens"),
            total_tokens: count("total_tokens"),
            total_price: text("total_price", "0.0"),
            currency: text("currency", "USD"),
            record,
        }
    }
}

impl Usage {
    /// True when something was spent, failed tries included.
    pub fn is_any(&self) -> bool {
        self.total_tokens > 0 || self.record.contains_key(WASTED)
    }
}

/// The key in a usage object for what a sub-workflow run spent on unusable replies: `total_tokens`, `total_price`,
/// `currency`. The other counters exclude it.
pub const WASTED: &str = "wasted";

/// A paid reply that the node could not use. It counts against budgets and is in the ledger, but not in the run's
/// totals: Dify's totals exclude it too.
#[derive(Debug, Clone, PartialEq)]
pub struct Wasted {
    /// The provider, as the workflow names it.
    pub provider: String,
    pub model: String,
    pub usage: Usage,
}

/// A variable that a node wrote outside its own outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct VariableUpdate {
    /// The namespace: a node's id, or `conversation` and the like.
    pub node: String,
    pub name: String,
    /// The new value, in the type that the variable already has.
    pub value: Segment,
}

/// The result of executing a node.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeResult {
    /// Inputs, for the record only.
    pub inputs: Vec<(String, Segment)>,
    /// Details of the work, for the record only.
    pub process_data: JsonMap,
    /// Outputs in order; written to the pool under the node's id.
    pub outputs: Vec<(String, Segment)>,
    /// Variables written outside the node's outputs: each once, in the order of the first writes. Empty on failure.
    pub updates: Vec<VariableUpdate>,
    /// Tokens, prices and the like.
    pub metadata: JsonMap,
    /// The handle of the edges that the run follows.
    pub handle: String,
    /// Cost of the model calls.
    pub usage: Option<Usage>,
    /// Cost of an unusable reply; not included in `usage`.
    pub wasted: Option<Box<Wasted>>,
    /// Set on failure.
    pub failure: Option<NodeFailure>,
    /// Set when the node has not ended but waits for a person.
    pub pause: Option<Box<PauseRequest>>,
    /// Changes to the run's state beside its variables. Most nodes have none.
    pub effects: Option<Box<Effects>>,
}

impl Default for NodeResult {
    fn default() -> Self {
        Self {
            inputs: Vec::new(),
            process_data: JsonMap::new(),
            outputs: Vec::new(),
            updates: Vec::new(),
            metadata: JsonMap::new(),
            handle: SOURCE_HANDLE.into(),
            usage: None,
            wasted: None,
            failure: None,
            pause: None,
            effects: None,
        }
    }
}

impl NodeResult {
    /// A result with outputs only.
    pub fn outputs(outputs: Vec<(String, Segment)>) -> Self {
        Self { outputs, ..Self::default() }
    }
    /// A result that waits for a person instead of ending.
    pub fn waiting(request: PauseRequest) -> Self {
        Self { pause: Some(Box::new(request)), ..Self::default() }
    }
    /// A result with a failure only.
    pub fn failed(failure: NodeFailure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

/// The handle of a node with one way out.
pub const SOURCE_HANDLE: &str = "source";
/// The handle for failures that the graph handles.
pub const FAIL_BRANCH_HANDLE: &str = "fail-branch";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lists_every_kind_in_order_and_once() {
        for (at, spec) in NODE_TYPES.iter().enumerate() {
            assert_eq!(spec.kind as usize, at);
            assert_eq!(NodeKind::from_wire(spec.wire), Some(spec.kind));
        }
        assert_eq!(NodeKind::from_wire("variable-assigner"), Some(NodeKind::VariableAggregator));
        assert_eq!(NodeKind::from_wire("quantum-node"), None);
    }
}
