//! The text that a run has shown, put together from its events.

use tidemill_common::ids::{EntryId, RunId};
use tidemill_common::store::{Runs, StoreError};

use crate::api::projection::Shown;
use crate::api::render::Renderer;

/// Entries read at once.
const PAGE: usize = 512;

/// The text as its readers have it in front of them at the end.
pub(super) async fn text(store: &dyn Runs, render: &Renderer, run: RunId) -> Result<String, StoreError> {
    let (mut shown, mut after) = (Shown::default(), EntryId::ZERO);
    loop {
        let events = store.events(run, after, PAGE).await?;
        let Some(last) = events.last() else { return Ok(shown.text()) };
        after = last.entry;
        for mut event in events {
            render.chunk(&mut event).await?;
            shown.take(&event);
        }
    }
}
