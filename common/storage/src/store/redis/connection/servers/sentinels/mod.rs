//! The master of a name, as Sentinels say it. It is asked whether it is one before it is used. When another server becomes
//! it, every connection to the old one ends at once.

mod ask;
mod said;
mod watch;

use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use redis::ConnectionInfo;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

use self::ask::{Answers, DOING, Mute, PATIENCE, Sentinel, ask_all, is_master};
use self::said::{Replica, Said, newest, replicas_of};
use crate::store::StoreError;
use crate::store::redis::connection::servers::node::{Node, Reach};

/// The most Sentinels that are asked.
const SENTINELS_MAX: usize = 32;

/// The Sentinels of a master.
pub(in crate::store::redis) struct Sentinels {
    /// The name of the master.
    name: Arc<str>,
    /// How the master is reached: all but its address.
    master: ConnectionInfo,
    /// The Sentinels in `redis.url`.
    seeds: Vec<ConnectionInfo>,
    reach: Reach,
    /// `redis.url` without password.
    address: Arc<str>,
    check_every: Duration,
    view: RwLock<View>,
    looking: Mutex<()>,
    is_wanted: Notify,
    watcher: OnceLock<()>,
}

#[derive(Default)]
struct View {
    master: Option<Arc<Node>>,
    /// The number of the fail-over that made it the master.
    epoch: u64,
    /// There was a master.
    was_found: bool,
    /// The last that answered first comes first.
    sentinels: Vec<Sentinel>,
    /// Of the master; `None` if no Sentinel says them.
    replicas: Option<Arc<[Replica]>>,
    /// When the Sentinels were last asked, and the error if they did not say a master.
    looked: Option<(Instant, Option<StoreError>)>,
}

impl Sentinels {
    /// Connects on first use. `master` is the master's user, password, database and way of connecting; `address` is for
    /// messages.
    ///
    /// # Errors
    /// The library cannot use an address.
    pub(in crate::store::redis) fn new(
        name: &str,
        master: ConnectionInfo,
        seeds: Vec<ConnectionInfo>,
        reach: Reach,
        address: &str,
        check_every: Duration,
    ) -> Result<Arc<Self>, String> {
        let quick = reach.within(PATIENCE);
        let seed = |info: &ConnectionInfo| {
            let node = Node::new(info.clone(), &quick, &info.addr().to_string());
            Ok(Sentinel { node: Arc::new(node.map_err(|error| error.to_string())?), is_silent: false })
        };
        let sentinels = seeds.iter().map(seed).collect::<Result<_, String>>()?;
        Ok(Arc::new(Self {
            name: name.into(),
            master,
            seeds,
            reach,
            address: address.into(),
            check_every,
            view: RwLock::new(View { sentinels, ..View::default() }),
            looking: Mutex::default(),
            is_wanted: Notify::new(),
            watcher: OnceLock::new(),
        }))
    }

    /// The master.
    ///
    /// # Errors
    /// No Sentinel names one, or the one that they name says that it is a replica, or does not answer.
    pub(in crate::store::redis) async fn master(self: &Arc<Self>) -> Result<Arc<Node>, StoreError> {
        let known = self.read().master.clone();
        match known {
            Some(master) => Ok(master),
            None => self.look().await,
        }
    }

    /// The replicas of the master when the Sentinels were last asked; `None` if they do not say.
    pub(in crate::store::redis) fn replicas(&self) -> Option<Arc<[Replica]>> {
        self.read().replicas.clone()
    }

    /// The Sentinels that did not answer when they were last asked, and the number of all.
    pub(in crate::store::redis) fn silent(&self) -> (Vec<Arc<str>>, usize) {
        let view = self.read();
        let silent = view.sentinels.iter().filter(|it| it.is_silent).map(|it| it.node.address().clone());
        (silent.collect(), view.sentinels.len())
    }

    /// Asks for the master soon, in the background.
    pub(in crate::store::redis) fn want_look(&self) {
        self.is_wanted.notify_one();
    }

    /// Asks for the master now, unless somebody else just did.
    ///
    /// # Errors
    /// As [`Self::master`].
    pub(in crate::store::redis) async fn look(self: &Arc<Self>) -> Result<Arc<Node>, StoreError> {
        self.watcher.get_or_init(|| {
            tokio::spawn(watch::watch(Arc::downgrade(self)));
        });
        let wanted_at = Instant::now();
        let _one_at_a_time = self.looking.lock().await;
        {
            let view = self.read();
            match (&view.looked, &view.master) {
                (Some((at, Some(error))), _) if *at > wanted_at => return Err(error.clone()),
                (Some((at, None)), Some(master)) if *at > wanted_at => return Ok(master.clone()),
                _ => {}
            }
        }
        let begun = Instant::now();
        let found = self.find().await;
        self.write().looked = Some((begun, found.as_ref().err().cloned()));
        found
    }

    async fn find(&self) -> Result<Arc<Node>, StoreError> {
        let sentinels = self.read().sentinels.clone();
        let answers = ask_all(&sentinels, &self.name).await;
        self.note(&sentinels, &answers);
        let said = newest(&answers.said).ok_or_else(|| self.no_answer(&answers))?;
        let (known, epoch) = {
            let view = self.read();
            (view.master.clone(), view.epoch)
        };
        if let Some(master) = known {
            // A Sentinel that was cut off or restarted may know an older fail-over. If most say so, they were set up again.
            let is_old = said.epoch < epoch && answers.said.len() * 2 <= sentinels.len();
            if is_old || **master.address() == *said.master {
                let mut view = self.write();
                if !is_old {
                    view.epoch = said.epoch;
                    view.replicas = replicas_of(&answers.said, &said.master).map(Into::into);
                }
                return Ok(master);
            }
        }
        let node = Node::beside(&self.master, &self.reach, &said.master);
        let node = Arc::new(node.map_err(|reason| self.unusable(&said.master, &reason))?.for_now());
        if !is_master(&node).await? {
            return Err(self.is_none(&said.master));
        }
        self.take(said, replicas_of(&answers.said, &said.master), node.clone());
        Ok(node)
    }

    /// Moves to another master.
    fn take(&self, said: &Said, replicas: Option<Vec<Replica>>, node: Arc<Node>) {
        let mut view = self.write();
        let old = view.master.replace(node);
        view.epoch = said.epoch;
        view.replicas = replicas.map(Into::into);
        if std::mem::replace(&mut view.was_found, true) {
            tracing::info!(master = said.master, name = &*self.name, "another server is the master of Redis");
        }
        if let Some(old) = old {
            old.leave();
        }
    }

    /// The master says that it is a replica now: nothing goes there until the Sentinels name a master.
    fn lose(&self, master: &Arc<Node>) {
        let mut view = self.write();
        if view.master.as_ref().is_some_and(|known| Arc::ptr_eq(known, master)) {
            tracing::warn!(
                server = &**master.address(),
                "the master of Redis was demoted; asking the Sentinels"
            );
            view.master = None;
            master.leave();
        }
    }

    /// Notes which Sentinels answered, and those that they know.
    fn note(&self, asked: &[Sentinel], answers: &Answers) {
        let mut known = asked.to_vec();
        for sentinel in &mut known {
            let is_silent = !answers.by.contains(sentinel.node.address());
            if is_silent != sentinel.is_silent {
                let place = &**sentinel.node.address();
                if is_silent {
                    tracing::warn!(sentinel = place, "a Sentinel does not answer");
                } else {
                    tracing::info!(sentinel = place, "a Sentinel answers again");
                }
            }
            sentinel.is_silent = is_silent;
        }
        let is_seed = |place: &str| self.seeds.iter().any(|seed| seed.addr().to_string() == place);
        let others: Vec<&String> = answers.said.iter().flat_map(|said| &said.others).collect();
        if !answers.said.is_empty() {
            known.retain(|it| {
                let place = it.node.address();
                !it.is_silent || is_seed(place) || others.iter().any(|other| ***other == **place)
            });
        }
        for other in others {
            let is_known = known.iter().any(|it| **it.node.address() == **other);
            let Some(seed) = self.seeds.first().filter(|_| !is_known && known.len() < SENTINELS_MAX) else {
                continue;
            };
            if let Ok(node) = Node::beside(seed, &self.reach.within(PATIENCE), other) {
                known.push(Sentinel { node: Arc::new(node), is_silent: false });
            }
        }
        let first = answers.by.first();
        known.sort_by_key(|it| (Some(it.node.address()) != first, it.is_silent));
        self.write().sentinels = known;
    }

    fn read(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, View> {
        self.view.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Errors, which say what to do.
impl Sentinels {
    /// No Sentinel names a master.
    fn no_answer(&self, answers: &Answers) -> StoreError {
        let failed = || {
            answers.mute.iter().filter_map(|(_, mute)| match mute {
                Mute::Failed(error) => Some(error),
                Mute::Unknown => None,
            })
        };
        if answers.mute.iter().any(|(_, mute)| matches!(mute, Mute::Unknown)) {
            let reason = format!(
                "no Sentinel of {} watches a master of the name {:?}; redis.url has to end with a name that `SENTINEL \
                 MASTERS` shows there",
                self.address, self.name
            );
            // A fleet that has worked waits for its Sentinels to be set up again.
            let is_new = !self.read().was_found;
            return if is_new {
                StoreError::Unusable(reason)
            } else {
                StoreError::Refused { doing: DOING, reason }
            };
        }
        let rank = |error: &&StoreError| match error {
            StoreError::SentinelDenied { .. } => 0,
            StoreError::Unusable(_) => 1,
            _ => 2,
        };
        if let Some(error) = failed().min_by_key(rank).filter(|error| rank(error) < 2) {
            return error.clone();
        }
        let each: Vec<String> = answers
            .mute
            .iter()
            .filter_map(|(place, mute)| match mute {
                Mute::Failed(StoreError::Unreachable { reason, .. }) => Some(format!("{place}: {reason}")),
                Mute::Failed(error) => Some(format!("{place}: {error}")),
                Mute::Unknown => None,
            })
            .collect();
        let each = if each.is_empty() { format!("none within {PATIENCE:?}") } else { each.join("; ") };
        StoreError::Unreachable {
            address: self.address.to_string(),
            doing: DOING,
            reason: format!("no Sentinel answers ({each}); start them, or name others in redis.url"),
        }
    }

    /// The server that the Sentinels name is not a master.
    fn is_none(&self, place: &str) -> StoreError {
        StoreError::Refused {
            doing: DOING,
            reason: format!(
                "there is no master at the moment: the Sentinels of {} name {place} as {:?}, which says that it is a \
                 replica",
                self.address, self.name
            ),
        }
    }

    fn unusable(&self, place: &str, reason: &str) -> StoreError {
        StoreError::Unusable(format!("the Sentinels of {} name a server {place}: {reason}", self.address))
    }
}
