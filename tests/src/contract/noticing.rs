//! Webhooks of apps: the setting, and notices from the commit that orders them to the script that removes them.

use super::fixtures::{SHARD, created_at, ended, moved, run_id};
use super::{Outcome, Subject, holds, same};
use tidemill_common::clock::Timestamp;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Notice, NoticePlace, NoticeTried, NoticesAhead};
use tidemill_common::wire::commit::{NoticeWrite, RunWrite};

fn told(n: u8, write: RunWrite, event: &'static str) -> RunWrite {
    RunWrite { notice: Some(Box::new(NoticeWrite { app: "one".into(), event, at: time_of(n) })), ..write }
}

/// The time of the event of a run.
fn time_of(n: u8) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + i64::from(n))
}

fn place() -> NoticePlace {
    NoticePlace { shard: SHARD, app: "one".into() }
}

async fn waiting(s: &Subject) -> Result<Vec<Notice>, super::Broken> {
    let (found, _) = s.store().notices_of("one", 10).await?;
    Ok(found.into_iter().flat_map(|of_app| of_app.first).collect())
}

fn places(notices: &[Notice]) -> Vec<(u128, &str)> {
    let number = |notice: &Notice| (1..=9).find(|n| run_id(*n) == notice.run).map_or(0, u128::from);
    notices.iter().map(|notice| (number(notice), notice.event.as_str())).collect()
}

pub(super) async fn the_webhook_of_an_app_is_stored_and_removed(s: Subject) -> Outcome {
    same("nothing yet", s.store().webhook("one").await?, None)?;
    let none = s.store().webhooks_version().await?;
    s.store().put_webhook("one", Some("{}")).await?;
    s.store().put_webhook("two", Some("[]")).await?;
    let two = s.store().webhooks_version().await?;
    same("it is read", s.store().webhook("one").await?, Some("{}".into()))?;
    s.store().put_webhook("one", None).await?;
    let one = s.store().webhooks_version().await?;
    holds("each change is seen", none < two && two < one)?;
    same("the version stays", s.store().webhooks_version().await?, one)?;
    same("the others stay", s.store().webhooks().await?, vec![("two".into(), "[]".into())])
}

pub(super) async fn a_notice_waits_from_its_commit_until_it_is_settled(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    same("none yet", waiting(&s).await?, Vec::new())?;
    owning.write(vec![told(1, moved(1, RunStatus::Running, RunStatus::Paused), "paused")]).await?;
    owning.write(vec![told(2, ended(2, created_at(9)), "ended")]).await?;
    let both = waiting(&s).await?;
    same("in the order of their events", places(&both), vec![(1, "paused"), (2, "ended")])?;
    let now = s.store().time().await?;
    holds("they are due", both.iter().all(|notice| notice.due <= now))?;
    same("with their times", both.iter().map(|it| it.at).collect(), vec![time_of(1), time_of(2)])?;
    holds("their ids differ", both[0].id() != both[1].id())?;

    let later = now.plus(std::time::Duration::from_secs(60));
    let tried = NoticeTried::Later(later, "{\"tries\":1}".into());
    same("tried later", s.store().settle_notice(&both[0], &tried).await?, true)?;
    let found = waiting(&s).await?;
    same("the later one is the last", places(&found), vec![(2, "ended"), (1, "paused")])?;
    same("with its record", found[1].record.clone(), Some("{\"tries\":1}".into()))?;
    same("at its time", found[1].due.millis(), later.millis())?;
    same("the same id and time", (found[1].id(), found[1].at), (both[0].id(), both[0].at))?;
    same("one is due", s.store().due_notices(&place(), now, 10).await?, vec![both[1].clone()])?;
    same("the latest", s.store().latest_notices(&place(), 1).await?, vec![found[1].clone()])?;
    let ahead = NoticesAhead { count: 2, first_due: Some(both[1].due) };
    same("what is ahead", s.store().notices_ahead(&[place()]).await?, vec![ahead])?;

    same("done", s.store().settle_notice(&both[1], &NoticeTried::Done).await?, true)?;
    same("once", s.store().settle_notice(&both[1], &NoticeTried::Done).await?, false)?;
    let given_up = NoticeTried::GivenUp("{\"tries\":2}".into(), 1);
    same("given up", s.store().settle_notice(&both[0], &given_up).await?, true)?;
    let again = NoticeTried::Later(Timestamp::from_millis(0), "{}".into());
    same("not tried again", s.store().settle_notice(&both[0], &again).await?, false)?;
    same("none is left", waiting(&s).await?, Vec::new())?;
    same("nor a place", s.store().places_with_notices(&[SHARD]).await?, Vec::new())?;
    same("nor one ahead", s.store().notices_ahead(&[place()]).await?, vec![NoticesAhead::default()])?;
    let (left, records) = s.store().notices_of("one", 10).await?;
    same("only the record is kept", (left.len(), records), (0, vec!["{\"tries\":2}".into()]))?;
    same("not of another app", s.store().notices_of("two", 10).await?, (Vec::new(), Vec::new()))
}

pub(super) async fn notices_are_read_in_pieces_and_few_records_are_kept(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2, 3]).await?;
    let writes = [1, 2, 3].map(|n| told(n, ended(n, created_at(9)), "failed"));
    owning.write(writes.into()).await?;
    let (found, _) = s.store().notices_of("one", 2).await?;
    let sizes: Vec<(u64, usize)> = found.iter().map(|of_app| (of_app.count, of_app.first.len())).collect();
    same("a piece of all", sizes, vec![(3, 2)])?;
    let now = s.store().time().await?;
    let first = s.store().due_notices(&place(), now, 2).await?;
    same("the first", places(&first), vec![(1, "failed"), (2, "failed")])?;
    let latest = s.store().latest_notices(&place(), 2).await?;
    same("the latest", places(&latest), vec![(3, "failed"), (2, "failed")])?;
    same("no notices", s.store().latest_notices(&place(), 0).await?, Vec::new())?;
    let (all, _) = s.store().notices_of("one", 10).await?;
    for (at, notice) in all.iter().flat_map(|of_shard| &of_shard.first).enumerate() {
        s.store().settle_notice(notice, &NoticeTried::GivenUp(at.to_string(), 2)).await?;
    }
    let (_, records) = s.store().notices_of("one", 10).await?;
    same("the newest two", records, vec!["2".into(), "1".into()])
}

pub(super) async fn the_notices_of_an_app_are_dropped(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    owning.write([1, 2].map(|n| told(n, ended(n, created_at(9)), "ended")).into()).await?;
    same("a place", s.store().places_with_notices(&[SHARD]).await?, vec![place()])?;
    let both = waiting(&s).await?;
    s.store().settle_notice(&both[0], &NoticeTried::GivenUp("{}".into(), 5)).await?;
    s.store().drop_notices("two").await?;
    same("the other app's stay", waiting(&s).await?.len(), 1)?;
    s.store().drop_notices("one").await?;
    same("nothing is left", s.store().notices_of("one", 10).await?, (Vec::new(), Vec::new()))?;
    same("no place", s.store().places_with_notices(&[SHARD]).await?, Vec::new())?;
    let late = NoticeTried::GivenUp("{}".into(), 5);
    same("a late result is not stored", s.store().settle_notice(&both[1], &late).await?, false)?;
    same("nor its record", s.store().notices_of("one", 10).await?, (Vec::new(), Vec::new()))
}
