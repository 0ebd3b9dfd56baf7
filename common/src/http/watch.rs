//! Enforces the three time limits of a call, as Dify's client has them: for connecting, for each sent piece, and for
//! each received piece. There is no limit for the whole call.
//!
//! The HTTP client does not report its stage. So the connector and the body note it here, and the sender waits for the
//! request and the limit at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::Notify;
use tokio::time::Instant;
use tower::{Layer, Service};

tokio::task_local! {
    /// The watch of the call that this task sends.
    static WATCH: Arc<Watch>;
}

/// Largest piece of a body sent at once, in bytes.
const PIECE: usize = 64 * 1024;

/// The stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// No connection yet.
    Connecting,
    /// Sending the request.
    Writing,
    /// Waiting for the answer.
    Reading,
}

/// Longest time without progress, per stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    pub connect: Duration,
    pub write: Duration,
    pub read: Duration,
}

impl Waits {
    /// Returns the limit of a stage.
    pub const fn of(&self, stage: Stage) -> Duration {
        match stage {
            Stage::Connecting => self.connect,
            Stage::Writing => self.write,
            Stage::Reading => self.read,
        }
    }
}

/// The stage of one request and its last progress.
#[derive(Debug)]
pub struct Watch {
    at: Mutex<(Stage, Instant)>,
    moved: Notify,
    /// The stage after connecting.
    first: Stage,
}

impl Watch {
    /// Creates the watch of a request.
    pub fn new(has_body: bool) -> Arc<Self> {
        let first = if has_body { Stage::Writing } else { Stage::Reading };
        Arc::new(Self { at: Mutex::new((first, Instant::now())), moved: Notify::new(), first })
    }

    /// Runs `sending`; connections and bodies in it report to this watch.
    ///
    /// # Errors
    /// The stage whose limit passed.
    pub async fn over<T>(
        self: Arc<Self>,
        waits: Waits,
        sending: impl Future<Output = T>,
    ) -> Result<T, Stage> {
        let limit = self.clone();
        tokio::select! {
            done = WATCH.scope(self, sending) => Ok(done),
            stage = limit.expired(waits) => Err(stage),
        }
    }

    async fn expired(&self, waits: Waits) -> Stage {
        loop {
            let (stage, since) = *self.at.lock().unwrap_or_else(PoisonError::into_inner);
            let deadline = since + waits.of(stage);
            if Instant::now() >= deadline {
                return stage;
            }
            tokio::select! {
                () = tokio::time::sleep_until(deadline) => {}
                () = self.moved.notified() => {}
            }
        }
    }

    fn enter(&self, stage: Stage) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = (stage, Instant::now());
        self.moved.notify_one();
    }

    fn connected(&self) {
        let stage = self.at.lock().unwrap_or_else(PoisonError::into_inner).0;
        // The request may have used another connection that became free meanwhile.
        if stage == Stage::Connecting {
            self.enter(self.first);
        }
    }
}

/// Notes when a connection is made.
#[derive(Debug, Clone, Copy)]
pub struct WatchLayer;

impl<S> Layer<S> for WatchLayer {
    type Service = Watched<S>;
    fn layer(&self, inner: S) -> Watched<S> {
        Watched { inner }
    }
}

/// See [`WatchLayer`].
#[derive(Debug, Clone)]
pub struct Watched<S> {
    inner: S,
}

impl<S, R> Service<R> for Watched<S>
where
    S: Service<R>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let watch = WATCH.try_with(Arc::clone).ok();
        if let Some(watch) = &watch {
            watch.enter(Stage::Connecting);
        }
        let connecting = self.inner.call(request);
        Box::pin(async move {
            let connected = connecting.await;
            if let Some(watch) = &watch {
                watch.connected();
            }
            connected
        })
    }
}

/// A body that notes its progress. Its length is known, so the request has a `Content-Length`.
#[derive(Debug)]
pub struct WatchedBody {
    pieces: std::collections::VecDeque<Bytes>,
    left: u64,
    watch: Arc<Watch>,
}

impl WatchedBody {
    /// Creates a body from its parts in order.
    pub fn new(parts: &[Bytes], watch: Arc<Watch>) -> Self {
        let left = parts.iter().map(|part| part.len() as u64).sum();
        Self { pieces: parts.iter().filter(|part| !part.is_empty()).cloned().collect(), left, watch }
    }
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::convert::Infallible>>> {
        let own = self.get_mut();
        let Some(mut piece) = own.pieces.pop_front() else {
            own.watch.enter(Stage::Reading);
            return Poll::Ready(None);
        };
        if piece.len() > PIECE {
            own.pieces.push_front(piece.split_off(PIECE));
        }
        own.left -= piece.len() as u64;
        // The last piece may still be in the socket's buffer; from here on we wait for the server.
        own.watch.enter(if own.pieces.is_empty() { Stage::Reading } else { Stage::Writing });
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITS: Waits = Waits {
        connect: Duration::from_secs(2),
        write: Duration::from_secs(3),
        read: Duration::from_secs(5),
    };

    #[tokio::test(start_paused = true)]
    async fn each_stage_has_its_own_limit_and_progress_begins_it_anew() {
        for (has_body, stage, seconds) in [(false, Stage::Reading, 5), (true, Stage::Writing, 3)] {
            let began = Instant::now();
            let done = Watch::new(has_body).over(WAITS, std::future::pending::<()>()).await;
            assert_eq!((done, began.elapsed().as_secs()), (Err(stage), seconds));
        }
        let watch = Watch::new(true);
        let noting = watch.clone();
        let began = Instant::now();
        let done = watch
            .over(WAITS, async move {
                for _ in 0..4 {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    noting.enter(Stage::Writing);
                }
                noting.enter(Stage::Connecting);
                std::future::pending::<()>().await;
            })
            .await;
        assert_eq!((done, began.elapsed().as_secs()), (Err(Stage::Connecting), 10));
    }
}
