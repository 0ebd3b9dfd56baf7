//! Collects the text that a run has shown, from its events.

use serde_json::Value as Json;
use tidemill_common::graph::Graph;
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::store::{Runs, StoreError};

use crate::runs::projection::{Moderated, ShownText, Sources, Thoughts};
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
    let moderated = Moderated::of(render.features());
    let (mut output, mut after) = (ShownOutput { moderated, ..ShownOutput::default() }, EntryId::ZERO);
    loop {
        let events = store.events(run, after, PAGE).await?;
        let Some(last) = events.last() else { return Ok(output) };
        after = last.entry;
        for mut event in events {
            render.chunk(&mut event).await?;
            output.shown.take(&event);
            output.moderated.take(&event, &output.shown);
            output.sources.take(&event);
            output.thoughts.take(&event);
        }
    }
}
