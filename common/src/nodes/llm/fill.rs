//! From templates to messages: variables filled in, history and question put where they belong, files attached.
//!
//! Every node that asks a model goes through here, so that a text of a classifier is filled in as one of an `llm` node.

use super::message::{Message, ModelFacts, Part};
use super::{
    JinjaVariable, Memory, MessageTemplate, PromptTemplate, Role, TextTemplate, files, memory, turns,
};
use crate::failure::NodeFailure;
use crate::nodes::evaluate::UndefinedNames;
use crate::value::jinja::JinjaTemplate;
use crate::value::template::{Part as TemplatePart, Template};
use crate::value::{JsonMap, Segment, Variables};

/// Dify's words for an empty prompt.
const NO_PROMPT: &str = "No prompt found in the LLM configuration. Please ensure a prompt is properly configured before proceeding.";
/// What stands for the history in a completion; its braces stay.
const HISTORY_MARK: &str = "#histories#";

/// What templates are filled with.
pub struct Fill<'a> {
    /// The run's variables.
    pub variables: &'a dyn Variables,
    /// What becomes of undefined names in Jinja.
    pub undefined: UndefinedNames,
    /// What replaces `{{#context#}}`.
    pub context: &'a str,
    /// What Jinja messages may use, and nothing else.
    pub jinja: &'a [JinjaVariable],
    /// Memory, as the node has it, and the tokens that a history may have.
    pub memory: Option<(&'a Memory, u64)>,
    /// Files that the vision switch adds; none when it is off.
    pub vision: &'a [JsonMap],
    /// Detail of pictures.
    pub detail: &'a str,
    /// What is known of the model.
    pub facts: &'a ModelFacts,
    /// Whether the model is given one text: a conversation in a prompt makes one of the whole prompt then.
    pub one_text: bool,
}

/// Messages, and how many files the model could not be sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filled {
    /// At least one.
    pub messages: Vec<Message>,
    /// Files that the model is not known to see.
    pub files_left_out: usize,
}

impl<'a> Fill<'a> {
    /// Fills in nothing but the run's variables.
    pub fn plain(variables: &'a dyn Variables, facts: &'a ModelFacts) -> Self {
        Self {
            variables,
            facts,
            undefined: UndefinedNames::Empty,
            context: "",
            jinja: &[],
            memory: None,
            vision: &[],
            detail: files::DETAIL_DEFAULT,
            one_text: false,
        }
    }
}

impl Fill<'_> {
    /// The messages of a template, in Dify's order: texts, history, question, files; what the model cannot see is left
    /// out.
    ///
    /// # Errors
    /// A failure under Dify's class and text.
    pub fn messages(&self, prompt: &PromptTemplate) -> Result<Filled, NodeFailure> {
        let mut messages = match prompt {
            PromptTemplate::Chat(templates) => self.chat(templates)?,
            PromptTemplate::Completion(text) => vec![self.completion(text)?],
        };
        let vision = self.vision.iter().map(|file| files::part(file.clone(), self.detail));
        files::attach(&mut messages, vision.collect::<Result<_, _>>()?);
        let files_left_out = files::keep_allowed(&mut messages, self.facts);
        if messages.is_empty() {
            return Err(NodeFailure::new("NoPromptFoundError", NO_PROMPT));
        }
        Ok(Filled { messages, files_left_out })
    }

    fn chat(&self, templates: &[MessageTemplate]) -> Result<Vec<Message>, NodeFailure> {
        let mut messages = Vec::with_capacity(templates.len() + 1);
        let mut has_conversation = false;
        for template in templates {
            if template.role == Role::Tool {
                return Err(NodeFailure::new("NotImplementedError", "Role tool is not supported"));
            }
            if let Some(said) = self.conversation(&template.text)? {
                has_conversation = true;
                messages.extend(said);
                continue;
            }
            match &template.text {
                TextTemplate::Messages(_) => {}
                TextTemplate::Basic(text) => self.basic(template.role, text, self.context, &mut messages)?,
                TextTemplate::Jinja(text) => messages.push(Message::text(template.role, self.jinja(text)?)),
            }
        }
        if let Some((memory, tokens_max)) = self.memory {
            messages.extend(memory::messages(self.variables, memory.window(), tokens_max)?);
            self.basic(Role::User, &self.query(memory), "", &mut messages)?;
        }
        if has_conversation && self.one_text {
            messages = vec![turns::as_lines(&messages)];
        }
        Ok(messages)
    }

    /// The messages that stand in place of a text which is a reference to them and nothing else.
    fn conversation(&self, text: &TextTemplate) -> Result<Option<Vec<Message>>, NodeFailure> {
        let selector = match text {
            TextTemplate::Messages(selector) => selector.clone(),
            TextTemplate::Basic(text) if text.starts_with("{{#") && text.ends_with("#}}") => {
                match Template::parse(text).parts() {
                    [TemplatePart::Variable(selector)] => selector.clone(),
                    _ => return Ok(None),
                }
            }
            TextTemplate::Basic(_) | TextTemplate::Jinja(_) => return Ok(None),
        };
        let is_named = matches!(text, TextTemplate::Messages(_));
        match self.variables.found(&selector) {
            Some(value) if is_named || turns::is_conversation(&value.value) => {
                turns::messages(&value.value, self.detail).map(Some)
            }
            None if is_named => {
                let message = format!("Variable {} not found", selector.join("."));
                Err(NodeFailure::new("VariableNotFoundError", message))
            }
            Some(_) | None => Ok(None),
        }
    }

    /// A text and, in a message behind it, the files that it refers to, whatever the vision switch says (Dify).
    fn basic(
        &self,
        role: Role,
        text: &str,
        context: &str,
        into: &mut Vec<Message>,
    ) -> Result<(), NodeFailure> {
        let text = text.replace("{{#context#}}", context);
        let rendered = self.render(&text);
        if !rendered.is_empty() {
            into.push(Message::text(role, rendered));
        }
        let parts = files::of_text(&text, self.variables, self.detail)?;
        if !parts.is_empty() {
            into.push(Message { parts, ..Message::text(role, "") });
        }
        Ok(())
    }

    /// One user message. Without a place for it Dify puts the history, also an empty one, and a line break before the
    /// text, and a `{{#histories#}}` leaves its outer braces; the query template goes in front as it is written.
    fn completion(&self, template: &TextTemplate) -> Result<Message, NodeFailure> {
        if let Some(said) = self.conversation(template)? {
            return Ok(turns::as_lines(&said));
        }
        let text = match template {
            TextTemplate::Basic(text) => self.render(&text.replace("{{#context#}}", self.context)),
            TextTemplate::Jinja(text) => self.jinja(text)?,
            TextTemplate::Messages(_) => String::new(),
        };
        let history = self.memory.map(|(memory, most)| self.history(memory, most)).transpose()?;
        let history = history.unwrap_or_default();
        let text = if text.contains(HISTORY_MARK) {
            text.replace(HISTORY_MARK, &history)
        } else {
            format!("{history}\n{text}")
        };
        let query = self.memory.map(|(memory, _)| self.query(memory)).filter(|query| !query.is_empty());
        let text = query.map_or(text.clone(), |query| format!("{query}\n{text}"));
        Ok(Message { parts: vec![Part::Text(text)], ..Message::text(Role::User, "") })
    }

    /// The history as text; nothing outside a conversation.
    fn history(&self, memory: &Memory, tokens_max: u64) -> Result<String, NodeFailure> {
        const NO_PREFIX: &str = "Memory role prefix is required for completion model.";
        if !memory::exists(self.variables) {
            return Ok(String::new());
        }
        let Some((user, assistant)) = &memory.role_prefix else {
            return Err(NodeFailure::new("MemoryRolePrefixRequiredError", NO_PREFIX));
        };
        let messages = memory::messages(self.variables, memory.window(), tokens_max)?;
        Ok(memory::text(&messages, (user, assistant)))
    }

    fn render(&self, text: &str) -> String {
        Template::parse(text).render_text(self.variables)
    }

    /// Jinja sees the declared variables and nothing else.
    fn jinja(&self, text: &str) -> Result<String, NodeFailure> {
        if text.is_empty() {
            return Ok(String::new());
        }
        let value = |selector: &[String]| {
            self.variables.found(selector).map_or_else(|| Segment::string(""), |segment| segment.into_owned())
        };
        let names: Vec<(String, Segment)> =
            self.jinja.iter().map(|variable| (variable.name.clone(), value(&variable.selector))).collect();
        let rendered = JinjaTemplate::new(text).render(&names, self.undefined, None);
        rendered.map_err(|error| NodeFailure::new("TemplateRenderError", error.to_string()))
    }

    /// The text of the final user message, before its references are filled in.
    fn query(&self, memory: &Memory) -> String {
        if !memory.query_template.is_empty() {
            return memory.query_template.clone();
        }
        let query = self.variables.found(&["sys".into(), "query".into()]);
        query.map(|segment| segment.text().into_owned()).unwrap_or_default()
    }
}
