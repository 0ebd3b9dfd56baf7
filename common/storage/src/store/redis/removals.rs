//! States of apps, and the removal of apps and users, in Redis. The keys of some kinds are listed nowhere by app: they are
//! found by `SCAN`, a page at a time.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::RedisStore;
use super::connection::args;
use crate::store::redis::connection::replies::unexpected;
use crate::store::{AppState, ConversationRef, Meta, Removals, Runs, StateSet, StoreError, TriggerChanges};
use tidemill_base::ids::{BlobId, RunId, ShardId};
use tidemill_wire::conversation::{conversation_copy, variable_of_field};

/// Keys that one SCAN looks at.
const PAGE: usize = 1_000;
/// The most keys or fields in one command.
const AT_ONCE: usize = 100;
const LOOKING_FOR_CALLS: &str = "looking for the sub-workflow runs of a run";

impl RedisStore {
    pub(super) fn shards_of(meta: Meta) -> impl Iterator<Item = ShardId> {
        (0..meta.shards).map(ShardId)
    }

    /// A page of the keys that fit a pattern, on one server after the other. A position is the number of a server, its cursor,
    /// and which servers these are: a cursor means nothing to another server, also to the same one after a restart. So after a
    /// fail-over the look begins again.
    async fn page_of_keys(
        &self,
        pattern: &str,
        from: &str,
    ) -> Result<(Vec<String>, Option<String>), StoreError> {
        const DOING: &str = "listing keys to remove";
        let mut servers = self.connector.masters().await?;
        servers.sort_by(|one, other| one.address().cmp(other.address()));
        let mut are = Vec::with_capacity(servers.len());
        for server in &servers {
            let mut info = redis::cmd("INFO");
            info.arg("server");
            let info: String = self.connector.ask_server(server, DOING, &info).await?;
            let id = info.lines().find_map(|line| line.strip_prefix("run_id:"));
            are.push(id.unwrap_or(server.address()).trim().to_owned());
        }
        let are = are.join(",");
        let (at, cursor) = begin_of_page(from, &are);
        let Some(server) = servers.get(at) else { return Ok((Vec::new(), None)) };
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(PAGE);
        let (next, keys): (String, Vec<String>) = self.connector.ask_server(server, DOING, &scan).await?;
        let next = match next.as_str() {
            "0" => (at + 1 < servers.len()).then(|| format!("{} 0 {are}", at + 1)),
            cursor => Some(format!("{at} {cursor} {are}")),
        };
        Ok((keys, next))
    }

    async fn unlink(&self, doing: &'static str, keys: Vec<String>) -> Result<(), StoreError> {
        for some in keys.chunks(AT_ONCE) {
            let mut pipe = redis::Pipeline::with_capacity(some.len());
            for key in some {
                pipe.cmd("UNLINK").arg(key).ignore();
            }
            self.connector.ask_all::<()>(doing, &pipe).await?;
        }
        Ok(())
    }

    /// True if a sub-workflow run of this run exists.
    async fn has_called(&self, caller: RunId) -> Result<bool, StoreError> {
        let mut from = String::new();
        loop {
            let (runs, next) = self.page_of_calls(caller, &from).await?;
            let mut exist = redis::cmd("EXISTS");
            for run in &runs {
                exist.arg(self.keys.run(*run));
            }
            if !runs.is_empty() && self.connector.ask::<u64>(LOOKING_FOR_CALLS, &exist).await? > 0 {
                return Ok(true);
            }
            let Some(next) = next else { return Ok(false) };
            from = next;
        }
    }

    /// A page of the sub-workflow runs that a run has ordered, and where the next one begins.
    async fn page_of_calls(
        &self,
        caller: RunId,
        from: &str,
    ) -> Result<(Vec<RunId>, Option<String>), StoreError> {
        let mut scan = redis::cmd("HSCAN");
        scan.arg(self.keys.calls(caller)).arg(if from.is_empty() { "0" } else { from });
        scan.arg("COUNT").arg(AT_ONCE);
        let (next, calls): (String, Vec<(String, String)>) =
            self.connector.ask(LOOKING_FOR_CALLS, &scan).await?;
        let runs = calls.iter().filter_map(|(run, _)| run.parse().ok()).collect();
        Ok((runs, Some(next).filter(|next| next != "0")))
    }

    /// The blobs of a conversation's variables.
    async fn copies_of(&self, shard: ShardId, id: &str) -> Result<Vec<BlobId>, StoreError> {
        let mut command = redis::cmd("HKEYS");
        command.arg(self.keys.conversation(shard, id));
        let fields: Vec<String> = self.connector.ask("reading a conversation to remove", &command).await?;
        let names = fields.iter().filter_map(|field| variable_of_field(field));
        Ok(names.map(|name| conversation_copy(id, name)).collect())
    }
}

#[async_trait]
impl Removals for RedisStore {
    async fn set_app_state(&self, app: &str, state: AppState) -> Result<StateSet, StoreError> {
        self.set_state(app, state).await
    }

    async fn reopen_app(&self, app: &str) -> Result<bool, StoreError> {
        self.reopen(app).await
    }

    async fn open_app(&self, app: &str) -> Result<(), StoreError> {
        self.close(app, AppState::On).await
    }

    async fn move_removal(
        &self,
        id: &str,
        before: Option<&str>,
        after: Option<&str>,
    ) -> Result<bool, StoreError> {
        const DOING: &str = "noting a removal";
        let args = args![id, before.unwrap_or_default(), after.unwrap_or_default()];
        let keys = [self.keys.common_nothing(), self.keys.removals()];
        let word: String = self.connector.run(DOING, &self.scripts.move_removal, &keys, &args).await?;
        match word.as_str() {
            "MOVED" => Ok(true),
            "OTHER" => Ok(false),
            other => Err(unexpected(DOING, other)),
        }
    }

    async fn removals_under_way(&self) -> Result<Vec<(String, String)>, StoreError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.keys.removals());
        let found: BTreeMap<String, String> = self.connector.ask("listing removals", &command).await?;
        Ok(found.into_iter().collect())
    }

    async fn discard_runs(&self, runs: &[RunId]) -> Result<usize, StoreError> {
        let mut by_shard: BTreeMap<ShardId, Vec<RunId>> = BTreeMap::new();
        for run in runs {
            by_shard.entry(run.shard()).or_default().push(*run);
        }
        let mut hidden = 0;
        for (shard, runs) in by_shard {
            hidden += self.forget(shard, "*", &runs).await?;
        }
        Ok(hidden)
    }

    async fn have_called(&self, callers: &[RunId]) -> Result<Vec<bool>, StoreError> {
        if callers.is_empty() {
            return Ok(Vec::new());
        }
        let mut pipe = redis::Pipeline::with_capacity(callers.len());
        for caller in callers {
            pipe.cmd("HLEN").arg(self.keys.calls(*caller));
        }
        let counts: Vec<u64> = self.connector.ask_all("counting sub-workflow runs", &pipe).await?;
        let mut found = Vec::with_capacity(callers.len());
        for (caller, count) in callers.iter().zip(counts) {
            found.push(count > 0 && self.has_called(*caller).await?);
        }
        Ok(found)
    }

    async fn some_called(
        &self,
        caller: RunId,
        from: &str,
    ) -> Result<(Vec<RunId>, Option<String>), StoreError> {
        self.page_of_calls(caller, from).await
    }

    async fn conversations_of_app(
        &self,
        app: &str,
        from: &str,
    ) -> Result<(Vec<ConversationRef>, Option<String>), StoreError> {
        let (keys, next) = self.page_of_keys(&self.keys.all_conversations(), from).await?;
        let places: Vec<(ShardId, &str)> =
            keys.iter().filter_map(|key| self.keys.shard_and_conversation(key)).collect();
        let mut found = Vec::new();
        for some in places.chunks(AT_ONCE) {
            let mut pipe = redis::Pipeline::with_capacity(some.len());
            for (shard, id) in some {
                pipe.cmd("HMGET").arg(self.keys.conversation(*shard, id)).arg("app").arg("user");
            }
            let owners: Vec<(Option<String>, Option<String>)> =
                self.connector.ask_all("reading conversations", &pipe).await?;
            for ((shard, id), (of, user)) in some.iter().zip(owners) {
                if of.is_none_or(|of| of != app) {
                    continue;
                }
                found.push(ConversationRef {
                    shard: *shard,
                    id: (*id).to_owned(),
                    app: app.to_owned(),
                    user: user.unwrap_or_default(),
                    copies: self.copies_of(*shard, id).await?,
                });
            }
        }
        Ok((found, next))
    }

    async fn drop_some_users(&self, app: &str, from: &str) -> Result<Option<String>, StoreError> {
        const DOING: &str = "removing the users of an app";
        // Two looks, one after the other: the records, then what counts the uploads.
        if let Some(from) = from.strip_prefix("uploads ") {
            let (keys, next) = self.page_of_keys(&self.keys.uploads_of_users(app), from).await?;
            self.unlink(DOING, keys).await?;
            return Ok(next.map(|next| format!("uploads {next}")));
        }
        let (keys, next) = self.page_of_keys(&self.keys.all_end_users(), from).await?;
        for some in keys.chunks(AT_ONCE) {
            let mut pipe = redis::Pipeline::with_capacity(some.len());
            for key in some {
                pipe.cmd("HGET").arg(key).arg("app");
            }
            let apps: Vec<Option<String>> = self.connector.ask_all(DOING, &pipe).await?;
            let own = some.iter().zip(apps).filter(|(_, of)| of.as_deref() == Some(app));
            self.unlink(DOING, own.map(|(key, _)| key.clone()).collect()).await?;
        }
        Ok(Some(next.unwrap_or_else(|| "uploads ".to_owned())))
    }

    async fn some_reserved(&self, from: &str) -> Result<(Vec<(String, RunId)>, Option<String>), StoreError> {
        let (keys, next) = self.page_of_keys(&self.keys.all_idempotency(), from).await?;
        let mut found = Vec::with_capacity(keys.len());
        for some in keys.chunks(AT_ONCE) {
            let mut pipe = redis::Pipeline::with_capacity(some.len());
            for key in some {
                pipe.cmd("GET").arg(key);
            }
            let held: Vec<Option<String>> = self.connector.ask_all("reading idempotency keys", &pipe).await?;
            let run = |text: Option<String>| text?.split_once(' ')?.0.parse().ok();
            found.extend(some.iter().zip(held).filter_map(|(key, text)| Some((key.clone(), run(text)?))));
        }
        Ok((found, next))
    }

    async fn drop_reserved(&self, keys: &[String]) -> Result<(), StoreError> {
        self.unlink("removing idempotency keys", keys.to_vec()).await
    }

    async fn drop_variables(&self, shard: ShardId, conversation: &str) -> Result<(), StoreError> {
        let k = &self.keys;
        let mut command = redis::cmd("HEXISTS");
        command.arg(k.conversation(shard, conversation)).arg("app");
        if self.connector.ask("reading a conversation to remove", &command).await? {
            return Ok(());
        }
        let copies = self.copies_of(shard, conversation).await?;
        let mut keys = vec![k.conversation(shard, conversation), k.messages(shard, conversation)];
        keys.extend(copies.iter().map(|copy| k.blob(shard, copy)));
        self.unlink("removing the variables of a conversation", keys).await
    }

    async fn drop_user(&self, id: &str) -> Result<(), StoreError> {
        self.unlink("removing a user", vec![self.keys.end_user(id)]).await
    }

    async fn give_back_uploads(
        &self,
        app: &str,
        user: &str,
        until: &str,
        kept: u64,
    ) -> Result<(), StoreError> {
        const DOING: &str = "giving back the bytes of removed uploads";
        let keys = [self.keys.uploads(app, None), self.keys.uploads(app, Some(user))];
        let script = &self.scripts.give_back_uploads;
        let _: String = self.connector.run(DOING, script, &keys, &args![until, kept]).await?;
        Ok(())
    }

    async fn drop_triggers(&self, app: &str) -> Result<(), StoreError> {
        let all = self.list_triggers().await?;
        let removed: Vec<String> =
            all.into_iter().filter(|it| it.trigger.app == app).map(|it| it.trigger.id).collect();
        let (meta, changes) =
            (Runs::meta(self).await?, TriggerChanges { removed, ..TriggerChanges::default() });
        let mut pipe = redis::pipe();
        self.change_triggers(&changes, &mut pipe);
        if !pipe.is_empty() {
            self.connector.ask_all::<()>("removing the triggers of an app", &pipe).await?;
        }
        self.settle_due(&changes, meta).await
    }

    async fn drop_annotations(&self, app: &str) -> Result<(), StoreError> {
        const DOING: &str = "removing the annotations of an app";
        let order = self.keys.annotations(app, "order");
        loop {
            let mut command = redis::cmd("ZRANGE");
            command.arg(&order).arg(0).arg(AT_ONCE - 1);
            let ids: Vec<String> = self.connector.ask(DOING, &command).await?;
            if ids.is_empty() {
                break;
            }
            let hits = ids.iter().map(|id| self.keys.annotation(app, "hits", id)).collect();
            self.unlink(DOING, hits).await?;
            let mut command = redis::cmd("ZREM");
            command.arg(&order).arg(&ids);
            let _: u64 = self.connector.ask(DOING, &command).await?;
        }
        let kinds = ["records", "order", "questions", "counts", "messages"];
        self.unlink(DOING, kinds.map(|kind| self.keys.annotations(app, kind)).to_vec()).await
    }

    async fn drop_lists(&self, app: &str) -> Result<(), StoreError> {
        let meta = Runs::meta(self).await?;
        let mut keys: Vec<String> =
            Self::shards_of(meta).map(|shard| self.keys.feedbacks(shard, app)).collect();
        keys.push(self.keys.uploads(app, None));
        self.unlink("removing the ratings of an app", keys).await
    }

    async fn drop_applied(&self) -> Result<(), StoreError> {
        const DOING: &str = "removing applied facts";
        for shard in Self::shards_of(Runs::meta(self).await?) {
            let (fence, inbox) = (self.keys.fence(shard), self.keys.inbox(shard));
            let mut command = redis::cmd("HGET");
            command.arg(fence).arg("cursor");
            let cursor: Option<String> = self.connector.ask(DOING, &command).await?;
            let Some(cursor) = cursor else { continue };
            // A commit applies a fact and moves the cursor, so all up to it is done with. The stream keeps its last id.
            let mut pipe = redis::pipe();
            pipe.cmd("XTRIM").arg(&inbox).arg("MINID").arg(&cursor).ignore();
            pipe.cmd("XDEL").arg(&inbox).arg(&cursor).ignore();
            self.connector.ask_all::<()>(DOING, &pipe).await?;
        }
        Ok(())
    }

    async fn drop_app(&self, app: &str, removal: &str) -> Result<bool, StoreError> {
        const DOING: &str = "removing an app";
        let k = &self.keys;
        let mut command = redis::cmd("HKEYS");
        command.arg(k.app_versions(app));
        let versions: Vec<String> = self.connector.ask(DOING, &command).await?;
        let mut keys = vec![k.apps(), k.removals(), k.app(app), k.app_versions(app)];
        keys.extend(versions.iter().map(|version| k.app_version(app, version)));
        let word: String =
            self.connector.run(DOING, &self.scripts.drop_app, &keys, &args![app, removal]).await?;
        match word.as_str() {
            "DROPPED" => Ok(true),
            "OTHER" => Ok(false),
            other => Err(unexpected(DOING, other)),
        }
    }
}

/// The server and the cursor at which a page begins. Of other servers, and of an earlier version, the look begins again.
fn begin_of_page<'p>(from: &'p str, servers: &str) -> (usize, &'p str) {
    let mut parts = from.splitn(3, ' ');
    match (parts.next().and_then(|at| at.parse().ok()), parts.next(), parts.next()) {
        (Some(at), Some(cursor), Some(known)) if known == servers => (at, cursor),
        _ => (0, "0"),
    }
}

#[cfg(test)]
mod tests {
    use super::begin_of_page;

    #[test]
    fn a_look_through_the_keys_begins_again_when_the_servers_are_others() {
        assert_eq!(begin_of_page("1 77 a,b", "a,b"), (1, "77"));
        for from in ["1 77 a,c", "1 77", "", "x 77 a,b"] {
            assert_eq!(begin_of_page(from, "a,b"), (0, "0"), "{from}");
        }
    }
}
