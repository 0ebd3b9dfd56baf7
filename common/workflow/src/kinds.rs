//! The kinds of nodes by name, and the handles by which they leave: what a file, a node type and a graph all speak of. Pure
//! data, so that none of them needs another for a word.

use serde_json::Value as Json;

use tidemill_base::value::JsonMap;

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
    /// speech to text, and text to speech
    Speech "speech" Executable                             false false true;
    /// asks a server whether texts are acceptable
    Moderation "moderation" Executable                     false false true;
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
    Datasource "datasource" Root                           false false true;
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
    /// True for the types whose runs are started by an event outside.
    pub const fn is_trigger(self) -> bool {
        matches!(self, Self::TriggerWebhook | Self::TriggerSchedule | Self::TriggerPlugin)
    }
    /// The kind for a `data.type`; `variable-assigner` is the aggregator's old name.
    pub fn from_wire(name: &str) -> Option<Self> {
        if name == "variable-assigner" {
            return Some(Self::VariableAggregator);
        }
        NODE_TYPES.iter().find(|spec| spec.wire == name).map(|spec| spec.kind)
    }
}

/// The type of a tool's provider that is found by the name of the tool.
pub const PROVIDER_BY_TOOL: &str = "any";

/// Types of other programs that are read in part, and what to write where they are not.
pub const TYPES_ELSEWHERE: [(&str, &str); 6] = [
    ("VARIABLE", "use a node of type assigner; a VARIABLE is read when it has `items` as an assigner has"),
    (
        "ROUTE",
        "use a node of type if-else; a ROUTE is read when it has `cases` or `conditions` as an if-else has",
    ),
    ("LOOP_START", "use a node of type loop; a LOOP_START is read inside a loop (`parentId`)"),
    ("LOOP_END", "use a node of type loop; a LOOP_END is read inside a loop (`parentId`)"),
    ("FORK", "edges from one node to several begin branches in parallel; leave the node out"),
    ("JOIN", "a node with several edges to it waits for all of them; leave the node out"),
];

/// The handle of a node with one way out.
pub const SOURCE_HANDLE: &str = "source";
/// The handle for failures that the graph handles.
pub const FAIL_BRANCH_HANDLE: &str = "fail-branch";

/// A node type that is a step: its call, and the keys of `data` that are parameters.
#[derive(Debug, Clone, Copy)]
pub struct StepForm {
    pub kind: NodeKind,
    pub call: &'static str,
    /// Keys that are accepted in `data` as well as in `params`.
    pub keys: &'static [&'static str],
    /// True when the step reads the run's values, history and messages.
    pub has_background: bool,
    /// True when the call fills in missing input by default.
    pub fills: bool,
}

/// The types that run a call.
pub const STEP_FORMS: &[StepForm] = &[
    StepForm { kind: NodeKind::Empty, call: "EMPTY", keys: &[], has_background: false, fills: false },
    StepForm {
        kind: NodeKind::Summary,
        call: "SUMMARY",
        keys: &["profile_id"],
        has_background: true,
        fills: false,
    },
    StepForm {
        kind: NodeKind::Facts,
        call: "FACTS",
        keys: &["profile_id", "message"],
        has_background: true,
        fills: false,
    },
    StepForm {
        kind: NodeKind::Slot,
        call: "SLOT",
        keys: &["schema", "data", "on_missing", "target_node", "profile_id"],
        has_background: true,
        fills: false,
    },
    StepForm { kind: NodeKind::Llm, call: "LLM", keys: LLM_KEYS, has_background: true, fills: false },
    StepForm { kind: NodeKind::Api, call: "API", keys: API_KEYS, has_background: false, fills: true },
    StepForm { kind: NodeKind::Sql, call: SQL, keys: SQL_KEYS, has_background: true, fills: false },
    StepForm { kind: NodeKind::Call, call: CALL, keys: &[], has_background: true, fills: true },
];

/// The call of a `call` node without `node`; there is no such call.
pub const CALL: &str = "CALL";
/// The call of a `sql` node.
pub const SQL: &str = "SQL";
/// Parameters of `api`.
const API_KEYS: &[&str] = &[
    "operation",
    "path",
    "url",
    "method",
    "content_type",
    "timeout",
    "query",
    "body",
    "headers",
    "accept_text",
    "idempotent",
    "service_id",
];
/// Parameters of `sql`.
const SQL_KEYS: &[&str] = &[
    "mode",
    "datasource",
    "sql",
    "bind",
    "question",
    "table_name_list",
    "read_only",
    "rows_max",
    "timeout",
    "profile_id",
];
/// Parameters of the step form of `llm`.
const LLM_KEYS: &[&str] =
    &["system_prompt", "user_prompt", "enable_context", "step_history_size", "temperature", "profile_id"];
/// The keys that identify the step form of `llm`.
const LLM_MARKS: [&str; 4] = ["system_prompt", "user_prompt", "enable_context", "step_history_size"];

/// True when `data` of an `llm` node is in the step form.
pub fn is_llm_step(data: &JsonMap) -> bool {
    let params = data.get("params").and_then(Json::as_object);
    LLM_MARKS.iter().any(|key| data.contains_key(*key) || params.is_some_and(|map| map.contains_key(*key)))
}

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
