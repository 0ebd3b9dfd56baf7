//! Completes the short forms of events that ask: the question is in the run's hash of pauses.

use super::connection::Connector;
use super::keys::Keys;
use crate::store::StoreError;
use tidemill_base::ids::RunId;
use tidemill_wire::entry::EventEntry;

/// Completes entries of a run. Reads its pauses only if an entry asks for one.
pub(super) async fn complete(
    connector: &Connector,
    keys: &Keys,
    run: RunId,
    entries: &mut [EventEntry],
) -> Result<(), StoreError> {
    if !entries.iter().any(EventEntry::is_short) {
        return Ok(());
    }
    let ids: Vec<String> = entries.iter().flat_map(EventEntry::asked).collect();
    let texts: Vec<Option<String>> = if ids.is_empty() {
        Vec::new()
    } else {
        let mut command = redis::cmd("HMGET");
        command.arg(keys.pauses(run)).arg(&ids);
        connector.ask("reading what a run asks", &command).await?
    };
    let questions: Vec<(String, String)> =
        ids.into_iter().zip(texts).filter_map(|(id, text)| Some((id, text?))).collect();
    entries.iter_mut().for_each(|entry| entry.complete(run, &questions));
    Ok(())
}
