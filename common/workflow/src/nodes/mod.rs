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
pub mod moderation;
pub mod node;
pub mod parameter_extractor;
mod parse;
pub mod pause;
pub mod question_classifier;
pub mod speech;
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
pub mod work;

use crate::messages::Effects;
use tidemill_base::failure::NodeFailure;
use tidemill_base::ids::NodeId;
use tidemill_base::value::names::Names;
use tidemill_base::value::{JsonMap, Segment};
use tidemill_base::warning::Warning;

pub use crate::kinds::{ExecutionType, FAIL_BRANCH_HANDLE, NODE_TYPES, NodeKind, NodeSpec, SOURCE_HANDLE};
pub use crate::usage::{Usage, WASTED, Wasted};
pub use assigner::{ChangeKind, VariableChange};
pub use evaluate::{Deferred, EvaluationLimits, evaluate, evaluate_phase};
pub(crate) use parse::{mentions_of, parse_data};
pub use pause::{OnTimeout, PauseKind, PauseRequest};

/// True for node types and forms that Dify does not have. Such a node is retried by default, but only after a failure
/// that can pass.
pub fn is_own_form(kind: NodeKind, data: &JsonMap) -> bool {
    let has_own_form = kind == NodeKind::Llm && (llm::profile::is_form_of(data) || step::is_llm_step(data));
    has_own_form
        || matches!(
            kind,
            NodeKind::ContextProcessor
                | NodeKind::UserInteraction
                | NodeKind::Empty
                | NodeKind::Summary
                | NodeKind::Facts
                | NodeKind::Slot
                | NodeKind::Api
                | NodeKind::Sql
                | NodeKind::Call
                | NodeKind::Choice
        )
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
    /// See [`moderation`].
    Moderation(moderation::ModerationData),
    /// See [`speech`].
    Speech(speech::SpeechData),
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
    /// The fields of the form that a run begins with; only a start node has a form.
    pub fn form_fields(&self) -> &[start::InputField] {
        if let Self::Start(data) = self { &data.variables } else { &[] }
    }
    /// The node where the body of a container begins; `None` for a node that is no container.
    pub(crate) fn body_start(&self) -> Option<&NodeId> {
        if let Self::Iteration(data) = self {
            Some(&data.start)
        } else if let Self::Loop(data) = self {
            Some(&data.start)
        } else {
            None
        }
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

/// A variable that a node wrote outside its own outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct VariableUpdate {
    /// The namespace: a node's id, or `conversation` and the like.
    pub node: String,
    pub name: String,
    /// The new value, in the type that the variable already has.
    pub value: Segment,
    /// The operations that made the value from the one before, in order; `None` when it was written whole.
    pub changes: Option<Vec<VariableChange>>,
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
    /// Things that the author may not have meant, although the node goes on. The run shows them.
    pub warnings: Vec<Warning>,
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
            warnings: Vec::new(),
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
