//! All processes of plugins of a host. Sessions of one plugin share processes, but only within one app, so that what one app gives
//! to a plugin stays out of the memory that another app's invocations use.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::http::Http;
use tidemill_sandbox::helper::Host;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::launch::Launch;
use super::nested::{Held, is_nested};
use super::room::Room;
use super::scratch::Base;
use super::shared::{Shared, lock};
use super::{Answers, Offered, Process, ProcessError, Session, has_served};
use crate::install::Installed;
use crate::settings::{ProcessLimits, Settings};

/// The processes of plugins.
pub struct Plugins {
    settings: Settings,
    host: Host,
    http: Arc<Http>,
    /// One permit a process.
    pub(super) processes: Arc<Semaphore>,
    /// One permit for each process in which sessions run that are not nested.
    pub(super) outermost: Arc<Semaphore>,
    runners: Mutex<HashMap<(String, String), Arc<Runner>>>,
    /// Their folder, as long as there are any.
    base: Mutex<Weak<Base>>,
}

/// An invocation.
pub struct Invocation {
    /// The request, as the SDK reads it.
    pub request: Json,
    /// The app that it is for. Different apps never share a process.
    pub owner: String,
    /// Texts that no log line and no error may contain.
    pub secrets: Vec<String>,
    pub answers: Arc<dyn Answers>,
    /// Files that the plugin may load until the invocation ends.
    pub offered: Offered,
    pub origin: Origin,
}

/// Where an invocation comes from, for log lines. Empty: from no run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    pub run: String,
    pub node: String,
}

/// The processes of one plugin for one app.
struct Runner {
    places: Arc<Semaphore>,
    /// Those of them that sessions may have that are not nested.
    outermost: Arc<Semaphore>,
    state: Mutex<State>,
    /// A start has ended, well or not.
    started: Notify,
}

#[derive(Default)]
struct State {
    processes: Vec<Process>,
    /// An invocation starts a process. The others wait for it, if they have no place elsewhere.
    is_starting: bool,
    is_stopped: bool,
    failures: u32,
    not_before: Option<Instant>,
    /// The last start that failed, for those that waited for it.
    failed: Option<(Instant, ProcessError)>,
}

impl Plugins {
    /// A host without processes. They are started when they are needed.
    pub fn new(settings: Settings, host: Host, http: Arc<Http>) -> Self {
        let limits = &settings.process;
        let (processes, outermost) = (limits.processes_max, limits.outermost_processes());
        let (processes, outermost) = (Semaphore::new(processes), Semaphore::new(outermost));
        let (processes, outermost) = (Arc::new(processes), Arc::new(outermost));
        Self { settings, host, http, processes, outermost, runners: Mutex::default(), base: Mutex::default() }
    }

    /// The limits of its processes.
    pub fn limits(&self) -> &ProcessLimits {
        &self.settings.process
    }

    /// Begins a session in a process that has a place, or in a new one. A nested one ([`super::nested()`]) waits for a process that
    /// starts or ends, and not for other sessions.
    ///
    /// # Errors
    /// [`ProcessError`]: there is no place, or the process cannot be started.
    pub async fn open(
        &self,
        installed: &Arc<Installed>,
        invocation: Invocation,
    ) -> Result<Session, ProcessError> {
        let limits = &self.settings.process;
        let plugin = || installed.package.id();
        let deadline = Instant::now() + limits.session_timeout;
        let runner = self.runner(installed, &invocation.owner);
        let is_nested = is_nested();
        let busy = |limit: &'static str| ProcessError::Busy { plugin: plugin(), limit };
        let held = runner.hold(is_nested, deadline).await.map_err(busy)?;
        let (begun, mut room) = (Instant::now(), Room::new(self, is_nested));
        let permit = loop {
            let started = runner.started.notified();
            tokio::pin!(started);
            // Before the state is looked at, so that no end of a start is missed.
            started.as_mut().enable();
            match self
                .place(&runner, (&plugin, begun), &mut room, |process| process.open(&invocation, deadline))?
            {
                Place::Session(session) => return Ok(session.holding(held)),
                Place::Start(permit) => break permit,
                Place::Wait => {
                    if tokio::time::timeout_at(deadline, started).await.is_err() {
                        return Err(busy("session_timeout"));
                    }
                }
                Place::Full => room.make(deadline).await.map_err(busy)?,
            }
        };
        let starting = Starting(&runner);
        let (settings, host, http) = (&self.settings, &self.host, &self.http);
        let launch = Launch { installed, settings, host, http, base: self.base() };
        let process = launch.start(permit).await.inspect_err(|error| {
            let mut state = lock(&runner.state);
            state.fail(limits.backoff, limits.backoff_max);
            state.failed = Some((Instant::now(), error.clone()));
        })?;
        let session = room.enter(&process, |process| process.open(&invocation, deadline));
        {
            let mut state = lock(&runner.state);
            if !state.is_stopped {
                state.processes.push(process);
            }
        }
        drop(starting);
        let ended = || ProcessError::Ended { plugin: plugin(), reason: "right after its start".into() };
        session.map(|session| session.holding(held)).ok_or_else(ended)
    }

    /// Finds a place for a session that has been wanted since `begun`; a process that has to be started gets a permit, if
    /// there is room. Nothing here waits, so a plugin that does not read delays no other session.
    fn place(
        &self,
        runner: &Runner,
        (plugin, begun): (&dyn Fn() -> String, Instant),
        room: &mut Room<'_>,
        open: impl Fn(&Process) -> Option<Session>,
    ) -> Result<Place, ProcessError> {
        let limits = &self.settings.process;
        let mut state = lock(&runner.state);
        state.remove_ended(limits.backoff, limits.backoff_max);
        if let Some(session) = state.processes.iter().find_map(|process| room.enter(process, &open)) {
            return Ok(Place::Session(session));
        }
        if state.is_starting {
            return Ok(Place::Wait);
        }
        if let Some((_, error)) = state.failed.as_ref().filter(|(at, _)| *at >= begun) {
            return Err(error.clone());
        }
        if let Some(wait) = state.not_before.and_then(|then| then.checked_duration_since(Instant::now())) {
            return Err(ProcessError::BackingOff { plugin: plugin(), wait });
        }
        if !room.has_share() {
            return Ok(Place::Full);
        }
        if state.processes.len() >= limits.processes_each_max {
            return Err(ProcessError::Busy { plugin: plugin(), limit: "processes_each_max" });
        }
        let Some(permit) = room.take() else { return Ok(Place::Full) };
        state.is_starting = true;
        Ok(Place::Start(permit))
    }

    /// Begins to end the process of any plugin that has been without sessions for the longest time. Returns what it shares, or
    /// `None` if all have sessions.
    pub(super) fn end_longest_idle(&self) -> Option<Arc<Shared>> {
        let runners: Vec<Arc<Runner>> = lock(&self.runners).values().cloned().collect();
        let idle = |runner: &Arc<Runner>| {
            let state = lock(&runner.state);
            let longest = state.processes.iter().filter(|process| !process.shared.idle().is_zero());
            let longest = longest.max_by_key(|process| process.shared.idle())?;
            Some((longest.shared.idle(), longest.shared.clone(), longest.orders.clone()))
        };
        let mut idle: Vec<_> = runners.iter().filter_map(idle).collect();
        idle.sort_by_key(|(time, ..)| std::cmp::Reverse(*time));
        // A session may have begun there since.
        let (_, shared, orders) = idle.into_iter().find(|(_, shared, _)| shared.close_if_idle())?;
        let _ = orders.try_send(());
        Some(shared)
    }

    /// Stops all processes and waits for their ends.
    pub async fn stop(&self) {
        let runners: Vec<Arc<Runner>> = lock(&self.runners).drain().map(|(_, runner)| runner).collect();
        let mut stopping = tokio::task::JoinSet::new();
        for runner in runners {
            let processes = {
                let mut state = lock(&runner.state);
                state.is_stopped = true;
                std::mem::take(&mut state.processes)
            };
            for process in processes {
                stopping.spawn(async move { process.stop().await });
            }
        }
        while stopping.join_next().await.is_some() {}
    }

    fn base(&self) -> std::io::Result<Arc<Base>> {
        let mut known = lock(&self.base);
        if let Some(base) = known.upgrade() {
            return Ok(base);
        }
        let base = Arc::new(Base::new()?);
        *known = Arc::downgrade(&base);
        Ok(base)
    }

    fn runner(&self, installed: &Installed, owner: &str) -> Arc<Runner> {
        let limits = &self.settings.process;
        let new = || {
            Arc::new(Runner {
                places: Arc::new(Semaphore::new(limits.places_each())),
                outermost: Arc::new(Semaphore::new(limits.outermost_places())),
                state: Mutex::default(),
                started: Notify::new(),
            })
        };
        let mut runners = lock(&self.runners);
        // A runner that is used only here begins no session.
        runners.retain(|_, runner| Arc::strong_count(runner) > 1 || !runner.is_empty());
        let key = (installed.package.hash.clone(), owner.to_owned());
        runners.entry(key).or_insert_with(new).clone()
    }
}

/// Where a session can run.
enum Place {
    Session(Session),
    /// In a process that has to be started.
    Start(OwnedSemaphorePermit),
    /// Perhaps in a process that another invocation starts.
    Wait,
    /// In a process for which there is no permit.
    Full,
}

/// A start of a process. Dropping it ends the start, also if the invocation is cancelled.
struct Starting<'a>(&'a Runner);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).is_starting = false;
        self.0.started.notify_waiters();
    }
}

impl Runner {
    /// Takes a place for a session. A nested one does not wait for it.
    async fn hold(&self, is_nested: bool, deadline: Instant) -> Result<Held, &'static str> {
        if is_nested {
            let place = self.places.clone().try_acquire_owned();
            let place = place.map_err(
                |_| "processes_each_max × sessions_max, and what another plugin calls does not wait",
            )?;
            return Ok(Held { _places: (place, None) });
        }
        let wait = async {
            let outermost = self.outermost.clone().acquire_owned().await.ok()?;
            Some(Held { _places: (self.places.clone().acquire_owned().await.ok()?, Some(outermost)) })
        };
        let held = tokio::time::timeout_at(deadline, wait).await.ok().flatten();
        held.ok_or(
            "processes_each_max × sessions_max, without the part for calls of other plugins (nested_percent)",
        )
    }

    fn is_empty(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| {
            let is_waiting = state.not_before.is_some_and(|then| then > Instant::now());
            // One that ended unexpectedly still has to be counted.
            let is_over = |process: &Process| process.end_of().is_some_and(|(_, is_expected)| is_expected);
            !is_waiting && state.processes.iter().all(is_over)
        })
    }
}

impl State {
    /// Removes processes that have ended. One that ended without an order counts as a failure, unless it had served.
    fn remove_ended(&mut self, pause: Duration, most: Duration) {
        let (ended, alive): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.processes).into_iter().partition(|process| process.end_of().is_some());
        self.processes = alive;
        for process in ended {
            match process.end_of() {
                Some((_, false)) if !has_served(&process.shared) => self.fail(pause, most),
                Some((_, false)) => {
                    // It had served, so it may start again after the shortest pause.
                    self.failures = 0;
                    self.fail(pause, most);
                }
                Some(_) | None => {}
            }
        }
        if self.processes.iter().any(|process| has_served(&process.shared)) {
            self.failures = 0;
        }
    }

    fn fail(&mut self, pause: Duration, most: Duration) {
        let wait = pause.saturating_mul(1 << self.failures.min(16)).min(most);
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + wait);
    }
}
