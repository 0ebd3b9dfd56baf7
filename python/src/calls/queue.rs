//! The calls that wait for a thread of their engine. The threads are Python's (`tidemill/_threads.py`) and wait here
//! without the interpreter's lock.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use super::native::NativeCall;

#[derive(Default)]
struct Waiting {
    calls: VecDeque<NativeCall>,
    /// Threads that wait for a call.
    idle: usize,
    closed: bool,
}

/// A queue, as the executors see it.
#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

impl Queue {
    fn locked(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call. A closed queue gives it up.
    pub(crate) fn put(&self, call: NativeCall) {
        let mut waiting = self.locked();
        if waiting.closed {
            drop(waiting);
            call.give_up();
        } else {
            waiting.calls.push_back(call);
            self.arrived.notify_one();
        }
    }

    /// Waits for a call that has not been cancelled. The number is that of the threads that wait still.
    fn take(&self) -> Option<(NativeCall, usize)> {
        let mut waiting = self.locked();
        loop {
            if waiting.closed {
                return None;
            }
            match waiting.calls.pop_front() {
                Some(call) if call.is_over() => {}
                Some(call) => return Some((call, waiting.idle)),
                None => {
                    waiting.idle += 1;
                    waiting = self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
                    waiting.idle -= 1;
                }
            }
        }
    }

    fn close(&self) {
        let mut waiting = self.locked();
        waiting.closed = true;
        let dropped = std::mem::take(&mut waiting.calls);
        self.arrived.notify_all();
        drop(waiting);
        dropped.into_iter().for_each(NativeCall::give_up);
    }
}

/// A queue, as its threads see it.
#[pyclass(frozen, module = "tidemill._native")]
pub(crate) struct NativeQueue(pub(crate) Arc<Queue>);

#[pymethods]
impl NativeQueue {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Waits for a call; returns it with the number of threads that wait still, or `None` once the queue has closed.
    fn take(&self, py: Python<'_>) -> Option<(NativeCall, usize)> {
        let queue = &self.0;
        py.detach(|| queue.take())
    }

    /// Ends the threads that wait, and gives up the calls that wait.
    fn close(&self, py: Python<'_>) {
        let queue = &self.0;
        py.detach(|| queue.close());
    }
}
