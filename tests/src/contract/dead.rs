//! Dead letters: list, delete, put back.

use super::fixtures::{QUEUE, SHARD, created_at, ended, run_id};
use super::{Broken, Outcome, Subject, holds, same};
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Commit, Completion, Dead, DeadFact, DeadId, DeadLetter, ListDead, PutBack};
use tidemill_common::wire::fact::kind;

fn dead(n: u8, reason: &str) -> Dead {
    Dead::new("fact", run_id(n).to_string(), reason, "stop {\"reason\":\"x\"}".to_string())
}

async fn list(s: &Subject, before: Option<DeadId>, limit: usize) -> Result<Vec<DeadLetter>, Broken> {
    Ok(s.store().dead_letters(&ListDead { before, limit }).await?)
}

fn reasons(letters: &[DeadLetter]) -> Vec<&str> {
    letters.iter().map(|letter| letter.reason.as_str()).collect()
}

pub(super) async fn dead_letters_are_listed_newest_first_page_by_page(s: Subject) -> Outcome {
    same("at first", list(&s, None, 10).await?.len(), 0)?;
    let mut owning = s.running(&[1]).await?;
    let dead = ["one", "two", "three"].map(|reason| dead(1, reason)).to_vec();
    owning.commit(Commit { dead, ..Commit::default() }).await?;
    let first = list(&s, None, 2).await?;
    same("the first page", reasons(&first), vec!["three", "two"])?;
    let rest = list(&s, first.last().map(|letter| letter.id), 2).await?;
    same("the next", reasons(&rest), vec!["one"])?;
    same("its shard", rest[0].id.shard, SHARD)?;
    same("its run", rest[0].run.clone(), run_id(1).to_string())?;
    same("its fact", rest[0].fact(), Some(("stop", "{\"reason\":\"x\"}")))?;
    same("after the last", list(&s, Some(rest[0].id), 2).await?.len(), 0)?;
    same("by its id", s.store().dead_letter(rest[0].id).await?.as_ref(), Some(&rest[0]))?;
    same("forgotten", s.store().drop_dead_letter(rest[0].id).await?, true)?;
    same("again", s.store().drop_dead_letter(rest[0].id).await?, false)?;
    same("it is deleted", s.store().dead_letter(rest[0].id).await?, None)
}

pub(super) async fn a_job_that_was_given_up_gets_a_dead_letter(s: Subject) -> Outcome {
    let (_owning, entries) = s.with_jobs(1).await?;
    let held = s.deliver("w", 1).await?;
    let letter = Dead::new("job", run_id(1).to_string(), "worker lost", "{}".to_string())
        .at("it#1".into(), "llm".into());
    let completion = |number| Completion {
        entry: entries[0],
        number,
        run: run_id(1),
        kind: kind::FAILED,
        body: "{}".to_string(),
        blobs: Vec::new(),
        dead: Some(letter.clone()),
    };
    let hand_in = async |number| s.store().complete(SHARD, QUEUE, "w", &[completion(number)]).await;
    hand_in(held[0].number + 1).await?;
    same("not by a worker that does not hold it", list(&s, None, 10).await?.len(), 0)?;
    hand_in(held[0].number).await?;
    hand_in(held[0].number).await?;
    let kept = list(&s, None, 10).await?;
    same("once", reasons(&kept), vec!["worker lost"])?;
    same("where", kept[0].place.clone(), letter.place.clone())
}

pub(super) async fn a_dead_fact_is_put_back_once(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    let dead = vec![dead(1, "one"), dead(2, "two"), dead(3, "three")];
    owning.commit(Commit { dead, ..Commit::default() }).await?;
    let letters = list(&s, None, 10).await?;
    let id = |reason: &str| letters.iter().find(|letter| letter.reason == reason).map(|letter| letter.id);
    let put = async |n, reason| {
        let id = id(reason).ok_or_else(|| Broken::Promise("a letter is missing".into()))?;
        let fact = DeadFact { id, run: run_id(n), kind: kind::STOP, body: "{\"reason\":\"x\"}" };
        Ok::<_, Broken>(s.store().put_back(fact).await?)
    };
    same("of an open run", put(1, "one").await?, PutBack::Done)?;
    same("again", put(1, "one").await?, PutBack::Gone)?;
    owning.write(vec![ended(2, created_at(9))]).await?;
    same("of a run that has ended", put(2, "two").await?, PutBack::Over(RunStatus::Succeeded))?;
    same("of a run that does not exist", put(3, "three").await?, PutBack::NoRun)?;
    let facts = s.facts().await?;
    let found: Vec<_> = facts.iter().filter(|fact| fact.kind == kind::STOP).collect();
    same("facts", found.len(), 1)?;
    same("its run", found[0].run_text(), run_id(1).to_string())?;
    holds("the others stay", list(&s, None, 10).await?.len() == 2)
}
