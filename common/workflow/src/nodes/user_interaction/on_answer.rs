//! The changes made by an answer: variables of the run, the conversation, the frame or the loop, and a message of a
//! conversation.
//!
//! `{{input}}` is replaced by the answer. Alone it gives the answer with its type; within a text it is rendered as
//! text. It can be combined with references to variables. Inserted text is not scanned again.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value as Json;

use crate::nodes::VariableUpdate;
use crate::nodes::human_input::masked::Masked;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::template::{Template, TemplatePiece};
use tidemill_base::value::{Lookup, Segment, Variables};

/// The namespace of variables of the run.
pub const RUN: &str = "run";
/// The namespace of variables of a frame.
pub const LOCAL: &str = "local";
/// The namespace of variables of the conversation.
const CONVERSATION: &str = "conversation";

#[expect(clippy::expect_used, reason = "the pattern is a constant that the tests compile")]
static INPUT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\{\{\s*input((?:\.[A-Za-z0-9_]+)*)\s*\}\}").expect("the pattern is well formed")
});

/// A value with placeholders for the answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// A fixed value.
    Constant(Json),
    /// The answer, or the part of it at this path.
    Input(Vec<String>),
    /// The value of a variable.
    Variable(Vec<String>),
    /// A text with values inserted.
    Text(Vec<Piece>),
}

/// A piece of such a text.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// Text with references to variables.
    Text(Template),
    /// The answer, or the part of it at this path.
    Input(Vec<String>),
}

impl Expression {
    /// The answer itself.
    pub const fn input() -> Self {
        Self::Input(Vec::new())
    }

    /// Parses a value; only texts can have placeholders.
    pub fn parse(value: &Json) -> Self {
        match value {
            Json::String(text) => Self::of_text(text),
            other => Self::Constant(other.clone()),
        }
    }

    /// Parses a text.
    pub fn of_text(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut end = 0;
        for found in INPUT.captures_iter(text) {
            let (Some(whole), Some(path)) = (found.get(0), found.get(1)) else { continue };
            let path: Vec<String> =
                path.as_str().split('.').filter(|part| !part.is_empty()).map(str::to_string).collect();
            if whole.as_str() == text.trim() {
                return Self::Input(path);
            }
            pieces.extend(text_piece(&text[end..whole.start()]));
            pieces.push(Piece::Input(path));
            end = whole.end();
        }
        pieces.extend(text_piece(&text[end..]));
        match pieces.as_slice() {
            [Piece::Text(template)] => match template.parts() {
                [TemplatePiece::Variable(selector)] => Self::Variable(selector.clone()),
                _ if !text.contains("{{#") => Self::Constant(text.into()),
                _ => Self::Text(pieces),
            },
            [] => Self::Constant(text.into()),
            _ => Self::Text(pieces),
        }
    }

    /// Adds the variables that it reads.
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        match self {
            Self::Constant(_) | Self::Input(_) => {}
            Self::Variable(selector) => tidemill_base::value::template::mention(selector, into),
            Self::Text(pieces) => pieces.iter().for_each(|piece| match piece {
                Piece::Text(template) => template.mentions(into),
                Piece::Input(_) => {}
            }),
        }
    }

    /// The value for this answer.
    pub fn value(&self, input: &Json, variables: &dyn Variables) -> Json {
        match self {
            Self::Constant(value) => value.clone(),
            Self::Input(path) => at(input, path).clone(),
            Self::Variable(selector) => {
                variables.found(selector).map(|segment| segment.value.clone()).unwrap_or_default()
            }
            Self::Text(pieces) => {
                let shown = |piece: &Piece| match piece {
                    Piece::Text(template) => template.render_text(variables),
                    Piece::Input(path) => as_text(at(input, path)),
                };
                pieces.iter().map(shown).collect::<String>().into()
            }
        }
    }

    /// The first of its variables that is a blob and so cannot be read here.
    fn out_of_reach(&self, variables: &dyn Variables) -> Option<(String, String)> {
        let mut mentions = Vec::new();
        self.mentions(&mut mentions);
        mentions.into_iter().find(|(node, name)| matches!(variables.variable(node, name), Lookup::Blob(_)))
    }
}

fn text_piece(text: &str) -> Option<Piece> {
    (!text.is_empty()).then(|| Piece::Text(Template::parse(text)))
}

fn at<'a>(mut value: &'a Json, path: &[String]) -> &'a Json {
    for part in path {
        let by_index = || value.get(part.parse::<usize>().ok()?);
        value = value.get(part.as_str()).or_else(by_index).unwrap_or(&Json::Null);
    }
    value
}

/// A value within a text: a text unchanged, nothing for null, JSON for all others.
pub(super) fn as_text(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Null => String::new(),
        other @ (Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_)) => other.to_string(),
    }
}

/// The owner of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The run: `["run", name]`.
    Thread,
    /// The conversation: `["conversation", name]`.
    Global,
    /// The current frame: `["local", name]`.
    Local,
    /// The nearest loop.
    Loop,
}

impl Scope {
    /// All scopes.
    pub const ALL: [Self; 4] = [Self::Thread, Self::Global, Self::Local, Self::Loop];
    /// The name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Global => "global",
            Self::Local => "local",
            Self::Loop => "loop",
        }
    }
    /// Finds a scope by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// A variable to set.
#[derive(Debug, Clone, PartialEq)]
pub struct SetVariable {
    pub name: String,
    pub expression: Expression,
    pub scope: Scope,
}

/// A message to append to a list of messages.
#[derive(Debug, Clone, PartialEq)]
pub struct AddMessage {
    /// The role of the message.
    pub role: String,
    pub content: Expression,
    /// The list's name.
    pub list: String,
}

/// The changes that an answer makes; `None` for kinds of changes that the workflow does not want.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OnAnswer {
    pub variables: Option<Vec<SetVariable>>,
    /// A message; the inner option is `None` when one is wanted but not defined.
    pub message: Option<Option<AddMessage>>,
}

/// The computed changes of an answer.
#[derive(Debug, Default, PartialEq)]
pub struct Effects {
    /// Variables, in order.
    pub updates: Vec<VariableUpdate>,
    /// A message: list, role, text.
    pub message: Option<(String, String, String)>,
}

impl OnAnswer {
    /// Adds the variables that the changes read.
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        self.expressions().for_each(|expression| expression.mentions(into));
    }

    fn expressions(&self) -> impl Iterator<Item = &Expression> {
        let variables = self.variables.iter().flatten().map(|variable| &variable.expression);
        variables.chain(self.message.iter().flatten().map(|message| &message.content))
    }

    /// The name of the operation in events.
    pub fn operation(&self) -> Option<&'static str> {
        match (&self.variables, &self.message) {
            (Some(_), None) => Some("UPDATE_VARIABLES"),
            (None, Some(_)) => Some("ADD_MESSAGE"),
            (None, None) | (Some(_), Some(_)) => None,
        }
    }

    /// Computes the changes of this answer. `loop_id` is the nearest loop around the node.
    ///
    /// # Errors
    /// A wanted change is not defined, there is no loop, or a variable is a blob. Secrets are masked, since values set
    /// here are shown and stored in plain text.
    pub fn effects(
        &self,
        input: &Json,
        variables: &dyn Variables,
        loop_id: Option<&str>,
    ) -> Result<Effects, NodeFailure> {
        if let Some((node, name)) = self.expressions().find_map(|it| it.out_of_reach(variables)) {
            let message = format!(
                "{node}.{name} is too large to be read by `on_answer`; take the part of it that is needed in a node before"
            );
            return Err(NodeFailure::new("ValueError", message));
        }
        let (mut effects, variables) = (Effects::default(), &Masked(variables));
        if let Some(set) = &self.variables {
            if set.is_empty() {
                return Err(undefined("No variables defined for UPDATE_VARIABLES operation"));
            }
            for variable in set {
                let node = match variable.scope {
                    Scope::Thread => RUN,
                    Scope::Global => CONVERSATION,
                    Scope::Local => LOCAL,
                    Scope::Loop => loop_id.ok_or_else(|| no_loop(&variable.name))?,
                };
                let value = Segment::infer(variable.expression.value(input, variables));
                effects.updates.push(VariableUpdate {
                    node: node.into(),
                    name: variable.name.clone(),
                    value,
                    changes: None,
                });
            }
        }
        if let Some(wanted) = &self.message {
            let message =
                wanted.as_ref().ok_or_else(|| undefined("No message defined for ADD_MESSAGE operation"))?;
            let text = as_text(&message.content.value(input, variables));
            effects.message = Some((message.list.clone(), message.role.clone(), text));
        }
        Ok(effects)
    }
}

fn undefined(message: &str) -> NodeFailure {
    NodeFailure::new("ConfigurationValidationError", message)
}

fn no_loop(name: &str) -> NodeFailure {
    let message = format!("the variable {name} has the scope loop, but the node is not in a loop");
    NodeFailure::new("LoopScopeNotFound", message)
}
