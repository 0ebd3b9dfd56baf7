//! Commands to a run, answers to its pauses, and the data of its conversation.

use std::time::Duration;

use super::fixtures::{SHARD, conversation_write, created_at, ended, moved, run_id, write};
use super::{Broken, Outcome, Subject, same};
use tidemill_common::ids::BlobId;
use tidemill_common::machine::state::run::RunStatus;
use tidemill_common::store::{Answered, CommandKey, PauseAnswer, Paused, RunCommand, Sent};
use tidemill_common::wire::commit::{ConversationWrite, RunWrite};
use tidemill_common::wire::fact::kind;

fn stop(reason: &str, key: Option<&str>) -> RunCommand {
    let key = key.map(|key| CommandKey { key: key.to_string(), sha: format!("sha of {reason}") });
    RunCommand { key, ..RunCommand::new(kind::STOP, format!("{{\"reason\":\"{reason}\"}}")) }
}

async fn facts(s: &Subject, of: &str) -> Result<Vec<String>, Broken> {
    Ok(s.facts().await?.into_iter().filter(|fact| fact.kind == of).map(|fact| fact.body).collect())
}

pub(super) async fn commands_need_a_run_that_has_not_ended(s: Subject) -> Outcome {
    let command = stop("enough", None);
    let stop = |n| s.store().send_command(run_id(n), &command);
    same("an unknown run", stop(1).await?, Sent::NotFound)?;
    s.create(1).await?;
    same("a run that has not begun", stop(1).await?, Sent::Accepted)?;
    let last = s.facts().await?.pop();
    let found = last.map(|fact| (fact.kind.to_string(), fact.run_text(), fact.body));
    let expected = (kind::STOP.to_string(), run_id(1).to_string(), "{\"reason\":\"enough\"}".to_string());
    same("its fact", found, Some(expected))?;
    same("without a key it is another command", stop(1).await?, Sent::Accepted)?;
    let mut owning = s.own("a").await?;
    let over = moved(1, RunStatus::Scheduled, RunStatus::Stopped);
    owning.write(vec![RunWrite { ended_at: Some(created_at(2)), ..over }]).await?;
    let facts = s.facts().await?.len();
    same("a run that has ended", stop(1).await?, Sent::Over(RunStatus::Stopped))?;
    same("no further fact", s.facts().await?.len(), facts)
}

pub(super) async fn a_command_under_a_key_is_sent_once(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    let send = async |n, reason, key| s.store().send_command(run_id(n), &stop(reason, Some(key))).await;
    same("the first", send(1, "enough", "k").await?, Sent::Accepted)?;
    same("again", send(1, "enough", "k").await?, Sent::Repeated)?;
    same("another command under its key", send(1, "more", "k").await?, Sent::KeyTaken)?;
    same("another key", send(1, "enough", "k2").await?, Sent::Accepted)?;
    same("the key at another run", send(2, "more", "k").await?, Sent::Accepted)?;
    same("facts", facts(&s, kind::STOP).await?.len(), 3)?;
    owning.write(vec![ended(1, created_at(9))]).await?;
    same("again, after the run has ended", send(1, "enough", "k").await?, Sent::Repeated)?;
    same("a new command then", send(1, "enough", "k3").await?, Sent::Over(RunStatus::Succeeded))
}

pub(super) async fn a_command_keeps_its_blobs(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let missing = BlobId::generate();
    let there = s.blob("\"large\"").await?;
    let update = |blob: &BlobId, key: &str| RunCommand {
        key: Some(CommandKey { key: key.to_string(), sha: String::from("sha") }),
        blobs: vec![(blob.clone(), 7)],
        ..RunCommand::new(kind::UPDATE, "{\"updates\":[]}".to_string())
    };
    let store = s.store();
    let sent = store.send_command(run_id(1), &update(&missing, "a")).await?;
    same("with a blob missing", sent, Sent::BlobMissing)?;
    same("no fact", facts(&s, kind::UPDATE).await?.len(), 0)?;
    same("with its blob", store.send_command(run_id(1), &update(&there, "a")).await?, Sent::Accepted)?;
    owning.write(vec![ended(1, created_at(10))]).await?;
    same("swept", store.sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 1)?;
    same("the blob is removed with its run", store.blob(SHARD, &there).await?, None)
}

fn asked(id: &str, status: &str, expires_at: Option<i64>) -> (String, String) {
    let until = expires_at.map(|at| format!(",\"expires_at\":\"{at}\"")).unwrap_or_default();
    (id.to_string(), format!("{{\"pause_id\":\"{id}\",\"status\":\"{status}\"{until}}}"))
}

fn answer(key: Option<&str>, text: &str) -> PauseAnswer {
    let of_key = key.map(|key| format!(",\"key\":\"{key}\"")).unwrap_or_default();
    PauseAnswer {
        key: key.map(str::to_string),
        record: format!("{{\"action\":\"{text}\"{of_key}}}"),
        fact: format!("{{\"action\":\"{text}\"}}"),
    }
}

pub(super) async fn a_pause_is_answered_once(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let store = s.store();
    let answer_as = async |pause, key, text| store.answer_pause(run_id(1), pause, &answer(key, text)).await;
    same("before it exists", answer_as("p", None, "yes").await?, Answered::NotFound)?;
    let pauses = vec![asked("p", "pending", None), asked("q", "pending", None)];
    owning.write(vec![RunWrite { pauses, ..write(1) }]).await?;
    same(
        "an unknown run",
        store.answer_pause(run_id(2), "p", &answer(None, "yes")).await?,
        Answered::NotFound,
    )?;
    same("the first", answer_as("p", Some("k"), "yes").await?, Answered::Accepted)?;
    same("again", answer_as("p", Some("k"), "yes").await?, Answered::Repeated)?;
    same("another key", answer_as("p", Some("l"), "yes").await?, Answered::AlreadyAnswered)?;
    same("no key", answer_as("p", None, "no").await?, Answered::AlreadyAnswered)?;
    same("another pause, no key", answer_as("q", None, "no").await?, Answered::Accepted)?;
    same("again, no key", answer_as("q", None, "no").await?, Answered::AlreadyAnswered)?;
    let found = vec!["{\"action\":\"yes\"}".to_string(), "{\"action\":\"no\"}".to_string()];
    same("facts", facts(&s, kind::ANSWER).await?, found)?;
    let mut kept = store.pauses(run_id(1)).await?;
    kept.sort();
    let names: Vec<&str> = kept.iter().map(|(field, _)| field.as_str()).collect();
    same("fields", names, vec!["p", "p:answer", "q", "q:answer"])?;
    same("the record", kept[1].1.as_str(), "{\"action\":\"yes\",\"key\":\"k\"}")?;
    let rest = store.load_run(run_id(1)).await?.unwrap_or_default();
    same("at rest", rest.pauses.len(), 4)?;
    owning.write(vec![RunWrite { pauses: vec![asked("p", "answered", None)], ..write(1) }]).await?;
    same("again, once it is applied", answer_as("p", Some("k"), "yes").await?, Answered::Repeated)
}

pub(super) async fn only_a_pause_that_waits_is_answered(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let store = s.store();
    let now = store.time().await?;
    let soon = now.plus(Duration::from_millis(500)).micros();
    let later = now.plus(Duration::from_secs(3600)).micros();
    let pauses = vec![
        asked("expired", "expired", Some(later)),
        asked("cancelled", "cancelled", None),
        asked("answered", "answered", None),
        asked("soon", "pending", Some(soon)),
        asked("later", "pending", Some(later)),
        asked("open", "pending", None),
    ];
    owning.write(vec![RunWrite { pauses, ..write(1) }]).await?;
    s.control.advance(Duration::from_millis(600)).await;
    for (pause, expected) in [
        ("expired", Answered::Expired),
        ("cancelled", Answered::Cancelled),
        ("answered", Answered::AlreadyAnswered),
        ("soon", Answered::Expired),
        ("later", Answered::Accepted),
    ] {
        same(pause, store.answer_pause(run_id(1), pause, &answer(Some("k"), "yes")).await?, expected)?;
    }
    same("facts", facts(&s, kind::ANSWER).await?.len(), 1)?;
    owning.write(vec![ended(1, created_at(9))]).await?;
    let open = store.answer_pause(run_id(1), "open", &answer(None, "yes")).await?;
    same("after the run has ended", open, Answered::Over(RunStatus::Succeeded))?;
    let cancelled = store.answer_pause(run_id(1), "cancelled", &answer(None, "yes")).await?;
    same("a cancelled pause then", cancelled, Answered::Cancelled)
}

pub(super) async fn a_worker_reads_the_state_of_a_pause(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let store = s.store();
    let pauses =
        ["answered", "pending", "expired", "cancelled"].map(|status| asked(status, status, None)).to_vec();
    same("before it is asked", store.paused(run_id(1), "pending").await?, Paused::Unknown)?;
    same("of an unknown run", store.paused(run_id(9), "pending").await?, Paused::Unknown)?;
    owning.write(vec![RunWrite { pauses, ..write(1) }]).await?;
    let said = |input: &str| PauseAnswer {
        key: None,
        record: format!("{{\"input\":{input}}}"),
        fact: "{}".to_string(),
    };
    same("it waits", store.paused(run_id(1), "pending").await?, Paused::Waits)?;
    same("said", store.answer_pause(run_id(1), "pending", &said("7")).await?, Answered::Accepted)?;
    same("until its owner has applied the answer", store.paused(run_id(1), "pending").await?, Paused::Waits)?;
    owning.write(vec![RunWrite { pauses: vec![asked("pending", "answered", None)], ..write(1) }]).await?;
    same("then", store.paused(run_id(1), "pending").await?, Paused::Answered(7.into()))?;
    same("after its time", store.paused(run_id(1), "expired").await?, Paused::Expired)?;
    same("cancelled", store.paused(run_id(1), "cancelled").await?, Paused::Cancelled)
}

pub(super) async fn a_cancelled_pause_is_not_answered(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let store = s.store();
    owning.write(vec![RunWrite { pauses: vec![asked("p", "pending", None)], ..write(1) }]).await?;
    let cancel = PauseAnswer {
        key: Some("k".to_string()),
        record: "{\"cancel\":true,\"key\":\"k\"}".to_string(),
        fact: "{}".to_string(),
    };
    same("cancelled", store.answer_pause(run_id(1), "p", &cancel).await?, Answered::Accepted)?;
    same("again", store.answer_pause(run_id(1), "p", &cancel).await?, Answered::Repeated)?;
    let late = store.answer_pause(run_id(1), "p", &answer(Some("l"), "yes")).await?;
    same("an answer after it", late, Answered::Cancelled)
}

pub(super) async fn a_commit_writes_collected_results_and_conversations(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let (store, id) = (s.store(), "0199c0de-0000-7000-8000-000000000001");
    same("nothing yet", store.conversation(SHARD, id).await?.len(), 0)?;
    let text = |text: &str| text.to_string();
    let kept = |fields: &[(&str, &str)]| {
        let fields = fields.iter().map(|(field, value)| (text(field), text(value))).collect();
        Some(Box::new(conversation_write(id, fields)))
    };
    let collected = [("it/0", Some("1")), ("it/1", Some("2"))].into_iter().collect();
    let conversation = kept(&[("v:a", "1"), ("v:b", "2")]);
    owning.write(vec![RunWrite { collected, conversation, ..write(1) }]).await?;
    let collected = [("it/0", None), ("it/2", Some("3"))].into_iter().collect();
    owning.write(vec![RunWrite { collected, conversation: kept(&[("v:b", "3")]), ..write(1) }]).await?;
    let mut rest = store.load_run(run_id(1)).await?.unwrap_or_default();
    rest.collected.sort();
    same("collected", rest.collected, vec![(text("it/1"), text("2")), (text("it/2"), text("3"))])?;
    let fields = store.conversation(SHARD, id).await?;
    let field = |name: &str| fields.get(name).map(String::as_str);
    same("the conversation", (fields.len(), field("v:a"), field("v:b")), (2, Some("1"), Some("3")))?;
    owning.write(vec![ended(1, created_at(10))]).await?;
    same("swept", store.sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 1)?;
    same("the conversation stays", store.conversation(SHARD, id).await?.len(), 2)
}

pub(super) async fn a_conversation_keeps_one_copy_of_each_large_value(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let (store, id) = (s.store(), "0199c0de-0000-7000-8000-000000000002");
    let (copy, other) = (BlobId::generate(), BlobId::generate());
    let mut keep = async |text: &str, kept: &[&BlobId]| {
        let of_run = BlobId::generate();
        let blobs = vec![(of_run.clone(), text.to_string())];
        let fields = vec![("v:a".to_string(), "{}".to_string())];
        let written = ConversationWrite {
            copies: vec![(of_run, copy.clone())],
            kept: kept.iter().map(|id| (*id).clone()).collect(),
            ..conversation_write(id, fields)
        };
        owning.write(vec![RunWrite { blobs, conversation: Some(written.into()), ..write(1) }]).await
    };
    keep("\"one\"", &[]).await?;
    same("the copy", store.blob(SHARD, &copy).await?, Some("\"one\"".to_string()))?;
    keep("\"two\"", &[&other]).await?;
    same("a newer value replaces it", store.blob(SHARD, &copy).await?, Some("\"two\"".to_string()))?;
    same("a blob that never existed", store.blob(SHARD, &other).await?, None)?;
    let fields = vec![("v:a".to_string(), "1".to_string())];
    let small = ConversationWrite { dropped: vec![copy.clone()], ..conversation_write(id, fields) };
    owning.write(vec![RunWrite { conversation: Some(small.into()), ..write(1) }]).await?;
    same("a small value needs none", store.blob(SHARD, &copy).await?, None)?;
    let long = Duration::from_secs(tidemill_common::limits::CONVERSATION_SECONDS + 1);
    if s.control.patience() >= long {
        s.control.advance(long).await;
        same("after its time", store.conversation(SHARD, id).await?.len(), 0)?;
    }
    Ok(())
}

pub(super) async fn pauses_and_keys_are_removed_with_their_run(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    let pauses = vec![asked("p", "pending", None)];
    owning.write(vec![RunWrite { pauses, ..write(1) }]).await?;
    s.store().send_command(run_id(1), &stop("enough", Some("k"))).await?;
    owning.write(vec![ended(1, created_at(10))]).await?;
    same("swept", s.store().sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 1)?;
    same("no pause", s.store().pauses(run_id(1)).await?, vec![])?;
    // If the key still existed, the same run created again would know it.
    s.create(1).await?;
    let sent = s.store().send_command(run_id(1), &stop("other", Some("k"))).await?;
    same("the key is free", sent, Sent::Accepted)
}

pub(super) async fn the_secret_of_forms_and_the_salt_of_seals_are_written_once(s: Subject) -> Outcome {
    same("at first", s.store().form_secret("one").await?, "one".to_string())?;
    same("then", s.store().form_secret("two").await?, "one".to_string())?;
    same("the salt of seals", s.store().seal_salt("three").await?, "three".to_string())?;
    same("which stays", s.store().seal_salt("four").await?, "three".to_string())
}
