//! Sends commands to the masters that have their slots, and follows what the servers say about moved slots. Commands of
//! several slots are split by server, sent at once, and their replies put together in the order of the commands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisFuture, Value};
use tokio::time::Instant;

use crate::store::StoreError;
use crate::store::redis::connection::errors::explain;
use crate::store::redis::connection::keys_of::keys_of;
use crate::store::redis::connection::one_slot::words;
use crate::store::redis::connection::routing::{Redirect, complete, slot_of};
use crate::store::redis::connection::servers::cluster::{Cluster, PATIENCE};
use crate::store::redis::connection::servers::node::{Lane, Node};

/// The most redirects that one request follows.
const REDIRECTS_MAX: usize = 8;
/// The pause before a request is sent again whose slot has no place at the moment; it doubles up to the next one.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How a request is sent.
#[derive(Debug, Clone, Copy)]
pub(in crate::store::redis) struct How {
    pub(in crate::store::redis) lane: Lane,
    /// The slot of commands without keys.
    pub(in crate::store::redis) home: u16,
    /// Each server answers soon, or its part of the request fails: one that hangs must not hold up the others.
    pub(in crate::store::redis) is_partial: bool,
}

/// Commands that stay together: one, or a transaction.
struct Parcel<'a> {
    slot: u16,
    commands: Vec<&'a Cmd>,
    /// The server that has to be asked just this once.
    ask: Option<String>,
    answer: Option<Result<Vec<Value>, StoreError>>,
}

impl<'a> Parcel<'a> {
    fn of(commands: Vec<&'a Cmd>, home: u16) -> Self {
        let slot =
            commands.iter().find_map(|command| keys_of(&words(command)).first().map(|key| slot_of(key)));
        Self { slot: slot.unwrap_or(home), commands, ask: None, answer: None }
    }
}

impl Cluster {
    /// Sends a pipeline. Returns the reply to each command, of a transaction each reply within it; errors of the server are
    /// among the values.
    pub(in crate::store::redis) async fn exchange(
        self: &Arc<Self>,
        doing: &'static str,
        pipe: &Pipeline,
        how: How,
    ) -> Vec<Result<Value, StoreError>> {
        let (multi, exec) = (redis::cmd("MULTI"), redis::cmd("EXEC"));
        let mut parcels: Vec<Parcel<'_>> = if pipe.is_transaction() {
            let commands = [&multi].into_iter().chain(pipe.cmd_iter()).chain([&exec]);
            vec![Parcel::of(commands.collect(), how.home)]
        } else {
            pipe.cmd_iter().map(|command| Parcel::of(vec![command], how.home)).collect()
        };
        self.deliver(doing, &mut parcels, how).await;
        let lost = || StoreError::Unexpected { doing, reason: "a reply is missing".into() };
        let mut answers = parcels.into_iter().map(|parcel| parcel.answer.unwrap_or_else(|| Err(lost())));
        if pipe.is_transaction() {
            return within(doing, answers.next(), pipe.len());
        }
        answers.map(|answer| answer.and_then(|values| values.into_iter().next().ok_or_else(lost))).collect()
    }

    /// Sends parcels until each has its answer.
    async fn deliver(self: &Arc<Self>, doing: &'static str, parcels: &mut [Parcel<'_>], how: How) {
        let (begun, mut pause, mut redirects) = (Instant::now(), PAUSE, 0);
        let patience = if how.is_partial { Duration::ZERO } else { PATIENCE };
        loop {
            let mut waits = self.round(doing, parcels, how).await;
            if parcels.iter().all(|parcel| parcel.answer.is_some()) {
                return;
            }
            redirects += 1;
            let is_over = redirects > REDIRECTS_MAX && waits.is_none()
                || waits.is_some() && begun.elapsed() >= patience;
            if is_over {
                let error = waits.take().unwrap_or_else(|| StoreError::Refused {
                    doing,
                    reason: "the servers of the cluster do not agree on who has its slots".into(),
                });
                let open = parcels.iter_mut().filter(|parcel| parcel.answer.is_none());
                open.for_each(|parcel| parcel.answer = Some(Err(error.clone())));
                return;
            }
            if waits.is_some() {
                self.want_look();
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
        }
    }

    /// Sends all parcels without an answer once. Returns why some have to wait, if they do.
    async fn round(
        self: &Arc<Self>,
        doing: &'static str,
        parcels: &mut [Parcel<'_>],
        how: How,
    ) -> Option<StoreError> {
        let mut waits = None;
        let mut groups: BTreeMap<(Arc<str>, bool), Group> = BTreeMap::new();
        for (at, parcel) in parcels.iter_mut().enumerate().filter(|(_, parcel)| parcel.answer.is_none()) {
            let is_asking = parcel.ask.is_some();
            let node = match parcel.ask.take() {
                Some(address) => self.node(&address),
                None => self.master_of(parcel.slot).await,
            };
            match node {
                Ok(node) => {
                    let group = groups.entry((node.address().clone(), is_asking));
                    group.or_insert_with(|| Group { node, members: Vec::new() }).members.push(at);
                }
                Err(error @ StoreError::Refused { .. }) => waits = Some(error),
                Err(error) => parcel.answer = Some(Err(error)),
            }
        }
        let sent = groups.into_iter().map(|((_, is_asking), Group { node, members })| {
            let commands: Vec<&[&Cmd]> = members.iter().map(|at| parcels[*at].commands.as_slice()).collect();
            let sent = self.send_to(doing, node.clone(), pipeline(&commands, is_asking), how);
            async move { (node, members, is_asking, sent.await) }
        });
        let answers = join_all(sent).await;
        for (node, members, is_asking, answer) in answers {
            let mut values = match answer {
                Ok(values) => values.into_iter(),
                Err(Failed::NotSent(error)) => {
                    // The slots may have another master by now.
                    waits = Some(error);
                    continue;
                }
                Err(Failed::Sent(error)) => {
                    members.iter().for_each(|at| parcels[*at].answer = Some(Err(error.clone())));
                    continue;
                }
            };
            for at in members {
                let parcel = &mut parcels[at];
                values.by_ref().take(usize::from(is_asking)).for_each(drop);
                let values: Vec<Value> = values.by_ref().take(parcel.commands.len()).collect();
                match values.iter().find_map(redirect) {
                    Some((Redirect::Moved { slot, address }, _)) => {
                        self.note_moved(slot, &complete(&address, node.host()));
                    }
                    Some((Redirect::Ask { address }, _)) => {
                        let address = complete(&address, node.host());
                        self.note_asked(&address);
                        parcel.ask = Some(address);
                    }
                    Some((Redirect::Wait, error)) => {
                        waits = Some(StoreError::Refused { doing, reason: error.to_string() })
                    }
                    None => parcel.answer = Some(Ok(values)),
                }
            }
        }
        waits
    }

    async fn send_to(
        &self,
        doing: &'static str,
        node: Arc<Node>,
        pipe: Pipeline,
        how: How,
    ) -> Result<Vec<Value>, Failed> {
        let late = || StoreError::Unreachable {
            address: node.address().to_string(),
            doing,
            reason: "no answer in time".into(),
        };
        if how.is_partial && self.is_silent(&node) {
            return Err(Failed::Sent(late()));
        }
        let sending = async {
            let mut left = node.left();
            tokio::select! {
                opened = node.shared(how.lane) => opened.map(drop).map_err(Failed::NotSent)?,
                _ = left.wait_for(|left| *left) => return Err(Failed::NotSent(late())),
            }
            node.send(how.lane, doing, &pipe).await.map_err(Failed::Sent)
        };
        let sent = if how.is_partial {
            tokio::time::timeout(PATIENCE, sending).await.unwrap_or_else(|_| Err(Failed::Sent(late())))
        } else {
            sending.await
        };
        if sent.is_err() {
            self.want_look();
        }
        sent
    }
}

/// The parcels of one round that go to one server.
struct Group {
    node: Arc<Node>,
    /// Places in the list of parcels.
    members: Vec<usize>,
}

/// Commands that got no replies.
enum Failed {
    /// They were not executed.
    NotSent(StoreError),
    /// They may have been executed.
    Sent(StoreError),
}

/// The commands in one pipeline, each parcel after `ASKING` if the server has to answer for a slot on its way to it.
fn pipeline(parcels: &[&[&Cmd]], is_asking: bool) -> Pipeline {
    let mut pipe = redis::pipe();
    for commands in parcels {
        if is_asking {
            pipe.cmd("ASKING");
        }
        commands.iter().for_each(|command| {
            pipe.add_command((*command).clone());
        });
    }
    pipe
}

fn redirect(value: &Value) -> Option<(Redirect, redis::RedisError)> {
    let Value::ServerError(_) = value else { return None };
    let error = value.clone().extract_error().err()?;
    Redirect::of(&error).map(|redirect| (redirect, error))
}

/// The replies within a transaction, from those to `MULTI`, each command and `EXEC`.
fn within(
    doing: &'static str,
    answer: Option<Result<Vec<Value>, StoreError>>,
    commands: usize,
) -> Vec<Result<Value, StoreError>> {
    let whole = |error: StoreError| (0..commands.max(1)).map(|_| Err(error.clone())).collect();
    let mut values = match answer {
        Some(Ok(values)) => values,
        Some(Err(error)) => return whole(error),
        None => return Vec::new(),
    };
    match values.pop() {
        Some(Value::Array(items)) => items.into_iter().map(Ok).collect(),
        exec => {
            // A command that was not queued says why; EXEC itself only says that there was one.
            let refused = values.into_iter().find(|value| matches!(value, Value::ServerError(_))).or(exec);
            let error = refused.and_then(|value| value.extract_error().err());
            whole(match error {
                Some(error) => explain("the cluster", doing, &error),
                None => StoreError::Unexpected { doing, reason: "EXEC did nothing".into() },
            })
        }
    }
}

/// Gives replies that are already here to the client library, which turns them into the type that is wanted.
pub(in crate::store::redis) struct Replayed(pub(in crate::store::redis) Vec<Value>);

impl ConnectionLike for Replayed {
    fn req_packed_command<'a>(&'a mut self, _: &'a Cmd) -> RedisFuture<'a, Value> {
        let value = self.0.pop().unwrap_or(Value::Nil);
        Box::pin(async move { Ok(value) })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipe: &'a Pipeline,
        _: usize,
        _: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let values = std::mem::take(&mut self.0);
        let values = if pipe.is_transaction() { vec![Value::Array(values)] } else { values };
        Box::pin(async move { Ok(values) })
    }

    fn get_db(&self) -> i64 {
        0
    }
}
