//! The inbox.

use std::time::Duration;

use super::fixtures::{LONG, NOW, SHARD, run_id};
use super::{Outcome, Subject, holds, same};
use tidemill_common::ids::EntryId;
use tidemill_common::store::Commit;
use tidemill_common::wire::fact::kind;

pub(super) async fn facts_are_read_in_order_from_a_cursor(s: Subject) -> Outcome {
    s.report(1, &["1", "2"]).await?;
    s.report(2, &["3"]).await?;
    let mut reader = s.store().reader(SHARD).await?;
    let first = reader.read(EntryId::ZERO, 2, NOW).await?;
    let found: Vec<_> = first.iter().map(|f| (f.run_text(), &*f.kind, f.body.as_str())).collect();
    let run = run_id(1).to_string();
    same("the first two", found, vec![(run.clone(), kind::STARTED, "1"), (run, kind::STARTED, "2")])?;
    let rest = reader.read(first[1].entry, 10, NOW).await?;
    same("the rest", rest.iter().map(|f| f.body.as_str()).collect(), vec!["3"])?;
    holds("ids go up", first[0].entry < first[1].entry && first[1].entry < rest[0].entry)?;
    same("read again", reader.read(EntryId::ZERO, 10, NOW).await?.len(), 3)?;
    same("the length", s.store().inbox_len(SHARD).await?, 3)
}

pub(super) async fn a_waiting_reader_gets_new_facts(s: Subject) -> Outcome {
    let mut reader = s.store().reader(SHARD).await?;
    let began = std::time::Instant::now();
    let (read, reported) = tokio::join!(reader.read(EntryId::ZERO, 10, LONG), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        s.report(1, &["1"]).await
    });
    reported?;
    same("what came", read?.len(), 1)?;
    holds("it returned before its time was up", began.elapsed() < LONG)
}

pub(super) async fn a_waiting_reader_returns_nothing_when_its_time_is_up(s: Subject) -> Outcome {
    let mut reader = s.store().reader(SHARD).await?;
    same("nothing", reader.read(EntryId::ZERO, 10, Duration::from_millis(30)).await?, vec![])
}

pub(super) async fn the_inbox_is_cut_below_the_cursor_by_its_owner_only(s: Subject) -> Outcome {
    let bodies: Vec<String> = (0..300).map(|n| n.to_string()).collect();
    s.report(1, &bodies.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let facts = s.facts().await?;
    let mut owning = s.own("a").await?;
    let cursor = facts[249].entry;
    owning.commit(Commit { cursor: Some(cursor), ..Commit::default() }).await?;
    s.store().trim_inbox(SHARD, owning.epoch() + 1).await?;
    same("of another epoch", s.store().inbox_len(SHARD).await?, 300)?;
    s.store().trim_inbox(SHARD, owning.epoch()).await?;
    let left = s.store().inbox_len(SHARD).await?;
    // A stream may keep a whole node of entries.
    holds("most applied facts are removed", (50..300).contains(&left))?;
    let mut reader = s.store().reader(SHARD).await?;
    same("facts that were not applied are kept", reader.read(cursor, 100, NOW).await?, facts[250..].to_vec())
}
