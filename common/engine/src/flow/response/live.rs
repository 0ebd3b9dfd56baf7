//! Texts of child nodes while they are made. They are sent when they come, also when no answer shows them, and in the
//! frames of iterations and loops. An answer that shows such a text has it in its own order, so its readers must be able
//! to leave these chunks out ([`ShownIn::Node`]).
//!
//! When the cursor of the answers is at the text as it begins, its chunks are chunks of the answer at once, and nothing
//! is sent twice.

use crate::fact::{JobDone, JobRef};
use crate::flow::response::streams::{Source, fresh_part, renewed, rest_of};
use crate::order::events::{ChunkText, EventKind, ShownIn};
use crate::state::response::Stream;
use crate::step::Step;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::FramePath;
use tidemill_base::value::Selector;
use tidemill_workflow::graph::{NodeIx, TemplatePart, stream_key, stream_prefix};

/// Sends a chunk of a child's text. Repeated chunks, chunks of older holders, and chunks after a gap are ignored.
pub(crate) fn chunk(
    cx: &mut Step<'_>,
    (job, began): (&JobRef, Timestamp),
    selector: &Selector,
    offset: u64,
    text: &str,
) {
    let key = key_of(&job.frame, selector);
    let source = Source { job, began, has_ended: false };
    if !begins(cx, &source, selector, &key) {
        return;
    }
    let Some(stream) = cx.run.response.streams.get_mut(&key) else { return };
    if (stream.attempt, stream.delivery) != (job.attempt, job.delivery) || source.is_other(stream) {
        return;
    }
    let Some(fresh) = fresh_part(stream, offset, text).filter(|fresh| !fresh.is_empty()) else { return };
    stream.length += fresh.len() as u64;
    let fresh = ChunkText::Inline(fresh.to_owned());
    cx.out.streams.insert(key);
    emit(cx, (&job.frame, job.node), selector.clone(), fresh, false);
}

/// Completes the texts of a child that has succeeded: what did not come as chunks is taken from its outputs.
pub(crate) fn finish(cx: &mut Step<'_>, done: &JobDone) {
    for (selector, total) in &done.streamed {
        let key = key_of(&done.job.frame, selector);
        let source = Source { job: &done.job, began: done.started_at, has_ended: true };
        if *total == 0 || !begins(cx, &source, selector, &key) {
            continue;
        }
        let Some(stream) = cx.run.response.streams.get_mut(&key) else { continue };
        let from = std::mem::replace(&mut stream.length, *total);
        if from < *total
            && let Some(rest) = rest_of(&done.record, selector, from)
        {
            emit(cx, (&done.job.frame, done.job.node), selector.clone(), rest, false);
        }
    }
}

/// Ends the texts of a child: each gets its empty last chunk, and its state is forgotten.
pub(crate) fn close(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    if cx.run.response.streams.is_empty() {
        return;
    }
    let id = cx.run.graph.node(node).id.as_str().to_owned();
    let (prefix, suffix) = (stream_prefix(&id), suffix_of(frame));
    let is_of_child = |key: &&String| key.starts_with(&prefix) && key.ends_with(&suffix);
    let keys: Vec<String> = cx.run.response.streams.keys().filter(is_of_child).cloned().collect();
    for key in keys {
        cx.run.response.streams.remove(&key);
        let name = key[prefix.len()..key.len() - suffix.len()].replace("%2E", ".").replace("%25", "%");
        cx.out.streams.insert(key);
        emit(cx, (frame, node), vec![id.clone(), name], ChunkText::Inline(String::new()), true);
    }
}

/// Returns true when the text is sent here. Begins it, or begins it again for a newer holder, whose predecessor's text
/// is withdrawn.
fn begins(cx: &mut Step<'_>, source: &Source<'_>, selector: &Selector, key: &str) -> bool {
    let job = source.job;
    let known = cx.run.response.streams.get(key);
    if known.is_none() && is_shown(cx, job, selector) {
        return false;
    }
    let Some(has_text) = renewed(known, source) else { return true };
    let (attempt, delivery, began) = (job.attempt, job.delivery, source.began);
    let stream = Stream { attempt, delivery, began, told: true, ..Stream::default() };
    cx.run.response.streams.insert(key.to_owned(), stream);
    cx.out.streams.insert(key.to_owned());
    if has_text {
        let about = cx.about(&job.frame, job.node);
        let (selector, text) = (selector.clone(), String::new());
        cx.emit(EventKind::NodeRunStreamReplaced { about, selector, text, shown: ShownIn::Node });
    }
    true
}

/// True when the chunks of a text are chunks of an answer at once.
fn is_shown(cx: &Step<'_>, job: &JobRef, selector: &Selector) -> bool {
    if !job.frame.is_root() {
        return false;
    }
    let response = &cx.run.response;
    let is_at_cursor = || {
        let active = *response.reached.get(response.done)?;
        match cx.run.graph.responses[active].template.get(response.at)? {
            TemplatePart::Variable(shown) => Some(shown == selector),
            TemplatePart::Text(_) => None,
        }
    };
    response.streams.get(&stream_key(selector)).is_some_and(|stream| stream.told)
        || is_at_cursor().unwrap_or(false)
}

fn emit(
    cx: &mut Step<'_>,
    (frame, node): (&FramePath, NodeIx),
    selector: Selector,
    chunk: ChunkText,
    last: bool,
) {
    let about = cx.about(frame, node);
    cx.emit(EventKind::NodeRunStreamChunk { about, selector, chunk, last, shown: ShownIn::Node });
}

/// The key of a live text. No text of an answer can have it, because `%` is escaped in their keys.
fn key_of(frame: &FramePath, selector: &Selector) -> String {
    format!("{}{}", stream_key(selector), suffix_of(frame))
}

fn suffix_of(frame: &FramePath) -> String {
    format!("%live%{}", frame.as_str())
}
