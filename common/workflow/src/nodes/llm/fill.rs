//! Turns templates into messages: fills in variables, places history and question, attaches files.
//!
//! All nodes that call a model use this, so that texts are filled in the same way everywhere.

use super::message::{Message, MessagePart, ModelFacts};
use super::{
    JinjaVariable, Memory, MessageTemplate, PromptTemplate, Role, TextTemplate, files, memory, turns,
};
use crate::nodes::evaluate::UndefinedNames;
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::jinja::JinjaTemplate;
use tidemill_base::value::template::{Template, TemplatePiece};
use tidemill_base::value::{JsonMap, Segment, Variables};

/// Dify's message for an empty prompt.
const NO_PROMPT: &str = "No prompt found in the LLM configuration. Please ensure a prompt is properly configured before proceeding.";
/// The placeholder for the history in a completion; its outer braces stay in the text.
const HISTORY_MARK: &str = "#histories#";

/// The values for filling in templates.
pub struct Fill<'a> {
    /// The run's variables.
    pub variables: &'a dyn Variables,
    /// Treatment of undefined names in Jinja.
    pub undefined: UndefinedNames,
    /// The text that replaces `{{#context#}}`.
    pub context: &'a str,
    /// The only variables that Jinja messages can use.
    pub jinja: &'a [JinjaVariable],
    /// The node's memory settings, and the most tokens for the history.
    pub memory: Option<(&'a Memory, u64)>,
    /// Files that the vision switch adds; empty when it is off.
    pub vision: &'a [JsonMap],
    /// Detail of images.
    pub detail: &'a str,
    /// Features and limits of the model.
    pub facts: &'a ModelFacts,
    /// True when the model takes one text: then a prompt with a conversation becomes one text.
    pub one_text: bool,
}

/// The messages, and the number of files left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filled {
    /// At least one message.
    pub messages: Vec<Message>,
    /// Files that the model is not known to accept.
    pub files_left_out: usize,
}

impl<'a> Fill<'a> {
    /// Fills in only the run's variables.
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
    /// The messages of a template, in Dify's order: texts, history, question, files. Files that the model cannot read
    /// are left out.
    ///
    /// # Errors
    /// A failure with Dify's class and text.
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

    /// The messages of a text that is exactly one reference to a list of messages.
    fn conversation(&self, text: &TextTemplate) -> Result<Option<Vec<Message>>, NodeFailure> {
        let selector = match text {
            TextTemplate::Messages(selector) => selector.clone(),
            TextTemplate::Basic(text) if text.starts_with("{{#") && text.ends_with("#}}") => {
                match Template::parse(text).parts() {
                    [TemplatePiece::Variable(selector)] => selector.clone(),
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

    /// Adds a text and, in a message after it, the files that it refers to. As on Dify this does not depend on the
    /// vision switch.
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

    /// Builds the one user message of a completion. As on Dify: without a placeholder the history, even an empty one,
    /// and a line break come before the text; `{{#histories#}}` leaves its outer braces; the query template is put in
    /// front as written.
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
        Ok(Message { parts: vec![MessagePart::Text(text)], ..Message::text(Role::User, "") })
    }

    /// The history as text; empty outside a conversation.
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

    /// Renders a Jinja text. It can use only the declared variables.
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

    /// The text of the final user message; its references are not filled in yet.
    fn query(&self, memory: &Memory) -> String {
        if !memory.query_template.is_empty() {
            return memory.query_template.clone();
        }
        let query = self.variables.found(&["sys".into(), "query".into()]);
        query.map(|segment| segment.text().into_owned()).unwrap_or_default()
    }
}
