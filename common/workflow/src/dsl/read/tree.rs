//! The tree that both readers build: flat, with the line of every value. An alias is a second reference to
//! the same value, so an alias bomb is cheap here; the expansion into JSON is bounded.

use std::rc::Rc;

use serde_json::Value as Json;

use super::{ParseOptions, TOO_LARGE};
use crate::dsl::Diagnostic;
use tidemill_base::value::JsonMap;

/// The index of a value in [`Tree::spots`].
pub(super) type Ix = u32;

/// One entry of a mapping.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: Rc<str>,
    pub(super) key_line: u32,
    pub(super) value: Ix,
}

/// A value without its children.
#[derive(Debug)]
pub(super) enum Content {
    /// A text, number, boolean or null.
    Scalar(Json),
    Sequence(Vec<Ix>),
    /// A mapping; keys are unique once it is closed.
    Mapping(Vec<Entry>),
}

#[derive(Debug)]
pub(super) struct Spot {
    pub(super) line: u32,
    pub(super) content: Content,
}

/// A parsed text.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(super) spots: Vec<Spot>,
    pub(super) root: Option<Ix>,
}

impl Tree {
    /// Adds a value; fails when there are too many.
    pub(super) fn add(
        &mut self,
        line: u32,
        content: Content,
        limits: &ParseOptions,
    ) -> Result<Ix, Diagnostic> {
        if self.spots.len() >= limits.values_max {
            return Err(too_much(Some(line), "values", limits.values_max, "document_values_max"));
        }
        // In sensible settings values_max is far below 2^32; above it this conversion fails.
        let at = Ix::try_from(self.spots.len())
            .map_err(|_| too_much(Some(line), "values", limits.values_max, "document_values_max"))?;
        self.spots.push(Spot { line, content });
        Ok(at)
    }

    /// Returns the line of a path such as `workflow.graph.nodes[3].data.cases`, or of its longest existing
    /// part.
    pub(crate) fn line_of(&self, path: &str) -> Option<u32> {
        let mut at = self.root?;
        let mut line = self.spots[at as usize].line;
        let mut rest = path;
        while !rest.is_empty() {
            let found = match &self.spots[at as usize].content {
                Content::Scalar(_) => None,
                Content::Sequence(items) => step_into_list(rest, items.len())
                    .map(|(index, rest)| (items[index], self.spots[items[index] as usize].line, rest)),
                Content::Mapping(entries) => step_into_mapping(rest, entries),
            };
            let Some((next, next_line, next_rest)) = found else { break };
            (at, line, rest) = (next, next_line, next_rest);
        }
        Some(line)
    }

    /// Returns the values as JSON, with aliases expanded.
    pub(super) fn to_json(&self, limits: &ParseOptions) -> Result<Json, Diagnostic> {
        let Some(root) = self.root else { return Ok(Json::Null) };
        Expansion { tree: self, limits, values: 0, text_bytes: 0 }.value(root, 0)
    }
}

struct Expansion<'a> {
    tree: &'a Tree,
    limits: &'a ParseOptions,
    values: usize,
    text_bytes: usize,
}

impl Expansion<'_> {
    // The recursion is bounded by depth_max.
    fn value(&mut self, at: Ix, depth: usize) -> Result<Json, Diagnostic> {
        let spot = &self.tree.spots[at as usize];
        let line = Some(spot.line);
        if depth > self.limits.depth_max {
            return Err(too_deep(line, self.limits));
        }
        self.values += 1;
        if self.values > self.limits.values_max {
            return Err(too_much(line, "values", self.limits.values_max, "document_values_max"));
        }
        Ok(match &spot.content {
            Content::Scalar(Json::String(text)) => {
                self.text(text.len(), line)?;
                Json::String(text.clone())
            }
            Content::Scalar(value) => value.clone(),
            Content::Sequence(items) => {
                let items: Result<Vec<_>, _> =
                    items.iter().map(|&item| self.value(item, depth + 1)).collect();
                Json::Array(items?)
            }
            Content::Mapping(entries) => {
                let mut map = JsonMap::with_capacity(entries.len());
                for entry in entries {
                    self.text(entry.key.len(), line)?;
                    let value = self.value(entry.value, depth + 1)?;
                    map.insert(entry.key.to_string(), value);
                }
                Json::Object(map)
            }
        })
    }

    fn text(&mut self, bytes: usize, line: Option<u32>) -> Result<(), Diagnostic> {
        self.text_bytes += bytes;
        if self.text_bytes > self.limits.text_bytes_max {
            let most = self.limits.text_bytes_max;
            return Err(too_much(line, "bytes of text", most, "document_text_bytes_max"));
        }
        Ok(())
    }
}

/// Builds the error for a text that is nested too deeply.
pub(super) fn too_deep(line: Option<u32>, limits: &ParseOptions) -> Diagnostic {
    let message = format!("the file is nested more than {} levels deep", limits.depth_max);
    Diagnostic::at_line(TOO_LARGE, line, message)
}

fn too_much(line: Option<u32>, what: &str, most: usize, setting: &str) -> Diagnostic {
    let message = format!("the file has more than {most} {what} once its aliases are expanded");
    Diagnostic::at_line(TOO_LARGE, line, message).hinted(format!("write fewer aliases, or raise `{setting}`"))
}

fn step_into_list(path: &str, length: usize) -> Option<(usize, &str)> {
    let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
    let index = index.parse::<usize>().ok().filter(|&index| index < length)?;
    Some((index, rest.strip_prefix('.').unwrap_or(rest)))
}

/// Keys may contain dots and brackets, so the longest key that fits is taken.
fn step_into_mapping<'p>(path: &'p str, entries: &[Entry]) -> Option<(Ix, u32, &'p str)> {
    let fits = |entry: &&Entry| {
        let rest = path.strip_prefix(&*entry.key)?;
        let ends = rest.is_empty() || rest.starts_with(['.', '[']);
        ends.then(|| rest.strip_prefix('.').unwrap_or(rest))
    };
    let best = entries.iter().filter(|entry| fits(entry).is_some()).max_by_key(|entry| entry.key.len())?;
    fits(&best).map(|rest| (best.value, best.key_line, rest))
}
