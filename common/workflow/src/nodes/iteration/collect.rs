//! Builds the output of the iteration from the outcomes of its items.
//!
//! Outcomes are stored as pages: the variables `#0`, `#1`, …, each with a list of entries. A large outcome has its own
//! variable, `=<index>`. So the outcomes of a long list are stored as they come, and joined once, at the end.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::{BLOB_PREFIX, ErrorMode, IterationData, PAGE_PREFIX, item, merge};
use crate::nodes::NodeResult;
use tidemill_base::failure::{EngineErrorType, NodeFailure};
use tidemill_base::value::{Lookup, Segment, SegmentType, Variables};

/// The outcome of an item.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The item's output; null when it was missing.
    Done(Segment),
    /// A node of the item failed, and the failure was not handled.
    Failed,
}

impl Outcome {
    /// The outcome as an entry of a page: `{"v": value}`, with `"f": true` when the value is a file or a list of files,
    /// or `{"failed": true}`. A secret is masked, since the page and the resulting list are stored.
    pub fn entry(&self) -> Json {
        match self {
            Self::Failed => json!({"failed": true}),
            Self::Done(segment) => match segment.ty {
                SegmentType::File | SegmentType::ArrayFile => json!({"v": segment.value, "f": true}),
                SegmentType::Secret => json!({"v": segment.log()}),
                SegmentType::None
                | SegmentType::String
                | SegmentType::Integer
                | SegmentType::Float
                | SegmentType::Boolean
                | SegmentType::Object
                | SegmentType::ArrayAny
                | SegmentType::ArrayString
                | SegmentType::ArrayNumber
                | SegmentType::ArrayObject
                | SegmentType::ArrayBoolean => json!({"v": segment.value}),
            },
        }
    }

    /// Reads an entry of a page. `None` for an invalid entry.
    pub fn of_entry(entry: Json) -> Option<Self> {
        let Json::Object(mut entry) = entry else { return None };
        if entry.get("failed") == Some(&Json::Bool(true)) {
            return Some(Self::Failed);
        }
        let of_files = entry.get("f") == Some(&Json::Bool(true));
        let value = entry.remove("v")?;
        Some(Self::Done(match (of_files, value.is_array()) {
            (false, _) => Segment::infer(value),
            (true, false) => Segment::new(SegmentType::File, value),
            (true, true) => Segment::new(SegmentType::ArrayFile, value),
        }))
    }
}

impl IterationData {
    /// The output list from the outcomes of the items that ran, in item order. With `terminated` the list has the items
    /// that succeeded.
    pub fn collect(&self, outcomes: Vec<Outcome>) -> Segment {
        let mut results = Vec::with_capacity(outcomes.len());
        for outcome in outcomes {
            match (outcome, self.errors) {
                (Outcome::Done(segment), _) => results.push(segment),
                (Outcome::Failed, ErrorMode::ContinueOnError) => results.push(Segment::none()),
                (Outcome::Failed, ErrorMode::Terminated | ErrorMode::RemoveAbnormal) => {}
            }
        }
        list_of(if self.flatten { flattened(results) } else { results })
    }

    /// Collects the pages stored under the node's id.
    pub(in crate::nodes) fn collect_pages(&self, node: &str, variables: &dyn Variables) -> NodeResult {
        let collected = pages(node, variables).and_then(|outcomes| {
            let mut outputs = vec![("output".to_owned(), self.collect(outcomes))];
            outputs.extend(merge::merged(node, variables)?);
            Ok(outputs)
        });
        match collected {
            Ok(outputs) => NodeResult::outputs(outputs),
            Err(message) => NodeResult::failed(NodeFailure::new(EngineErrorType::Engine.name(), message)),
        }
    }
}

fn pages(node: &str, variables: &dyn Variables) -> Result<Vec<Outcome>, String> {
    let mut outcomes = Vec::new();
    let apart = apart_names(node, variables);
    for number in 0.. {
        if let Some(name) = apart.get(&number) {
            outcomes.push(Outcome::Done(outcome_apart(node, name, variables)?));
            continue;
        }
        let name = format!("{PAGE_PREFIX}{number}");
        let page = match variables.variable(node, &name) {
            Lookup::Missing => break,
            Lookup::Found(page) => page.into_owned(),
            // Treating it as the end would lose results silently.
            Lookup::Blob(_) => return Err(format!("page {name} of iteration {node:?} is not loaded")),
        };
        let Json::Array(entries) = page.value else {
            return Err(format!("page {name} of iteration {node:?} is not a list"));
        };
        for entry in entries {
            let outcome = Outcome::of_entry(entry);
            outcomes.push(outcome.ok_or_else(|| format!("page {name} of iteration {node:?} is damaged"))?);
        }
    }
    Ok(outcomes)
}

/// The names of outcomes stored on their own, by number.
fn apart_names(node: &str, variables: &dyn Variables) -> HashMap<usize, String> {
    let names = variables.names().into_iter().filter(|(of, _)| of == node);
    let number = |name: String| {
        let digits = name.strip_prefix(BLOB_PREFIX)?.split('\n').next()?;
        Some((digits.parse().ok()?, name))
    };
    names.filter_map(|(_, name)| number(name)).collect()
}

/// An outcome stored on its own: the value, or the part of it at the path in its name; null when there is no such part.
fn outcome_apart(node: &str, name: &str, variables: &dyn Variables) -> Result<Segment, String> {
    let way = name.split('\n').skip(1).map(str::to_owned);
    match variables.variable(node, name) {
        Lookup::Found(whole) => {
            let way: Vec<String> = way.collect();
            // The resulting list is stored, so a secret in it is masked.
            if whole.ty == SegmentType::Secret {
                return Ok(Segment::string(whole.log()));
            }
            if way.is_empty() {
                return Ok(whole.into_owned());
            }
            Ok(tidemill_base::value::selector::descend(&whole, &way).unwrap_or_else(Segment::none))
        }
        Lookup::Missing | Lookup::Blob(_) => {
            Err(format!("outcome {name:?} of iteration {node:?} is not loaded"))
        }
    }
}

/// Joins lists to one list and drops nulls, when all values except nulls are lists.
fn flattened(results: Vec<Segment>) -> Vec<Segment> {
    let mut known = results.iter().filter(|result| !result.value.is_null()).peekable();
    if known.peek().is_none() || !known.all(|result| result.value.is_array()) {
        return results;
    }
    let mut flat = Vec::new();
    for result in results {
        if let Json::Array(items) = result.value {
            flat.extend(items.into_iter().map(|value| item(result.ty, value)));
        }
    }
    flat
}

fn list_of(items: Vec<Segment>) -> Segment {
    let files = !items.is_empty() && items.iter().all(|item| item.ty == SegmentType::File);
    let list = Json::Array(items.into_iter().map(|item| item.value).collect());
    if files { Segment::new(SegmentType::ArrayFile, list) } else { Segment::infer(list) }
}
