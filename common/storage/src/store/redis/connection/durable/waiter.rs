//! Waits for replicas or the disk of one server, on a line of its own, because such a wait blocks its connection. Clients
//! that ask at the same time share one wait, so their number does not matter.

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::RedisError;
use tokio::sync::{mpsc, oneshot};

use super::Replicas;
use super::batch::{Answer, Waiting, settled, slice};
use super::disk::{Disk, on_disk};
use super::replication::{Promotable, Replication, Seen};
use crate::store::redis::connection::servers::Node;
use crate::store::redis::connection::wire_connection::{Line, Replies, Reply, Request, error_of};
use crate::store::redis::connection::{Connector, is_read_only};
use crate::store::redis::keys::Keys;
use crate::store::{Durability, Unconfirmed, Written};

const DOING: &str = "waiting until a write is durable";
/// The most writes that are looked for at once.
const BATCH_MAX: usize = 512;
/// Time between two looks at the replicas while no client asks.
const POLL_EVERY: Duration = Duration::from_secs(1);

/// A client's question.
pub(super) struct Asked {
    pub(super) written: Written,
    pub(super) since: Instant,
    pub(super) within: Duration,
    pub(super) reply: oneshot::Sender<Result<(), Unconfirmed>>,
}

type Clients = Vec<Waiting<oneshot::Sender<Result<(), Unconfirmed>>>>;

/// The line that waits, and the server that it leads to.
pub(super) struct Open {
    line: Line,
    node: Arc<Node>,
}

pub(super) struct Waiter {
    pub(super) connector: Connector,
    pub(super) keys: Keys,
    pub(super) level: Durability,
    /// In a cluster, the master that it asks; otherwise that of the moment.
    pub(super) of: Option<Arc<Node>>,
    /// A replica that is away for longer is not waited for.
    pub(super) away: Duration,
    pub(super) seen: Seen,
    pub(super) replicas: Arc<Replicas>,
}

impl Waiter {
    /// Answers questions until the store is dropped, or its server has left the cluster.
    pub(super) async fn run(mut self, mut questions: mpsc::Receiver<Asked>) {
        let mut open = None;
        while !self.has_left() {
            let first = match tokio::time::timeout(POLL_EVERY, questions.recv()).await {
                Ok(Some(first)) => first,
                Ok(None) => return,
                Err(_) => {
                    if self.poll(&mut open).await.is_err() {
                        open = None;
                    }
                    continue;
                }
            };
            let mut waiting = Clients::new();
            let mut new = vec![first];
            let worked = self.serve(&mut open, &mut new, &mut waiting, &mut questions).await;
            if let Err(error) = worked {
                // The next question opens another line, which leads to the master of that time.
                open = None;
                let asked = new.into_iter().map(|asked| asked.reply);
                let all = waiting.into_iter().map(|one| one.client).chain(asked);
                all.for_each(|client| drop(client.send(Err(error.clone()))));
            }
        }
        if let Some(node) = &self.of {
            self.replicas.note(node.address(), None);
        }
        questions.close();
        while let Some(asked) = questions.recv().await {
            let _ = asked.reply.send(Err(Unconfirmed::NoLongerMaster));
        }
    }

    fn has_left(&self) -> bool {
        self.of.as_ref().is_some_and(|node| *node.left().borrow())
    }

    /// The open line, or another one to the master of this moment.
    async fn open<'a>(&self, open: &'a mut Option<Open>) -> Result<&'a mut Open, Unconfirmed> {
        if let Some(known) = open {
            return Ok(known);
        }
        let node = match &self.of {
            Some(node) => node.clone(),
            None => self.connector.server_of(&self.keys.meta()).await?,
        };
        let line = self.connector.open_line_to(&node).await?;
        Ok(open.insert(Open { line, node }))
    }

    /// Notes which replicas are there, so that one that leaves while no client asks is known to have left.
    async fn poll(&mut self, open: &mut Option<Open>) -> Result<(), Unconfirmed> {
        if self.level != Durability::Replicated {
            return Ok(());
        }
        let open = self.open(open).await?;
        let mut request = Request::default();
        request.command("INFO", 1).word("replication");
        let answer = open.line.ask(&request, Duration::ZERO).await;
        let read = |mut replies: Replies<'_>| Replication::read(&replies.text().unwrap_or_default());
        let said = answer.map(read).map_err(|e| self.failed(&e))?;
        self.note(&said, &open.node);
        if said.is_master { Ok(()) } else { Err(Unconfirmed::NoLongerMaster) }
    }

    /// Serves until no client waits.
    async fn serve(
        &mut self,
        open: &mut Option<Open>,
        new: &mut Vec<Asked>,
        waiting: &mut Clients,
        questions: &mut mpsc::Receiver<Asked>,
    ) -> Result<(), Unconfirmed> {
        let open = self.open(open).await?;
        loop {
            while new.len() < BATCH_MAX
                && let Ok(asked) = questions.try_recv()
            {
                new.push(asked);
            }
            if new.is_empty() && waiting.is_empty() {
                return Ok(());
            }
            self.look(open, new, waiting).await?;
            self.wait(open, waiting).await?;
        }
    }

    /// Looks for what was written, and at the master's offset after it. The write of a probe makes the next wait on this
    /// line one for that offset.
    async fn look(
        &mut self,
        open: &mut Open,
        new: &mut Vec<Asked>,
        waiting: &mut Clients,
    ) -> Result<(), Unconfirmed> {
        let Some(first) = new.first() else { return Ok(()) };
        // In a cluster the probe has to be in the slot of a shard of this server.
        let probe = match self.of {
            Some(_) => self.keys.probe_of(first.written.run().shard()),
            None => self.keys.probe(),
        };
        let mut request = Request::default();
        for asked in &*new {
            self.find(&mut request, &asked.written);
        }
        request.command("SET", 4).word(&probe).word("1").word("EX").word("60");
        request.command("INFO", 1).word("replication");
        let count = new.len();
        let answer = open.line.ask(&request, Duration::ZERO).await;
        let read = |mut replies: Replies<'_>| {
            // One whose slot has moved does not fail the others.
            let found: Vec<Result<bool, RedisError>> = (0..count)
                .map(|_| match replies.next() {
                    Some(Reply::Error(error)) => Err(error_of(error)),
                    reply => Ok(reply == Some(Reply::Number(1))),
                })
                .collect();
            if let Some(error) = replies.clone().pass(2) {
                return Err(error_of(error));
            }
            let _probe = replies.next();
            Ok((found, Replication::read(&replies.text().unwrap_or_default())))
        };
        let (found, said) = answer.and_then(read).map_err(|e| self.failed(&e))?;
        self.note(&said, &open.node);
        for (asked, is_there) in std::mem::take(new).into_iter().zip(found) {
            let told = match is_there {
                Err(error) => self.failed(&error),
                Ok(_) if !said.is_master => Unconfirmed::NoLongerMaster,
                Ok(false) => Unconfirmed::Lost,
                Ok(true) => {
                    let at = Some((said.id.clone(), said.offset));
                    let (since, within) = (asked.since, asked.within);
                    waiting.push(Waiting { since, within, at, client: asked.reply });
                    continue;
                }
            };
            let _ = asked.reply.send(Err(told));
        }
        if said.is_master { Ok(()) } else { Err(Unconfirmed::NoLongerMaster) }
    }

    /// Waits for a while, and tells the clients whose writes are durable then, or who can wait no longer.
    async fn wait(&mut self, open: &mut Open, waiting: &mut Clients) -> Result<(), Unconfirmed> {
        if waiting.is_empty() {
            return Ok(());
        }
        let slice = slice(waiting, Instant::now());
        let disk = match self.level {
            Durability::Fsync => on_disk(&mut open.line, slice).await.map_err(|e| self.failed(&e))?,
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
        let answer = open.line.ask(&request, slice).await;
        let said = answer.and_then(read).map_err(|e| self.failed(&e))?;
        self.note(&said, &open.node);
        if let Disk::Unsupported(why) = disk {
            return Err(Unconfirmed::Unsupported(why));
        }
        let answer = Answer { said: &said, seen: &self.seen, is_on_disk: disk == Disk::Written };
        let settled = settled(waiting, self.level, &answer, Instant::now());
        let is_any_done = settled.iter().any(|(_, result)| result.is_ok());
        let still = if is_any_done { self.still_leads(&open.node).await } else { Ok(()) };
        for (client, result) in settled {
            let _ = client.send(result.and_then(|()| still.clone()));
        }
        still
    }

    /// Succeeds when this server is still the master after the wait. One that is cut off does not know of another, so the
    /// Sentinels are asked. The masters of a cluster watch each other, and one that is cut off has no replica that acknowledges.
    async fn still_leads(&self, node: &Arc<Node>) -> Result<(), Unconfirmed> {
        let is_same = match self.connector.sentinels() {
            Some(sentinels) => Arc::ptr_eq(&sentinels.look().await?, node),
            None => true,
        };
        if is_same && !*node.left().borrow() { Ok(()) } else { Err(Unconfirmed::NoLongerMaster) }
    }

    /// The replicas that may be promoted, as the Sentinels or the cluster say.
    fn promotable(&self, node: &Node) -> Promotable {
        let mut promotable = Promotable { leader: node.address().to_string(), ..Promotable::default() };
        if let Some(cluster) = self.connector.cluster() {
            promotable.at_least = cluster.replicas_of(node.address());
        }
        let listed = self.connector.sentinels().and_then(|sentinels| sentinels.replicas());
        for replica in listed.iter().flat_map(|replicas| replicas.iter()) {
            if replica.may_lead {
                promotable.listed.push((replica.place.clone(), replica.away));
            } else {
                promotable.never.insert(replica.place.clone());
            }
        }
        promotable
    }

    fn note(&mut self, said: &Replication, node: &Node) {
        if !said.is_master {
            return;
        }
        let promotable = self.promotable(node);
        for place in self.seen.note(Instant::now(), said, promotable, self.away) {
            tracing::warn!(
                replica = place,
                seconds = self.away.as_secs(),
                "a replica of Redis is away; durability replicated does not wait for it any more"
            );
        }
        if self.level == Durability::Replicated {
            // Only a cluster has several masters.
            let place = if self.of.is_some() { node.address().clone() } else { "".into() };
            self.replicas.note(&place, Some([said.replicas.len(), self.seen.needed()]));
        }
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
