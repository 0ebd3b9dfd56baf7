//! Streamed texts: which attempt and delivery produces each, how many bytes came, and which chunks are held.

use crate::fact::{JobChunk, JobDone, JobRef};
use crate::flow::response::flush;
use crate::order::changes::Held;
use crate::order::events::{About, ChunkText, EventKind, ShownIn};
use crate::state::record::Record;
use crate::state::response::Stream;
use crate::step::Step;
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Selector, Stored};
use tidemill_workflow::graph::{NodeIx, stream_key, stream_prefix};

/// The name of a model's reasoning in events.
const THOUGHTS: &str = "reasoning_content";

/// Adds a chunk to the held ones; [`flush`] emits it when its turn has come. Chunks of older holders, repeated chunks
/// and chunks after a gap are ignored; the missing text comes with the job's result.
pub(crate) fn take_chunk(cx: &mut Step<'_>, it: JobChunk) {
    let key = stream_key(&it.selector);
    if !cx.run.graph.streamed.contains(&key) {
        return;
    }
    let source = Source { job: &it.job, began: it.started_at, has_ended: false };
    renew(cx, &source, &it.selector);
    let Some(stream) = cx.run.response.streams.get_mut(&key) else { return };
    if source.is_other(stream) {
        return;
    }
    let Some(fresh) = fresh_part(stream, it.offset, &it.text) else { return };
    if fresh.is_empty() {
        return;
    }
    let fresh = fresh.to_string();
    stream.length += fresh.len() as u64;
    keep(cx, &it.job, &key, fresh);
}

/// Who produces a text.
pub(super) struct Source<'a> {
    pub(super) job: &'a JobRef,
    /// When it began.
    pub(super) began: Timestamp,
    /// It has ended, and the store has accepted its result: it is the holder.
    pub(super) has_ended: bool,
}

impl Source<'_> {
    /// True when the text is from another worker whose delivery has the same number: a fail-over lost one of the two. Or from
    /// the same worker, which began again.
    pub(super) fn is_other(&self, stream: &Stream) -> bool {
        let is_same = (stream.attempt, stream.delivery) == (self.job.attempt, self.job.delivery);
        is_same && stream.began != self.began && stream.began != Timestamp::default()
    }

    fn replaces(&self, stream: &Stream) -> bool {
        let is_newer = (stream.attempt, stream.delivery) < (self.job.attempt, self.job.delivery);
        // Clocks differ, so this may take the earlier one for the newer; but it never changes back, and the end decides.
        is_newer || (self.is_other(stream) && (self.has_ended || stream.began < self.began))
    }
}

fn keep(cx: &mut Step<'_>, job: &JobRef, key: &str, text: String) {
    cx.out.streams.insert(key.to_string());
    let Some(stream) = cx.run.response.streams.get_mut(key) else { return };
    if text.is_empty() {
        return;
    }
    stream.held.push(text.clone());
    let (attempt, delivery, began) = (job.attempt, job.delivery, stream.began);
    cx.out.held.push(Held { stream: key.to_string(), attempt, delivery, began, text });
}

/// Returns the part of a chunk that has not arrived yet; `None` when the chunk is after a gap.
pub(super) fn fresh_part<'a>(stream: &Stream, offset: u64, text: &'a str) -> Option<&'a str> {
    let known = usize::try_from(stream.length.checked_sub(offset)?).ok()?;
    if known >= text.len() { Some("") } else { text.get(known..) }
}

/// Starts the text again if a newer holder produces it: sent text is withdrawn, and held chunks are dropped.
fn renew(cx: &mut Step<'_>, source: &Source<'_>, selector: &Selector) {
    let (key, job) = (stream_key(selector), source.job);
    let (attempt, delivery, began) = (job.attempt, job.delivery, source.began);
    let Some(withdraw) = renewed(cx.run.response.streams.get(&key), source) else { return };
    withdraw_thoughts(cx, job);
    let fresh = Stream { attempt, delivery, began, told: withdraw, ..Stream::default() };
    cx.run.response.streams.insert(key.clone(), fresh);
    cx.out.held.retain(|h| h.stream != key);
    cx.out.streams.insert(key);
    if withdraw {
        let about = cx.about(&job.frame, job.node);
        let selector = selector.clone();
        emit_withdrawn(cx, about, selector);
    }
}

/// Returns whether sent text must be withdrawn, because a newer holder produces it again; `None` when this is no newer
/// holder.
pub(super) fn renewed(old: Option<&Stream>, source: &Source<'_>) -> Option<bool> {
    old.is_none_or(|stream| source.replaces(stream)).then(|| old.is_some_and(|stream| stream.told))
}

fn emit_withdrawn(cx: &mut Step<'_>, about: About, selector: Selector) {
    let text = String::new();
    cx.emit(EventKind::NodeRunStreamReplaced { about, selector, text, shown: ShownIn::Answer });
}

/// Notes that a job emits reasoning. Reasoning is never held back, so only its newest holder is stored. The reasoning
/// of an older holder is withdrawn.
pub(crate) fn thinks(cx: &mut Step<'_>, job: &JobRef) {
    withdraw_thoughts(cx, job);
    let key = thoughts_key(cx, job.node);
    if !cx.run.response.streams.contains_key(&key) {
        let (attempt, delivery) = (job.attempt, job.delivery);
        let stream = Stream { attempt, delivery, told: true, ..Stream::default() };
        cx.run.response.streams.insert(key.clone(), stream);
        cx.out.streams.insert(key);
    }
}

fn withdraw_thoughts(cx: &mut Step<'_>, job: &JobRef) {
    let key = thoughts_key(cx, job.node);
    let is_older = |s: &Stream| (s.attempt, s.delivery) < (job.attempt, job.delivery);
    if !cx.run.response.streams.get(&key).is_some_and(is_older) {
        return;
    }
    cx.run.response.streams.remove(&key);
    cx.out.streams.insert(key);
    let about = cx.about(&job.frame, job.node);
    let selector = vec![cx.run.graph.node(job.node).id.as_str().to_owned(), THOUGHTS.to_owned()];
    emit_withdrawn(cx, about, selector);
}

/// The key of a node's reasoning. No output can have it, because `%` is escaped in keys of outputs. `reasoning_content`
/// itself may be a streamed text.
fn thoughts_key(cx: &Step<'_>, node: NodeIx) -> String {
    format!("{}%thoughts", stream_prefix(cx.run.graph.node(node).id.as_str()))
}

/// Completes the texts of a job that has succeeded. Missing text is taken from the outputs.
pub(crate) fn finish(cx: &mut Step<'_>, it: &JobDone) {
    if !it.job.frame.is_root() || it.streamed.is_empty() {
        return;
    }
    let source = Source { job: &it.job, began: it.started_at, has_ended: true };
    for (selector, total) in &it.streamed {
        let key = stream_key(selector);
        if !cx.run.graph.streamed.contains(&key) {
            continue;
        }
        renew(cx, &source, selector);
        let Some(stream) = cx.run.response.streams.get(&key) else { continue };
        if !stream.closed && stream.length < *total {
            let from = stream.length;
            let missing = selector.get(1).and_then(|name| {
                it.record.outputs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            });
            complete(cx, &it.job, selector, missing, from, *total);
        }
        close_stream(cx, &key);
    }
    flush(cx);
}

fn complete(
    cx: &mut Step<'_>,
    job: &JobRef,
    selector: &Selector,
    value: Option<Stored>,
    from: u64,
    total: u64,
) {
    let key = stream_key(selector);
    match value {
        Some(Stored::Inline(segment)) => {
            let text = segment.text();
            let tail = usize::try_from(from).ok().and_then(|from| text.get(from..)).unwrap_or("").to_string();
            if let Some(stream) = cx.run.response.streams.get_mut(&key) {
                stream.length = total;
            }
            keep(cx, job, &key, tail);
        }
        Some(Stored::Blob(blob)) => {
            // The missing text is in a blob. If the cursor has reached the text, it is emitted now, and the empty last
            // chunk follows. Otherwise the stream is removed, and the whole value is emitted as one chunk later.
            let told = cx.run.response.streams.get(&key).is_some_and(|s| s.told);
            if told {
                let about = cx.about(&job.frame, job.node);
                let chunk = ChunkText::Blob(blob, from);
                let selector = selector.clone();
                let (last, shown) = (false, ShownIn::Answer);
                cx.emit(EventKind::NodeRunStreamChunk { about, selector, chunk, last, shown });
            } else {
                cx.run.response.streams.remove(&key);
                cx.out.streams.insert(key);
            }
        }
        Some(Stored::Item { .. } | Stored::Secret(_)) | None => {}
    }
}

/// Returns the part of an output that no chunk has brought yet.
pub(super) fn rest_of(record: &Record, selector: &Selector, from: u64) -> Option<ChunkText> {
    let name = selector.get(1)?;
    match record.outputs.iter().find(|(known, _)| known == name)? {
        (_, Stored::Inline(segment)) => {
            let rest = segment.text().get(usize::try_from(from).ok()?..)?.to_owned();
            Some(ChunkText::Inline(rest))
        }
        (_, Stored::Blob(blob)) => Some(ChunkText::Blob(blob.clone(), from)),
        (_, Stored::Item { .. } | Stored::Secret(_)) => None,
    }
}

fn close_stream(cx: &mut Step<'_>, key: &str) {
    if let Some(stream) = cx.run.response.streams.get_mut(key)
        && !stream.closed
    {
        stream.closed = true;
        cx.out.streams.insert(key.to_string());
    }
}

/// Closes all texts of a node that has ended.
pub(crate) fn close_of_node(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    if !frame.is_root() || cx.run.response.streams.is_empty() {
        return;
    }
    let prefix = stream_prefix(cx.run.graph.node(node).id.as_str());
    let keys: Vec<String> =
        cx.run.response.streams.keys().filter(|k| k.starts_with(&prefix)).cloned().collect();
    for key in keys {
        close_stream(cx, &key);
    }
}

/// Emits the held chunks of the text that the cursor is at. Returns `None` when no chunk ever came, otherwise whether
/// the text is complete.
pub(super) fn emit_held(cx: &mut Step<'_>, node: NodeIx, selector: &Selector) -> Option<bool> {
    if cx.run.response.streams.is_empty() {
        return None;
    }
    let key = stream_key(selector);
    cx.run.response.streams.get(&key)?;
    let about = &cx.about(&FramePath::root(), node);
    let stream = cx.run.response.streams.get_mut(&key)?;
    let held = std::mem::take(&mut stream.held);
    let closed = stream.closed;
    let first = !std::mem::replace(&mut stream.told, true);
    if first || !held.is_empty() {
        cx.out.streams.insert(key.clone());
    }
    // Chunks that arrived in this step need not be stored any more.
    cx.out.held.retain(|h| h.stream != key);
    for text in held {
        let (about, selector) = (about.clone(), selector.clone());
        cx.emit(EventKind::NodeRunStreamChunk {
            about,
            selector,
            chunk: ChunkText::Inline(text),
            last: false,
            shown: ShownIn::Answer,
        });
    }
    emit_end(cx, about, selector, &key);
    if first && cx.run.response.streams.values().all(|s| s.held.is_empty()) {
        cx.out.held_cleared = true;
    }
    Some(closed)
}

/// Emits the empty last chunk that ends a streamed text, once, as on Dify.
fn emit_end(cx: &mut Step<'_>, about: &About, selector: &Selector, key: &str) {
    let Some(stream) = cx.run.response.streams.get_mut(key) else { return };
    if !stream.closed || std::mem::replace(&mut stream.ended, true) {
        return;
    }
    cx.out.streams.insert(key.to_string());
    let (about, selector) = (about.clone(), selector.clone());
    let chunk = ChunkText::Inline(String::new());
    cx.emit(EventKind::NodeRunStreamChunk { about, selector, chunk, last: true, shown: ShownIn::Answer });
}
