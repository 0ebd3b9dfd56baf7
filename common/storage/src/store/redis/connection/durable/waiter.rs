//! Waits for replicas or the disk of one server, on a line of its own, because such a wait blocks its connection. Clients
//! that ask at the same time share one wait, so their number does not matter.

use std::time::{Duration, Instant};

use redis::RedisError;
use tokio::sync::{mpsc, oneshot};

use super::batch::{Answer, Waiting, settled, slice};
use super::disk::{Disk, on_disk};
use super::replication::{Replication, Seen};
use crate::store::redis::connection::wire_connection::{Line, Replies, Reply, Request, error_of};
use crate::store::redis::connection::{Connector, is_read_only};
use crate::store::redis::keys::Keys;
use crate::store::{Durability, Unconfirmed, Written};

const DOING: &str = "waiting until a write is durable";
/// The most writes that are looked for at once.
const BATCH_MAX: usize = 512;
/// Time between two looks at the replicas while nobody asks.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// A client's question.
pub(super) struct Asked {
    pub(super) written: Written,
    pub(super) since: Instant,
    pub(super) within: Duration,
    pub(super) reply: oneshot::Sender<Result<(), Unconfirmed>>,
}

type Clients = Vec<Waiting<oneshot::Sender<Result<(), Unconfirmed>>>>;

pub(super) struct Waiter {
    pub(super) connector: Connector,
    pub(super) keys: Keys,
    pub(super) level: Durability,
    /// A replica that is away for longer is not waited for.
    pub(super) away: Duration,
    pub(super) seen: Seen,
}

impl Waiter {
    /// Answers questions until nobody can ask any more.
    pub(super) async fn run(mut self, mut questions: mpsc::Receiver<Asked>) {
        let mut line = None;
        loop {
            let first = match tokio::time::timeout(POLL_EVERY, questions.recv()).await {
                Ok(Some(first)) => first,
                Ok(None) => return,
                Err(_) => {
                    if self.poll(&mut line).await.is_err() {
                        line = None;
                    }
                    continue;
                }
            };
            let mut waiting = Clients::new();
            let mut new = vec![first];
            let worked = self.serve(&mut line, &mut new, &mut waiting, &mut questions).await;
            if let Err(error) = worked {
                // The next question opens another line, which leads to the master of that time.
                line = None;
                let asked = new.into_iter().map(|asked| asked.reply);
                let all = waiting.into_iter().map(|one| one.client).chain(asked);
                all.for_each(|client| drop(client.send(Err(error.clone()))));
            }
        }
    }

    /// Notes which replicas are there, so that one that leaves while nobody asks is known to have left.
    async fn poll(&mut self, line: &mut Option<Line>) -> Result<(), Unconfirmed> {
        if self.level != Durability::Replicated {
            return Ok(());
        }
        let line = match line {
            Some(line) => line,
            None => line.insert(self.connector.open_line(&self.keys.meta()).await?),
        };
        let mut request = Request::default();
        request.command("INFO", 1).word("replication");
        let answer = line.ask(&request, Duration::ZERO).await;
        let read = |mut replies: Replies<'_>| Replication::read(&replies.text().unwrap_or_default());
        let said = answer.map(read).map_err(|e| self.failed(&e))?;
        self.note(&said);
        if said.is_master { Ok(()) } else { Err(Unconfirmed::NoLongerMaster) }
    }

    /// Serves until no client waits.
    async fn serve(
        &mut self,
        line: &mut Option<Line>,
        new: &mut Vec<Asked>,
        waiting: &mut Clients,
        questions: &mut mpsc::Receiver<Asked>,
    ) -> Result<(), Unconfirmed> {
        let line = match line {
            Some(line) => line,
            None => line.insert(self.connector.open_line(&self.keys.meta()).await?),
        };
        loop {
            while new.len() < BATCH_MAX
                && let Ok(asked) = questions.try_recv()
            {
                new.push(asked);
            }
            if new.is_empty() && waiting.is_empty() {
                return Ok(());
            }
            self.look(line, new, waiting).await?;
            self.wait(line, waiting).await?;
        }
    }

    /// Looks for what was written, and at the master's offset after it. The write of a probe makes the next wait on this
    /// line one for that offset.
    async fn look(
        &mut self,
        line: &mut Line,
        new: &mut Vec<Asked>,
        waiting: &mut Clients,
    ) -> Result<(), Unconfirmed> {
        if new.is_empty() {
            return Ok(());
        }
        let mut request = Request::default();
        for asked in &*new {
            self.find(&mut request, &asked.written);
        }
        request.command("SET", 4).word(self.keys.probe()).word("1").word("EX").word("60");
        request.command("INFO", 1).word("replication");
        let count = new.len();
        let answer = line.ask(&request, Duration::ZERO).await;
        let read = |mut replies: Replies<'_>| -> Result<(Vec<bool>, Replication), RedisError> {
            if let Some(error) = replies.clone().pass(count + 2) {
                return Err(error_of(error));
            }
            let found = (0..count).map(|_| replies.next() == Some(Reply::Number(1))).collect();
            let _probe = replies.next();
            Ok((found, Replication::read(&replies.text().unwrap_or_default())))
        };
        let (found, said) = answer.and_then(read).map_err(|e| self.failed(&e))?;
        self.note(&said);
        for (asked, is_there) in std::mem::take(new).into_iter().zip(found) {
            if !said.is_master {
                let _ = asked.reply.send(Err(Unconfirmed::NoLongerMaster));
            } else if !is_there {
                let _ = asked.reply.send(Err(Unconfirmed::Lost));
            } else {
                let at = Some((said.id.clone(), said.offset));
                let (since, within) = (asked.since, asked.within);
                waiting.push(Waiting { since, within, at, client: asked.reply });
            }
        }
        if said.is_master { Ok(()) } else { Err(Unconfirmed::NoLongerMaster) }
    }

    /// Waits for a while, and tells the clients whose writes are durable then, or who can wait no longer.
    async fn wait(&mut self, line: &mut Line, waiting: &mut Clients) -> Result<(), Unconfirmed> {
        if waiting.is_empty() {
            return Ok(());
        }
        let slice = slice(waiting, Instant::now());
        let disk = match self.level {
            Durability::Fsync => on_disk(line, slice).await.map_err(|e| self.failed(&e))?,
            Durability::Replicated | Durability::Memory => Disk::NotYet,
        };
        let mut request = Request::default();
        if self.level == Durability::Replicated {
            let ms = slice.as_millis().to_string();
            request.command("WAIT", 2).word(self.seen.needed().to_string()).word(&ms);
        }
        request.command("INFO", 1).word("replication");
        let is_replicated = self.level == Durability::Replicated;
        let read = |mut replies: Replies<'_>| {
            if let Some(error) = replies.clone().pass(1 + usize::from(is_replicated)) {
                return Err(error_of(error));
            }
            if is_replicated {
                let _count = replies.next();
            }
            Ok(Replication::read(&replies.text().unwrap_or_default()))
        };
        let answer = line.ask(&request, slice).await;
        let said = answer.and_then(read).map_err(|e| self.failed(&e))?;
        self.note(&said);
        if let Disk::Unsupported(why) = disk {
            return Err(Unconfirmed::Unsupported(why));
        }
        let answer = Answer { said: &said, seen: &self.seen, is_on_disk: disk == Disk::Written };
        for (client, result) in settled(waiting, self.level, &answer, Instant::now()) {
            let _ = client.send(result);
        }
        Ok(())
    }

    fn note(&mut self, said: &Replication) {
        if !said.is_master {
            return;
        }
        for place in self.seen.note(Instant::now(), said, self.away) {
            tracing::warn!(
                replica = place,
                seconds = self.away.as_secs(),
                "a replica of Redis is away; durability replicated does not wait for it any more"
            );
        }
        let count = |state: &'static str, number: usize| {
            let number = f64::from(u32::try_from(number).unwrap_or(u32::MAX));
            metrics::gauge!(super::REPLICAS, "state" => state).set(number);
        };
        count("connected", said.replicas.len());
        count("awaited", self.seen.needed());
    }

    /// Adds the command that answers 1 if it was written.
    fn find(&self, request: &mut Request, written: &Written) {
        let keys = &self.keys;
        match written {
            Written::Run(run) => request.command("EXISTS", 1).word(keys.run(*run)),
            Written::Answer { run, pause } => {
                request.command("HEXISTS", 2).word(keys.pauses(*run)).word(format!("{pause}:answer"))
            }
            Written::Command { run, key } => {
                request.command("HEXISTS", 2).word(keys.commands(*run)).word(key)
            }
        };
    }

    fn failed(&self, error: &RedisError) -> Unconfirmed {
        if is_read_only(error) {
            return Unconfirmed::NoLongerMaster;
        }
        Unconfirmed::Store(self.connector.error(DOING, error))
    }
}
