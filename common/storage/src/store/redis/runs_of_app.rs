//! The list of runs by app. The script that creates a run adds it, and the one that removes a run takes it off. Runs that
//! versions before [`RUNS_OF_APPS`] have created are added by the owners of the shards, in pieces, once all processes add
//! theirs. The last process of an older version may still create runs while it stops, after it has left the list of live
//! processes. So the owners look at the newest runs once more, some time later.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::RedisStore;
use super::connection::{Arg, args};
use crate::store::redis::connection::replies::unexpected;
use crate::store::{AppRecords, Indexed, ListRuns, Runs, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::{RunId, ShardId};
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::RUNS_OF_APPS;

/// An older process has ended this long after it has left the list of live processes.
const STOPS_WITHIN: Duration = Duration::from_secs(15 * 60);
/// The clocks of processes, which number new runs, differ by less.
const CLOCKS_DIFFER: Duration = Duration::from_secs(5 * 60);

/// How far the runs of a shard are listed: a text in Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// `<time>`: those that were created before.
    To(i64),
    /// `again <from> <until>`: all that existed. At `until` those that were created between these times are looked at.
    Again(i64, i64),
    /// `all`.
    All,
}

impl Progress {
    fn read(text: Option<&str>) -> Self {
        let words: Vec<&str> = text.unwrap_or_default().split(' ').collect();
        match words.as_slice() {
            ["all"] => Self::All,
            ["again", from, until] => match (from.parse(), until.parse()) {
                (Ok(from), Ok(until)) => Self::Again(from, until),
                _ => Self::To(0),
            },
            words => Self::To(words.first().and_then(|time| time.parse().ok()).unwrap_or(0)),
        }
    }

    fn text(self) -> String {
        match self {
            Self::To(time) => time.to_string(),
            Self::Again(from, until) => format!("again {from} {until}"),
            Self::All => "all".into(),
        }
    }

    /// The times of the runs to look at next; `None` when there is nothing to do at `now`.
    fn next(self, now: Timestamp) -> Option<(i64, Option<i64>)> {
        match self {
            Self::To(time) => Some((time, None)),
            Self::Again(from, until) => (now.micros() >= until).then_some((from, Some(until))),
            Self::All => None,
        }
    }

    /// The progress after runs up to this time were listed; `None` when they were the last ones.
    fn after(self, last: Option<i64>, now: Timestamp) -> Self {
        match (self, last) {
            (Self::To(_), Some(last)) => Self::To(last),
            (Self::To(_), None) => {
                let from = now.micros().saturating_sub(micros(CLOCKS_DIFFER));
                Self::Again(from, now.plus(STOPS_WITHIN).micros())
            }
            (Self::Again(_, until), Some(last)) => Self::Again(last, until),
            (Self::Again(..) | Self::All, _) => Self::All,
        }
    }
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

impl RedisStore {
    pub(super) async fn lists_by_app(
        &self,
        app: &str,
        status: Option<RunStatus>,
    ) -> Result<bool, StoreError> {
        let meta = Runs::meta(self).await?;
        if !self.are_all_listed(meta.version, meta.shards).await? {
            return Ok(false);
        }
        let Some(status) = status else { return Ok(true) };
        let mut pipe = redis::Pipeline::with_capacity(usize::from(meta.shards) * 2);
        for shard in (0..meta.shards).map(ShardId) {
            let of_app = self.keys.runs_of_app(shard, Some(app)).unwrap_or_default();
            for key in [of_app, self.keys.runs_of(shard, status)] {
                pipe.cmd("ZCARD").arg(key);
            }
        }
        let counts: Vec<u64> = self.connector.ask_all("counting the runs of an app", &pipe).await?;
        let of_app: u64 = counts.iter().step_by(2).sum();
        Ok(of_app <= counts.iter().skip(1).step_by(2).sum())
    }

    async fn are_all_listed(&self, version: u32, shards: u16) -> Result<bool, StoreError> {
        // New shards begin without runs, so this stays true.
        if self.is_listed_by_app.load(Ordering::Relaxed) {
            return Ok(true);
        }
        if version < RUNS_OF_APPS {
            return Ok(false);
        }
        let mut pipe = redis::Pipeline::with_capacity(usize::from(shards));
        for shard in (0..shards).map(ShardId) {
            pipe.cmd("GET").arg(self.keys.runs_of_apps(shard));
        }
        let progress: Vec<Option<String>> =
            self.connector.ask_all("reading whether runs are listed by app", &pipe).await?;
        let are_all = progress.iter().all(|it| !matches!(Progress::read(it.as_deref()), Progress::To(_)));
        self.is_listed_by_app.store(are_all, Ordering::Relaxed);
        Ok(are_all)
    }

    /// Takes runs off the list of an app or a label that no longer exist. Nothing is lost: a run and its entry are written
    /// together.
    pub(super) async fn take_off_list(&self, query: &ListRuns, gone: &[RunId]) -> Result<(), StoreError> {
        if gone.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::Pipeline::with_capacity(gone.len());
        for run in gone {
            pipe.cmd("ZREM").arg(self.key_of_list(query, run.shard())).arg(run.to_string()).ignore();
        }
        self.connector.ask_all("taking removed runs off a list", &pipe).await
    }

    pub(super) async fn index_some_runs(
        &self,
        shard: ShardId,
        epoch: u64,
        now: Timestamp,
        count: usize,
    ) -> Result<Indexed, StoreError> {
        const DOING: &str = "listing runs by app";
        let k = &self.keys;
        let mut get = redis::cmd("GET");
        get.arg(k.runs_of_apps(shard));
        let progress: Option<String> = self.connector.ask(DOING, &get).await?;
        let progress = Progress::read(progress.as_deref());
        let Some((from, until)) = progress.next(now) else {
            return Ok(if progress == Progress::All { Indexed::All } else { Indexed::Later });
        };
        let until = until.map_or_else(|| "+inf".to_owned(), |until| until.to_string());
        let mut listed = self.runs_between(shard, &from.to_string(), &until, Some(count)).await?;
        let mut last = listed.last().map(|(_, last)| *last).filter(|_| listed.len() >= count);
        if let Some(time) = last
            && listed.first().is_some_and(|(_, first)| *first == time)
        {
            // All were created at the same time: there may be more of them, and the next piece begins after them.
            let time_text = time.to_string();
            listed = self.runs_between(shard, &time_text, &time_text, None).await?;
            last = Some(time + 1);
        }
        let progress = progress.after(last, now);
        let ids: Vec<RunId> = listed.iter().map(|(id, _)| *id).collect();
        let fields = self.fields_of_runs(&ids, &["app"]).await?;

        let mut keys = vec![k.fence(shard), k.runs_of_apps(shard)];
        let mut list = Vec::from(args![epoch, progress.text()]);
        for ((run, at), fields) in listed.iter().zip(&fields) {
            let Some(app) = fields.get("app") else { continue };
            keys.push(k.run(*run));
            keys.extend(k.runs_of_app(shard, Some(app)));
            list.extend([Arg::from(app), Arg::from(run.to_string()), Arg::from(*at)]);
        }
        let word: String = self.connector.run(DOING, &self.scripts.index_runs, &keys, &list).await?;
        match (word.as_str(), progress) {
            ("LISTED", Progress::All) => Ok(Indexed::All),
            ("LISTED", Progress::To(_)) => Ok(Indexed::More),
            ("LISTED", Progress::Again(..)) if last.is_some() => Ok(Indexed::More),
            // Or another scheduler owns the shard, and goes on.
            ("LISTED", Progress::Again(..)) | ("STALE", _) => Ok(Indexed::Later),
            (other, _) => Err(unexpected(DOING, other)),
        }
    }

    async fn runs_between(
        &self,
        shard: ShardId,
        from: &str,
        until: &str,
        count: Option<usize>,
    ) -> Result<Vec<(RunId, i64)>, StoreError> {
        let mut range = redis::cmd("ZRANGEBYSCORE");
        range.arg(self.keys.runs(shard)).arg(from).arg(until).arg("WITHSCORES");
        if let Some(count) = count {
            range.arg("LIMIT").arg(0).arg(count);
        }
        let listed: Vec<(String, i64)> = self.connector.ask("listing runs by app", &range).await?;
        Ok(listed.into_iter().filter_map(|(id, at)| Some((id.parse().ok()?, at))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_listed_from_the_first_on_and_the_newest_once_more_later() {
        let at = Timestamp::from_micros;
        let start = 10_000_000_000;
        assert_eq!(Progress::read(None), Progress::To(0));
        assert_eq!(Progress::To(0).next(at(start)), Some((0, None)));
        assert_eq!(Progress::To(0).after(Some(7), at(start)), Progress::To(7));
        let waits = Progress::To(7).after(None, at(start));
        let (from, until) = (start - 300_000_000, start + 900_000_000);
        assert_eq!(waits, Progress::Again(from, until));
        assert_eq!(waits.next(at(until - 1)), None);
        assert_eq!(waits.next(at(until)), Some((from, Some(until))));
        assert_eq!(waits.after(Some(start), at(until)), Progress::Again(start, until));
        assert_eq!(waits.after(None, at(until)), Progress::All);
        assert_eq!(Progress::All.next(at(until)), None);
        for progress in [Progress::To(7), waits, Progress::All] {
            assert_eq!(Progress::read(Some(&progress.text())), progress);
        }
    }
}
