//! The `llm` node: prompt, call, record. The prompt itself is made in `tidemill-common`.
//!
//! Of the reply the node tells what the model says and, where the node wants them apart, what it thinks.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::machine::events::StepEvent;
use tidemill_common::nodes::evaluate::UndefinedNames;
use tidemill_common::nodes::llm::context::Context;
use tidemill_common::nodes::llm::prompt::{self, Prompt};
use tidemill_common::nodes::llm::reasoning::{self, Filter, Piece};
use tidemill_common::nodes::llm::structured::Schema;
use tidemill_common::nodes::llm::turns;
use tidemill_common::nodes::llm::usage::{self, Timing, Tokens};
use tidemill_common::nodes::llm::{LlmData, ModelConfig, ReasoningFormat};
use tidemill_common::nodes::{NodeResult, Usage, Wasted};
use tidemill_common::value::{JsonMap, Segment, SegmentType, Variables};

use super::produced::{Keeping, Placed, keep_files};
use crate::executor::ThoughtSink;
use crate::providers::profile::OfProfile;
use crate::providers::{DeltaSink, Model, ModelError, ModelReply, Pace, Providers, Question};

/// Bytes of passages above which only their origin is told: the text itself is in the node's inputs.
const RESOURCES_BYTES_MAX: usize = 256 * 1024;

/// What the only call of the node is called.
const CALL: &str = "llm";

/// What the node reaches beside its variables.
pub struct Means<'a> {
    /// What becomes of undefined names in Jinja.
    pub undefined: UndefinedNames,
    /// Models.
    pub providers: &'a Providers,
    /// What waits for a turn at the model.
    pub pace: &'a dyn Pace,
    /// Where files are kept that it makes.
    pub keeping: Keeping<'a>,
    /// Takes what the model says, piece by piece, none of them empty; the empty chunk that ends a stream is the caller's.
    pub on_delta: DeltaSink<'a>,
    /// Takes what it thinks, where the node wants that apart.
    pub on_thought: ThoughtSink<'a>,
    /// Tells something of the node while it runs.
    pub tell: &'a (dyn Fn(StepEvent, JsonMap) + Send + Sync),
}

/// Runs the node. A failure is part of the result, with the inputs as far as they were known. Every variable that the
/// node mentions must be at hand. Dropping the future ends the call.
pub async fn run(
    data: &LlmData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> NodeResult {
    let mut result = NodeResult::default();
    let model = means.providers.resolve(&data.model).await;
    // That there is no such model is told where Dify tells it: after all that can be wrong with the prompt.
    let facts = model.as_ref().map(Model::facts).unwrap_or_default();
    let mut prompt = match prompt::assemble(data, variables, means.undefined, &facts, &mut result.inputs) {
        Ok(prompt) => prompt,
        Err(failure) => return NodeResult { failure: Some(failure), ..result },
    };
    let joined = data.conversation.as_ref();
    let own = joined.map(|conversation| conversation.join(&mut prompt, variables)).unwrap_or_default();
    note_asking(node, &data.model, &prompt);
    if let Some(context) = prompt.context.as_ref().filter(|context| !context.resources.is_empty()) {
        (means.tell)(StepEvent::RetrieverResource, told(context));
    }
    match ask(data, &prompt, model, means).await {
        Ok(answer) => {
            let said = node
                .gives_context
                .then(|| turns::build_context(&prompt.messages, &answer.said(data), &prompt.secrets));
            let kept = joined.map(|conversation| Box::new(conversation.effects(own, &answer.said(data))));
            let mut result = NodeResult { effects: kept, ..succeeded(result, data, &prompt, answer) };
            result.outputs.extend(said.map(|said| (turns::CONTEXT.to_owned(), said)));
            result
        }
        Err(Unanswered { failure, wasted }) => {
            NodeResult { failure: Some(masked(failure, &prompt)), wasted, ..result }
        }
    }
}

/// Leaves a line in the log.
pub(super) fn note_asking(node: &Node, model: &ModelConfig, prompt: &Prompt) {
    let (model, messages) = (&model.name, prompt.messages.len());
    tracing::debug!(node = %node.id, model, messages, "asking the model");
    if prompt.files_left_out > 0 {
        let files = prompt.files_left_out;
        // Dify leaves them out as silently; here the model's table in the configuration is the likely cause.
        tracing::warn!(node = %node.id, model, files, "files are not sent: the model is not known to see them");
    }
}

/// A provider may repeat the prompt in its complaint.
pub(super) fn masked(failure: NodeFailure, prompt: &Prompt) -> NodeFailure {
    NodeFailure { message: prompt.secrets.masked(&failure.message), ..failure }
}

/// What a reply cost.
pub(crate) fn bill(model: &Model, reply: &ModelReply) -> Usage {
    let first_token = reply.first_token.map(|first| first.as_secs_f64());
    let timing = Timing {
        latency: reply.latency.as_secs_f64(),
        first_token,
        generate: first_token.map(|first| (reply.latency.as_secs_f64() - first).max(0.0)),
    };
    let usage = usage::bill(reply.tokens, model.pricing.as_ref(), timing);
    if reply.estimated { usage::estimated(usage) } else { usage }
}

/// What was paid for a call that failed: for what had come of a reply that broke off.
pub(crate) fn lost(model: &Model, error: &ModelError) -> Option<Usage> {
    let usage = || usage::bill(error.lost, model.pricing.as_ref(), Timing::default());
    (error.lost != Tokens::default()).then(|| usage::estimated(usage()))
}

/// What was paid in vain, as the record has it.
pub(super) fn in_vain(config: &ModelConfig, model: &Model, usage: Option<Usage>) -> Option<Box<Wasted>> {
    let (provider, name) = match model.of_profile() {
        Some(OfProfile { provider, model, .. }) => (provider, model),
        None => (&config.provider, &config.name),
    };
    Some(Box::new(Wasted { provider: provider.clone(), model: name.clone(), usage: usage? }))
}

/// The bill of a call that did not come to a reply.
pub(crate) fn no_bill() -> Usage {
    usage::bill(Tokens::default(), None, Timing::default())
}

/// A usage object as an output.
pub(super) fn usage_segment(usage: &Usage) -> Segment {
    Segment::new(SegmentType::Object, Json::Object(usage.record.clone()))
}

/// A reply, and the object in it where one was wanted.
struct Answer {
    reply: ModelReply,
    /// File objects.
    files: Vec<Json>,
    usage: Usage,
    structured: Option<JsonMap>,
    /// The profile that stood in place of a provider.
    profile: Option<OfProfile>,
}

impl Answer {
    /// What the model says, without what it thinks where the node wants that apart.
    fn said(&self, data: &LlmData) -> std::borrow::Cow<'_, str> {
        match data.reasoning {
            ReasoningFormat::Tagged => (&*self.reply.text).into(),
            ReasoningFormat::Separated => reasoning::split(&self.reply.text).text.into(),
        }
    }
}

/// Why there is no answer, and what was paid for none.
struct Unanswered {
    failure: NodeFailure,
    wasted: Option<Box<Wasted>>,
}

impl From<NodeFailure> for Unanswered {
    fn from(failure: NodeFailure) -> Self {
        Self { failure, wasted: None }
    }
}

async fn ask(
    data: &LlmData,
    prompt: &Prompt,
    model: Result<Model, ModelError>,
    means: Means<'_>,
) -> Result<Answer, Unanswered> {
    let Means { on_delta, on_thought, pace, keeping, .. } = means;
    let model = model.map_err(NodeFailure::from)?;
    let schema = data.structured_output.as_ref().map(Schema::read).transpose()?;
    let mut question = Question::from(prompt);
    if let Some(schema) = &schema {
        schema.ask_for(&data.model, &model.facts(), &mut question.messages, &mut question.params);
    }
    let in_vain = |usage: Option<Usage>| in_vain(&data.model, &model, usage);
    let broken =
        |error: ModelError| Unanswered { wasted: in_vain(lost(&model, &error)), failure: error.into() };
    let of_no_use = |reply: &ModelReply| {
        let wasted = in_vain(Some(bill(&model, reply)));
        move |failure| Unanswered { failure, wasted }
    };
    let (mut reply, object, placed);
    match data.reasoning {
        ReasoningFormat::Tagged => {
            reply = model.within(pace, CALL).ask(question, on_delta).await.map_err(broken)?;
            let read = schema.map(|schema| schema.output(&reply.text)).transpose();
            object = read.map_err(of_no_use(&reply))?;
            let wasted = of_no_use(&reply);
            placed = keep_files(&mut reply, keeping).await.map_err(wasted)?;
            hand_on(placed.rest(), on_delta);
        }
        ReasoningFormat::Separated => {
            let mut filter = Filter::default();
            let mut sort = |piece: Piece<'_>| match piece {
                Piece::Said(text) => on_delta(text),
                Piece::Thought { text, last } => on_thought(text, last),
            };
            let mut push = |delta: &str| filter.push(delta, &mut sort);
            reply = model.within(pace, CALL).ask(question, &mut push).await.map_err(broken)?;
            let read = schema.map(|schema| schema.output(&reply.text)).transpose();
            object = read.map_err(of_no_use(&reply))?;
            let wasted = of_no_use(&reply);
            placed = keep_files(&mut reply, keeping).await.map_err(wasted)?;
            hand_on(placed.rest(), &mut push);
            filter.finish(&mut sort);
        }
    }
    let usage = bill(&model, &reply);
    let Placed { text, files, .. } = placed;
    let profile = model.of_profile().cloned();
    Ok(Answer { usage, reply: ModelReply { text, ..reply }, files, structured: object, profile })
}

fn hand_on(text: &str, on_delta: DeltaSink<'_>) {
    if !text.is_empty() {
        on_delta(text);
    }
}

fn succeeded(result: NodeResult, data: &LlmData, prompt: &Prompt, answer: Answer) -> NodeResult {
    let Answer { reply, usage, files, structured, profile } = answer;
    let finish_reason = reply.finish_reason.map_or(Json::Null, Json::String);
    let mut process_data = JsonMap::new();
    for (key, value) in [
        ("model_mode", json!(data.model.mode.name())),
        ("prompts", prompt.record(data.model.mode)),
        ("usage", Json::Object(usage.record.clone())),
        ("finish_reason", finish_reason.clone()),
        ("model_provider", json!(data.model.provider)),
        ("model_name", json!(data.model.name)),
    ] {
        process_data.insert(key.into(), value);
    }
    if let Some(OfProfile { id, version, provider, model }) = profile {
        let shown = json!({
            "model_provider": provider, "model_name": model, "profile_id": id, "profile_version": version,
        });
        process_data.extend(shown.as_object().cloned().unwrap_or_default());
    }
    let (text, thoughts) = match data.reasoning {
        // The reasoning stays within the text, but the output is always there.
        ReasoningFormat::Tagged => (reply.text, String::new()),
        ReasoningFormat::Separated => {
            let split = reasoning::split(&reply.text);
            (split.text, split.thoughts)
        }
    };
    let mut outputs = vec![
        ("text".into(), Segment::string(text)),
        ("reasoning_content".into(), Segment::string(thoughts)),
        ("usage".into(), usage_segment(&usage)),
        ("finish_reason".into(), Segment::infer(finish_reason)),
    ];
    if let Some(object) = structured {
        outputs.push(("structured_output".into(), Segment::new(SegmentType::Object, Json::Object(object))));
    }
    if !files.is_empty() {
        outputs.push(("files".into(), Segment::new(SegmentType::ArrayFile, Json::Array(files))));
    }
    NodeResult { process_data, outputs, metadata: usage::metadata(&usage), usage: Some(usage), ..result }
}

/// A context as it is told: its passages and its text, or only where they come from when they are large.
fn told(context: &Context) -> JsonMap {
    let mut data = JsonMap::new();
    let passages = Json::from(context.resources.iter().cloned().map(Json::Object).collect::<Vec<_>>());
    if passages.to_string().len() + context.text.len() <= RESOURCES_BYTES_MAX {
        data.insert("retriever_resources".into(), passages);
        data.insert("context".into(), json!(context.text));
        return data;
    }
    let mut origins = context.resources.clone();
    origins.iter_mut().for_each(|passage| {
        passage.insert("content".into(), Json::Null);
    });
    data.insert("retriever_resources".into(), json!(origins));
    data.insert("context".into(), Json::Null);
    data
}
