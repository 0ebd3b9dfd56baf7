//! Reads one run.

use std::collections::HashMap;

use redis::Value;

use crate::store::redis::RedisStore;
use crate::store::redis::asked::complete;
use crate::store::redis::connection::replies::{array, entry, pairs, unexpected};
use crate::store::{StoreError, unreadable_events};
use tidemill_base::ids::{EntryId, RunId};
use tidemill_wire::asked::whole_pause;
use tidemill_wire::entry::EventEntry;
use tidemill_wire::event::last_seq;
use tidemill_wire::state::AtRest;
use tidemill_wire::state::messages::{MessagesAtRest, OBJECTS_FIELD};

/// Ledger entries that are read at once.
const LEDGER_PAGE: usize = 1000;

impl RedisStore {
    /// Reads all parts of a run in one script, so that they are of one moment.
    pub(in crate::store::redis) async fn at_rest(&self, run: RunId) -> Result<Option<AtRest>, StoreError> {
        const DOING: &str = "loading a run";
        let k = &self.keys;
        let keys = [k.run(run), k.state(run), k.held(run), k.events(run), k.collected(run), k.pauses(run)];
        let (fields, state, held, last, collected, pauses): (Value, Value, Vec<String>, Value, Value, Value) =
            self.connector.run(DOING, &self.scripts.load_run, &keys, &[]).await?;
        let hash = |value, what: &str| {
            pairs(value).ok_or_else(|| unexpected(DOING, format!("{what} is not a hash")))
        };
        let fields: HashMap<String, String> = hash(fields, "the run")?.into_iter().collect();
        if fields.is_empty() {
            return Ok(None);
        }
        let state = hash(state, "the state")?;
        let last = array(last).and_then(|mut entries| entry(entries.pop()?));
        let seq = last.and_then(|(_, fields)| last_seq(&fields)).unwrap_or(0);
        let collected = hash(collected, "the results of closed frames")?;
        let mut pauses = hash(pauses, "the list of pauses")?;
        pauses.iter_mut().for_each(|(id, text)| *text = whole_pause(run, id, text));
        let messages = match fields.get(OBJECTS_FIELD) {
            // Read after the rest: messages written in between are beyond the index and ignored.
            Some(field) => self.messages_at_rest(run, field).await?,
            None => MessagesAtRest::default(),
        };
        Ok(Some(AtRest { run: fields, state, held, seq, collected, pauses, messages }))
    }

    pub(super) async fn whole_pauses(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.pauses(run));
        let fields: HashMap<String, String> = self.connector.ask("reading pauses", &command).await?;
        let whole = |(id, text): (String, String)| {
            let text = whole_pause(run, &id, &text);
            (id, text)
        };
        Ok(fields.into_iter().map(whole).collect())
    }

    pub(super) async fn whole_ledger(&self, run: RunId) -> Result<Vec<(String, String)>, StoreError> {
        let (key, mut all, mut cursor) = (self.keys.ledger(run), HashMap::new(), 0_u64);
        loop {
            // In pages: a long run has many calls, and the shard has other work.
            let mut command = redis::cmd("HSCAN");
            command.arg(&key).arg(cursor).arg("COUNT").arg(LEDGER_PAGE);
            let (next, fields): (u64, Vec<(String, String)>) =
                self.connector.ask("reading the ledger of a run", &command).await?;
            all.extend(fields);
            if next == 0 {
                return Ok(all.into_iter().collect());
            }
            cursor = next;
        }
    }

    pub(super) async fn some_entries(
        &self,
        run: RunId,
        after: EntryId,
        count: usize,
    ) -> Result<Vec<EventEntry>, StoreError> {
        const DOING: &str = "reading events";
        let mut command = redis::cmd("XRANGE");
        command.arg(self.keys.events(run)).arg(format!("({after}")).arg("+").arg("COUNT").arg(count);
        let value: Value = self.connector.ask(DOING, &command).await?;
        let entries = array(value).ok_or_else(|| unexpected(DOING, "not a list"))?;
        let read = entries.into_iter().filter_map(entry).map(|(id, fields)| EventEntry::read(id, fields));
        let mut entries: Vec<EventEntry> = read.collect::<Result<_, _>>().map_err(unreadable_events)?;
        complete(&self.connector, &self.keys, run, &mut entries).await?;
        Ok(entries)
    }
}
