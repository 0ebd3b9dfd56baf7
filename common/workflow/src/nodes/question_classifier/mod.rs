//! The `question-classifier` node: a model assigns a text to one of several classes, and the run follows that class's
//! handle.
//!
//! `parse` reads the configuration, [`prompt`] builds the request, and [`answer`] finds the class in the reply. The
//! worker calls the model.

pub mod answer;
mod parse;
pub mod prompt;

use crate::dsl::Problems;
use crate::nodes::llm::{Memory, ModelConfig, Vision};
use tidemill_base::value::template::{Template, mention};
use tidemill_base::value::{JsonMap, Selector};

/// Configuration of `question-classifier`.
#[derive(Debug, Clone)]
pub struct QuestionClassifierData {
    /// The text to classify; an empty selector means none.
    pub query: Selector,
    /// The model and its parameters.
    pub model: ModelConfig,
    /// The classes. The first is used when the model names none of them.
    pub classes: Vec<Class>,
    /// Further instructions for the model: a template, can be empty.
    pub instruction: String,
    /// Settings for the conversation so far.
    pub memory: Option<Memory>,
    /// The files sent with the request. `None` when vision is off.
    pub vision: Option<Vision>,
    /// Detail of images: `high` or `low`.
    pub detail: String,
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// The id, which is also the handle.
    pub id: String,
    /// The name for the model: a template.
    pub name: String,
    /// The name for people; can be empty.
    pub label: String,
}

impl QuestionClassifierData {
    /// Reads the node's `data`. Reports problems, and returns `None` when the data cannot be used.
    pub fn parse(data: &JsonMap, problems: &mut Problems) -> Option<Self> {
        parse::parse(data, problems)
    }

    /// Adds the variables that the configuration mentions, as (node, name).
    pub fn mentions(&self, into: &mut Vec<(String, String)>) {
        mention(&self.query, into);
        for text in self.classes.iter().map(|class| &class.name).chain([&self.instruction]) {
            Template::parse(text).mentions(into);
        }
        self.model.mentions(into);
        if let Some(vision) = &self.vision {
            mention(&vision.selector, into);
        }
        if let Some(memory) = &self.memory {
            memory.mentions(into);
        }
    }

    /// The label of a class; without one it is the number, from 1 (as on Dify).
    pub fn label(&self, at: usize) -> String {
        let label = self.classes.get(at).map(|class| class.label.as_str()).unwrap_or_default();
        if label.is_empty() { format!("CLASS {}", at + 1) } else { label.to_owned() }
    }
}

#[cfg(test)]
mod tests;
