//! Slots that apps share fairly: if jobs of several apps wait, a free slot goes to the app that holds the fewest. So an
//! app that keeps all slots busy delays another one by at most one execution. The choice is a pure function, [`next`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The user of a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The app, or the workflow version if there is no app.
    pub app: &'a str,
    pub run: &'a str,
}

/// A number of slots.
#[derive(Debug)]
pub(crate) struct FairSlots(Mutex<Slots>);

#[derive(Debug, Default)]
struct Slots {
    free: usize,
    /// The number of the next request. Smaller numbers are older.
    next: u64,
    waiting: Vec<Request>,
    holding: Vec<Request>,
    /// When an app or a run was served last, as a number that grows with each service. Those without a request are
    /// forgotten.
    served: HashMap<String, u64>,
    services: u64,
}

#[derive(Debug)]
struct Request {
    number: u64,
    app: String,
    run: String,
    /// Wakes the request when it gets a slot; `None` after that.
    wake: Option<oneshot::Sender<()>>,
}

/// A slot, or a place in the queue for one. Dropping it gives up either.
#[derive(Debug)]
pub(crate) struct Slot<'a> {
    slots: &'a FairSlots,
    number: u64,
}

impl FairSlots {
    pub(crate) fn new(count: usize) -> Self {
        Self(Mutex::new(Slots { free: count, ..Slots::default() }))
    }

    /// Waits for a slot.
    pub(crate) async fn acquire(&self, owner: Owner<'_>) -> Slot<'_> {
        let (wake, woken) = oneshot::channel();
        let slot = {
            let mut slots = self.lock();
            let number = slots.next;
            slots.next += 1;
            let (app, run) = (owner.app.to_string(), owner.run.to_string());
            slots.waiting.push(Request { number, app, run, wake: Some(wake) });
            slots.serve();
            Slot { slots: self, number }
        };
        // The sender is dropped only with the request, so with the slot itself.
        let _ = woken.await;
        slot
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut slots = self.slots.lock();
        let held = slots.holding.len();
        slots.holding.retain(|request| request.number != self.number);
        slots.free += held - slots.holding.len();
        slots.waiting.retain(|request| request.number != self.number);
        slots.forget();
        slots.serve();
    }
}

impl Slots {
    /// Gives free slots to waiting requests.
    fn serve(&mut self) {
        while self.free > 0 {
            let Some(at) = next(&self.waiting, &self.holding, &self.served) else { return };
            let mut request = self.waiting.remove(at);
            self.services += 1;
            self.served.insert(app_key(&request.app), self.services);
            self.served.insert(run_key(&request.run), self.services);
            self.free -= 1;
            if let Some(wake) = request.wake.take() {
                // If the job has stopped waiting, its slot is being dropped, and that returns the place.
                let _ = wake.send(());
            }
            self.holding.push(request);
        }
    }

    fn forget(&mut self) {
        let Self { waiting, holding, served, .. } = self;
        let is_known = |key: &String| {
            waiting
                .iter()
                .chain(holding.iter())
                .any(|one| *key == app_key(&one.app) || *key == run_key(&one.run))
        };
        served.retain(|key, _| is_known(key));
    }
}

fn app_key(app: &str) -> String {
    format!("app {app}")
}

fn run_key(run: &str) -> String {
    format!("run {run}")
}

/// Chooses the request that gets the next slot: the app that holds the fewest slots, then the one that was served the
/// longest time ago; within the app the same rule for runs; at last the oldest request.
fn next(waiting: &[Request], holding: &[Request], served: &HashMap<String, u64>) -> Option<usize> {
    let key = |request: &Request| {
        let of_app = holding.iter().filter(|one| one.app == request.app).count();
        let of_run = holding.iter().filter(|one| one.run == request.run).count();
        let last = |key: String| served.get(&key).copied().unwrap_or(0);
        (of_app, last(app_key(&request.app)), of_run, last(run_key(&request.run)), request.number)
    };
    (0..waiting.len()).min_by_key(|at| key(&waiting[*at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(of: &[(&str, &str)]) -> Vec<Request> {
        let request = |(number, (app, run)): (usize, &(&str, &str))| Request {
            number: number as u64,
            app: (*app).into(),
            run: (*run).into(),
            wake: None,
        };
        of.iter().enumerate().map(request).collect()
    }

    #[test]
    fn a_free_slot_goes_to_the_app_that_holds_the_fewest() {
        let served = |list: &[(&str, u64)]| list.iter().map(|(key, at)| ((*key).to_string(), *at)).collect();
        for (waiting, holding, last, expected) in [
            (vec![], vec![], vec![], None),
            // First come, first served, while nothing is held.
            (vec![("a", "1"), ("b", "2")], vec![], vec![], Some(0)),
            // The one job of another app goes before the many of the app that holds the slots.
            (vec![("a", "1"), ("a", "2"), ("b", "3")], vec![("a", "4")], vec![], Some(2)),
            (vec![("a", "1"), ("b", "2")], vec![("a", "4"), ("b", "5"), ("b", "6")], vec![], Some(0)),
            // Apps that hold equally many take turns.
            (
                vec![("a", "1"), ("b", "2")],
                vec![("a", "3"), ("b", "4")],
                vec![("app a", 9), ("app b", 3)],
                Some(1),
            ),
            (vec![("a", "1"), ("b", "2")], vec![], vec![("app a", 1)], Some(1)),
            // So do the runs of an app.
            (vec![("a", "1"), ("a", "1"), ("a", "2")], vec![("a", "1")], vec![], Some(2)),
            (vec![("a", "1"), ("a", "2")], vec![], vec![("run 1", 5), ("run 2", 2)], Some(1)),
        ] {
            let case = format!("{waiting:?} {holding:?} {last:?}");
            assert_eq!(next(&requests(&waiting), &requests(&holding), &served(&last)), expected, "{case}");
        }
    }

    fn polled<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    fn owner<'a>(app: &'a str, run: &'a str) -> Owner<'a> {
        Owner { app, run }
    }

    #[test]
    fn hogs_of_one_app_delay_another_app_by_one_execution() {
        let slots = FairSlots::new(2);
        let mut hogs: Vec<_> =
            ["1", "2", "3", "4"].map(|run| Box::pin(slots.acquire(owner("hog", run)))).into();
        let mut held: Vec<_> = hogs.iter_mut().filter_map(polled).collect();
        assert_eq!(held.len(), 2);
        let mut other = Box::pin(slots.acquire(owner("other", "5")));
        assert!(polled(&mut other).is_none());
        held.pop();
        assert!(polled(&mut other).is_some(), "the first slot that gets free");
    }

    #[test]
    fn a_request_that_is_dropped_gives_up_its_place_or_its_slot() {
        let slots = FairSlots::new(1);
        let first = polled(&mut Box::pin(slots.acquire(owner("a", "1")))).expect("a slot is free");
        let mut gone = Box::pin(slots.acquire(owner("b", "2")));
        let mut last = Box::pin(slots.acquire(owner("c", "3")));
        assert!(polled(&mut gone).is_none() && polled(&mut last).is_none());
        // It gets the slot, and is dropped before it notices.
        drop(first);
        drop(gone);
        let held = polled(&mut last).expect("the slot of the dropped request");
        drop(held);
        let slots = slots.lock();
        assert_eq!((slots.free, slots.waiting.len(), slots.holding.len(), slots.served.len()), (1, 0, 0, 0));
    }
}
