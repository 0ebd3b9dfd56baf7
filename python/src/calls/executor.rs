//! The worker's view of a function in Python: an executor that passes each attempt to Python, and streams what the function
//! says about it. A slow worker slows the function down.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::BoxStream;
use pyo3::prelude::*;
use tidemill_worker::host::{NodeCall, NodeEvent, NodeExecutor};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::native::NativeCall;
use super::queue::Queue;
use crate::mailbox::{self, Letter};

/// The most text that waits for the worker before an executor is slowed down, in bytes.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// What a piece takes besides its text, in bytes: without it many small pieces would take much more than their texts.
const PIECE_BYTES: usize = 128;
/// The interval at which an executor that waits looks whether it has been cancelled.
const LOOK: Duration = Duration::from_millis(100);

/// Where calls go.
pub(crate) enum Lane {
    /// To the threads of the engine.
    Threads(Arc<Queue>),
    /// To this function, which passes them to an event loop.
    Loop(Arc<Py<PyAny>>),
}

/// The function with this number, in the list of its engine or worker.
pub(crate) struct PythonExecutor {
    pub(crate) function: usize,
    pub(crate) lane: Lane,
}

impl NodeExecutor for PythonExecutor {
    fn execute(&self, call: NodeCall) -> BoxStream<'static, NodeEvent> {
        let (sender, receiver) = unbounded_channel();
        let attempt = Arc::new(Attempt::default());
        let outlet = Outlet { sender, attempt: attempt.clone() };
        let call = NativeCall::new(call, self.function, outlet);
        match &self.lane {
            Lane::Threads(queue) => queue.put(call),
            Lane::Loop(function) => mailbox::post(Letter::Call(function.clone(), Box::new(call))),
        }
        Box::pin(Events { receiver, attempt })
    }
}

/// What both sides know of an attempt.
#[derive(Default)]
pub(crate) struct Attempt {
    cancelled: AtomicBool,
    /// The last event was sent: what follows is no cancellation.
    ended: AtomicBool,
    /// Its engine or worker closes, and the function will not be called: there is no result, and that is no failure.
    given_up: AtomicBool,
    /// Called on Python's side when the attempt is cancelled.
    watcher: Mutex<Option<Py<PyAny>>>,
    /// Bytes of text that the worker has not taken yet.
    waiting: AtomicUsize,
    fewer: Condvar,
    fewer_lock: Mutex<()>,
}

impl Attempt {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Sets the function to call when the attempt is cancelled. If that has happened, it is called soon.
    pub(crate) fn watch(&self, function: Py<PyAny>) {
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = if self.is_cancelled() {
            mailbox::post(Letter::Wake(function));
            None
        } else {
            watcher.replace(function)
        };
        drop(watcher);
        drop(replaced);
    }

    /// Notes that the function has ended: nothing can be cancelled any more.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(watcher);
    }

    /// Notes that the attempt is not executed, because its engine or worker closes. The worker, which ends soon, waits for it
    /// until then.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }

    fn cancel(&self) {
        if self.ended.load(Ordering::Acquire) {
            return;
        }
        // Under the lock, so that `watch` sees the flag or leaves its function before.
        let mut watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner);
        self.cancelled.store(true, Ordering::Release);
        let watcher = watcher.take();
        if let Some(function) = watcher {
            mailbox::post(Letter::Wake(function));
        }
        self.fewer.notify_all();
    }

    /// True if more text waits than should.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > WAITING_BYTES_MAX && !self.is_cancelled()
    }

    /// Waits until the worker has taken enough text, or the attempt is cancelled.
    pub(crate) fn wait_for_room(&self) {
        let mut guard = self.fewer_lock.lock().unwrap_or_else(PoisonError::into_inner);
        while self.is_full() {
            guard = self.fewer.wait_timeout(guard, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The side of an attempt that speaks.
pub(crate) struct Outlet {
    sender: UnboundedSender<NodeEvent>,
    pub(crate) attempt: Arc<Attempt>,
}

impl Outlet {
    /// Sends an event, unless the attempt is over.
    pub(crate) fn send(&self, event: NodeEvent) {
        self.attempt.waiting.fetch_add(bytes(&event), Ordering::AcqRel);
        // Refused only after the end of the attempt; nothing waits for it then.
        drop(self.sender.send(event));
    }
}

/// The side of an attempt that the worker reads. Dropping it cancels.
struct Events {
    receiver: UnboundedReceiver<NodeEvent>,
    attempt: Arc<Attempt>,
}

impl Stream for Events {
    type Item = NodeEvent;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<NodeEvent>> {
        let polled = self.receiver.poll_recv(context);
        if let Poll::Ready(Some(event)) = &polled {
            let before = self.attempt.waiting.fetch_sub(bytes(event), Ordering::AcqRel);
            if before > WAITING_BYTES_MAX {
                self.attempt.fewer.notify_all();
            }
        }
        if matches!(polled, Poll::Ready(None)) && self.attempt.given_up.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        polled
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.attempt.cancel();
    }
}

fn bytes(event: &NodeEvent) -> usize {
    if let NodeEvent::Chunk { text, .. } = event { text.len() + PIECE_BYTES } else { 0 }
}
