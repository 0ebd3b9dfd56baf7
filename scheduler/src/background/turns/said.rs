//! What a run has shown, put together from its events.

use serde_json::Value as Json;
use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::store::{Runs, StoreError};

use crate::runs::projection::{Shown, Sources};
use crate::runs::render::Renderer;

/// Entries read at once.
const PAGE: usize = 512;

/// What a run has shown.
#[derive(Default)]
pub(super) struct Said {
    shown: Shown,
    sources: Sources,
}

impl Said {
    /// The text as its readers have it in front of them.
    pub(super) fn text(&self) -> String {
        self.shown.text()
    }

    /// Where its knowledge came from.
    pub(super) fn resources(&self) -> Vec<Json> {
        self.sources.all()
    }
}

/// All that a run has shown so far.
pub(super) async fn so_far(store: &dyn Runs, render: &Renderer, run: RunId) -> Result<Said, StoreError> {
    let (mut said, mut after) = (Said::default(), EntryId::ZERO);
    loop {
        let events = store.events(run, after, PAGE).await?;
        let Some(last) = events.last() else { return Ok(said) };
        after = last.entry;
        for mut event in events {
            render.chunk(&mut event).await?;
            said.shown.take(&event);
            said.sources.take(&event);
        }
    }
}
