//! Webhooks of apps: the setting, and notices from the commit that orders them to the script that removes them.

use super::fixtures::{SHARD, created_at, ended, moved, run_id};
use super::{Outcome, Subject, holds, same};
use tidemill_common::clock::Timestamp;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Notice, NoticeTried};
use tidemill_common::wire::commit::{NoticeWrite, RunWrite};

fn told(write: RunWrite, event: &'static str) -> RunWrite {
    RunWrite { notice: Some(Box::new(NoticeWrite { app: "one".into(), event })), ..write }
}

async fn waiting(s: &Subject) -> Result<Vec<Notice>, super::Broken> {
    let found = s.store().waiting_notices(&[SHARD], 10).await?;
    Ok(found.into_iter().flat_map(|of_app| of_app.first).collect())
}

fn places(notices: &[Notice]) -> Vec<(u128, &str)> {
    let number = |notice: &Notice| (1..=9).find(|n| run_id(*n) == notice.run).map_or(0, u128::from);
    notices.iter().map(|notice| (number(notice), notice.event.as_str())).collect()
}

pub(super) async fn the_webhook_of_an_app_is_stored_and_removed(s: Subject) -> Outcome {
    same("nothing yet", s.store().webhook("one").await?, None)?;
    s.store().put_webhook("one", Some("{}")).await?;
    s.store().put_webhook("two", Some("[]")).await?;
    same("it is read", s.store().webhook("one").await?, Some("{}".into()))?;
    s.store().put_webhook("one", None).await?;
    same("the others stay", s.store().webhooks().await?, vec![("two".into(), "[]".into())])
}

pub(super) async fn a_notice_waits_from_its_commit_until_it_is_settled(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    same("none yet", waiting(&s).await?, Vec::new())?;
    owning.write(vec![told(moved(1, RunStatus::Running, RunStatus::Paused), "paused")]).await?;
    owning.write(vec![told(ended(2, created_at(9)), "ended")]).await?;
    let both = waiting(&s).await?;
    same("in the order of the commits", places(&both), vec![(1, "paused"), (2, "ended")])?;
    let now = s.store().time().await?;
    holds("they are due", both.iter().all(|notice| notice.due <= now))?;
    holds("their ids differ", both[0].id() != both[1].id())?;

    let later = now.plus(std::time::Duration::from_secs(60));
    let tried = NoticeTried::Later(later, "{\"tries\":1}".into());
    same("tried later", s.store().settle_notice(&both[0], &tried).await?, true)?;
    let found = waiting(&s).await?;
    same("the later one is the last", places(&found), vec![(2, "ended"), (1, "paused")])?;
    same("with its record", found[1].record.clone(), Some("{\"tries\":1}".into()))?;
    same("at its time", found[1].due.millis(), later.millis())?;
    same("the same id", found[1].id(), both[0].id())?;

    same("done", s.store().settle_notice(&both[1], &NoticeTried::Done).await?, true)?;
    same("once", s.store().settle_notice(&both[1], &NoticeTried::Done).await?, false)?;
    let given_up = NoticeTried::GivenUp("{\"tries\":2}".into(), 1);
    same("given up", s.store().settle_notice(&both[0], &given_up).await?, true)?;
    let again = NoticeTried::Later(Timestamp::from_millis(0), "{}".into());
    same("not tried again", s.store().settle_notice(&both[0], &again).await?, false)?;
    same("none is left", waiting(&s).await?, Vec::new())?;
    let (left, records) = s.store().notices_of("one", 10).await?;
    same("only the record is kept", (left.len(), records), (0, vec!["{\"tries\":2}".into()]))?;
    same("not of another app", s.store().notices_of("two", 10).await?, (Vec::new(), Vec::new()))
}

pub(super) async fn notices_are_read_in_pieces_and_few_records_are_kept(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2, 3]).await?;
    let writes = [1, 2, 3].map(|n| told(ended(n, created_at(9)), "failed"));
    owning.write(writes.into()).await?;
    let found = s.store().waiting_notices(&[SHARD], 2).await?;
    let sizes: Vec<(u64, usize)> = found.iter().map(|of_app| (of_app.count, of_app.first.len())).collect();
    same("a piece of all", sizes, vec![(3, 2)])?;
    let (all, _) = s.store().notices_of("one", 10).await?;
    for (at, notice) in all.iter().flat_map(|of_shard| &of_shard.first).enumerate() {
        s.store().settle_notice(notice, &NoticeTried::GivenUp(at.to_string(), 2)).await?;
    }
    let (_, records) = s.store().notices_of("one", 10).await?;
    same("the newest two", records, vec!["2".into(), "1".into()])
}
