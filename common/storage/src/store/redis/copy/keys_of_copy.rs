//! The keys of a copy: finds them on each server, copies them in batches of bounded size, and compares both sides.

use std::time::Duration;

use redis::Value;

use super::{Copy, CopyError, CopyProgress};
use crate::store::StoreError;
use crate::store::redis::RedisStore;
use crate::store::redis::connection::replies::{array, text, unexpected};
use crate::store::redis::connection::servers::{Lane, Node};
use crate::store::redis::keys::{InCopy, Keys};

/// Keys that one SCAN looks at.
const PAGE: usize = 1_000;
/// The most keys of one batch.
const BATCH_KEYS: usize = 64;
/// The most bytes of the texts in one batch; a larger text is a batch of its own.
const BATCH_BYTES: usize = 8 * 1024 * 1024;

/// A key of the source, and its name in the copy.
type Pair = (String, String);

/// Lists the keys of a namespace on one server, a page at a time.
struct Scan<'a> {
    store: &'a RedisStore,
    server: &'a Node,
    patterns: Vec<String>,
    cursor: String,
}

impl<'a> Scan<'a> {
    fn new(store: &'a RedisStore, server: &'a Node) -> Self {
        Self { store, server, patterns: store.keys.everything(), cursor: "0".into() }
    }

    /// The next page; `None` after the last. A page may be empty, and a key may come twice.
    async fn next(&mut self) -> Result<Option<Vec<String>>, StoreError> {
        const DOING: &str = "listing the keys of a namespace";
        let Some(pattern) = self.patterns.last() else { return Ok(None) };
        let mut scan = redis::cmd("SCAN");
        scan.arg(&self.cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(PAGE);
        let found: (String, Vec<String>) = self.store.connector.ask_server(self.server, DOING, &scan).await?;
        self.cursor = found.0;
        if self.cursor == "0" {
            self.patterns.pop();
        }
        Ok(Some(found.1))
    }
}

impl Copy<'_> {
    /// The first key of the target's namespace besides the mark.
    pub(super) async fn first_of_target(&self) -> Result<Option<String>, StoreError> {
        let meta = self.to.keys.meta();
        for server in self.to.connector.masters().await? {
            let mut scan = Scan::new(self.to, &server);
            while let Some(page) = scan.next().await? {
                let is_there = |key: &String| *key != meta && self.is_of(&self.to.keys, key);
                if let Some(key) = page.into_iter().find(is_there) {
                    return Ok(Some(key));
                }
            }
        }
        Ok(None)
    }

    fn is_of(&self, keys: &Keys, key: &str) -> bool {
        keys.in_copy(key, keys) != InCopy::Foreign
    }

    /// Removes everything of the target's namespace except for the mark.
    pub(super) async fn clear_target(&self) -> Result<(), CopyError> {
        let meta = self.to.keys.meta();
        for server in self.to.connector.masters().await? {
            let mut scan = Scan::new(self.to, &server);
            while let Some(page) = scan.next().await? {
                let mut pipe = redis::pipe();
                for key in page.iter().filter(|key| **key != meta && self.is_of(&self.to.keys, key)) {
                    pipe.cmd("UNLINK").arg(key).ignore();
                }
                if !pipe.is_empty() {
                    self.to.connector.ask_all::<()>("removing an unfinished copy", &pipe).await?;
                }
            }
        }
        self.is_ours().await
    }

    /// Copies all keys except for the settings of the namespace.
    pub(super) async fn copy_keys(
        &self,
        progress: &mut dyn FnMut(CopyProgress),
    ) -> Result<CopyProgress, CopyError> {
        let mut done = CopyProgress::default();
        let servers = self.from.connector.masters().await?;
        for server in &servers {
            let mut scan = Scan::new(self.from, server);
            while let Some(page) = scan.next().await? {
                let (pairs, foreign) = self.pairs(page);
                (done.of, done.foreign) = (done.of + pairs.len() as u64, done.foreign + foreign);
            }
        }
        for server in &servers {
            let mut scan = Scan::new(self.from, server);
            while let Some(page) = scan.next().await? {
                self.is_ours().await?;
                for batch in self.batches(server, self.pairs(page).0).await? {
                    self.copy_batch(server, &batch, &mut done).await?;
                    progress(done);
                }
            }
        }
        Ok(done)
    }

    /// The keys of a page that are copied, and the number of those that belong to another namespace.
    fn pairs(&self, page: Vec<String>) -> (Vec<Pair>, u64) {
        let (meta, mut pairs, mut foreign) = (self.from.keys.meta(), Vec::new(), 0);
        for key in page.into_iter().filter(|key| *key != meta) {
            match self.from.keys.in_copy(&key, &self.to.keys) {
                InCopy::As(name) => pairs.push((key, name)),
                InCopy::Left => {}
                InCopy::Foreign => foreign += 1,
            }
        }
        (pairs, foreign)
    }

    /// Divides keys by the length of texts, which may have many megabytes. All other values are small.
    async fn batches(&self, server: &Node, pairs: Vec<Pair>) -> Result<Vec<Vec<Pair>>, StoreError> {
        let mut pipe = redis::pipe();
        pairs.iter().for_each(|(key, _)| {
            pipe.cmd("STRLEN").arg(key);
        });
        if pipe.is_empty() {
            return Ok(Vec::new());
        }
        let lengths = server.send(Lane::Blobs, "measuring the keys of a namespace", &pipe).await?;
        let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (pair, length) in pairs.into_iter().zip(lengths) {
            // Other types answer an error.
            let length =
                if let Value::Int(length) = length { usize::try_from(length).unwrap_or(0) } else { 0 };
            if !batch.is_empty() && (bytes + length > BATCH_BYTES || batch.len() >= BATCH_KEYS) {
                batches.push(std::mem::take(&mut batch));
                bytes = 0;
            }
            batch.push(pair);
            bytes += length;
        }
        batches.push(batch);
        Ok(batches)
    }

    async fn copy_batch(
        &self,
        server: &Node,
        batch: &[Pair],
        done: &mut CopyProgress,
    ) -> Result<(), CopyError> {
        const DOING: &str = "copying keys";
        let major = self.versions[0].version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        // Before version 7 only the rest of the time is known, and the copy expires some milliseconds earlier.
        let is_exact = major.is_some_and(|major| major >= 7);
        let mut read = redis::pipe();
        read.cmd("TIME");
        for (key, _) in batch {
            read.cmd("DUMP").arg(key).cmd(if is_exact { "PEXPIRETIME" } else { "PTTL" }).arg(key);
        }
        let mut values = server.send(Lane::Blobs, DOING, &read).await?.into_iter();
        let now = values.next().and_then(millis).ok_or_else(|| unexpected(DOING, "TIME is not a time"))?;
        let mut write = redis::pipe();
        for (key, name) in batch {
            let (content, time) = (values.next().unwrap_or(Value::Nil), values.next().unwrap_or(Value::Nil));
            let content = match content.extract_error() {
                Ok(Value::BulkString(content)) => content,
                // It has expired since it was listed.
                Ok(_) => continue,
                Err(error) => return Err(self.from.connector.error(DOING, &error).into()),
            };
            let until = match time
                .extract_error()
                .map_err(|error| self.from.connector.error(DOING, &error))?
            {
                // The same moment on both sides: time goes on while the copy is made.
                Value::Int(time @ 0..) => Some(if is_exact { time } else { now + time }),
                Value::Int(-1) => None,
                Value::Int(_) => continue,
                other => {
                    return Err(unexpected(DOING, format!("{other:?} is no time of expiry of {key}")).into());
                }
            };
            done.bytes += content.len() as u64;
            done.keys += 1;
            write.cmd("RESTORE").arg(name).arg(until.unwrap_or(0)).arg(content).arg("REPLACE");
            if until.is_some() {
                write.arg("ABSTTL");
            }
            write.ignore();
        }
        if write.is_empty() {
            return Ok(());
        }
        let written = self.to.connector.ask_all::<()>(DOING, &write).await;
        written.map_err(|error| self.explained(error))
    }

    /// An error of a target that reads other forms than the source writes.
    pub(super) fn explained(&self, error: StoreError) -> CopyError {
        let [from, to] = [0, 1].map(|at| self.versions[at].version.clone());
        match error {
            StoreError::Unexpected { reason, .. } if reason.contains("DUMP payload") => {
                CopyError::OtherVersion { from, to, reason }
            }
            other => other.into(),
        }
    }

    /// Compares both sides: each key of one is a key of the other.
    pub(super) async fn compare(&self) -> Result<(), CopyError> {
        if let Some(key) = lacking(self.from, self.to).await? {
            return Err(CopyError::Differs { key, at: self.to.address() });
        }
        match lacking(self.to, self.from).await? {
            Some(key) => Err(CopyError::Differs { key, at: self.from.address() }),
            None => Ok(()),
        }
    }
}

/// The first key of `one` that `other` lacks, by its name there.
async fn lacking(one: &RedisStore, other: &RedisStore) -> Result<Option<String>, StoreError> {
    for server in one.connector.masters().await? {
        let mut scan = Scan::new(one, &server);
        while let Some(page) = scan.next().await? {
            let pair = |key: String| match one.keys.in_copy(&key, &other.keys) {
                InCopy::As(name) => Some((key, name)),
                InCopy::Left | InCopy::Foreign => None,
            };
            let pairs: Vec<Pair> = page.into_iter().filter_map(pair).collect();
            let (keys, names): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let found = exist(other, &names).await?;
            let missing = keys.into_iter().zip(names).zip(found).filter(|(_, is_there)| !is_there);
            for ((key, name), _) in missing {
                // It may have expired between the two looks.
                if exist(one, &[key]).await? == [true] {
                    return Ok(Some(name));
                }
            }
        }
    }
    Ok(None)
}

async fn exist(store: &RedisStore, keys: &[String]) -> Result<Vec<bool>, StoreError> {
    let mut pipe = redis::pipe();
    keys.iter().for_each(|key| {
        pipe.cmd("EXISTS").arg(key);
    });
    if keys.is_empty() { Ok(Vec::new()) } else { store.connector.ask_all("comparing a copy", &pipe).await }
}

/// The milliseconds of a reply to TIME.
fn millis(time: Value) -> Option<i64> {
    let mut parts = array(time)?.into_iter().map(|part| text(part)?.parse::<i64>().ok());
    let (seconds, micros) = (parts.next()??, parts.next()??);
    Some(seconds * 1_000 + micros / 1_000)
}

impl RedisStore {
    /// Server time in milliseconds.
    pub(super) async fn server_time(&self) -> Result<i64, StoreError> {
        const DOING: &str = "reading the time";
        let time = self.connector.ask(DOING, &redis::cmd("TIME")).await?;
        millis(time).ok_or_else(|| unexpected(DOING, "not a time"))
    }

    /// Ids of a list of living processes, and the time since each was last heard of.
    pub(super) async fn listed(&self, key: String, now: i64) -> Result<Vec<(String, Duration)>, StoreError> {
        let mut read = redis::cmd("ZRANGE");
        read.arg(key).arg(0).arg(-1).arg("WITHSCORES");
        let listed: Vec<(String, i64)> = self.connector.ask("listing live processes", &read).await?;
        let since = |at: i64| Duration::from_millis(u64::try_from(now.saturating_sub(at)).unwrap_or(0));
        Ok(listed.into_iter().map(|(id, at)| (id, since(at))).collect())
    }
}
