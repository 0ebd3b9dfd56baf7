//! The HTTP listeners of all processes: one accept loop, with limits so that one client cannot block the
//! others. A connection has a time limit for the head of a request and for being idle. At the limit of
//! connections the one that has been idle longest is closed for a new one. Requests in progress are never
//! cut: an event stream or a wait for a run may take any time. Only a stream whose client has stopped reading is cut
//! ([`StreamLimits`]).
//!
//! [`tls`] has the certificate, [`socket`] speaks it, [`phase`] decides, [`seats`] counts, [`connection`] serves one
//! connection, [`stream`] writes its event streams as [`chunks`]; schedulers and workers call [`serve`].

mod chunks;
mod connection;
mod metrics;
mod phase;
mod seats;
mod socket;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpSocket, TcpStream, lookup_host};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

pub use self::metrics::describe;
use self::seats::{Admission, Seats};
pub use self::stream::StreamLimits;
pub use self::tls::{Tls, TlsError, TlsFiles};
use tidemill_base::limits::LISTEN_BACKLOG;

/// Connections served above the limit when no other is idle, only for `/livez`, `/readyz` and `/metrics`: a
/// busy process must not be taken for dead.
pub const PROBE_CONNECTIONS: usize = 32;
/// Longest wait for a connection that was asked to close.
const CLOSE_WITHIN: Duration = Duration::from_millis(100);
/// Pause after a failed accept when no connection is idle.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Least time between two log lines about the limit.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// The limits of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest time for the head of a request; for a new connection also until it begins.
    pub header_timeout: Duration,
    /// Longest time between two requests, and longest silence within a body or at the end of an answer.
    pub idle: Duration,
    /// Most connections.
    pub connections_max: usize,
}

/// A listener, as logs, metrics and errors name it.
#[derive(Debug, Clone, Copy)]
pub struct ListenerSettings {
    /// The label.
    pub name: &'static str,
    /// The setting with the limit of connections.
    pub setting: &'static str,
    pub limits: Limits,
}

/// The client address of a request's connection; an extension of each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Listens on `host:port`. Up to [`LISTEN_BACKLOG`] connections may wait to be accepted.
///
/// # Errors
/// The host is unknown, or no address of it can be used; the last reason.
pub async fn listen(address: &str) -> std::io::Result<TcpListener> {
    let mut failed = None;
    for address in lookup_host(address).await? {
        match listen_at(address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.unwrap_or_else(|| Error::new(ErrorKind::InvalidInput, "the host has no address")))
}

fn listen_at(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A process that starts again gets the port that it had a moment ago.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

/// A bound address, and its certificate if it speaks TLS.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<Arc<Tls>>,
}

impl Listener {
    /// With this certificate; `None`: plain HTTP.
    pub fn with(tcp: TcpListener, tls: Option<Arc<Tls>>) -> Self {
        Self { tcp, tls }
    }
}

impl From<TcpListener> for Listener {
    fn from(tcp: TcpListener) -> Self {
        Self::with(tcp, None)
    }
}

/// Serves until `stop` is ready, then accepts no more connections, and returns when all requests in progress
/// are answered.
pub async fn serve(
    settings: ListenerSettings,
    listener: impl Into<Listener>,
    router: Router,
    stop: impl Future<Output = ()>,
) {
    let Listener { tcp: listener, tls } = listener.into();
    let seats = Arc::new(Seats::new(settings));
    let (stopping, stopped) = watch::channel(false);
    let mut stop = pin!(stop);
    let mut limit_log = LimitLog::default();
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = next(&listener, &seats, &mut limit_log) => accepted,
        };
        let Some((stream, peer, admission)) = accepted else { continue };
        let seat = Arc::new(seats.take(admission == Admission::Probes, Instant::now()));
        tokio::spawn(connection::run(stream, tls.clone(), Peer(peer), seat, router.clone(), stopped.clone()));
    }
    drop(listener);
    stopping.send_replace(true);
    seats.all_left().await;
}

/// The next connection with room for it; `None` when a connection came and was refused or failed.
async fn next(
    listener: &TcpListener,
    seats: &Seats,
    limit_log: &mut LimitLog,
) -> Option<(TcpStream, SocketAddr, Admission)> {
    let (stream, peer) = match listener.accept().await {
        Ok(accepted) => accepted,
        Err(error) => {
            refused(&error, seats, limit_log).await;
            return None;
        }
    };
    let admission = make_room(seats, limit_log).await;
    if admission == Admission::None {
        seats.refuse();
        return None;
    }
    // Sends events at once. Otherwise an event waits until the client acknowledges the previous one, which
    // clients delay by up to 40 ms. If setting it fails, events only come late.
    let _ = stream.set_nodelay(true);
    Some((stream, peer, admission))
}

/// Closes idle connections until there is room for one more, or none is idle.
async fn make_room(seats: &Seats, limit_log: &mut LimitLog) -> Admission {
    loop {
        let admission = seats.admission();
        if admission == Admission::Free {
            return admission;
        }
        limit_log.full(seats.settings());
        if !seats.close_longest_idle() {
            return admission;
        }
        // A connection that has begun a request in the meantime stays; the next round closes another one.
        let _ = timeout(CLOSE_WITHIN, seats.one_left()).await;
    }
}

/// Handles a failed accept.
async fn refused(error: &Error, seats: &Seats, limit_log: &mut LimitLog) {
    let by_the_client =
        [ErrorKind::ConnectionRefused, ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset];
    if by_the_client.contains(&error.kind()) {
        return;
    }
    // Usually the process is out of file descriptors.
    limit_log.refused(seats.settings(), error);
    if seats.close_longest_idle() {
        let _ = timeout(CLOSE_WITHIN, seats.one_left()).await;
    } else {
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

/// Limits each log line to one a minute.
#[derive(Default)]
struct LimitLog {
    full: Option<Instant>,
    refused: Option<Instant>,
}

impl LimitLog {
    fn full(&mut self, settings: &ListenerSettings) {
        if is_due(&mut self.full) {
            tracing::warn!(
                listener = settings.name,
                connections_max = settings.limits.connections_max,
                setting = settings.setting,
                "at the limit of connections; those that are idle longest are closed for new ones"
            );
        }
    }
    fn refused(&mut self, settings: &ListenerSettings, error: &Error) {
        if is_due(&mut self.refused) {
            tracing::error!(
                listener = settings.name,
                %error,
                "cannot take a connection; raise the limit of open files (ulimit -n, LimitNOFILE)"
            );
        }
    }
}

fn is_due(last: &mut Option<Instant>) -> bool {
    let now = Instant::now();
    let due = last.is_none_or(|last| now.duration_since(last) >= SAY_EVERY);
    if due {
        *last = Some(now);
    }
    due
}
