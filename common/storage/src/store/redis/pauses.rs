//! Commands to runs, and answers to pauses.

use super::RedisStore;
use super::connection::{Arg, args};
use crate::store::redis::connection::replies::unexpected;
use crate::store::{Answered, PauseAnswer, Paused, RunCommand, Sent, StoreError};
use tidemill_base::ids::RunId;
use tidemill_engine::state::run::RunStatus;
use tidemill_wire::fact::kind;

impl RedisStore {
    /// See [`crate::store::Runs::send_command`].
    pub(super) async fn send(&self, run: RunId, command: &RunCommand) -> Result<Sent, StoreError> {
        const DOING: &str = "sending a command";
        let k = &self.keys;
        let mut keys = vec![k.run(run), k.inbox(run.shard()), k.commands(run), k.blobs(run)];
        keys.extend(command.blobs.iter().map(|(id, _)| k.blob(run.shard(), id)));
        let (key, sha) = command.key.as_ref().map_or(("", ""), |key| (key.key.as_str(), key.sha.as_str()));
        let mut list = Vec::from(args![run.to_string(), command.kind, &command.body, key, sha]);
        for (id, size) in &command.blobs {
            list.extend([Arg::from(id.as_str()), Arg::from(*size)]);
        }
        let word: String = self.connector.run(DOING, &self.scripts.send_command, &keys, &list).await?;
        match word.as_str() {
            "SENT" => Ok(Sent::Accepted),
            "REPEATED" => Ok(Sent::Repeated),
            "TAKEN" => Ok(Sent::KeyTaken),
            "NOBLOB" => Ok(Sent::BlobMissing),
            "NOTFOUND" => Ok(Sent::NotFound),
            status => RunStatus::from_name(status).map(Sent::Over).ok_or_else(|| unexpected(DOING, status)),
        }
    }

    /// See [`crate::store::Jobs::paused`]. The owner's commit closes a pause before it hands out the job
    /// again, so one read of both fields is enough; no script is needed.
    pub(super) async fn what_was_answered(&self, run: RunId, pause: &str) -> Result<Paused, StoreError> {
        let mut command = redis::cmd("HMGET");
        command.arg(self.keys.pauses(run)).arg(pause).arg(format!("{pause}:answer"));
        let (asked, answer): (Option<String>, Option<String>) =
            self.connector.ask("reading an answer to a pause", &command).await?;
        Paused::of(asked.as_deref(), answer.as_deref())
    }

    /// See [`crate::store::Runs::answer_pause`].
    pub(super) async fn answer(
        &self,
        run: RunId,
        pause: &str,
        answer: &PauseAnswer,
    ) -> Result<Answered, StoreError> {
        const DOING: &str = "answering a pause";
        let keys = [self.keys.run(run), self.keys.inbox(run.shard()), self.keys.pauses(run)];
        let field = format!("{pause}:answer");
        let key = answer.key.as_deref().unwrap_or_default();
        let list = args![run.to_string(), pause, field, key, &answer.record, kind::ANSWER, &answer.fact];
        let word: String = self.connector.run(DOING, &self.scripts.answer_pause, &keys, &list).await?;
        match word.as_str() {
            "ACCEPTED" => Ok(Answered::Accepted),
            "REPEATED" => Ok(Answered::Repeated),
            "ANSWERED" => Ok(Answered::AlreadyAnswered),
            "NOTFOUND" => Ok(Answered::NotFound),
            "EXPIRED" => Ok(Answered::Expired),
            "CANCELLED" => Ok(Answered::Cancelled),
            status => {
                RunStatus::from_name(status).map(Answered::Over).ok_or_else(|| unexpected(DOING, status))
            }
        }
    }
}
