//! Builds the request to the model: instructions, two worked examples, and the text with the classes.
//!
//! There are six messages, the last one is the question; completion models get one text. As on Dify inserted texts are
//! rendered once more, including the user's text.

use serde_json::{Value as Json, json};

use super::QuestionClassifierData;
use crate::nodes::llm::fill::{Fill, Filled};
use crate::nodes::llm::memory::{self, PREFIXES};
use crate::nodes::llm::message::ModelFacts;
use crate::nodes::llm::prompt::Prompt;
use crate::nodes::llm::record::{self, Inputs, Secrets};
use crate::nodes::llm::{
    MessageTemplate, ModelMode, PromptTemplate, Role, TextTemplate, files, params, tokens,
};
use tidemill_base::failure::NodeFailure;
use tidemill_base::value::pyrepr::{json_line, str_of};
use tidemill_base::value::template::Template;
use tidemill_base::value::{Segment, Variables};

/// Builds the prompt and the record of the inputs.
///
/// # Errors
/// On Dify a failure here is an exception that leaves the node: class `WorkflowNodeError`, and nothing is recorded.
pub fn assemble(
    data: &QuestionClassifierData,
    variables: &dyn Variables,
    facts: &ModelFacts,
) -> Result<(Prompt, Inputs), NodeFailure> {
    assemble_openly(data, variables, facts).map_err(|failure| NodeFailure::escaped(failure.message))
}

fn assemble_openly(
    data: &QuestionClassifierData,
    variables: &dyn Variables,
    facts: &ModelFacts,
) -> Result<(Prompt, Inputs), NodeFailure> {
    let mut mentions = Vec::new();
    data.mentions(&mut mentions);
    let secrets = Secrets::among(mentions, variables);
    let query = variables.found(&data.query).map_or_else(Segment::none, |segment| segment.into_owned());
    let mut inputs = Inputs::new();
    record::set(&mut inputs, "query", query.clone());
    record::set(&mut inputs, "model_provider", Segment::string(&data.model.provider));
    record::set(&mut inputs, "model_name", Segment::string(&data.model.name));
    secrets.mask(&mut inputs);

    let query = if query.is_falsy() { String::new() } else { str_of(&query.value).into_owned() };
    let instruction = Template::parse(&data.instruction).render_text(variables);
    let params = params::resolve(&data.model.completion_params, variables);
    let vision = files::of_vision(data.vision.as_ref(), variables)?;
    let fill = Fill { vision: &vision, detail: &data.detail, ..Fill::plain(variables, facts) };
    let filled = |history: &str| fill.messages(&template(data, &query, &instruction, history));
    let mut prompt = filled("")?;
    if let Some(memory) = data.memory.as_ref().filter(|_| memory::exists(variables)) {
        let rest = tokens::rest(facts, &params, tokens::estimate(&prompt.messages));
        let history = memory::messages(variables, memory.size, rest)?;
        prompt = filled(&memory::text(&history, PREFIXES))?;
    }
    let Filled { messages, files_left_out } = prompt;
    Ok((Prompt { messages, params, secrets, context: None, files_left_out }, inputs))
}

fn template(data: &QuestionClassifierData, query: &str, instruction: &str, history: &str) -> PromptTemplate {
    let class = |class: &super::Class| json!({"category_id": class.id, "category_name": class.name});
    let classes = json_line(&data.classes.iter().map(class).collect::<Json>());
    match data.model.mode {
        ModelMode::Chat => {
            let message =
                |role: Role, text: String| MessageTemplate { role, text: TextTemplate::Basic(text) };
            PromptTemplate::Chat(vec![
                message(Role::System, format!("{TASK}\n{}", within("histories", history))),
                message(Role::User, question(EXAMPLE_1.0, EXAMPLE_1.1, Some(EXAMPLE_1.2))),
                message(Role::Assistant, fenced(EXAMPLE_1.3)),
                message(Role::User, question(EXAMPLE_2.0, EXAMPLE_2.1, None)),
                message(Role::Assistant, fenced(EXAMPLE_2.2)),
                message(Role::User, question(query, &classes, Some(instruction))),
            ])
        }
        ModelMode::Completion => PromptTemplate::Completion(TextTemplate::Basic(format!(
            "{TASK}\n\n### Examples\nInput: {}\nOutput: {}\nInput: {}\nOutput: {}\n\n### Memory\n{}\n\n### Input\n\
             {{\"input_text\": [\"{query}\"], \"categories\": {classes}, \"classification_instruction\": [\"{instruction}\"]}}\n\
             ### Output\n",
            question(EXAMPLE_1.0, EXAMPLE_1.1, Some(EXAMPLE_1.2)),
            EXAMPLE_1.3,
            question(EXAMPLE_2.0, EXAMPLE_2.1, None),
            EXAMPLE_2.2,
            within("histories", history),
        ))),
    }
}

/// The text of a question. It resembles JSON but is not: as on Dify the user's text is inserted without escaping.
fn question(query: &str, classes: &str, instruction: Option<&str>) -> String {
    let instruction = instruction.map(|text| format!(", \"classification_instructions\": [\"{text}\"]"));
    format!("{{\"input_text\": [\"{query}\"], \"categories\": {classes}{}}}", instruction.unwrap_or_default())
}

fn fenced(json: &str) -> String {
    format!("```json\n{json}\n```")
}

fn within(tag: &str, text: &str) -> String {
    format!("<{tag}>\n{text}\n</{tag}>")
}

const TASK: &str = "### Task
You are a text classification engine. Read the text, choose the one category that fits it best, and collect the words that \
made you choose it.
### Input
`input_text` holds the text. `categories` lists what there is to choose from, each with `category_id` and `category_name`. \
`classification_instructions`, where it is given, says how to decide and comes before your own judgement.
### Rules
Choose exactly one of the given categories and repeat its id and name unchanged. Answer with one JSON object with the keys \
`keywords` (a list of words), `category_id` and `category_name`, and with nothing else.
### Memory
What was said before stands between the tags; it may tell what the text is about.";

/// Text, classes, instruction, answer.
const EXAMPLE_1: (&str, &str, &str, &str) = (
    "The parcel came a week late and the box was torn.",
    r#"[{"category_id": "3f0c6e58-7d1b-4f6e-9a52-1c8b7e2d4a10", "category_name": "Delivery"}, {"category_id": "b7a41d92-05ce-4c3a-8f17-6e9d2c50f3b8", "category_name": "Product quality"}, {"category_id": "e29d8c74-a6b3-47f1-b0d5-92c4f81e6a37", "category_name": "Invoices"}]"#,
    "decide by what the customer complains of",
    r#"{"keywords": ["parcel", "late", "box", "torn"], "category_id": "3f0c6e58-7d1b-4f6e-9a52-1c8b7e2d4a10", "category_name": "Delivery"}"#,
);
/// Text, classes, answer.
const EXAMPLE_2: (&str, &str, &str) = (
    "how do i change the language of the menu",
    r#"[{"category_id": "5c18e0a7-2f94-4db6-83c1-d07b9a64e2f5", "category_name": "Settings"}, {"category_id": "90d7b3f2-c641-4e8a-a5f9-38e16b0c7d24", "category_name": "Other questions"}]"#,
    r#"{"keywords": ["change", "language", "menu"], "category_id": "5c18e0a7-2f94-4db6-83c1-d07b9a64e2f5", "category_name": "Settings"}"#,
);
