//! The effects of a commit, and when it has none.

use super::fixtures::{QUEUE, SHARD, created_at, event, job, moved, run_id, write};
use super::{Broken, Outcome, Subject, holds, same};
use tidemill_common::ids::{BlobId, EntryId};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Commit, CommitError, Dead};
use tidemill_common::wire::codec::pairs::Pairs;
use tidemill_common::wire::commit::RunWrite;
use tidemill_common::wire::fact::kind;

fn fields(pairs: &[(&str, Option<&str>)]) -> Pairs {
    pairs.iter().copied().collect()
}

async fn state_of(s: &Subject, n: u8) -> Result<Vec<(String, String)>, Broken> {
    let mut state = s.store().load_run(run_id(n)).await?.unwrap_or_default().state;
    state.sort();
    Ok(state)
}

pub(super) async fn a_commit_writes_all_of_a_run(s: Subject) -> Outcome {
    s.create(1).await?;
    let mut owning = s.own("a").await?;
    let entry = EntryId::new(owning.next(), 0);
    let begun = RunWrite {
        state: fields(&[("n:/start", Some("{\"status\":\"succeeded\"}")), ("v:/start.x", Some("\"ä\""))]),
        held: vec!["one".to_string(), "two".to_string()],
        entries: vec![vec![event("graph_run_started", 1)], vec![event("node_run_started", 2), event("x", 3)]]
            .into_iter()
            .collect(),
        jobs: vec![job(1, entry)],
        timers_set: vec![(created_at(9), "a timer".to_string())],
        ..moved(1, RunStatus::Scheduled, RunStatus::Running)
    };
    let cursor = s.facts().await?[0].entry;
    let dead = Dead::new("fact", "?", "a test", "{}".into());
    owning
        .commit(Commit { cursor: Some(cursor), writes: vec![begun], dead: vec![dead], ..Commit::default() })
        .await?;
    let rest = s.store().load_run(run_id(1)).await?.unwrap_or_default();
    same("a field", rest.run.get("status").map(String::as_str), Some("running"))?;
    same("a field that existed", rest.run.contains_key("version"), true)?;
    same("held chunks in order", rest.held, vec!["one".to_string(), "two".to_string()])?;
    same("the number of the last event", rest.seq, 3)?;
    let text = |name: &str, text: &str| (name.to_string(), text.to_string());
    let state = vec![text("n:/start", "{\"status\":\"succeeded\"}"), text("v:/start.x", "\"ä\"")];
    same("the state", state_of(&s, 1).await?, state)?;
    same("events", s.store().events(run_id(1), EntryId::ZERO, 10).await?.len(), 3)?;
    same("timers", s.store().next_timer(SHARD).await?, Some(created_at(9)))?;
    let jobs = s.deliver("w", 10).await?;
    let found: Vec<_> = jobs.iter().map(|j| (j.entry, j.run.clone(), j.body.as_str(), &*j.queue)).collect();
    same("jobs", found, vec![(entry, run_id(1).to_string(), "{\"node\":\"n1\"}", QUEUE)])
}

pub(super) async fn a_commit_deletes_fields_and_held_chunks(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let held = vec!["old".to_string()];
    let state = fields(&[("a", Some("1")), ("b", Some("2"))]);
    owning.write(vec![RunWrite { held, state, ..write(1) }]).await?;
    let state = fields(&[("a", None), ("b", Some("3")), ("never there", None)]);
    let held = vec!["new".to_string()];
    owning.write(vec![RunWrite { held_cleared: true, held, state, ..write(1) }]).await?;
    same("the state", state_of(&s, 1).await?, vec![("b".to_string(), "3".to_string())])?;
    let rest = s.store().run_at_rest(run_id(1)).await?.unwrap_or_default();
    same("cleared first, then appended", rest.held, vec!["new".to_string()])
}

pub(super) async fn a_lost_owner_writes_nothing(s: Subject) -> Outcome {
    s.create(1).await?;
    let cursor = s.facts().await?[0].entry;
    let mut lost = s.own("a").await?;
    s.store().release(SHARD, "a").await?;
    let owner = s.own("b").await?;
    let blob = BlobId::generate();
    let entry = EntryId::new(lost.next(), 0);
    let all = RunWrite {
        state: fields(&[("a", Some("1"))]),
        held: vec!["held".to_string()],
        entries: [[event("graph_run_started", 1)]].into_iter().collect(),
        jobs: vec![job(1, entry)],
        timers_set: vec![(created_at(9), "a timer".to_string())],
        blobs: vec![(blob.clone(), "\"text\"".to_string())],
        continue_due: true,
        ..moved(1, RunStatus::Scheduled, RunStatus::Running)
    };
    let refused = lost.commit(Commit { cursor: Some(cursor), writes: vec![all], ..Commit::default() }).await;
    holds("refused as lost", matches!(refused, Err(CommitError::Lost(shard)) if shard == SHARD))?;
    let rest = s.store().run_at_rest(run_id(1)).await?.unwrap_or_default();
    same("the status", rest.run.get("status").map(String::as_str), Some("scheduled"))?;
    same("nothing in the state", (rest.state, rest.held, rest.seq), (vec![], vec![], 0))?;
    same("no event", s.store().events(run_id(1), EntryId::ZERO, 10).await?, vec![])?;
    same("no job", s.deliver("w", 10).await?, vec![])?;
    same("no timer", s.store().next_timer(SHARD).await?, None)?;
    same("no blob", s.store().blob(SHARD, &blob).await?, None)?;
    same("no fact", s.facts().await?.len(), 1)?;
    same("the cursor", owner.owner.claim().cursor, EntryId::ZERO)?;
    same("nor later", s.own("b").await?.owner.claim().cursor, EntryId::ZERO)
}

pub(super) async fn events_of_one_commit_are_numbered_per_run(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    let number = owning.next();
    let entries = |first: u64| [[event("x", first)], [event("x", first + 1)]].into_iter().collect();
    let writes = [1, 2].map(|n| RunWrite { entries: entries(1), ..write(n) });
    owning.write(writes.to_vec()).await?;
    for n in [1, 2] {
        let found = s.store().events(run_id(n), EntryId::ZERO, 10).await?;
        let found: Vec<_> = found.iter().map(|e| (e.entry, e.seq)).collect();
        same("entries", found, vec![(EntryId::new(number, 0), 1), (EntryId::new(number, 1), 2)])?;
    }
    Ok(())
}

pub(super) async fn a_bounded_step_continues_with_a_fact(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let before = s.facts().await?.len();
    owning.write(vec![RunWrite { continue_due: true, ..write(1) }]).await?;
    let facts = s.facts().await?;
    same("one more fact", facts.len(), before + 1)?;
    let last = facts.last().map(|fact| (&*fact.kind, fact.run_text()));
    same("at the end of the inbox", last, Some((kind::CONTINUE, run_id(1).to_string())))
}

pub(super) async fn blobs_of_a_commit_can_be_read(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let blob = BlobId::generate();
    let blobs = vec![(blob.clone(), "\"large\"".to_string())];
    owning.write(vec![RunWrite { blobs, ..write(1) }]).await?;
    same("by the API", s.store().blob(SHARD, &blob).await?, Some("\"large\"".to_string()))?;
    same("by workers", s.store().load_blob(SHARD, &blob).await?, Some("\"large\"".to_string()))
}

pub(super) async fn open_runs_are_listed_page_by_page(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2, 3, 4, 5]).await?;
    s.create(6).await?;
    owning.write(vec![super::fixtures::ended(2, created_at(9))]).await?;
    // A paused run has no jobs to look after.
    let waits = ("status", RunStatus::Paused.name().to_string());
    let status = Some((RunStatus::Running, RunStatus::Paused));
    owning.write(vec![RunWrite { fields: vec![waits], status, ..write(3) }]).await?;
    let (mut open, mut from, mut pages) = (Vec::new(), Some(0), 0);
    while let Some(at) = from {
        let (page, next) = s.store().open_runs(SHARD, at, 2).await?;
        holds("no page is larger than asked for", page.len() <= 2)?;
        open.extend(page);
        pages += 1;
        holds("there is an end", pages < 20)?;
        from = next;
    }
    open.sort();
    same("open runs", open, [1, 4, 5, 6].map(run_id).to_vec())
}
