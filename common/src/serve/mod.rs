//! HTTP listeners of all processes: one accept loop, and what keeps one client from taking it from the others. A
//! connection has so long to send the head of a request and so long to be idle; at the limit of connections the one that
//! has been idle longest is closed for a new one. Requests in progress are never cut: an event stream or a run that is
//! waited for may take as long as it takes.
//!
//! [`phase`] decides, [`seats`] counts, [`connection`] serves one; schedulers and workers call [`serve`].

mod connection;
mod metrics;
mod phase;
mod seats;
#[cfg(test)]
mod tests;

use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

pub use self::metrics::describe;
use self::seats::{Room, Seats};

/// Connections above the limit that are served all the same when no other is idle, for `/livez`, `/readyz` and `/metrics` alone: a
/// process must not be taken for dead because it has much to do.
pub const PROBE_CONNECTIONS: usize = 32;
/// Longest wait for a connection that was told to close.
const CLOSE_WITHIN: Duration = Duration::from_millis(100);
/// Pause where the system gives no connection and none of ours is idle.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// Between two log lines that say that the limit is met.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// How long a connection may be silent, and how many there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest time for the head of a request; of a new connection also until it begins.
    pub header_timeout: Duration,
    /// Longest time between two requests, and longest silence within a body or at the end of an answer.
    pub idle: Duration,
    /// Most connections.
    pub connections_max: usize,
}

/// One listener, as logs, metrics and errors name it.
#[derive(Debug, Clone, Copy)]
pub struct Door {
    /// Its label.
    pub name: &'static str,
    /// The setting with its limit of connections.
    pub setting: &'static str,
    /// Its limits.
    pub limits: Limits,
}

/// The other end of the connection that a request came over; each request has it among its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// Serves until `stop` is ready, then takes no more connections, and returns when all requests in progress have been
/// answered.
pub async fn serve(door: Door, listener: TcpListener, router: Router, stop: impl Future<Output = ()>) {
    let seats = Arc::new(Seats::new(door));
    let (stopping, stopped) = watch::channel(false);
    let mut stop = pin!(stop);
    let mut says = Says::default();
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = next(&listener, &seats, &mut says) => accepted,
        };
        let Some((stream, peer, room)) = accepted else { continue };
        let seat = Arc::new(seats.take(room == Room::Probes, Instant::now()));
        tokio::spawn(connection::run(stream, Peer(peer), seat, router.clone(), stopped.clone()));
    }
    drop(listener);
    stopping.send_replace(true);
    seats.all_left().await;
}

/// The next connection that there is room for. None: one that came is gone again.
async fn next(
    listener: &TcpListener,
    seats: &Seats,
    says: &mut Says,
) -> Option<(TcpStream, SocketAddr, Room)> {
    let (stream, peer) = match listener.accept().await {
        Ok(accepted) => accepted,
        Err(error) => {
            refused(&error, seats, says).await;
            return None;
        }
    };
    let room = make_room(seats, says).await;
    if room == Room::None {
        seats.refuse();
        return None;
    }
    // An event goes out at once; else it would wait until the client has acknowledged the one before, which clients like
    // to put off for 40 ms. Without it events come late, no more.
    let _ = stream.set_nodelay(true);
    Some((stream, peer, room))
}

/// Closes idle connections until there is room for one more, or no idle one is left.
async fn make_room(seats: &Seats, says: &mut Says) -> Room {
    loop {
        let room = seats.room();
        if room == Room::Free {
            return room;
        }
        says.full(seats.door());
        if !seats.close_longest_idle() {
            return room;
        }
        // One that has begun a request in the meantime stays; then the next round closes another one.
        let _ = timeout(CLOSE_WITHIN, seats.one_left()).await;
    }
}

/// The system gave no connection.
async fn refused(error: &Error, seats: &Seats, says: &mut Says) {
    let by_the_client =
        [ErrorKind::ConnectionRefused, ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset];
    if by_the_client.contains(&error.kind()) {
        return;
    }
    // Mostly: the process has no file left.
    says.refused(seats.door(), error);
    if seats.close_longest_idle() {
        let _ = timeout(CLOSE_WITHIN, seats.one_left()).await;
    } else {
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

/// Keeps the log readable: each line at most once a minute.
#[derive(Default)]
struct Says {
    full: Option<Instant>,
    refused: Option<Instant>,
}

impl Says {
    fn full(&mut self, door: &Door) {
        if is_due(&mut self.full) {
            tracing::warn!(
                listener = door.name,
                connections_max = door.limits.connections_max,
                setting = door.setting,
                "at the limit of connections; those that are idle longest are closed for new ones"
            );
        }
    }
    fn refused(&mut self, door: &Door, error: &Error) {
        if is_due(&mut self.refused) {
            tracing::error!(
                listener = door.name,
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
