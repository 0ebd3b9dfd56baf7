//! Branches by meaning: a model is asked which of several classes a text belongs to, and the run goes on at that class.
//!
//! `parse` reads the configuration, [`prompt`] makes the question, [`answer`] finds the class in the reply. The model is
//! asked by the worker.

pub mod answer;
mod parse;
pub mod prompt;

use crate::dsl::Problems;
use crate::nodes::llm::{Memory, ModelConfig, Vision};
use crate::value::template::{Template, mention};
use crate::value::{JsonMap, Selector};

/// Configuration of `question-classifier`.
#[derive(Debug, Clone)]
pub struct QuestionClassifierData {
    /// The text that is classified; an empty selector is none.
    pub query: Selector,
    /// Which model, and with what parameters.
    pub model: ModelConfig,
    /// What there is to choose from. The first one is taken when the model names none of them.
    pub classes: Vec<Class>,
    /// What else the model is told: a template, perhaps empty.
    pub instruction: String,
    /// The conversation so far.
    pub memory: Option<Memory>,
    /// The files that go with the question; none when vision is switched off.
    pub vision: Option<Vision>,
    /// Detail of pictures: `high` or `low`.
    pub detail: String,
}

/// A class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Class {
    /// Its id, which is the handle that the run goes on by.
    pub id: String,
    /// What the model is told of it: a template.
    pub name: String,
    /// What people call it; perhaps empty.
    pub label: String,
}

impl QuestionClassifierData {
    /// Reads `data` of the node; reports what is wrong and returns nothing when it cannot be used.
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

    /// The label of a class; one without is called by its place, from 1 (Dify).
    pub fn label(&self, at: usize) -> String {
        let label = self.classes.get(at).map(|class| class.label.as_str()).unwrap_or_default();
        if label.is_empty() { format!("CLASS {}", at + 1) } else { label.to_owned() }
    }
}

#[cfg(test)]
mod tests;
