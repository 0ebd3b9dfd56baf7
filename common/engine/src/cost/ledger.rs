//! The ledger of a run: the cost of each model call, under a key that is unique to the call, so that no call is counted
//! twice. The totals of a run come from its nodes; the ledger lists the single calls.

use serde_json::{Value as Json, json};

use crate::order::changes::ChargeEntry;
use crate::state::cost::Cost;
use crate::state::record::Record;
use crate::step::Step;
use tidemill_base::ids::{FramePath, RunId};
use tidemill_base::value::Stored;
use tidemill_workflow::graph::NodeIx;
use tidemill_workflow::nodes::llm::ModelConfig;
use tidemill_workflow::nodes::{NodeData, NodeKind, Usage, WASTED};

/// The first part of the key of a call by a node that keeps no journal.
const CALL: &str = "call";

/// The spender of a charge.
#[derive(Clone, Copy)]
pub(crate) enum By<'a> {
    /// A model, as (provider, name).
    Model(&'a str, &'a str),
    /// A model whose reply was wasted, as (provider, name).
    Wasted(&'a str, &'a str),
    /// A sub-workflow run, whose own ledger has the single calls.
    Run(RunId),
    /// A tool, whose model calls are not known.
    Others,
}

impl<'a> By<'a> {
    /// Finds the spender of a charge: a run if there is one, else a model if it has a name, else a tool.
    pub(crate) fn of(run: Option<RunId>, provider: &'a str, model: &'a str) -> Self {
        match run {
            Some(run) => Self::Run(run),
            None if provider.is_empty() && model.is_empty() => Self::Others,
            None => Self::Model(provider, model),
        }
    }
}

/// Adds a call to the ledger. `key` is the journal entry and its try, such as `llm:2/1`.
pub(crate) fn note(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, key: &str, usage: &Usage, by: By<'_>) {
    let execution = cx.execution(frame, node);
    let mut entry = json!({
        "at": cx.at.now.micros(),
        "node": cx.run.graph.node(node).id.as_str(),
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "total_price": usage.total_price,
        "currency": usage.currency,
    });
    if usage.record.get("estimated").and_then(Json::as_bool) == Some(true) {
        entry["estimated"] = true.into();
    }
    if let Some(of) = usage.record.get(WASTED).and_then(Json::as_object) {
        // By a sub-workflow run, which has counted it for the API key and the models already.
        let wasted = Usage::from_record(of.clone());
        entry["wasted_tokens"] = wasted.total_tokens.into();
        entry["wasted_price"] = wasted.total_price.as_str().into();
        waste(cx, &wasted);
    }
    if let By::Wasted(..) = by {
        entry["wasted"] = true.into();
    }
    if usage.total_tokens == 0 || matches!(by, By::Wasted(..)) {
        waste(cx, usage);
    }
    match by {
        By::Model(provider, model) | By::Wasted(provider, model) => {
            entry["provider"] = provider.into();
            entry["model"] = model.into();
            cx.out.charges.push(ChargeEntry {
                at: cx.at.now,
                provider: provider.into(),
                model: model.into(),
                prompt_tokens: usage.prompt_tokens,
                completion_tokens: usage.completion_tokens,
                total_tokens: usage.total_tokens,
                price: Cost::of(Some(usage)).price.map(|price| *price),
            });
        }
        By::Run(run) => entry["run"] = json!(run),
        By::Others => {}
    }
    cx.out.ledger.push((format!("{execution}/{key}"), entry.to_string()));
}

/// Adds to the cost of wasted replies. Adding zero notes that the ledger has an entry that is in no total.
fn waste(cx: &mut Step<'_>, usage: &Usage) {
    let so_far = cx.run.control.wasted.take().unwrap_or_default();
    cx.run.control.wasted = Some(Box::new(so_far.plus(&Cost::of(Some(usage)))));
    cx.out.control = true;
}

/// Adds the wasted reply of an attempt, if there was one.
pub(crate) fn note_wasted(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, number: u32, record: &Record) {
    if let Some(wasted) = &record.wasted {
        let by = By::Wasted(&wasted.provider, &wasted.model);
        note(cx, frame, node, &format!("wasted/{number}"), &wasted.usage, by);
    }
}

/// Returns the model in the configuration of a node that asks exactly one.
fn configured(data: &NodeData) -> Option<&ModelConfig> {
    if let NodeData::Llm(data) = data {
        return Some(&data.model);
    }
    if let NodeData::QuestionClassifier(data) = data {
        return Some(&data.model);
    }
    if let NodeData::ParameterExtractor(data) = data { Some(&data.model) } else { None }
}

/// Adds the cost of an attempt, unless its journal entries have charged it.
pub(crate) fn note_attempt(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: &Record) {
    if record.usage.is_none() && record.wasted.is_none() {
        return;
    }
    let Some(state) = cx.run.node(frame, node) else { return };
    let (number, is_charged) = (state.attempt, state.charged.tokens > 0);
    note_wasted(cx, frame, node, number, record);
    let Some(usage) = record.usage.as_ref().filter(|usage| usage.is_any() && !is_charged) else { return };
    note_whole(cx, frame, node, number, record, usage);
}

/// Adds the cost of an attempt, or of a try of a child, as one call.
pub(crate) fn note_whole(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    number: u32,
    record: &Record,
    usage: &Usage,
) {
    let key = format!("{CALL}/{number}");
    let text = |name: &str| {
        let value = record.process_data.iter().find(|(known, _)| known == name).map(|(_, value)| value);
        match value {
            Some(Stored::Inline(segment)) => segment.value.as_str().unwrap_or_default().to_owned(),
            Some(Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_)) | None => String::new(),
        }
    };
    let (mut provider, mut model) = (text("model_provider"), text("model_name"));
    // The record of a failed attempt may not name the model, but the configuration does.
    if let Some(config) = configured(&cx.run.graph.node(node).data).filter(|_| model.is_empty()) {
        provider.clone_from(&config.provider);
        model.clone_from(&config.name);
    }
    // A tool node itself asks no model.
    let is_tool = cx.run.graph.node(node).kind == NodeKind::Tool;
    let by = if is_tool { By::Others } else { By::Model(&provider, &model) };
    note(cx, frame, node, &key, usage, by);
}
