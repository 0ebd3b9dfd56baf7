//! Collects what a run has shown, from its events: text, sources and forms, and the usage of its models.

use serde_json::{Value as Json, json};
use tidemill_common::graph::Graph;
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::store::{Runs, StoreError};
use tidemill_common::value::{JsonMap, SegmentType, Stored};
use tidemill_common::wire::codec::value::stored_from_json;
use tidemill_common::wire::event::{EventRecord, kind};

use crate::runs::pauses::Pause;
use crate::runs::projection::{Moderated, ShownText, Sources, Thoughts, Usage, files};
use crate::runs::render::Renderer;

/// Events read at once.
const PAGE: usize = 512;

/// The text and the sources that a run has shown.
#[derive(Default)]
pub(super) struct ShownOutput {
    shown: ShownText,
    moderated: Moderated,
    sources: Sources,
    thoughts: Thoughts,
    usage: Usage,
    forms: Vec<Json>,
}

impl ShownOutput {
    /// The text that clients see.
    pub(super) fn text(&self) -> String {
        self.moderated.text().map_or_else(|| self.shown.text(), str::to_owned)
    }

    /// The knowledge sources of the text.
    pub(super) fn resources(&self, graph: &Graph) -> Vec<Json> {
        self.sources.shown(graph)
    }

    /// The rounds of an agent, moderated like the answer.
    pub(super) fn thoughts(&self, run: &str) -> Vec<Json> {
        let mut thoughts = self.thoughts.listed(run);
        thoughts.iter_mut().for_each(|thought| self.moderated.clean_thought(thought));
        thoughts
    }

    /// Replaces the answer by this text, which a server's verdict demands.
    pub(super) fn withhold(&mut self, text: Option<String>) {
        self.moderated.withhold(text);
    }

    /// The usage of its model calls.
    pub(super) fn usage(&self) -> Json {
        self.usage.to_json()
    }

    /// The forms that people were asked to fill, each with its `definition` (without a token) and, once it was answered,
    /// its `submission`.
    pub(super) fn forms(&self) -> &[Json] {
        &self.forms
    }

    fn take(&mut self, event: &EventRecord) {
        self.shown.take(event);
        self.moderated.take(event, &self.shown);
        self.sources.take(event);
        self.thoughts.take(event);
        match event.kind.as_str() {
            kind::NODE_RUN_SUCCEEDED | kind::NODE_RUN_EXCEPTION => {
                if let Some(usage) = event.data.get("usage") {
                    self.usage.add(usage);
                }
            }
            kind::NODE_RUN_PAUSE_REQUESTED => {
                if let Some(pause) = event.data.get("pause").and_then(Pause::of_json) {
                    self.forms.push(json!({"definition": pause.dify(String::new())}));
                }
            }
            kind::NODE_RUN_HUMAN_INPUT_FORM_FILLED => self.note_answer(event),
            _ => {}
        }
    }

    /// Notes the answer to the newest open form of a node.
    fn note_answer(&mut self, event: &EventRecord) {
        let part = |key: &str| event.data.get(key).cloned().unwrap_or_default();
        let node = part("node_id");
        let is_open =
            |form: &&mut Json| form["definition"]["node_id"] == node && form.get("submission").is_none();
        let Some(form) = self.forms.iter_mut().rev().find(is_open) else { return };
        form["submission"] = json!({
            "node_id": node,
            "node_title": form["definition"]["node_title"],
            "rendered_content": part("rendered_content"),
            "action_id": part("action_id"),
            "action_text": part("action_text"),
            "submitted_data": part("submitted_data"),
        });
    }
}

/// The files among the outputs of a run. Reads nothing where there is none.
pub(super) async fn answer_files(render: &Renderer, outputs: &JsonMap) -> Result<Vec<Json>, StoreError> {
    let may_hold_files = |value: &Json| match stored_from_json(value.clone()) {
        Ok(Stored::Inline(segment)) => segment.value.is_object() || segment.value.is_array(),
        Ok(Stored::Blob(blob)) => matches!(blob.ty, SegmentType::File | SegmentType::ArrayFile),
        Ok(Stored::Item { .. } | Stored::Secret(_)) | Err(_) => false,
    };
    let files = outputs.iter().filter(|(_, value)| !value.is_string() && may_hold_files(value));
    let mut files: JsonMap = files.map(|(name, value)| (name.clone(), value.clone())).collect();
    render.outputs(&mut files).await?;
    Ok(files::among(&Json::Object(files)))
}

/// Reads all events of a run so far.
pub(super) async fn so_far(
    store: &dyn Runs,
    render: &Renderer,
    run: RunId,
) -> Result<ShownOutput, StoreError> {
    let moderated = Moderated::of(render.features());
    let (mut output, mut after) = (ShownOutput { moderated, ..ShownOutput::default() }, EntryId::ZERO);
    loop {
        let events = store.events(run, after, PAGE).await?;
        let Some(last) = events.last() else { return Ok(output) };
        after = last.entry;
        for mut event in events {
            match event.kind.as_str() {
                // Their texts are kept.
                kind::NODE_RUN_PAUSE_REQUESTED | kind::NODE_RUN_HUMAN_INPUT_FORM_FILLED => {
                    render.event(&mut event).await?;
                }
                _ => render.chunk(&mut event).await?,
            }
            output.take(&event);
        }
    }
}
