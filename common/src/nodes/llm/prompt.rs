//! From configuration and variables to what is sent to a model: messages, parameters, and the record of what went in.
//!
//! The order of steps is Dify's, since the first failure decides what a workflow sees. What the node cannot do yet
//! fails with `LLMNodeError` (`unsupported`), never silently.

use serde_json::{Value as Json, json};

use super::message::Message;
use super::record::{self, Inputs, Secrets};
use super::{
    LlmData, Memory, MessageTemplate, ModelMode, PromptTemplate, Role, TextTemplate, context, params,
    unsupported,
};
use crate::failure::NodeFailure;
use crate::nodes::evaluate::UndefinedNames;
use crate::value::jinja::JinjaTemplate;
use crate::value::template::Template;
use crate::value::{Segment, Variables};

/// What is sent to a model.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Prompt {
    /// The conversation, oldest first; at least one message.
    pub messages: Vec<Message>,
    /// Parameters of the call and texts that end the reply.
    pub params: params::Params,
    /// What the record must not show.
    pub secrets: Secrets,
}

impl Prompt {
    /// `process_data.prompts`: one object a message; a completion has no list of files (Dify). Secrets are masked.
    pub fn record(&self, mode: ModelMode) -> Json {
        let one = |m: &Message| match mode {
            ModelMode::Chat => {
                json!({"role": m.role.name(), "text": self.secrets.masked(&m.joined_text()), "files": []})
            }
            ModelMode::Completion => {
                json!({"role": m.role.name(), "text": self.secrets.masked(&m.joined_text())})
            }
        };
        self.messages.iter().map(one).collect()
    }
}

/// Makes the prompt. Every variable that the node mentions must be at hand: nothing that is asked for here is a blob.
///
/// # Errors
/// A failure under Dify's class and text, or `LLMNodeError` for what is not supported yet.
pub fn assemble(
    data: &LlmData,
    variables: &dyn Variables,
    undefined: UndefinedNames,
    inputs: &mut Inputs,
) -> Result<Prompt, NodeFailure> {
    let secrets = Secrets::of(data, variables);
    let assembled = assemble_openly(data, variables, undefined, inputs);
    secrets.mask(inputs);
    assembled.map(|prompt| Prompt { secrets, ..prompt })
}

fn assemble_openly(
    data: &LlmData,
    variables: &dyn Variables,
    undefined: UndefinedNames,
    inputs: &mut Inputs,
) -> Result<Prompt, NodeFailure> {
    record::references(data, variables, inputs)?;
    record::jinja_variables(data, variables, inputs)?;
    unsupported::refuse_files(data, variables)?;
    let context = data.context.as_ref().map(|s| context::text(s, variables)).transpose()?.unwrap_or_default();
    if !context.is_empty() {
        record::set(inputs, "#context#", Segment::string(context.clone()));
    }
    let params = params::resolve(&data.model.completion_params, variables);
    unsupported::refuse_switches(data, variables)?;
    record::set(inputs, "model_provider", Segment::string(&data.model.provider));
    record::set(inputs, "model_name", Segment::string(&data.model.name));
    let fill = Fill { data, variables, undefined, context: &context };
    let mut messages = match &data.prompt {
        PromptTemplate::Chat(templates) => fill.chat(templates)?,
        PromptTemplate::Completion(text) => vec![fill.completion(text)?],
    };
    messages.retain(|message| !message.is_empty());
    if messages.is_empty() {
        return Err(NodeFailure::new("NoPromptFoundError", NO_PROMPT));
    }
    Ok(Prompt { messages, params, secrets: Secrets::default() })
}

/// Dify's words for an empty prompt.
const NO_PROMPT: &str = "No prompt found in the LLM configuration. Please ensure a prompt is properly configured before proceeding.";

/// What the texts are filled with.
struct Fill<'a> {
    data: &'a LlmData,
    variables: &'a dyn Variables,
    undefined: UndefinedNames,
    context: &'a str,
}

impl Fill<'_> {
    fn chat(&self, templates: &[MessageTemplate]) -> Result<Vec<Message>, NodeFailure> {
        let mut messages = Vec::with_capacity(templates.len() + 1);
        for template in templates {
            if template.role == Role::Tool {
                return Err(NodeFailure::new("NotImplementedError", "Role tool is not supported"));
            }
            messages.push(Message::text(template.role, self.text(&template.text)?));
        }
        if let Some(memory) = &self.data.memory {
            messages.push(Message::text(Role::User, self.render(&self.query(memory))));
        }
        Ok(messages)
    }

    /// One user message. Without history Dify still puts the (empty) history and a line break before the text, and a
    /// `{{#histories#}}` leaves its outer braces; the query template goes in front as it is written.
    fn completion(&self, template: &TextTemplate) -> Result<Message, NodeFailure> {
        const HISTORY_MARK: &str = "#histories#";
        let text = self.text(template)?;
        let text =
            if text.contains(HISTORY_MARK) { text.replace(HISTORY_MARK, "") } else { format!("\n{text}") };
        let query =
            self.data.memory.as_ref().map(|memory| self.query(memory)).filter(|query| !query.is_empty());
        let text = query.map_or(text.clone(), |query| format!("{query}\n{text}"));
        Ok(Message::text(Role::User, text))
    }

    fn text(&self, template: &TextTemplate) -> Result<String, NodeFailure> {
        match template {
            TextTemplate::Basic(text) => Ok(self.render(&text.replace("{{#context#}}", self.context))),
            TextTemplate::Jinja(text) if text.is_empty() => Ok(String::new()),
            TextTemplate::Jinja(text) => self.jinja(text),
        }
    }

    fn render(&self, text: &str) -> String {
        Template::parse(text).render_text(self.variables)
    }

    /// Jinja sees the declared variables and nothing else.
    fn jinja(&self, text: &str) -> Result<String, NodeFailure> {
        let value = |selector: &[String]| {
            self.variables.found(selector).map_or_else(|| Segment::string(""), |segment| segment.into_owned())
        };
        let declared = self.data.jinja_variables.iter();
        let names: Inputs =
            declared.map(|variable| (variable.name.clone(), value(&variable.selector))).collect();
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
