//! Pages of the ratings of an app in Redis. Each shard has a list of its own, so a page far from the newest rating cannot
//! be read by its rank. [`Cut`] searches a time shortly before the page by counting; only ratings after it are read.

use super::RedisStore;
use crate::store::{Feedback, Page, Runs, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::ShardId;
use tidemill_base::limits::{FEEDBACKS_MAX, FEEDBACKS_READ_MAX};

const DOING: &str = "listing ratings";
/// The most tries to fill a page of ratings while entries of ratings that are gone are found.
const PAGE_TRIES: usize = 3;

/// A place in the list of ratings: time (ms), `<conversation> <message>`, shard.
type Place = (i64, String, ShardId);

/// The search for a time (ms) such that as many ratings are newer as come before a page, or a few less.
#[derive(Debug)]
struct Cut {
    /// Ratings before the page.
    from: usize,
    /// Most ratings that may be read and passed over.
    skip_max: usize,
    /// At most `from` ratings are newer than this, namely `newer`.
    upper: i64,
    newer: usize,
    /// More than `from` ratings are newer than this.
    lower: i64,
}

impl Cut {
    /// A search among more than `from` ratings, which have these times.
    fn new(from: usize, skip_max: usize, oldest: i64, newest: i64) -> Self {
        Self { from, skip_max, upper: newest, newer: 0, lower: oldest.saturating_sub(1) }
    }

    /// The ratings to pass over, of those that are not newer than `upper`.
    fn skip(&self) -> usize {
        self.from.saturating_sub(self.newer)
    }

    /// The next time of which the newer ratings must be counted; `None` when the search is done.
    fn next(&self) -> Option<i64> {
        let is_done = self.skip() <= self.skip_max || self.upper - self.lower <= 1;
        (!is_done).then(|| self.lower + (self.upper - self.lower) / 2)
    }

    fn counted(&mut self, at: i64, newer: usize) {
        if newer > self.from {
            self.lower = at;
        } else {
            (self.upper, self.newer) = (at, newer);
        }
    }
}

impl RedisStore {
    pub(super) async fn page_of_ratings(&self, app: &str, page: Page) -> Result<Vec<Feedback>, StoreError> {
        for is_last_try in (1..=PAGE_TRIES).map(|tried| tried == PAGE_TRIES) {
            let places = self.newest_ratings(app, page).await?;
            if places.is_empty() {
                break;
            }
            let mut pipe = redis::Pipeline::with_capacity(places.len());
            for (_, member, shard) in &places {
                let (conversation, message) = member.split_once(' ').unwrap_or((member, ""));
                pipe.cmd("HGET").arg(self.keys.ratings(*shard, conversation)).arg(message);
            }
            let ratings: Vec<Option<String>> = self.connector.ask_all(DOING, &pipe).await?;
            let gone: Vec<&Place> =
                places.iter().zip(&ratings).filter_map(|(at, found)| found.is_none().then_some(at)).collect();
            self.take_off_ratings(app, &gone).await?;
            if gone.is_empty() || is_last_try {
                return Ok(places
                    .iter()
                    .zip(ratings)
                    .filter_map(|(at, rating)| feedback(at, rating?))
                    .collect());
            }
        }
        Ok(Vec::new())
    }

    /// The places of a page of ratings, of all shards.
    async fn newest_ratings(&self, app: &str, page: Page) -> Result<Vec<Place>, StoreError> {
        let count = page.from.saturating_add(page.count).min(FEEDBACKS_MAX).saturating_sub(page.from);
        if count == 0 {
            return Ok(Vec::new());
        }
        let shards: Vec<ShardId> = (0..Runs::meta(self).await?.shards).map(ShardId).collect();
        let skip_max = FEEDBACKS_READ_MAX.saturating_sub(count);
        let (newest, skip) = if page.from <= skip_max {
            ("+inf".to_string(), page.from)
        } else {
            match self.cut(app, &shards, page.from, skip_max).await? {
                Some(cut) => (cut.upper.to_string(), cut.skip()),
                None => return Ok(Vec::new()),
            }
        };
        let wanted = skip.saturating_add(count).min(FEEDBACKS_READ_MAX.max(count));
        let mut pipe = redis::Pipeline::with_capacity(shards.len());
        for shard in &shards {
            pipe.cmd("ZREVRANGEBYSCORE").arg(self.keys.feedbacks(*shard, app)).arg(&newest).arg("-inf");
            pipe.arg("WITHSCORES").arg("LIMIT").arg(0).arg(wanted);
        }
        let listed: Vec<Vec<(String, f64)>> = self.connector.ask_all(DOING, &pipe).await?;
        let of_shard = |(shard, of_shard): (&ShardId, Vec<(String, f64)>)| {
            let shard = *shard;
            of_shard.into_iter().map(move |(member, at)| (at as i64, member, shard)).collect::<Vec<Place>>()
        };
        let mut places: Vec<Place> = shards.iter().zip(listed).flat_map(of_shard).collect();
        places.sort();
        Ok(places.into_iter().rev().skip(skip).take(count).collect())
    }

    /// Searches the time shortly before a page; `None` when there are not that many ratings.
    async fn cut(
        &self,
        app: &str,
        shards: &[ShardId],
        from: usize,
        skip_max: usize,
    ) -> Result<Option<Cut>, StoreError> {
        let keys: Vec<String> = shards.iter().map(|shard| self.keys.feedbacks(*shard, app)).collect();
        let mut pipe = redis::Pipeline::with_capacity(keys.len() * 3);
        for key in &keys {
            pipe.cmd("ZCARD").arg(key);
        }
        let total: Vec<usize> = self.connector.ask_all(DOING, &pipe).await?;
        if total.iter().sum::<usize>() <= from {
            return Ok(None);
        }
        pipe.clear();
        for key in &keys {
            pipe.cmd("ZRANGE").arg(key).arg(0).arg(0).arg("WITHSCORES");
            pipe.cmd("ZREVRANGE").arg(key).arg(0).arg(0).arg("WITHSCORES");
        }
        let ends: Vec<Vec<(String, f64)>> = self.connector.ask_all(DOING, &pipe).await?;
        let times = || ends.iter().flatten().map(|(_, at)| *at as i64);
        let Some((oldest, newest)) = times().min().zip(times().max()) else { return Ok(None) };
        let mut cut = Cut::new(from, skip_max, oldest, newest);
        while let Some(at) = cut.next() {
            pipe.clear();
            for key in &keys {
                pipe.cmd("ZCOUNT").arg(key).arg(format!("({at}")).arg("+inf");
            }
            let newer: Vec<usize> = self.connector.ask_all(DOING, &pipe).await?;
            cut.counted(at, newer.iter().sum());
        }
        Ok(Some(cut))
    }

    async fn take_off_ratings(&self, app: &str, gone: &[&Place]) -> Result<(), StoreError> {
        if gone.is_empty() {
            return Ok(());
        }
        let mut pipe = redis::Pipeline::with_capacity(gone.len());
        for (_, member, shard) in gone {
            pipe.cmd("ZREM").arg(self.keys.feedbacks(*shard, app)).arg(member).ignore();
        }
        self.connector.ask_all("removing ratings from a list", &pipe).await
    }
}

fn feedback((at, member, _): &Place, rating: String) -> Option<Feedback> {
    let (conversation, message) = member.split_once(' ')?;
    let (conversation, message) = (conversation.to_string(), message.parse().ok()?);
    Some(Feedback { conversation, message, created_at: Timestamp::from_millis(*at), rating })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_by_counting_and_few_ratings_before_it_are_read() {
        let even: Vec<i64> = (0..9_000).map(|n| 1_700_000_000_000 + n * 60_000).collect();
        let bursts: Vec<i64> = (0..9_000).map(|n| 1_000 * (1 << (n / 300))).collect();
        for times in [even, bursts] {
            for from in [401, 777, 4_500, 8_999] {
                let mut cut = Cut::new(from, 400, times[0], times[times.len() - 1]);
                let mut counts = 0;
                while let Some(at) = cut.next() {
                    cut.counted(at, times.iter().filter(|time| **time > at).count());
                    counts += 1;
                }
                let newest_first = times.iter().rev().filter(|time| **time <= cut.upper);
                let found: Vec<&i64> = newest_first.skip(cut.skip()).take(20).collect();
                assert_eq!(found, times.iter().rev().skip(from).take(20).collect::<Vec<_>>(), "{from}");
                assert!(cut.skip() <= 400, "{from}: {} are passed over", cut.skip());
                assert!(counts <= 45, "{from}: {counts} counts");
            }
        }
    }
}
