//! Texts that come in pieces: who produces them, how far they are, and what is held back.

use super::flush;
use crate::Step;
use crate::changes::Held;
use crate::events::{About, ChunkText, EventKind};
use crate::fact::{JobChunk, JobDone, JobRef};
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Selector, Stored};
use tidemill_workflow::graph::{NodeIx, stream_key, stream_prefix};

/// What thoughts are called where they are told and withdrawn.
const THOUGHTS: &str = "reasoning_content";

/// One text.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stream {
    /// The attempt that produces it.
    pub attempt: u32,
    /// The delivery that produces it.
    pub delivery: u32,
    /// Bytes that came.
    pub length: u64,
    /// Whether any of it was told: from then on, chunks are told as they come.
    pub told: bool,
    /// The job that made it has ended well or for good: no more of it will come. Not before, since a worker that dies
    /// after its last piece is followed by one that produces the text anew.
    pub closed: bool,
    /// The end of it was told.
    pub ended: bool,
    /// Pieces that came before their turn.
    pub held: Vec<String>,
}

/// Takes a piece in: told later by [`flush`] if it is its turn, else held. Pieces of older holders, repeated ones and
/// such that leave a gap are passed over; the job's result brings what is missing.
pub(crate) fn take_chunk(cx: &mut Step<'_>, it: JobChunk) {
    let key = stream_key(&it.selector);
    if !cx.run.graph.streamed.contains(&key) {
        return;
    }
    renew(cx, &it.job, &it.selector);
    let Some(stream) = cx.run.response.streams.get_mut(&key) else { return };
    let Some(fresh) = fresh_part(stream, it.offset, &it.text) else { return };
    if fresh.is_empty() {
        return;
    }
    let fresh = fresh.to_string();
    stream.length += fresh.len() as u64;
    keep(cx, &it.job, &key, fresh);
}

fn keep(cx: &mut Step<'_>, job: &JobRef, key: &str, text: String) {
    cx.out.streams.insert(key.to_string());
    let Some(stream) = cx.run.response.streams.get_mut(key) else { return };
    if text.is_empty() {
        return;
    }
    stream.held.push(text.clone());
    cx.out.held.push(Held { stream: key.to_string(), attempt: job.attempt, delivery: job.delivery, text });
}

/// What of a piece has not come yet; nothing when it lies behind a gap.
fn fresh_part<'a>(stream: &Stream, offset: u64, text: &'a str) -> Option<&'a str> {
    let known = usize::try_from(stream.length.checked_sub(offset)?).ok()?;
    if known >= text.len() { Some("") } else { text.get(known..) }
}

/// Another holder produces the text anew: what was told of it is withdrawn, what was held is void.
fn renew(cx: &mut Step<'_>, job: &JobRef, selector: &Selector) {
    let key = stream_key(selector);
    let (attempt, delivery) = (job.attempt, job.delivery);
    let old = cx.run.response.streams.get(&key);
    if old.is_some_and(|s| (s.attempt, s.delivery) >= (attempt, delivery)) {
        return;
    }
    let withdraw = old.is_some_and(|s| s.told);
    withdraw_thoughts(cx, job);
    let fresh = Stream { attempt, delivery, told: withdraw, ..Stream::default() };
    cx.run.response.streams.insert(key.clone(), fresh);
    cx.out.held.retain(|h| h.stream != key);
    cx.out.streams.insert(key);
    if withdraw {
        let about = cx.about(&job.frame, job.node);
        let selector = selector.clone();
        cx.tell(EventKind::NodeRunStreamReplaced { about, selector, text: String::new() });
    }
}

/// What the model of a job thinks is told from now on. It is never held back, so of it is only known who told it last: what
/// another holder told before is withdrawn.
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
    cx.tell(EventKind::NodeRunStreamReplaced { about, selector, text: String::new() });
}

/// No output has such a name: the sign is escaped in theirs. `reasoning_content` itself may be a text that is told.
fn thoughts_key(cx: &Step<'_>, node: NodeIx) -> String {
    format!("{}%thoughts", stream_prefix(cx.run.graph.node(node).id.as_str()))
}

/// The job has ended well: its texts are complete. What is missing comes from the outputs.
pub(crate) fn finish(cx: &mut Step<'_>, it: &JobDone) {
    if !it.job.frame.is_root() || it.streamed.is_empty() {
        return;
    }
    for (selector, total) in &it.streamed {
        let key = stream_key(selector);
        if !cx.run.graph.streamed.contains(&key) {
            continue;
        }
        renew(cx, &it.job, selector);
        let Some(stream) = cx.run.response.streams.get(&key) else { continue };
        if !stream.closed && stream.length < *total {
            let from = stream.length;
            let missing = selector.get(1).and_then(|name| {
                it.record.outputs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
            });
            complete(cx, &it.job, selector, missing, from, *total);
        }
        close(cx, &key);
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
            // The tail lies apart; it is told at once when the stream is being told, and otherwise as one value. The
            // empty piece that ends every text follows it.
            let told = cx.run.response.streams.get(&key).is_some_and(|s| s.told);
            if told {
                let about = cx.about(&job.frame, job.node);
                let chunk = ChunkText::Blob(blob, from);
                let selector = selector.clone();
                cx.tell(EventKind::NodeRunStreamChunk { about, selector, chunk, last: false });
            } else {
                cx.run.response.streams.remove(&key);
                cx.out.streams.insert(key);
            }
        }
        Some(Stored::Item { .. } | Stored::Secret(_)) | None => {}
    }
}

fn close(cx: &mut Step<'_>, key: &str) {
    if let Some(stream) = cx.run.response.streams.get_mut(key)
        && !stream.closed
    {
        stream.closed = true;
        cx.out.streams.insert(key.to_string());
    }
}

/// The node has ended: nothing more will come of any of its texts.
pub(crate) fn close_of_node(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx) {
    if !frame.is_root() || cx.run.response.streams.is_empty() {
        return;
    }
    let prefix = stream_prefix(cx.run.graph.node(node).id.as_str());
    let keys: Vec<String> =
        cx.run.response.streams.keys().filter(|k| k.starts_with(&prefix)).cloned().collect();
    for key in keys {
        close(cx, &key);
    }
}

/// Tells what is held of a text whose turn it is. None when nothing of it ever came; else whether it has ended.
pub(super) fn tell_held(cx: &mut Step<'_>, node: NodeIx, selector: &Selector) -> Option<bool> {
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
    // What came in this very step was never written.
    cx.out.held.retain(|h| h.stream != key);
    for text in held {
        let (about, selector) = (about.clone(), selector.clone());
        cx.tell(EventKind::NodeRunStreamChunk {
            about,
            selector,
            chunk: ChunkText::Inline(text),
            last: false,
        });
    }
    tell_end(cx, about, selector, &key);
    if first && cx.run.response.streams.values().all(|s| s.held.is_empty()) {
        cx.out.held_cleared = true;
    }
    Some(closed)
}

/// The end of a streamed text is an empty last chunk, as on Dify; told once.
fn tell_end(cx: &mut Step<'_>, about: &About, selector: &Selector, key: &str) {
    let Some(stream) = cx.run.response.streams.get_mut(key) else { return };
    if !stream.closed || std::mem::replace(&mut stream.ended, true) {
        return;
    }
    cx.out.streams.insert(key.to_string());
    let (about, selector) = (about.clone(), selector.clone());
    let chunk = ChunkText::Inline(String::new());
    cx.tell(EventKind::NodeRunStreamChunk { about, selector, chunk, last: true });
}
