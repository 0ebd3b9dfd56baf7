//! The events that a journal entry emits while its node runs.

macro_rules! step_events {
    ($($(#[$doc:meta])* $event:ident $name:literal;)*) => {
        /// An event within a node while it runs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum StepEvent { $($(#[$doc])* $event,)* }

        impl StepEvent {
            /// All events.
            pub const ALL: &[Self] = &[$(Self::$event,)*];
            /// The type of the event on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$event => $name,)* }
            }
            /// Returns the event with this name.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$event),)* _ => None }
            }
        }
    };
}

step_events! {
    /// A line of an agent's log, or a newer form of one with the same id (Dify).
    AgentLog "node_run_agent_log";
    /// A tool is called.
    ToolCallStarted "tool_call_started";
    /// A tool has answered.
    ToolCallCompleted "tool_call_completed";
    /// A tool has failed.
    ToolCallFailed "tool_call_failed";
    /// A piece of a model's reasoning (Dify).
    ReasoningChunk "node_run_reasoning_chunk";
    /// The passages that were given to a model (Dify).
    RetrieverResource "node_run_retriever_resource";
    /// A sub-workflow run is called.
    WorkflowCalled "workflow_called";
    /// A message was added to a list of the run.
    ConversationMessageAdded "conversation_message_added";
    /// The visible messages of a list have changed.
    ConversationUpdated "conversation_updated";
    /// The user is asked something, or gets a message.
    UserInteractionRequested "user_interaction_requested";
    /// The user has answered.
    UserInteractionResponded "user_interaction_responded";
    /// The answer was processed.
    UserInteractionProcessed "user_interaction_processed";
    /// No answer came in time, or it could not be processed.
    UserInteractionFailed "user_interaction_failed";
    /// A person is asked to reply in a model's place.
    HumanRelayRequested "human_relay_requested";
    /// That person has replied.
    HumanRelayResponded "human_relay_responded";
    /// The reply is used as the model's reply.
    HumanRelayProcessed "human_relay_processed";
    /// No reply came.
    HumanRelayFailed "human_relay_failed";
    /// Most of what a list of messages may hold in tokens is used.
    TokenUsageWarning "token_usage_warning";
    /// A list of messages holds more tokens than it may.
    TokenLimitExceeded "token_limit_exceeded";
    /// A list of messages should be shortened.
    ContextCompressionRequested "context_compression_requested";
    /// A stop cut off a model's reply.
    LlmStreamAborted "llm_stream_aborted";
    /// A model's reply broke off.
    LlmStreamError "llm_stream_error";
    /// A workflow step is prepared.
    StepInit "step_init";
    /// A workflow step begins with this input.
    StepInput "step_input";
    /// A workflow step has ended with this output.
    StepOutput "step_output";
    /// A workflow step has failed.
    StepError "step_error";
    /// A workflow step was cancelled.
    StepCancel "step_cancel";
    /// A workflow step waits for approval.
    StepWaitingForStart "step_waiting_for_start";
    /// A workflow step waits for missing values.
    StepWaitingForParam "step_waiting_for_param";
    /// Text of a workflow step for the user.
    TextAdd "text_add";
    /// Structured output of a workflow step for the user.
    StepData "step_data";
    /// An event that the workflow's author has defined.
    NodeCustomEvent "node_custom_event";
}
