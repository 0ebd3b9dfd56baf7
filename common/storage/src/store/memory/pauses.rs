//! Commands to runs, and answers to pauses. Each function is one script of the Redis store.

use serde_json::Value as Json;

use super::shard::{Run, Shard};
use crate::store::{Answered, PauseAnswer, RunCommand, Sent, StoreError};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::RunId;
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::fact::kind;

/// `send_command`
pub(super) fn send(shard: &mut Shard, run: RunId, command: &RunCommand, now: Timestamp) -> Sent {
    let Some(known) = shard.runs.get(&run) else { return Sent::NotFound };
    if let Some(key) = &command.key
        && let Some(sha) = known.commands.get(&key.key)
    {
        return if *sha == key.sha { Sent::Repeated } else { Sent::KeyTaken };
    }
    if let Some(status) = over(known) {
        return Sent::Over(status);
    }
    if !shard.has_blobs(&command.blobs, now) {
        return Sent::BlobMissing;
    }
    shard.add_fact(now, run.to_string(), command.kind, &command.body);
    shard.accept_blobs(run, &command.blobs);
    if let Some(key) = &command.key
        && let Some(known) = shard.runs.get_mut(&run)
    {
        known.commands.insert(key.key.clone(), key.sha.clone());
    }
    Sent::Accepted
}

/// `answer_pause`
pub(super) fn answer(
    shard: &mut Shard,
    run: RunId,
    pause: &str,
    answer: &PauseAnswer,
    now: Timestamp,
) -> Result<Answered, StoreError> {
    let Some(known) = shard.runs.get_mut(&run) else { return Ok(Answered::NotFound) };
    let Some(asked) = known.pauses.get(pause) else { return Ok(Answered::NotFound) };
    let asked = read(asked)?;
    let field = format!("{pause}:answer");
    if let Some(earlier) = known.pauses.get(&field) {
        let earlier = read(earlier)?;
        let key = earlier.get("key").and_then(Json::as_str);
        let is_same = key.is_some() && key == answer.key.as_deref();
        let is_cancel = earlier.get("cancel").and_then(Json::as_bool) == Some(true);
        return Ok(match (is_same, is_cancel) {
            (true, _) => Answered::Repeated,
            (false, true) => Answered::Cancelled,
            (false, false) => Answered::AlreadyAnswered,
        });
    }
    match asked.get("status").and_then(Json::as_str) {
        Some("answered") => return Ok(Answered::AlreadyAnswered),
        Some("expired") => return Ok(Answered::Expired),
        Some("cancelled") => return Ok(Answered::Cancelled),
        Some(_) | None => {}
    }
    if let Some(status) = over(known) {
        return Ok(Answered::Over(status));
    }
    let until = asked.get("expires_at").and_then(Json::as_str).and_then(|text| text.parse().ok());
    if until.is_some_and(|until| Timestamp::from_micros(until) <= now) {
        return Ok(Answered::Expired);
    }
    known.pauses.insert(field, answer.record.clone());
    shard.add_fact(now, run.to_string(), kind::ANSWER, &answer.fact);
    Ok(Answered::Accepted)
}

fn over(run: &Run) -> Option<RunStatus> {
    run.status().filter(|status| RunStatus::is_over(*status))
}

fn read(text: &str) -> Result<Json, StoreError> {
    let reason = |error: serde_json::Error| error.to_string();
    serde_json::from_str(text)
        .map_err(|error| StoreError::Unexpected { doing: "answering a pause", reason: reason(error) })
}
