//! The `llm` node: prompt, call, record. `tidemill-common` builds the prompt.
//!
//! The node streams the model's text and, if the node wants it separately, its reasoning.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::graph::Node;
use tidemill_common::machine::state::step_event::StepEvent;
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
use tidemill_common::warning::{self, Warning};

use super::model_files::{FileStore, LinkedText, store_files};
use crate::attempt::executor::ThoughtSink;
use crate::outside::providers::profile::{ModelKind, OfProfile};
use crate::outside::providers::{DeltaSink, Model, ModelError, ModelReply, Providers, Question, Waiter};

/// Larger contexts are reported only by their sources, in bytes; the text is in the node's inputs.
const RESOURCES_BYTES_MAX: usize = 256 * 1024;

/// The name of the node's only call.
const CALL: &str = "llm";

/// The node's access to the worker, besides its variables.
pub struct Means<'a> {
    /// Handling of undefined names in Jinja.
    pub undefined: UndefinedNames,
    pub providers: &'a Providers,
    /// Waits for a permit for the model.
    pub waiter: &'a dyn Waiter,
    /// Stores files the model makes.
    pub file_store: FileStore<'a>,
    /// Receives the model's text in non-empty pieces. The caller sends the empty chunk that ends the stream.
    pub on_delta: DeltaSink<'a>,
    /// Receives the reasoning, if the node wants it separately.
    pub on_thought: ThoughtSink<'a>,
    /// Warns the author of the workflow.
    pub warn: &'a (dyn Fn(Warning) + Send + Sync),
    /// Sends an event of the node while it runs.
    pub emit: &'a (dyn Fn(StepEvent, JsonMap) + Send + Sync),
}

/// Runs the node. A failure is part of the result, with the inputs known so far. All variables the node mentions must
/// be loaded. Dropping the future stops the call.
pub async fn run(
    data: &LlmData,
    node: &Node,
    variables: &(dyn Variables + Send + Sync),
    means: Means<'_>,
) -> NodeResult {
    let mut result = NodeResult::default();
    let model = means.providers.resolve_for(&data.model, ModelKind::Llm, means.waiter.run()).await;
    // A missing model is reported after all errors of the prompt, as in Dify.
    let facts = model.as_ref().map(Model::facts).unwrap_or_default();
    let mut prompt = match prompt::assemble(data, variables, means.undefined, &facts, &mut result.inputs) {
        Ok(prompt) => prompt,
        Err(failure) => return NodeResult { failure: Some(failure), ..result },
    };
    let joined = data.conversation.as_ref();
    let own = joined.map(|conversation| conversation.join(&mut prompt, variables)).unwrap_or_default();
    note_asking(node, &data.model, &prompt, means.warn);
    if let Some(context) = prompt.context.as_ref().filter(|context| !context.resources.is_empty()) {
        (means.emit)(StepEvent::RetrieverResource, context_event(context));
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

/// The failure of a node whose model was not found, which leaves the node as an exception (Dify).
pub(super) fn unresolved(error: ModelError) -> NodeFailure {
    let ModelError { message, retryable, retry_after_ms, lacks, .. } = error;
    NodeFailure { retryable, retry_after_ms, lacks, ..NodeFailure::escaped(message) }
}

/// Logs the call, and warns if files of the prompt are not sent: Dify leaves them out silently.
pub(super) fn note_asking(node: &Node, model: &ModelConfig, prompt: &Prompt, warn: &dyn Fn(Warning)) {
    let (name, messages) = (&model.name, prompt.messages.len());
    tracing::debug!(node = %node.id, model = name, messages, "asking the model");
    if prompt.files_left_out > 0 {
        warn(files_left_out(model, prompt.files_left_out));
    }
}

fn files_left_out(model: &ModelConfig, files: usize) -> Warning {
    let (provider, name) = (model.provider_label(), &model.name);
    let message = match files {
        1 => format!("a file was not sent to {name}: it is not known to read files of this kind"),
        _ => format!("{files} files were not sent to {name}: it is not known to read files of this kind"),
    };
    let hint = format!(
        "choose another model; or, if it reads them, list vision, document, audio or video in features of \
         [providers.{provider}.models.\"{name}\"]"
    );
    Warning::new(warning::FILES_LEFT_OUT, message).about("model", name).hint(hint)
}

/// Masks secrets, because a provider's error may repeat the prompt.
pub(super) fn masked(failure: NodeFailure, prompt: &Prompt) -> NodeFailure {
    NodeFailure { message: prompt.secrets.masked(&failure.message), ..failure }
}

/// The cost of a reply.
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

/// The cost of a failed call, if a part of its reply arrived.
pub(crate) fn lost(model: &Model, error: &ModelError) -> Option<Usage> {
    let usage = || usage::bill(error.lost, model.pricing.as_ref(), Timing::default());
    (error.lost != Tokens::default()).then(|| usage::estimated(usage()))
}

/// A wasted cost, in the form of the record.
pub(super) fn in_vain(config: &ModelConfig, model: &Model, usage: Option<Usage>) -> Option<Box<Wasted>> {
    let (provider, name) = match model.of_profile() {
        Some(OfProfile { provider, model, .. }) => (provider, model),
        None => (&config.provider, &config.name),
    };
    Some(Box::new(Wasted { provider: provider.clone(), model: name.clone(), usage: usage? }))
}

/// The cost of a call without a reply.
pub(crate) fn no_bill() -> Usage {
    usage::bill(Tokens::default(), None, Timing::default())
}

/// A usage object as an output.
pub(super) fn usage_segment(usage: &Usage) -> Segment {
    Segment::new(SegmentType::Object, Json::Object(usage.record.clone()))
}

/// A reply, with its structured object if one was requested.
struct Answer {
    reply: ModelReply,
    files: Vec<Json>,
    usage: Usage,
    structured: Option<JsonMap>,
    /// The profile that replaced the provider, if any.
    profile: Option<OfProfile>,
}

impl Answer {
    /// The text, without reasoning if the node wants that separately.
    fn said(&self, data: &LlmData) -> std::borrow::Cow<'_, str> {
        match data.reasoning {
            ReasoningFormat::Tagged => (&*self.reply.text).into(),
            ReasoningFormat::Separated => reasoning::split(&self.reply.text).text.into(),
        }
    }
}

/// A failure, with the cost of an unusable reply.
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
    let Means { on_delta, on_thought, waiter, file_store, .. } = means;
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
    let (mut reply, object, linked);
    match data.reasoning {
        ReasoningFormat::Tagged => {
            reply = model.for_job(waiter, CALL).ask(question, on_delta).await.map_err(broken)?;
            let read = schema.map(|schema| schema.output(&reply.text)).transpose();
            object = read.map_err(of_no_use(&reply))?;
            let wasted = of_no_use(&reply);
            linked = store_files(&mut reply, file_store).await.map_err(wasted)?;
            hand_on(linked.rest(), on_delta);
        }
        ReasoningFormat::Separated => {
            let mut filter = Filter::default();
            let mut sort = |piece: Piece<'_>| match piece {
                Piece::Said(text) => on_delta(text),
                Piece::Thought { text, last } => on_thought(text, last),
            };
            let mut push = |delta: &str| filter.push(delta, &mut sort);
            reply = model.for_job(waiter, CALL).ask(question, &mut push).await.map_err(broken)?;
            let read = schema.map(|schema| schema.output(&reply.text)).transpose();
            object = read.map_err(of_no_use(&reply))?;
            let wasted = of_no_use(&reply);
            linked = store_files(&mut reply, file_store).await.map_err(wasted)?;
            hand_on(linked.rest(), &mut push);
            filter.finish(&mut sort);
        }
    }
    let usage = bill(&model, &reply);
    let LinkedText { text, files, .. } = linked;
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
        // The reasoning stays in the text, but its output always exists.
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

/// The context for an event: passages and text, or only the sources if they are large.
fn context_event(context: &Context) -> JsonMap {
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
