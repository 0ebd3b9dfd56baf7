//! An operation on a list of messages: what is visible of it, and in which order.
//!
//! The node only says what is to change ([`Effects`]); the engine applies that with the node's end, and makes the outputs
//! of what came of it ([`outputs`]). So operations of branches side by side come one behind the other, and none is
//! computed from a list that is not the newest.

mod parse;
#[cfg(test)]
mod tests;

use serde_json::{Value as Json, json};

use super::NodeResult;
use crate::nodes::llm::Role;
use crate::objects::{
    Effects, Filter, ListChange, Message, MessageChange, Outcome, Target, Truncate, context_of,
};
use crate::value::template::Template;
use crate::value::{JsonMap, Segment, SegmentType, Variables};

/// Configuration of `context-processor`.
#[derive(Debug, Clone)]
pub struct ContextProcessorData {
    /// Which list (`conversation_id`).
    pub list: String,
    /// Whose.
    pub target: Target,
    operation: Operation,
    shown: JsonMap,
}

/// What is to be done, with the texts of messages before their variables are filled in.
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

/// A message before its variables are filled in.
#[derive(Debug, Clone)]
struct MessageTemplate {
    role: Role,
    content: Content,
    tool_calls: Option<Json>,
    tool_call_id: Option<String>,
}

#[derive(Debug, Clone)]
enum Content {
    Text(Template),
    List(Vec<Content>),
    Object(Vec<(String, Content)>),
    Plain(Json),
}

impl Content {
    fn of(value: &Json) -> Self {
        match value {
            Json::String(text) => Self::Text(Template::parse(text)),
            Json::Array(items) => Self::List(items.iter().map(Self::of).collect()),
            Json::Object(map) => {
                Self::Object(map.iter().map(|(key, value)| (key.clone(), Self::of(value))).collect())
            }
            Json::Null | Json::Bool(_) | Json::Number(_) => Self::Plain(value.clone()),
        }
    }

    fn fill(&self, variables: &dyn Variables) -> Json {
        match self {
            Self::Text(template) => Json::String(template.render_text(variables)),
            Self::List(items) => items.iter().map(|item| item.fill(variables)).collect(),
            Self::Object(entries) => {
                Json::Object(entries.iter().map(|(key, item)| (key.clone(), item.fill(variables))).collect())
            }
            Self::Plain(value) => value.clone(),
        }
    }

    fn mentions(&self, into: &mut Vec<(String, String)>) {
        match self {
            Self::Text(template) => template.mentions(into),
            Self::List(items) => items.iter().for_each(|item| item.mentions(into)),
            Self::Object(entries) => entries.iter().for_each(|(_, item)| item.mentions(into)),
            Self::Plain(_) => {}
        }
    }
}

impl MessageTemplate {
    fn fill(&self, variables: &dyn Variables) -> Message {
        Message {
            role: self.role,
            content: self.content.fill(variables),
            tool_calls: self.tool_calls.clone(),
            tool_call_id: self.tool_call_id.clone(),
        }
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
        self.messages().iter().for_each(|message| message.content.mentions(into));
    }

    /// What the record shows of the configuration: the operation and its object, as written.
    pub fn shown_inputs(&self) -> Vec<(String, Segment)> {
        self.shown.iter().map(|(key, value)| (key.clone(), Segment::infer(value.clone()))).collect()
    }

    /// Says what is to change.
    pub fn evaluate(&self, variables: &dyn Variables) -> NodeResult {
        let change =
            MessageChange { list: self.list.clone(), target: self.target, change: self.change(variables) };
        NodeResult {
            inputs: self.shown_inputs(),
            effects: Some(Box::new(Effects { messages: vec![change], ..Effects::default() })),
            ..NodeResult::default()
        }
    }

    fn change(&self, variables: &dyn Variables) -> ListChange {
        let filled =
            |messages: &[MessageTemplate]| messages.iter().map(|message| message.fill(variables)).collect();
        match &self.operation {
            Operation::Append(messages) => ListChange::Append(filled(messages)),
            Operation::Truncate { by, visible_only } => {
                ListChange::Truncate { by: by.clone(), visible_only: *visible_only }
            }
            Operation::Insert { position, messages, visible_only } => ListChange::Insert {
                position: *position,
                messages: filled(messages),
                visible_only: *visible_only,
            },
            Operation::Replace { index, message, visible_only } => ListChange::Replace {
                index: *index,
                message: message.fill(variables),
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
        }
    }
}

/// The outputs of an operation that was applied to a list, of which `visible` are the visible messages then.
pub fn outputs<'a>(
    list: &str,
    outcome: &Outcome,
    visible: impl IntoIterator<Item = &'a Message>,
) -> Vec<(String, Segment)> {
    vec![
        ("operation".into(), Segment::string(outcome.operation)),
        ("message_count".into(), Segment::infer(json!(outcome.message_count))),
        ("stats".into(), Segment::infer(outcome.stats.shown())),
        ("batch".into(), Segment::infer(json!(outcome.batch))),
        ("conversation_id".into(), Segment::string(list)),
        ("context".into(), Segment::new(SegmentType::ArrayAny, context_of(visible))),
    ]
}
