//! Collects the text that a run has shown, from its events.

use serde_json::Value as Json;
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::store::{Runs, StoreError};
use tidemill_common::value::{JsonMap, SegmentType, Stored};
use tidemill_common::wire::codec::value::stored_from_json;

use crate::runs::projection::{ShownText, Sources, files};
use crate::runs::render::Renderer;

/// Events read at once.
const PAGE: usize = 512;

/// The text and the sources that a run has shown.
#[derive(Default)]
pub(super) struct ShownOutput {
    shown: ShownText,
    sources: Sources,
}

impl ShownOutput {
    /// The text that clients see.
    pub(super) fn text(&self) -> String {
        self.shown.text()
    }

    /// The knowledge sources of the text.
    pub(super) fn resources(&self) -> Vec<Json> {
        self.sources.all()
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
    let (mut output, mut after) = (ShownOutput::default(), EntryId::ZERO);
    loop {
        let events = store.events(run, after, PAGE).await?;
        let Some(last) = events.last() else { return Ok(output) };
        after = last.entry;
        for mut event in events {
            render.chunk(&mut event).await?;
            output.shown.take(&event);
            output.sources.take(&event);
        }
    }
}
