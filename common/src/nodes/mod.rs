//! Node types: one file each, one table that lists them.
//!
//! A file holds the type's configuration, its checks and, where the type is pure, what it does. What needs
//! the outside world is in the worker, under the same name.

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

/// How a node takes part in the traversal, under Dify's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutionType {
    /// May begin a run.
    Root,
    /// Takes every edge that leaves it.
    Executable,
    /// Takes the edges that carry its result's handle.
    Branch,
    /// Runs a body of its own.
    Container,
    /// Has a template that streams.
    Response,
}

/// What the table says of a node type.
#[derive(Debug, Clone, Copy)]
pub struct NodeSpec {
    /// The kind.
    pub kind: NodeKind,
    /// `data.type` in the file.
    pub wire: &'static str,
    /// Its part in the traversal.
    pub execution: ExecutionType,
    /// No side effects, bounded work: evaluated in the scheduler's step.
    pub pure: bool,
    /// `retry_config` is honoured (Dify: four types only).
    pub retries: bool,
    /// False for a type that is read and checked but cannot be run yet.
    pub implemented: bool,
}

macro_rules! node_types {
    ($($(#[$doc:meta])* $kind:ident $wire:literal $execution:ident $pure:literal $retries:literal $implemented:literal;)*) => {
        /// Every node type that is known.
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
    /// cases and conditions
    IfElse "if-else" Branch                                true  false true;
    /// text from values
    TemplateTransform "template-transform" Executable      true  false true;
    /// first value present
    VariableAggregator "variable-aggregator" Executable    true  false true;
    /// a model call
    Llm "llm" Executable                                   false true  true;
    /// user code
    Code "code" Executable                                 false true  true;
    /// an outgoing call
    HttpRequest "http-request" Executable                  false true  true;
    /// a named external tool
    Tool "tool" Executable                                 false true  true;
    /// branch by meaning
    QuestionClassifier "question-classifier" Branch        false false true;
    /// fields from text
    ParameterExtractor "parameter-extractor" Executable    false false true;
    /// text from files
    DocumentExtractor "document-extractor" Executable      false false true;
    /// passages for a question
    KnowledgeRetrieval "knowledge-retrieval" Executable    false false true;
    /// documents into a knowledge base
    KnowledgeIndex "knowledge-index" Executable            false false true;
    /// a model with tools
    Agent "agent" Executable                               false false true;
    /// write a variable
    Assigner "assigner" Executable                         true  false true;
    /// filter, sort, slice
    ListOperator "list-operator" Executable                true  false true;
    /// wait for a form
    HumanInput "human-input" Branch                        true  false true;
    /// a body per item
    Iteration "iteration" Container                        true  false true;
    /// where an item's body begins
    IterationStart "iteration-start" Executable            true  false true;
    /// a body until
    Loop "loop" Container                                  true  false true;
    /// where a round begins
    LoopStart "loop-start" Executable                      true  false true;
    /// leaves the loop
    LoopEnd "loop-end" Executable                          true  false true;
    /// begins a pipeline run
    Datasource "datasource" Root                           true  false true;
    /// begins a run from a web hook
    TriggerWebhook "trigger-webhook" Root                  true  false true;
    /// begins a run by the clock
    TriggerSchedule "trigger-schedule" Root                true  false true;
    /// begins a run from a plugin
    TriggerPlugin "trigger-plugin" Root                    true  false true;
    /// does nothing
    Empty "empty" Executable                               false true  true;
    /// what was said, in a few sentences
    Summary "summary" Executable                           false true  true;
    /// facts from what was said
    Facts "facts" Executable                               false true  true;
    /// fields of a schema from what was said
    Slot "slot" Executable                                 false true  true;
    /// an interface over HTTP
    Api "api" Executable                                   false true  true;
    /// a database
    Sql "sql" Executable                                   false true  true;
    /// a Call of somebody's own
    Call "call" Executable                                 false true  true;
    /// branches by typed conditions
    Choice "choice" Branch                                 true  false true;
    /// a question to the user
    UserInteraction "user-interaction" Executable          true  true  true;
    /// what is visible of a list of messages
    ContextProcessor "context-processor" Executable        true  false true;
}

impl NodeKind {
    /// The table's row of this kind.
    pub fn spec(self) -> &'static NodeSpec {
        // The table lists the kinds in the order of the enum; a test holds it to that.
        &NODE_TYPES[self as usize]
    }
    /// `data.type` in the file.
    pub fn wire(self) -> &'static str {
        self.spec().wire
    }
    /// The kind of a `data.type`; `variable-assigner` is the aggregator's old name.
    pub fn from_wire(name: &str) -> Option<Self> {
        if name == "variable-assigner" {
            return Some(Self::VariableAggregator);
        }
        NODE_TYPES.iter().find(|spec| spec.wire == name).map(|spec| spec.kind)
    }
}

/// Whether a node has a type or a form that no file of Dify has. Such a node is tried again unless it says that it is not,
/// and only after a failure that may pass.
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

/// A node's configuration, parsed. One variant a type.
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
    /// Where the body of an iteration begins: does nothing.
    IterationStart,
    /// See [`loop_`].
    Loop(Box<loop_::LoopData>),
    /// Where the body of a loop begins: does nothing.
    LoopStart,
    /// Leaves the loop around it: does nothing by itself.
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
    /// Whether a node of a kind that streams does so.
    pub fn streams(&self) -> bool {
        if let Self::ProfileLlm(data) = self { data.stream } else { true }
    }
    /// Whether variables stand in its texts by their bare names.
    pub(crate) fn has_names(&self) -> bool {
        match self {
            Self::ContextProcessor(data) => data.has_texts(),
            _ => matches!(self, Self::ProfileLlm(_)),
        }
    }
    /// The variables that those names may mean.
    pub(crate) fn names_mut(&mut self) -> Option<&mut Names> {
        match self {
            Self::ProfileLlm(data) => Some(&mut data.names),
            Self::ContextProcessor(data) => Some(&mut data.names),
            _ => None,
        }
    }
}

/// The moments at which a container is evaluated. Between them its body runs, which is the machine's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// The container begins: what it runs over (iteration), its variables and whether it breaks at once (loop).
    Open,
    /// A round is over: whether the loop breaks.
    Check,
    /// No item runs any more: the output of the iteration.
    Collect,
}

impl Phase {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Check => "check",
            Self::Collect => "collect",
        }
    }
    /// The phase of a word.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Open, Self::Check, Self::Collect].into_iter().find(|phase| phase.name() == name)
    }
}

/// Tokens and prices of model calls. Prices are decimal texts, as Dify writes them.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// Tokens in.
    pub prompt_tokens: u64,
    /// Tokens out.
    pub completion_tokens: u64,
    /// Both.
    pub total_tokens: u64,
    /// Price of both, decimal text.
    pub total_price: String,
    /// The whole usage object as `outputs.usage` shows it.
    pub record: JsonMap,
    /// Currency of the prices.
    pub currency: String,
}

impl Usage {
    /// Reads a usage object; the counters are those in it.
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
    /// Whether it says that anything was spent, be it by tries that have failed.
    pub fn is_any(&self) -> bool {
        self.total_tokens > 0 || self.record.contains_key(WASTED)
    }
}

/// The part of a usage object that a called run has spent on replies which were of no use: `total_tokens`, `total_price`,
/// `currency`. Its other counters do not have it.
pub const WASTED: &str = "wasted";

/// A reply that was paid for and of no use to its node. It is held against budgets and stands in the ledger; the totals of
/// the run are Dify's, which do not have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Wasted {
    /// The provider as the workflow names it.
    pub provider: String,
    /// The model.
    pub model: String,
    /// What it cost.
    pub usage: Usage,
}

/// A variable that a node wrote outside its own outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct VariableUpdate {
    /// Whose variable: a node's id, or `conversation` and the like.
    pub node: String,
    /// Its name.
    pub name: String,
    /// Its new value, under the type that the variable has had.
    pub value: Segment,
}

/// What an execution of a node brought.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeResult {
    /// What it was given, for the record.
    pub inputs: Vec<(String, Segment)>,
    /// What it did, for the record.
    pub process_data: JsonMap,
    /// What it made, in order; written to the pool under the node's id.
    pub outputs: Vec<(String, Segment)>,
    /// What it wrote besides: each variable once, in the order of the first writes. Empty when it failed.
    pub updates: Vec<VariableUpdate>,
    /// Tokens, prices and such.
    pub metadata: JsonMap,
    /// The handle it leaves by.
    pub handle: String,
    /// What the model calls cost.
    pub usage: Option<Usage>,
    /// What was paid for a reply that is no part of that, since it was of no use.
    pub wasted: Option<Box<Wasted>>,
    /// Set when it failed.
    pub failure: Option<NodeFailure>,
    /// Set when it has not ended and waits for somebody.
    pub pause: Option<Box<PauseRequest>>,
    /// What it changes of what the run keeps beside its variables; nothing for nearly all.
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
    /// A result that is nothing but outputs.
    pub fn outputs(outputs: Vec<(String, Segment)>) -> Self {
        Self { outputs, ..Self::default() }
    }
    /// Not an end, but a wait for somebody.
    pub fn waiting(request: PauseRequest) -> Self {
        Self { pause: Some(Box::new(request)), ..Self::default() }
    }
    /// A failure without anything else.
    pub fn failed(failure: NodeFailure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

/// The handle of a node that has only one way out.
pub const SOURCE_HANDLE: &str = "source";
/// The handle of a failure that the graph handles.
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
