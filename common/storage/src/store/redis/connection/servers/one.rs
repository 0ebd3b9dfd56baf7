//! The one server that has all keys: at a fixed address, or the master that Sentinels name at the moment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::StoreError;
use crate::store::redis::connection::errors::is_left;
use crate::store::redis::connection::servers::node::Node;
use crate::store::redis::connection::servers::sentinels::Sentinels;

/// Time between two moves of all connections, when a server goes on refusing writes.
const MOVES_EVERY: Duration = Duration::from_secs(1);

/// The server at a fixed address. The address may be a name or a proxy that leads to another server by now, so all
/// connections are made again when the server refuses a write for lack of replicas, or because it is one. Connections that
/// only read would stay with the old server for ever, so those of the other stores of the process move at the same time.
pub(in crate::store::redis) struct Fixed {
    node: Mutex<Arc<Node>>,
    group: Arc<Mutex<Group>>,
}

/// What goes to the same address in one process, and moves together.
#[derive(Default)]
struct Group {
    members: Vec<Weak<Fixed>>,
    /// When they moved last.
    moved: Option<Instant>,
}

impl Fixed {
    pub(in crate::store::redis) fn new(node: Node) -> Arc<Self> {
        Self::of(node.for_now(), Arc::default())
    }

    /// The same address with connections of its own, which move together with these.
    pub(in crate::store::redis) fn beside(&self) -> Arc<Self> {
        Self::of(self.node().again(), self.group.clone())
    }

    fn of(node: Node, group: Arc<Mutex<Group>>) -> Arc<Self> {
        let new = Arc::new(Self { node: Mutex::new(Arc::new(node)), group });
        locked(&new.group).members.push(Arc::downgrade(&new));
        new
    }

    fn node(&self) -> Arc<Node> {
        locked(&self.node).clone()
    }

    fn move_all(&self) {
        let mut group = locked(&self.group);
        if group.moved.is_none_or(|moved| moved.elapsed() >= MOVES_EVERY) {
            group.moved = Some(Instant::now());
            group.members.retain(|member| member.strong_count() > 0);
            group.members.iter().filter_map(Weak::upgrade).for_each(|member| member.move_on());
        }
    }

    fn move_on(&self) {
        let old = {
            let mut node = locked(&self.node);
            let new = Arc::new(node.again());
            std::mem::replace(&mut *node, new)
        };
        old.leave();
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one server.
#[derive(Clone)]
pub(in crate::store::redis) enum One {
    Fixed(Arc<Fixed>),
    Watched(Arc<Sentinels>),
}

impl One {
    /// The server that is it now.
    ///
    /// # Errors
    /// No Sentinel says which one it is, or that one is no master.
    pub(in crate::store::redis) async fn node(&self) -> Result<Arc<Node>, StoreError> {
        match self {
            Self::Fixed(fixed) => Ok(fixed.node()),
            Self::Watched(sentinels) => sentinels.master().await,
        }
    }

    /// After an error that may mean that another server is the master by now: the Sentinels are asked soon, and a fixed
    /// address gets new connections.
    pub(in crate::store::redis) fn doubt(&self, error: &StoreError) {
        match self {
            Self::Watched(sentinels) if matches!(error, StoreError::Unreachable { .. }) => {
                sentinels.want_look()
            }
            Self::Fixed(fixed) if is_left(error) => fixed.move_all(),
            Self::Watched(_) | Self::Fixed(_) => {}
        }
    }

    /// Like [`Self::doubt`], for an answer that is passed on.
    ///
    /// # Errors
    /// That of the answer.
    pub(in crate::store::redis) fn noted<T>(&self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        answer.inspect_err(|error| self.doubt(error))
    }

    /// The Sentinels, if they say which server it is.
    pub(in crate::store::redis) fn sentinels(&self) -> Option<&Arc<Sentinels>> {
        match self {
            Self::Fixed(_) => None,
            Self::Watched(sentinels) => Some(sentinels),
        }
    }
}
