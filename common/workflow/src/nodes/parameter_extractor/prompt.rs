//! Builds the request to the model: instructions with the history, two worked examples, and the text with the schema.
//!
//! With a tool the examples are calls of it, without one they are plain JSON. Completion models get one text. As on
//! Dify inserted texts are rendered once more, including the user's text.

use serde_json::{Value as Json, json};

use super::{ParameterExtractorData, TOOL, can_call_tools};
use crate::nodes::llm::fill::Fill;
use crate::nodes::llm::memory::{self, PREFIXES};
use crate::nodes::llm::message::{Message, ModelFacts, ToolCall, ToolSpec};
use crate::nodes::llm::prompt::Prompt;
use crate::nodes::llm::record::{self, Inputs, Secrets};
use crate::nodes::llm::{
    MessageTemplate, ModelMode, PromptTemplate, Role, TextTemplate, files, params, tokens,
};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::pyrepr::json_line;
use tidemill_base::value::template::Template;
use tidemill_base::value::{Segment, SegmentType, Variables};

/// Tokens that Dify keeps free beside the prompt.
const TOKENS_SPARE: u64 = 1000;
/// The placeholder of the schema in a completion. It is replaced last, so the same characters in a text are replaced
/// too (as on Dify).
const STRUCTURE_MARK: &str = "{ structure }";

/// Builds the prompt, its tool, and the record of the inputs.
///
/// # Errors
/// On Dify a failure here is an exception that leaves the node: class `WorkflowNodeError`, and nothing is recorded.
pub fn assemble(
    data: &ParameterExtractorData,
    variables: &dyn Variables,
    facts: &ModelFacts,
) -> Result<(Prompt, Option<ToolSpec>, Inputs), NodeFailure> {
    let tool = data.tool(facts);
    match assemble_openly(data, variables, facts, tool.is_some()) {
        Ok((prompt, inputs)) => Ok((prompt, tool, inputs)),
        Err(failure) => Err(NodeFailure::escaped(failure.message)),
    }
}

fn assemble_openly(
    data: &ParameterExtractorData,
    variables: &dyn Variables,
    facts: &ModelFacts,
    by_tool: bool,
) -> Result<(Prompt, Inputs), NodeFailure> {
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    let secrets = Secrets::among(mentions, variables);
    let query = variables.found(&data.query).map(|segment| segment.text().into_owned()).unwrap_or_default();
    let vision = files::of_vision(data.vision.as_ref(), variables)?;
    let mut inputs = record_of(data, &query, json!(vision));
    secrets.mask(&mut inputs);

    if data.model.mode == ModelMode::Completion && can_call_tools(facts) {
        return Err(NodeFailure::new("InvalidModelModeError", "Model mode completion not support."));
    }
    let params = params::resolve(&data.model.completion_params, variables);
    let instruction = Template::parse(&data.instruction).render_text(variables);
    let fill = Fill { vision: &vision, detail: &data.detail, ..Fill::plain(variables, facts) };
    let filled = |history: &str| {
        let mut filled = fill.messages(&template(data, by_tool, &query, &instruction, history))?;
        if data.model.mode == ModelMode::Chat {
            before_last_question(&mut filled.messages, examples(by_tool));
        }
        Ok::<_, NodeFailure>(filled)
    };
    let mut prompt = filled("")?;
    if let Some(memory) = data.memory.as_ref().filter(|_| memory::exists(variables)) {
        let used = tokens::estimate(&prompt.messages) + TOKENS_SPARE;
        let history = memory::messages(variables, memory.size, tokens::rest(facts, &params, used))?;
        prompt = filled(&memory::text(&history, PREFIXES))?;
    }
    let (messages, files_left_out) = (prompt.messages, prompt.files_left_out);
    Ok((Prompt { messages, params, secrets, context: None, files_left_out }, inputs))
}

fn record_of(data: &ParameterExtractorData, query: &str, files: Json) -> Inputs {
    let parameter = |p: &super::Parameter| {
        json!({
            "name": p.name, "type": p.ty.name(), "options": p.options, "description": p.description,
            "required": p.required
        })
    };
    let parameters: Vec<Json> = data.parameters.iter().map(parameter).collect();
    let mut inputs = Inputs::new();
    for (name, value) in [
        ("query", Segment::string(query)),
        ("files", Segment::new(SegmentType::ArrayFile, files)),
        ("parameters", Segment::infer(json!(parameters))),
        ("instruction", Segment::string(&data.instruction)),
        ("model_provider", Segment::string(&data.model.provider)),
        ("model_name", Segment::string(&data.model.name)),
    ] {
        record::set(&mut inputs, name, value);
    }
    inputs
}

fn template(
    data: &ParameterExtractorData,
    by_tool: bool,
    query: &str,
    instruction: &str,
    history: &str,
) -> PromptTemplate {
    let schema = json_line(&data.schema());
    let memory = within("histories", history);
    let task = if by_tool { TASK_BY_TOOL } else { TASK_IN_WORDS };
    match data.model.mode {
        ModelMode::Chat => {
            let system = format!(
                "{task}\n\n{MEMORY}\n{memory}\n\n{INSTRUCTION}\n{}",
                within("instruction", instruction)
            );
            let user =
                if by_tool { question_by_tool(query, &schema) } else { question_in_words(query, &schema) };
            let message =
                |role: Role, text: String| MessageTemplate { role, text: TextTemplate::Basic(text) };
            PromptTemplate::Chat(vec![message(Role::System, system), message(Role::User, user)])
        }
        ModelMode::Completion => {
            let text = format!(
                "{TASK_IN_WORDS}\n\n{INSTRUCTION}\n{}\n\n### Structure\nThe values must fit this JSON schema:\n{}\n\n\
                 ### Steps\n1. Read the structure.\n2. Look for each of its properties in the text.\n3. Write one JSON object \
                 with what you have found.\n\n{MEMORY}\n{memory}\n\n### Text\n{}\n\n### Answer\n```JSON\n",
                within("instruction", instruction),
                within("structure", STRUCTURE_MARK),
                within("text", query),
            );
            PromptTemplate::Completion(TextTemplate::Basic(text.replace(STRUCTURE_MARK, &schema)))
        }
    }
}

/// Inserts examples before the question, so that the question keeps its files.
fn before_last_question(messages: &mut Vec<Message>, examples: Vec<Message>) {
    let at = messages.iter().rposition(|message| message.role == Role::User).unwrap_or(messages.len());
    messages.splice(at..at, examples);
}

fn examples(by_tool: bool) -> Vec<Message> {
    let mut messages = Vec::new();
    for (text, schema, answer, call) in EXAMPLES {
        if by_tool {
            let call = ToolCall { id: call.into(), name: TOOL.into(), arguments: answer.into() };
            messages.push(Message::text(Role::User, question_by_tool(text, schema)));
            let said = Message::text(Role::Assistant, "I call the tool with what the text says.");
            messages.push(Message { tool_calls: vec![call.clone()], ..said });
            messages.push(Message::tool_result(call.id, "The parameters were taken over."));
            messages.push(Message::text(Role::Assistant, "I have called the tool with these parameters."));
        } else {
            messages.push(Message::text(Role::User, question_in_words(text, schema)));
            messages.push(Message::text(Role::Assistant, answer));
        }
    }
    messages
}

fn question_by_tool(text: &str, schema: &str) -> String {
    format!(
        "Extract what is asked for from the text between the <context> tags, and call `{TOOL}` with it.\n{}\n\nThe \
         parameters:\n{}",
        within("context", text),
        within("structure", schema)
    )
}

fn question_in_words(text: &str, schema: &str) -> String {
    format!(
        "### Structure\nAnswer with JSON that fits this schema.\n{}\n\n### Text\n{}",
        within("structure", schema),
        within("text", text)
    )
}

fn within(tag: &str, text: &str) -> String {
    format!("<{tag}>\n{text}\n</{tag}>")
}

const TASK_BY_TOOL: &str = "You extract structured information from texts: you find the values of given parameters.
### Task
Always answer by calling the tool `extract_parameters`, once, with every parameter whose value the text or what was said \
before holds. Keep to the types. Do not invent values: what is not there is left out, unless it must be given.";
const TASK_IN_WORDS: &str = "You extract structured information from texts: you find the values of given parameters.
### Task
Answer with one JSON object and nothing else: no explanation, no tags, nothing in front or behind. Its names and types are \
those of the given structure. Do not invent values that neither the text nor what was said before holds.";
const MEMORY: &str = "### Memory
What was said before stands between the tags; it may hold values as well.";
const INSTRUCTION: &str = "### Instructions
What stands between the tags says more about what is wanted; it comes before your own judgement.";

/// Text, schema, answer, id of the call.
const EXAMPLES: [(&str, &str, &str, &str); 2] = [
    (
        "Could you tell me whether it will rain in Lisbon tomorrow?",
        r#"{"type": "object", "properties": {"place": {"description": "Where the weather is asked for", "type": "string"}}, "required": ["place"]}"#,
        r#"{"place": "Lisbon"}"#,
        "6b1f0d94c2a84e7db35a17f8e0c96d42",
    ),
    (
        "Three tickets for the late show please, and we would all like to eat before.",
        r#"{"type": "object", "properties": {"tickets": {"description": "How many tickets", "type": "number"}, "dinner": {"description": "Whether dinner is wanted", "type": "boolean"}}, "required": ["tickets", "dinner"]}"#,
        r#"{"tickets": 3, "dinner": true}"#,
        "d8427a3e915c4bb0a6f3520c7be1984f",
    ),
];
