//! Messages, runtime values and history of runs: one key per part; writes append.

use super::RedisStore;
use super::commit::write_fields;
use super::keys::Keys;
use crate::store::redis::connection::wire_connection::Request;
use crate::store::{Page, StoreError};
use tidemill_base::ids::RunId;
use tidemill_wire::state::messages::{
    HISTORY_PART, MessagesAtRest, MessagesWrite, RUNTIME_PART, index_field, list_of_part, parts,
};
use tidemill_workflow::messages::HISTORY_HELD;

const DOING: &str = "reading messages and history of a run";

/// Adds the writes of a commit.
pub(super) fn write(request: &mut Request, keys: &Keys, run: RunId, write: &MessagesWrite) {
    let mut append = |part: &str, entries: &[String]| {
        if entries.is_empty() {
            return;
        }
        request.command("RPUSH", 1 + entries.len()).word(keys.object(run, part));
        entries.iter().for_each(|entry| {
            request.word(entry);
        });
    };
    for (list, messages) in &write.messages {
        append(&format!("messages:{list}"), messages);
    }
    append(HISTORY_PART, &write.history);
    if !write.runtime.is_empty() {
        let runtime = write.runtime.iter().map(|(field, value)| (field.as_str(), value.as_deref()));
        write_fields(request, || keys.object(run, RUNTIME_PART), runtime);
    }
}

impl RedisStore {
    /// Reads all parts of a run, but only the last records of the history. `field` lists the parts that
    /// exist.
    pub(super) async fn messages_at_rest(
        &self,
        run: RunId,
        field: &str,
    ) -> Result<MessagesAtRest, StoreError> {
        let mut found = MessagesAtRest::default();
        for part in parts(field) {
            if let Some(list) = list_of_part(part) {
                found.messages.push((list.to_string(), self.entries_of(run, part, 0, -1).await?));
            } else if part == RUNTIME_PART {
                found.runtime = self.hash_of(self.keys.object(run, part)).await?;
            } else if part == HISTORY_PART {
                let last = -isize::try_from(HISTORY_HELD).unwrap_or(1);
                found.history = self.entries_of(run, part, last, -1).await?;
            }
        }
        Ok(found)
    }

    async fn entries_of(
        &self,
        run: RunId,
        part: &str,
        from: isize,
        to: isize,
    ) -> Result<Vec<String>, StoreError> {
        let mut command = redis::cmd("LRANGE");
        command.arg(self.keys.object(run, part)).arg(from).arg(to);
        self.connector.ask(DOING, &command).await
    }

    pub(super) async fn index_of(&self, run: RunId, list: &str) -> Result<Option<String>, StoreError> {
        let mut command = redis::cmd("HGET");
        command.arg(self.keys.state(run)).arg(index_field(list));
        self.connector.ask(DOING, &command).await
    }

    pub(super) async fn page_of(
        &self,
        run: RunId,
        part: &str,
        page: Page,
    ) -> Result<Vec<String>, StoreError> {
        let bound = |at: usize| isize::try_from(at).unwrap_or(isize::MAX);
        if page.count == 0 {
            return Ok(Vec::new());
        }
        let last = bound(page.from.saturating_add(page.count - 1));
        self.entries_of(run, part, bound(page.from), last).await
    }
}
