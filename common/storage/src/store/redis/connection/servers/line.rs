//! Requests over lines in a cluster: the line leads to the master of the slot, and a request whose slot has moved is sent
//! there.

use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Script};
use tokio::time::Instant;

use crate::store::StoreError;
use crate::store::redis::connection::errors::explain;
use crate::store::redis::connection::keys_of::keys_of;
use crate::store::redis::connection::routing::{Redirect, complete, slot_of};
use crate::store::redis::connection::servers::cluster::{Cluster, PATIENCE};
use crate::store::redis::connection::servers::node::{Lane, Node};
use crate::store::redis::connection::wire_connection::{Line, Replies, Reply, Request, error_of, has_left};

/// The pause before a request is sent again whose slot is on its way.
const PAUSE: Duration = Duration::from_millis(50);

impl Cluster {
    /// Sends a request, all of whose keys are in one slot, and passes its replies to `read`. Commands that were executed
    /// before the slot moved are not sent again; then `read` gets the replies to the others.
    pub(in crate::store::redis) async fn ask_line<T>(
        self: &Arc<Self>,
        doing: &'static str,
        request: &Request,
        read: impl FnOnce(Replies<'_>) -> Result<T, RedisError>,
    ) -> Result<T, StoreError> {
        let slot = slot_of_request(request);
        let (begun, mut rest) = (Instant::now(), None);
        loop {
            let request = rest.as_ref().unwrap_or(request);
            let failed = match self.ask_once(doing, slot, request).await {
                Ok((node, line)) => match first_redirect(line.replies(), request.commands()) {
                    None => {
                        let answer =
                            read(line.replies()).map_err(|error| explain(node.address(), doing, &error));
                        node.put_back(line);
                        return answer;
                    }
                    Some((at, error)) => {
                        let redirect = Redirect::of(&error);
                        if at > 0 {
                            rest = Some(request.without_first(at));
                        }
                        node.put_back(line);
                        if let Some(Redirect::Moved { slot, address }) = redirect {
                            self.note_moved(slot, &complete(&address, node.host()));
                            if begun.elapsed() < PATIENCE {
                                continue;
                            }
                        }
                        // A slot on its way: soon all of it is there.
                        StoreError::Refused { doing, reason: error.to_string() }
                    }
                },
                Err((true, error)) => error,
                Err((false, error)) => return Err(error),
            };
            if begun.elapsed() >= PATIENCE {
                return Err(failed);
            }
            self.want_look();
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The error says whether the request may be sent again.
    async fn ask_once(
        self: &Arc<Self>,
        doing: &'static str,
        slot: u16,
        request: &Request,
    ) -> Result<(Arc<Node>, Line), (bool, StoreError)> {
        let may_wait = |error: StoreError| (matches!(error, StoreError::Refused { .. }), error);
        let node = self.master_of(slot).await.map_err(may_wait)?;
        let mut left = node.left();
        let opened = tokio::select! {
            opened = node.line() => opened,
            _ = left.wait_for(|left| *left) => Err(explain(node.address(), doing, &has_left())),
        };
        let mut line = opened.map_err(|error| {
            self.want_look();
            (true, error)
        })?;
        let asked = tokio::select! {
            asked = line.ask(request, Duration::ZERO) => asked.map(drop),
            _ = left.wait_for(|left| *left) => Err(has_left()),
        };
        match asked {
            Ok(()) => Ok((node, line)),
            Err(error) => {
                node.drop_lines();
                self.want_look();
                Err((false, explain(node.address(), doing, &error)))
            }
        }
    }

    /// Makes a script known to the master of a slot, and to servers to which slots are on their way: one of them may have
    /// answered that it does not know the script.
    pub(in crate::store::redis) async fn load_for(
        self: &Arc<Self>,
        doing: &'static str,
        slot: u16,
        script: &Script,
    ) -> Result<(), StoreError> {
        for address in self.asked() {
            let node = self.node(&address)?;
            if let Err(error) = load(&node, doing, script).await {
                tracing::debug!(%error, server = address, "a script cannot be loaded on the way of a slot");
            }
        }
        load(&*self.master_of(slot).await?, doing, script).await
    }
}

async fn load(node: &Node, doing: &'static str, script: &Script) -> Result<(), StoreError> {
    let mut connection = node.shared(Lane::Short).await?;
    let script = script.prepare_invoke();
    node.answer(Lane::Short, doing, script.load_async(&mut connection)).await.map(drop)
}

/// The slot of the first key of a request.
pub(in crate::store::redis) fn slot_of_request(request: &Request) -> u16 {
    let slot = request.each_command().find_map(|words| keys_of(&words).first().map(|key| slot_of(key)));
    slot.unwrap_or(0)
}

/// The first reply that says that the slot is elsewhere, and its place.
fn first_redirect(mut replies: Replies<'_>, commands: usize) -> Option<(usize, RedisError)> {
    for at in 0..commands {
        match replies.next()? {
            Reply::Error(error) => {
                let error = error_of(error);
                if Redirect::of(&error).is_some() {
                    return Some((at, error));
                }
            }
            Reply::List(length) => {
                let _ = replies.pass(length);
            }
            _ => {}
        }
    }
    None
}
