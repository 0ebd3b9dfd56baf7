//! Submitting, reading and following runs.

use std::time::Duration;

use super::fixtures::{GRAPH, SHARD, created_at, event, new_run, run_id, take_back, write};
use super::{Outcome, Subject, holds, same};
use tidemill_common::ids::{BlobId, EntryId, ShardId};
use tidemill_common::limits;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{
    App, AppState, Created, Indexed, KeyGrant, ListRuns, NewRun, Reserved, TriggerChanges,
};
use tidemill_common::wire::commit::RunWrite;
use tidemill_common::wire::fact::kind;

pub(super) async fn a_run_is_created_once(s: Subject) -> Outcome {
    let store = s.store();
    let new = new_run(1);
    same("no such run", store.run_fields(new.id).await?, None)?;
    same("the first time", store.create_run(&new).await?, Created::Created)?;
    same("the second time", store.create_run(&new).await?, Created::Exists)?;
    let fields = store.run_fields(new.id).await?.unwrap_or_default();
    for (name, text) in &new.fields {
        same(name, fields.get(*name), Some(text))?;
    }
    let facts = s.facts().await?;
    let found: Vec<_> = facts.iter().map(|f| (&*f.kind, f.run_text(), f.body.as_str())).collect();
    same("facts", found, vec![(kind::START, new.id.to_string(), new.start.as_str())])?;
    same("the graph", store.graph(SHARD, GRAPH).await?, Some(new.graph.1.clone()))?;
    same("another graph", store.load_graph(SHARD, "none").await?, None)?;
    same("for workers", store.graph_document(SHARD, GRAPH).await?, Some(new.graph.1))?;
    let rest = store.run_at_rest(new.id).await?.unwrap_or_default();
    same("the run at rest", (rest.run, rest.state.len(), rest.held.len(), rest.seq), (fields, 0, 0, 0))
}

pub(super) async fn a_full_inbox_refuses_new_runs(s: Subject) -> Outcome {
    s.create(1).await?;
    for _ in 0..=s.control.inbox_max() {
        s.report(1, &["{}"]).await?;
    }
    same("a new run", s.store().create_run(&new_run(2)).await?, Created::Busy)?;
    same("no data of it", s.store().run_fields(run_id(2)).await?, None)?;
    same("nor in the list", s.store().list_runs(&all()).await?, vec![run_id(1)])?;
    same("one that exists", s.store().create_run(&new_run(1)).await?, Created::Exists)
}

pub(super) async fn a_full_queue_refuses_new_runs_that_use_it(s: Subject) -> Outcome {
    let jobs = usize::try_from(s.control.queue_max()).unwrap_or(usize::MAX);
    let (mut owning, entries) = s.with_jobs(jobs).await?;
    let new = new_run(2);
    same("a new run", s.store().create_run(&new).await?, Created::QueueFull)?;
    same("no data of it", s.store().run_fields(new.id).await?, None)?;
    let other = NewRun { queues: vec!["other".into()], ..new_run(3) };
    same("one that uses another", s.store().create_run(&other).await?, Created::Created)?;
    owning.write(vec![RunWrite { taken_back: vec![take_back(1, entries[0])], ..write(1) }]).await?;
    same("when there is room", s.store().create_run(&new).await?, Created::Created)
}

pub(super) async fn a_missing_blob_refuses_a_run(s: Subject) -> Outcome {
    let there = s.blob("\"here\"").await?;
    let missing = BlobId::generate();
    let new = NewRun { blobs: vec![(there, 6), (missing.clone(), 7)], ..new_run(1) };
    same("with a blob missing", s.store().create_run(&new).await?, Created::BlobMissing)?;
    same("no data of it", s.store().run_fields(new.id).await?, None)?;
    same("no fact", s.facts().await?, vec![])?;
    s.store().put_blob(SHARD, &missing, "\"there\"").await?;
    same("with all blobs", s.store().create_run(&new).await?, Created::Created)
}

pub(super) async fn accepted_blobs_stay_and_others_expire(s: Subject) -> Outcome {
    let accepted = s.blob("\"kept\"").await?;
    let other = s.blob("\"lost\"").await?;
    let new = NewRun { blobs: vec![(accepted.clone(), 6)], ..new_run(1) };
    same("created", s.store().create_run(&new).await?, Created::Created)?;
    same("not yet", s.store().load_blob(SHARD, &other).await?, Some("\"lost\"".to_string()))?;
    let pending = Duration::from_secs(limits::BLOB_PENDING_SECONDS + 1);
    if pending <= s.control.patience() {
        s.control.advance(pending).await;
        same("one that nothing accepted", s.store().blob(SHARD, &other).await?, None)?;
    }
    same("the accepted one", s.store().blob(SHARD, &accepted).await?, Some("\"kept\"".to_string()))
}

fn all() -> ListRuns {
    ListRuns { limit: 100, ..ListRuns::default() }
}

pub(super) async fn a_kept_blob_stays_when_it_is_stored_again(s: Subject) -> Outcome {
    let store = s.store();
    // Long enough that it is stored in pieces.
    let text = format!("\"{}\"", "x".repeat(2_500_000));
    let kept = s.blob(&text).await?;
    let waiting = s.blob("\"waiting\"").await?;
    let new = NewRun { blobs: vec![(kept.clone(), text.len() as u64)], ..new_run(1) };
    same("created", store.create_run(&new).await?, Created::Created)?;
    // A request that a dying connection delivers late, or a worker that hands its result in again.
    for (id, text) in [(&kept, text.as_str()), (&waiting, "\"waiting\"")] {
        store.put_blob(SHARD, id, text).await?;
    }
    holds("it is whole", store.blob(SHARD, &kept).await?.as_deref() == Some(text.as_str()))?;
    same("the other one", store.blob(SHARD, &waiting).await?, Some("\"waiting\"".to_string()))?;
    let pending = Duration::from_secs(limits::BLOB_PENDING_SECONDS + 1);
    if s.control.patience() >= pending {
        s.control.advance(pending).await;
        holds("it does not expire", store.blob(SHARD, &kept).await?.is_some())?;
        same("the other one does", store.blob(SHARD, &waiting).await?, None)?;
    }
    Ok(())
}

pub(super) async fn runs_are_listed_newest_first(s: Subject) -> Outcome {
    let elsewhere = ShardId(1);
    for n in [2, 1, 4] {
        s.create(n).await?;
    }
    let other = NewRun {
        id: tidemill_common::ids::RunId::new(created_at(3).millis().unsigned_abs(), 0, elsewhere),
        ..new_run(3)
    };
    // A namespace with one shard lists the same without the other run.
    let several = s.store().meta().await?.shards > 1;
    if several {
        same("on another shard", s.store().create_run(&other).await?, Created::Created)?;
    }
    let mut newest = vec![run_id(4), other.id, run_id(2), run_id(1)];
    newest.retain(|id| several || *id != other.id);
    same("all", s.store().list_runs(&all()).await?, newest.clone())?;
    let two = ListRuns { limit: 2, ..ListRuns::default() };
    same("two", s.store().list_runs(&two).await?, newest[..2].to_vec())?;
    let before = ListRuns { before: Some(created_at(2)), ..all() };
    same("before the second", s.store().list_runs(&before).await?, vec![run_id(1)])?;
    let since = ListRuns { since: Some(created_at(4)), ..all() };
    same("since the last", s.store().list_runs(&since).await?, vec![run_id(4)])?;
    let here = ListRuns { shards: Some(vec![SHARD]), ..all() };
    let of_shard = vec![run_id(4), run_id(2), run_id(1)];
    same("of a shard", s.store().list_runs(&here).await?, of_shard)?;
    let nowhere = ListRuns { shards: Some(Vec::new()), ..all() };
    same("of none", s.store().list_runs(&nowhere).await?, Vec::new())
}

pub(super) async fn runs_of_an_app_are_listed_until_they_are_removed(s: Subject) -> Outcome {
    let of = |n: u8, app: &str| {
        let mut new = new_run(n);
        new.fields.push(("app", app.to_string()));
        new
    };
    for new in [of(1, "one"), of(2, "two"), new_run(3), of(4, "one")] {
        for expected in [Created::Created, Created::Exists] {
            same("creating a run", s.store().create_run(&new).await?, expected)?;
        }
    }
    let store = s.store();
    let by = |app: &str| ListRuns { app: Some(app.to_string()), ..all() };
    same("of an app", store.list_runs(&by("one")).await?, vec![run_id(4), run_id(1)])?;
    same("of another", store.list_runs(&by("two")).await?, vec![run_id(2)])?;
    same("of an app without runs", store.list_runs(&by("three")).await?, vec![])?;
    let early = ListRuns { before: Some(created_at(4)), ..by("one") };
    same("before a time", store.list_runs(&early).await?, vec![run_id(1)])?;
    let of_any_status = ListRuns { status: Some(RunStatus::Failed), ..by("one") };
    same("of any status", store.list_runs(&of_any_status).await?, vec![run_id(4), run_id(1)])?;
    let mut owning = s.own("a").await?;
    let write = |from, to| super::fixtures::moved(1, from, to);
    owning.write(vec![write(RunStatus::Scheduled, RunStatus::Running)]).await?;
    owning.write(vec![super::fixtures::ended(1, created_at(9))]).await?;
    same("swept", store.sweep(SHARD, owning.epoch(), created_at(10), 10).await?, 1)?;
    same("without the removed one", store.list_runs(&by("one")).await?, vec![run_id(4)])
}

pub(super) async fn older_runs_are_listed_by_app_and_the_newest_once_more_later(s: Subject) -> Outcome {
    for n in 1..=3 {
        let mut new = new_run(n);
        new.fields.push(("app", "one".to_string()));
        same("creating a run", s.store().create_run(&new).await?, Created::Created)?;
    }
    let (store, epoch) = (s.store(), s.own("a").await?.epoch());
    let index = async |now| store.index_runs(SHARD, epoch, now, 2).await;
    let now = store.time().await?;
    let mut indexed = index(now).await?;
    for _ in 0..3 {
        // A store without runs of earlier versions has nothing to do.
        holds("a piece is a part", indexed == Indexed::More || indexed == Indexed::All)?;
        if indexed == Indexed::All {
            break;
        }
        indexed = index(now).await?;
        if indexed == Indexed::Later {
            same("it is too early", index(now).await?, Indexed::Later)?;
            indexed = index(now.plus(Duration::from_secs(3600))).await?;
        }
    }
    same("all", indexed, Indexed::All)?;
    same("and it stays so", index(now).await?, Indexed::All)?;
    let by_app = ListRuns { app: Some("one".to_string()), ..all() };
    same("each is listed once", store.list_runs(&by_app).await?, vec![run_id(3), run_id(2), run_id(1)])
}

pub(super) async fn the_list_by_status_follows_the_commits(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    s.create(3).await?;
    let by = |status| ListRuns { status: Some(status), ..all() };
    same("scheduled", s.store().list_runs(&by(RunStatus::Scheduled)).await?, vec![run_id(3)])?;
    same("running", s.store().list_runs(&by(RunStatus::Running)).await?, vec![run_id(2), run_id(1)])?;
    owning.write(vec![super::fixtures::ended(1, created_at(9))]).await?;
    same("still running", s.store().list_runs(&by(RunStatus::Running)).await?, vec![run_id(2)])?;
    same("succeeded", s.store().list_runs(&by(RunStatus::Succeeded)).await?, vec![run_id(1)])?;
    same("all", s.store().list_runs(&all()).await?, vec![run_id(3), run_id(2), run_id(1)])?;
    same("the hash has the same status", s.status(1).await?, Some("succeeded".to_string()))
}

pub(super) async fn an_app_is_found_by_its_id_and_its_key(s: Subject) -> Outcome {
    let app = |id: &str, version: &str| App {
        id: id.to_string(),
        name: "An app".to_string(),
        mode: "workflow".to_string(),
        version: version.to_string(),
        document: "{}".to_string(),
        created_at_ms: 1_754_339_718_571,
        triggers: vec![("node".to_string(), "trigger".to_string())],
        annotation_reply: None,
        state: AppState::On,
    };
    let none = TriggerChanges::default();
    let store = s.store();
    store.put_app(&app("one", "v1"), Some("hash of key"), &none).await?;
    store.put_app(&app("two", "v1"), None, &none).await?;
    store.put_app(&app("one", "v2"), None, &none).await?;
    same("by id", store.app("one").await?, Some(app("one", "v2")))?;
    same("unknown", store.app("three").await?, None)?;
    same("called by its id", store.app_called("two").await?, Some(app("two", "v1")))?;
    same("called by a name of two", store.app_called("An app").await?, None)?;
    let other = App { name: "Another".to_string(), ..app("other", "v1") };
    store.put_app(&other, None, &none).await?;
    same("called by its name", store.app_called("Another").await?, Some(other))?;
    same("called by an unknown name", store.app_called("Nobody").await?, None)?;
    same("by key", store.grant_of_key("hash of key").await?, Some(KeyGrant::of("one")))?;
    same("by another key", store.grant_of_key("hash of another").await?, None)?;
    let mut ids = store.apps().await?;
    ids.sort();
    same("all", ids, vec!["one".to_string(), "other".to_string(), "two".to_string()])
}

pub(super) async fn an_idempotency_key_is_reserved_once(s: Subject) -> Outcome {
    let store = s.store();
    same("first", store.reserve("key", "request", run_id(1)).await?, Reserved::Ours)?;
    same("again", store.reserve("key", "request", run_id(2)).await?, Reserved::Same(run_id(1)))?;
    same("for another request", store.reserve("key", "other", run_id(3)).await?, Reserved::Other)?;
    same("another key", store.reserve("key 2", "other", run_id(3)).await?, Reserved::Ours)
}

pub(super) async fn events_are_read_in_pages(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let first = owning.next();
    let entry = |events: &[u64]| events.iter().map(|seq| event("node_run_started", *seq)).collect::<Vec<_>>();
    owning
        .write(vec![RunWrite { entries: [entry(&[1]), entry(&[2, 3])].into_iter().collect(), ..write(1) }])
        .await?;
    owning.write(vec![RunWrite { entries: [entry(&[4])].into_iter().collect(), ..write(1) }]).await?;
    let page = s.store().events(run_id(1), EntryId::ZERO, 2).await?;
    let found: Vec<_> = page.iter().map(|e| (e.entry, e.seq, e.last_of_entry)).collect();
    let (one, two) = (EntryId::new(first, 0), EntryId::new(first, 1));
    same("the first two entries", found, vec![(one, 1, true), (two, 2, false), (two, 3, true)])?;
    holds(
        "types are listed",
        page.iter().all(|e| e.kind == "node_run_started" && e.ts == 1_754_339_718_000),
    )?;
    let rest = s.store().events(run_id(1), two, 10).await?;
    let found: Vec<_> = rest.iter().map(|e| (e.entry, e.seq)).collect();
    same("the rest", found, vec![(EntryId::new(first + 1, 0), 4)])?;
    same("after the end", s.store().events(run_id(1), EntryId::new(first + 1, 0), 10).await?, vec![])?;
    same("of another run", s.store().events(run_id(2), EntryId::ZERO, 10).await?, vec![])
}

pub(super) async fn followers_are_woken(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let mut following = s.store().follow(run_id(1));
    following.has_reached(EntryId::ZERO, 0);
    // The subscription may still be opening when the first commit is published; a later one must arrive.
    for seq in 1..20_u64 {
        let entry = EntryId::new(owning.next(), 0);
        owning
            .write(vec![RunWrite { entries: [[event("tick", seq)]].into_iter().collect(), seq, ..write(1) }])
            .await?;
        let found = tokio::time::timeout(Duration::from_millis(200), following.changed()).await.is_ok();
        let Some(tick) = following.take() else {
            holds("a received hint can be taken", !found)?;
            continue;
        };
        // A hint alone is enough, but a page with it must be right.
        let Some(page) = tick else { return Ok(()) };
        let ids: Vec<_> = page.entries.iter().map(|entry| entry.id).collect();
        let store = s.store();
        let there: Vec<_> = store.entries(run_id(1), page.after, 100).await?.iter().map(|e| e.id).collect();
        same("a page has all entries after its beginning", ids, there)?;
        return same("up to the last entry", page.end(), entry);
    }
    holds("a follower is woken by commits", false)
}
