//! Answers inside containers. Their outputs are stored until it is known whether they count, and their text is sent
//! when they end (`nested_answer_stream`). The order of the root frame's answers does not apply to them.

use std::sync::Arc;

use crate::order::events::{ChunkText, EventKind, ShownIn};
use crate::state::options::compat::NestedAnswers;
use crate::state::record::Record;
use crate::state::run::{Responder, RunState};
use crate::step::Step;
use tidemill_base::ids::FramePath;
use tidemill_base::value::{Selector, Stored};
use tidemill_workflow::graph::{NodeIx, TemplatePart, response};
use tidemill_workflow::nodes::NodeKind;

/// Applies the end of a response node below the root frame.
pub(crate) fn ended(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: &Record) {
    show(cx, frame, node, record);
    if !may_count(cx.run, frame) {
        return;
    }
    let key: Arc<str> = format!("{frame}/{}", cx.run.graph.node(node).id).into();
    cx.run.nested.insert(key.clone(), record.outputs.clone());
    cx.out.nested.insert(key.clone());
    if let Some(open) = cx.frame_mut(frame) {
        open.responded.push(Responder::Nested(key));
    }
}

/// True when outputs in this frame may count: of an iteration, only the last item's outputs do.
fn may_count(run: &RunState, frame: &FramePath) -> bool {
    frame.outwards().filter(|path| run.is_item(path)).all(|path| {
        let container = path.last().and_then(|(id, index)| Some((run.graph.find(&id)?, index)));
        let body =
            container.and_then(|(ix, index)| Some((run.node(&path.parent(), ix)?.body.as_ref()?, index)));
        body.is_some_and(|(body, index)| index + 1 == body.count)
    })
}

fn show(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: &Record) {
    let graph = cx.run.graph.clone();
    let spec = graph.node(node);
    if spec.kind != NodeKind::Answer {
        return;
    }
    match cx.run.head.options.nested_answer_stream {
        NestedAnswers::None => {}
        NestedAnswers::Whole => show_whole(cx, frame, node, record),
        NestedAnswers::Segments => {
            let template = response::template_of(spec);
            if template.iter().any(|part| is_item_apart(cx.run, frame, part)) {
                return show_whole(cx, frame, node, record);
            }
            let count = template.len();
            for (at, part) in template.into_iter().enumerate() {
                let (selector, chunk) = match part {
                    TemplatePart::Text(text) => {
                        (vec![spec.id.to_string(), "answer".into()], Some(ChunkText::Inline(text)))
                    }
                    TemplatePart::Variable(selector) => {
                        let chunk = crate::flow::response::value_chunk(cx, frame, &selector, false);
                        (selector, chunk)
                    }
                };
                if let Some(chunk) = chunk {
                    emit_chunk(cx, frame, node, selector, chunk, at + 1 == count);
                }
            }
        }
    }
}

fn show_whole(cx: &mut Step<'_>, frame: &FramePath, node: NodeIx, record: &Record) {
    let Some((_, answer)) = record.outputs.iter().find(|(name, _)| name == "answer") else { return };
    let Some(chunk) = text_of(answer) else { return };
    let selector = vec![cx.run.graph.node(node).id.to_string(), "answer".into()];
    emit_chunk(cx, frame, node, selector, chunk, true);
}

/// True for an item of a list that is a blob: such an item cannot be sent as a separate chunk.
fn is_item_apart(run: &RunState, frame: &FramePath, part: &TemplatePart) -> bool {
    let TemplatePart::Variable(selector) = part else { return false };
    let [of, name, ..] = selector.as_slice() else { return false };
    matches!(run.pool(frame).stored(of, name).as_deref(), Some(Stored::Item { .. }))
}

fn text_of(answer: &Stored) -> Option<ChunkText> {
    match answer {
        Stored::Inline(segment) => Some(ChunkText::Inline(segment.text().into_owned())),
        Stored::Blob(blob) => Some(ChunkText::Blob(blob.clone(), 0)),
        Stored::Item { .. } | Stored::Secret(_) => None,
    }
}

fn emit_chunk(
    cx: &mut Step<'_>,
    frame: &FramePath,
    node: NodeIx,
    selector: Selector,
    chunk: ChunkText,
    last: bool,
) {
    let about = cx.about(frame, node);
    cx.emit(EventKind::NodeRunStreamChunk { about, selector, chunk, last, shown: ShownIn::Answer });
}
