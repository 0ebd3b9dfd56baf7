//! The `context-processor` node: an operation on a list of messages that changes which are visible, and their order.
//!
//! The node returns only the change ([`Effects`]). The engine applies it when the node ends and then makes the outputs
//! ([`outputs`]). So operations of parallel branches apply one after the other, each to the newest list.

mod parse;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use super::NodeResult;
use crate::messages::{
    Effects, Filter, ListChange, Message, MessageChange, Outcome, Target, Truncate, context_of,
};
use crate::nodes::llm::Role;
use tidemill_base::failure::NodeFailure;
use tidemill_base::limits::PROMPT_LEVELS_MAX;
use tidemill_base::value::names::{NameError, NamedText, Names};
use tidemill_base::value::{JsonMap, Segment, SegmentType, Variables};

/// Configuration of `context-processor`.
#[derive(Debug, Clone)]
pub struct ContextProcessorData {
    /// The name of the list (`conversation_id`).
    pub list: String,
    /// The owner of the list.
    pub target: Target,
    /// The variables that names in message texts can refer to.
    pub names: Names,
    operation: Operation,
    shown: JsonMap,
}

/// The operation; variables in its messages are not filled in yet.
#[derive(Debug, Clone)]
enum Operation {
    Append(Vec<MessageTemplate>),
    Truncate { by: Truncate, visible_only: bool },
    Insert { position: i64, messages: Vec<MessageTemplate>, visible_only: bool },
    Replace { index: u64, message: MessageTemplate, visible_only: bool },
    Clear { keep_system_message: bool, visible_only: bool },
    Filter { by: Filter, visible_only: bool },
    StartBatch { boundary: u64, visible_only: bool },
    Rollback { target_batch: u64 },
}

/// A message whose variables are not filled in yet.
#[derive(Debug, Clone)]
struct MessageTemplate {
    role: Role,
    content: Content,
    tool_calls: Option<Json>,
    tool_call_id: Option<String>,
}

#[derive(Debug, Clone)]
enum Content {
    Text(NamedText),
    List(Vec<Content>),
    Object(Vec<(String, Content)>),
    Plain(Json),
}

impl Content {
    fn of(value: &Json) -> Result<Self, NameError> {
        Ok(match value {
            Json::String(text) => Self::Text(NamedText::parse(text, PROMPT_LEVELS_MAX)?),
            Json::Array(items) => Self::List(items.iter().map(Self::of).collect::<Result<_, _>>()?),
            Json::Object(map) => {
                let entry = |(key, value): (&String, &Json)| Ok((key.clone(), Self::of(value)?));
                Self::Object(map.iter().map(entry).collect::<Result<_, NameError>>()?)
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => Self::Plain(value.clone()),
        })
    }

    fn fill(&self, names: &Names, variables: &dyn Variables) -> Result<Json, NameError> {
        Ok(match self {
            Self::Text(text) => Json::String(text.render(names, variables)?),
            Self::List(items) => {
                items.iter().map(|item| item.fill(names, variables)).collect::<Result<Vec<Json>, _>>()?.into()
            }
            Self::Object(entries) => {
                let entry = |(key, item): &(String, Self)| Ok((key.clone(), item.fill(names, variables)?));
                Json::Object(entries.iter().map(entry).collect::<Result<JsonMap, NameError>>()?)
            }
            Self::Plain(value) => value.clone(),
        })
    }

    fn mentions(&self, names: &Names, into: &mut Vec<(String, String)>) {
        match self {
            Self::Text(text) => text.mentions(names, into),
            Self::List(items) => items.iter().for_each(|item| item.mentions(names, into)),
            Self::Object(entries) => entries.iter().for_each(|(_, item)| item.mentions(names, into)),
            Self::Plain(_) => {}
        }
    }
}

impl MessageTemplate {
    fn fill(&self, names: &Names, variables: &dyn Variables) -> Result<Message, NameError> {
        Ok(Message {
            role: self.role,
            content: self.content.fill(names, variables)?,
            tool_calls: self.tool_calls.clone(),
            tool_call_id: self.tool_call_id.clone(),
        })
    }
}

impl ContextProcessorData {
    fn messages(&self) -> &[MessageTemplate] {
        match &self.operation {
            Operation::Append(messages) | Operation::Insert { messages, .. } => messages,
            Operation::Replace { message, .. } => std::slice::from_ref(message),
            Operation::Truncate { .. }
            | Operation::Clear { .. }
            | Operation::Filter { .. }
            | Operation::StartBatch { .. }
            | Operation::Rollback { .. } => &[],
        }
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.messages().iter().for_each(|message| message.content.mentions(&self.names, into));
    }

    /// True when it has texts that can contain variables.
    pub fn has_texts(&self) -> bool {
        !self.messages().is_empty()
    }

    /// The configuration in the record: the operation and its object, as written.
    pub fn shown_inputs(&self) -> Vec<(String, Segment)> {
        self.shown.iter().map(|(key, value)| (key.clone(), Segment::infer(value.clone()))).collect()
    }

    /// Returns the change.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let inputs = self.shown_inputs();
        let change = match self.change(variables) {
            Ok(change) => MessageChange { list: self.list.clone(), target: self.target, change },
            Err(error) => {
                let failure = NodeFailure::new("ValidationError", error.to_string());
                return NodeResult { inputs, ..NodeResult::failed(failure) };
            }
        };
        let effects = Effects { messages: vec![change], ..Effects::default() };
        NodeResult { inputs, effects: Some(Box::new(effects)), ..NodeResult::default() }
    }

    fn change(&self, variables: &dyn Variables) -> Result<ListChange, NameError> {
        let filled = |messages: &[MessageTemplate]| -> Result<Vec<Message>, NameError> {
            messages.iter().map(|message| message.fill(&self.names, variables)).collect()
        };
        Ok(match &self.operation {
            Operation::Append(messages) => ListChange::Append(filled(messages)?),
            Operation::Truncate { by, visible_only } => {
                ListChange::Truncate { by: by.clone(), visible_only: *visible_only }
            }
            Operation::Insert { position, messages, visible_only } => ListChange::Insert {
                position: *position,
                messages: filled(messages)?,
                visible_only: *visible_only,
            },
            Operation::Replace { index, message, visible_only } => ListChange::Replace {
                index: *index,
                message: message.fill(&self.names, variables)?,
                visible_only: *visible_only,
            },
            Operation::Clear { keep_system_message, visible_only } => {
                ListChange::Clear { keep_system_message: *keep_system_message, visible_only: *visible_only }
            }
            Operation::Filter { by, visible_only } => {
                ListChange::Filter { by: by.clone(), visible_only: *visible_only }
            }
            Operation::StartBatch { boundary, visible_only } => {
                ListChange::StartBatch { boundary: *boundary, visible_only: *visible_only }
            }
            Operation::Rollback { target_batch } => ListChange::Rollback { target_batch: *target_batch },
        })
    }
}

/// The outputs of an operation after it was applied to a list. `visible` are the visible messages after that.
pub fn outputs<'a>(
    list: &str,
    outcome: &Outcome,
    visible: impl IntoIterator<Item = &'a Message>,
) -> Vec<(String, Segment)> {
    vec![
        ("operation".into(), Segment::string(outcome.operation)),
        ("message_count".into(), Segment::infer(json!(outcome.message_count))),
        ("stats".into(), Segment::infer(outcome.stats.to_json())),
        ("batch".into(), Segment::infer(json!(outcome.batch))),
        ("conversation_id".into(), Segment::string(list)),
        ("context".into(), Segment::new(SegmentType::ArrayAny, context_of(visible))),
    ]
}
