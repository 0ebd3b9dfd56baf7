//! Counts connections and finds the one that has been idle longest. A connection holds a seat; when it
//! becomes idle it gets the next number, and the smallest number is closed first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::phase::{Cut, Happening, Phase};
use super::{ListenerSettings, PROBE_CONNECTIONS, metrics};

/// Whether another connection may be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Yes.
    Free,
    /// Only for probes.
    Probes,
    /// No.
    None,
}

/// The order in which idle connections are closed: probe seats after all others.
type Number = (bool, u64);

/// All seats of a listener.
#[derive(Debug)]
pub(super) struct Seats {
    settings: ListenerSettings,
    table: Mutex<Table>,
    /// Notified when a connection ends.
    left: Notify,
}

#[derive(Debug, Default)]
struct Table {
    taken: usize,
    next: u64,
    /// Idle connections with the signal to close each.
    idle: BTreeMap<Number, Arc<Notify>>,
}

impl Seats {
    pub(super) fn new(settings: ListenerSettings) -> Self {
        Self { settings, table: Mutex::default(), left: Notify::new() }
    }

    pub(super) fn settings(&self) -> &ListenerSettings {
        &self.settings
    }

    pub(super) fn admission(&self) -> Admission {
        self.table().admission(self.settings.limits.connections_max)
    }

    /// A seat for a new connection.
    pub(super) fn take(self: &Arc<Self>, for_probes: bool, now: Instant) -> Seat {
        let close = Arc::new(Notify::new());
        let mut table = self.table();
        table.taken += 1;
        let number = table.sit_idle(for_probes, &close);
        metrics::open(&self.settings, table.taken);
        drop(table);
        let doing = Mutex::new(Doing { phase: Phase::New { since: now }, number: Some(number) });
        Seat { seats: self.clone(), close, for_probes, doing }
    }

    /// Asks the connection that has been idle longest to close; `false` when none is idle. Probe seats are
    /// spared until all are taken: these connections are new, and most are about to send a request.
    pub(super) fn close_longest_idle(&self) -> bool {
        let mut table = self.table();
        let admission = table.admission(self.settings.limits.connections_max);
        let Some(longest) = table.idle.first_entry() else { return false };
        let (is_for_probes, _) = *longest.key();
        if is_for_probes && admission != Admission::None {
            return false;
        }
        longest.remove().notify_one();
        true
    }

    /// Counts a connection that got no seat.
    pub(super) fn refuse(&self) {
        metrics::cut(&self.settings, Cut::Full);
    }

    /// Waits until a connection has ended; one that ended since the last call counts.
    pub(super) async fn one_left(&self) {
        self.left.notified().await;
    }

    /// Waits until all have ended.
    pub(super) async fn all_left(&self) {
        while self.table().taken > 0 {
            self.one_left().await;
        }
    }

    // No code panics under the lock, and the numbers would be right even then.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn admission(&self, max: usize) -> Admission {
        if self.taken < max {
            Admission::Free
        } else if self.taken < max.saturating_add(PROBE_CONNECTIONS) {
            Admission::Probes
        } else {
            Admission::None
        }
    }

    fn sit_idle(&mut self, for_probes: bool, close: &Arc<Notify>) -> Number {
        let number = (for_probes, self.next);
        self.next += 1;
        self.idle.insert(number, close.clone());
        number
    }
}

/// The seat of one connection; free again when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    close: Arc<Notify>,
    /// Whether it is a probe seat above the limit.
    pub(super) for_probes: bool,
    doing: Mutex<Doing>,
}

#[derive(Debug)]
struct Doing {
    phase: Phase,
    /// Set while the connection is idle.
    number: Option<Number>,
}

impl Seat {
    /// Records an event on the connection.
    pub(super) fn record(&self, what: Happening) {
        let mut doing = self.doing();
        doing.phase = doing.phase.after(what, Instant::now());
        match (doing.phase.is_idle(), doing.number) {
            (true, None) => {
                doing.number = Some(self.seats.table().sit_idle(self.for_probes, &self.close));
            }
            (false, Some(number)) => {
                doing.number = None;
                self.seats.table().idle.remove(&number);
            }
            (true, Some(_)) | (false, None) => {}
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.doing().phase
    }

    pub(super) fn settings(&self) -> &ListenerSettings {
        &self.seats.settings
    }

    /// Waits until the connection is asked to close.
    pub(super) async fn close_requested(&self) {
        self.close.notified().await;
    }

    fn doing(&self) -> MutexGuard<'_, Doing> {
        self.doing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let number = self.doing().number;
        let mut table = self.seats.table();
        table.taken -= 1;
        if let Some(number) = number {
            table.idle.remove(&number);
        }
        metrics::open(&self.seats.settings, table.taken);
        drop(table);
        self.seats.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Limits;
    use super::*;

    #[test]
    fn those_for_probes_make_room_only_when_all_of_them_are_taken() {
        let long = Duration::from_secs(60);
        let limits = Limits { header_timeout: long, idle: long, connections_max: 2 };
        let seats = Arc::new(Seats::new(ListenerSettings { name: "test", setting: "s", limits }));
        let take = || seats.take(seats.admission() == Admission::Probes, Instant::now());
        let (busy, idle) = (take(), take());
        busy.record(Happening::Request);
        let mut probes = vec![take()];
        assert!(seats.close_longest_idle(), "the one that is no probe goes first");
        assert!(!seats.close_longest_idle() && idle.phase().is_idle());
        while seats.admission() == Admission::Probes {
            probes.push(take());
        }
        assert_eq!((probes.len(), seats.admission()), (PROBE_CONNECTIONS, Admission::None));
        assert!(seats.close_longest_idle());
        drop((busy, idle, probes));
        assert_eq!((seats.admission(), seats.table().idle.len()), (Admission::Free, 0));
    }
}
