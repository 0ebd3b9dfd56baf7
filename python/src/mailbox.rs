//! What the engine's threads have for Python: functions to call on Python's side. One Python thread of the process
//! empties it (`tidemill/_process.py`), many letters at a time. So no thread of the engine takes the interpreter's lock.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::calls::native::NativeCall;

/// Something to do on Python's side.
pub(crate) enum Letter {
    /// Call this without an argument.
    Wake(Py<PyAny>),
    /// Call this with a call of a node.
    Call(Arc<Py<PyAny>>, Box<NativeCall>),
}

impl Letter {
    /// Drops a letter that Python will not fetch.
    fn give_up(self) {
        match self {
            Self::Wake(_) => {}
            Self::Call(_, call) => call.give_up(),
        }
    }
}

#[derive(Default)]
struct Letters {
    waiting: VecDeque<Letter>,
    closed: bool,
}

static MAILBOX: Mutex<Letters> = Mutex::new(Letters { waiting: VecDeque::new(), closed: false });
static ARRIVED: Condvar = Condvar::new();

fn locked() -> MutexGuard<'static, Letters> {
    // A panic while the lock is held cannot leave the list half changed.
    MAILBOX.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A function to call, and its argument.
type Pair = (Py<PyAny>, Option<Py<NativeCall>>);

/// Leaves something for the Python thread. After the mailbox has closed it is given up.
pub(crate) fn post(letter: Letter) {
    let mut letters = locked();
    if letters.closed {
        drop(letters);
        letter.give_up();
    } else {
        letters.waiting.push_back(letter);
        ARRIVED.notify_one();
    }
}

/// Waits for letters, at most so many milliseconds. Returns pairs of a function and its argument, or `None` once the
/// mailbox has closed.
#[pyfunction]
#[pyo3(signature = (milliseconds=None))]
pub(crate) fn letters(py: Python<'_>, milliseconds: Option<u64>) -> PyResult<Option<Vec<Pair>>> {
    let time = milliseconds.map_or(Duration::from_secs(3600), Duration::from_millis);
    let taken = py.detach(|| {
        let nothing = |letters: &mut Letters| letters.waiting.is_empty() && !letters.closed;
        let waited = ARRIVED.wait_timeout_while(locked(), time, nothing);
        let mut letters = waited.unwrap_or_else(PoisonError::into_inner).0;
        if letters.closed { None } else { Some(std::mem::take(&mut letters.waiting)) }
    });
    let Some(taken) = taken else { return Ok(None) };
    let pair = |letter| match letter {
        Letter::Wake(function) => Ok((function, None)),
        Letter::Call(function, call) => Ok((function.clone_ref(py), Some(Py::new(py, *call)?))),
    };
    taken.into_iter().map(pair).collect::<PyResult<_>>().map(Some)
}

/// Ends the Python thread that waits in [`letters`]. For the end of the process.
#[pyfunction]
pub(crate) fn close_mailbox() {
    let mut letters = locked();
    letters.closed = true;
    let dropped = std::mem::take(&mut letters.waiting);
    ARRIVED.notify_all();
    // Not under the lock: the end of a Python object may run any code.
    drop(letters);
    dropped.into_iter().for_each(Letter::give_up);
}
