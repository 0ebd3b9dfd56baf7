//! Collects the text that a run has shown, from its events.

use serde_json::Value as Json;
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::store::{Runs, StoreError};

use crate::runs::projection::{ShownText, Sources, Thoughts};
use crate::runs::render::Renderer;

/// Events read at once.
const PAGE: usize = 512;

/// The text and the sources that a run has shown.
#[derive(Default)]
pub(super) struct ShownOutput {
    shown: ShownText,
    sources: Sources,
    thoughts: Thoughts,
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

    /// The rounds of an agent.
    pub(super) fn thoughts(&self, run: &str) -> Vec<Json> {
        self.thoughts.listed(run)
    }
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
            output.thoughts.take(&event);
        }
    }
}
