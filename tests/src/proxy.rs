//! A TCP proxy between one process and Redis that misbehaves on command: it cuts connections, delays data, drops a
//! request, drops the reply to a request that took effect, or ends a connection in the middle of a reply.
//!
//! It does not know Redis's protocol: bytes that the client writes together are a request, bytes that come back are a
//! reply. A network knows no more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The most bytes that are passed on together.
const PIECE_BYTES: usize = 64 * 1024;

/// A fault of one request or reply, on any connection. The connection then ends: neither side could read a stream
/// with a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mishap {
    /// The next request does not reach the server.
    LoseRequest,
    /// The next request takes effect, but its reply does not reach the client.
    LoseReply,
    /// Only half of the next reply reaches the client.
    HalveReply,
}

#[derive(Debug, Default)]
struct Orders {
    delay_ms: AtomicU64,
    lose_requests: AtomicU32,
    lose_replies: AtomicU32,
    halve_replies: AtomicU32,
}

/// A running proxy; its process uses the proxy's port as Redis.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    orders: Arc<Orders>,
    /// A higher number cuts all connections.
    cut: watch::Sender<u64>,
    is_closed: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy for a local port.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port is free");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let orders = Arc::new(Orders::default());
        let (cut, is_closed) = (watch::Sender::new(0), watch::Sender::new(false));
        let (of_all, cuts, closed) = (orders.clone(), cut.clone(), is_closed.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *closed.borrow() {
                    continue;
                }
                tokio::spawn(carry(client, server, of_all.clone(), cuts.subscribe()));
            }
        });
        Self { port, orders, cut, is_closed, accepting }
    }

    /// The address of Redis for the process.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port on the loopback interface.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Cuts every connection, and still accepts new ones.
    pub fn cut(&self) {
        self.cut.send_modify(|times| *times += 1);
    }

    /// Cuts every connection, and accepts no new ones.
    pub fn close(&self) {
        self.is_closed.send_replace(true);
        self.cut();
    }

    /// Accepts connections again.
    pub fn open(&self) {
        self.is_closed.send_replace(false);
    }

    /// Delays all data by this time, in both directions; zero ends the delay.
    pub fn delay(&self, by: Duration) {
        let ms = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.orders.delay_ms.store(ms, Ordering::Relaxed);
    }

    /// Orders one more mishap.
    pub fn suffer(&self, mishap: Mishap) {
        self.of(mishap).fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true when an ordered mishap has not happened yet.
    pub fn is_owed(&self, mishap: Mishap) -> bool {
        self.of(mishap).load(Ordering::Relaxed) > 0
    }

    fn of(&self, mishap: Mishap) -> &AtomicU32 {
        match mishap {
            Mishap::LoseRequest => &self.orders.lose_requests,
            Mishap::LoseReply => &self.orders.lose_replies,
            Mishap::HalveReply => &self.orders.halve_replies,
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

/// Reduces the count by one; returns false when it was zero.
fn take(owed: &AtomicU32) -> bool {
    owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

/// Passes on the data of one connection until a side ends it, the proxy cuts it, or a mishap ends it.
async fn carry(client: TcpStream, server: u16, orders: Arc<Orders>, mut cut: watch::Receiver<u64>) {
    // If the server is down, the client sees its connection end at once.
    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
    // Without `nodelay`, data only arrives later.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let loses_reply = watch::Sender::new(false);
    tokio::select! {
        _ = cut.changed() => {}
        () = requests(from_client, to_server, &orders, &loses_reply) => {}
        () = replies(from_server, to_client, &orders, loses_reply.subscribe()) => {}
    }
}

async fn requests(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    orders: &Orders,
    loses_reply: &watch::Sender<bool>,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        wait(orders).await;
        if take(&orders.lose_requests) {
            return;
        }
        if take(&orders.lose_replies) {
            loses_reply.send_replace(true);
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

async fn replies(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    orders: &Orders,
    loses_reply: watch::Receiver<bool>,
) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(length @ 1..) = from.read(&mut piece).await {
        wait(orders).await;
        // The server has answered, so the request has taken effect.
        if *loses_reply.borrow() {
            return;
        }
        if take(&orders.halve_replies) {
            // An error does not matter: the connection ends here in any case.
            let _ = to.write_all(&piece[..length / 2]).await;
            return;
        }
        if to.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

async fn wait(orders: &Orders) {
    let ms = orders.delay_ms.load(Ordering::Relaxed);
    if ms > 0 {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers every piece with its length, and counts the pieces.
    async fn server() -> (u16, Arc<AtomicU32>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU32::new(0)));
        let counter = seen.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let counter = counter.clone();
                tokio::spawn(async move {
                    let mut piece = [0; 100];
                    while let Ok(length @ 1..) = stream.read(&mut piece).await {
                        counter.fetch_add(1, Ordering::SeqCst);
                        stream.write_all(&piece[..length]).await.unwrap();
                    }
                });
            }
        });
        (port, seen)
    }

    async fn ask(proxy: &Proxy, text: &str) -> String {
        let port: u16 = proxy.url().rsplit(':').next().unwrap().parse().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        // Less than a complete answer when the connection ends.
        if stream.write_all(text.as_bytes()).await.is_err() {
            return String::new();
        }
        let mut answer = vec![0; text.len()];
        let mut read = 0;
        while read < text.len() {
            match stream.read(&mut answer[read..]).await {
                Ok(more @ 1..) => read += more,
                _ => break,
            }
        }
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }

    #[tokio::test]
    async fn each_mishap_happens_once_and_to_the_right_side() {
        let (port, seen) = server().await;
        let proxy = Proxy::start(port).await;
        assert_eq!(ask(&proxy, "four").await, "four");
        for (mishap, answer, reached) in
            [(Mishap::LoseRequest, "", 0), (Mishap::LoseReply, "", 1), (Mishap::HalveReply, "fo", 1)]
        {
            let before = seen.load(Ordering::SeqCst);
            proxy.suffer(mishap);
            assert_eq!(ask(&proxy, "four").await, answer, "{mishap:?}");
            assert_eq!(seen.load(Ordering::SeqCst) - before, reached, "{mishap:?}");
            assert!(!proxy.is_owed(mishap));
            assert_eq!(ask(&proxy, "four").await, "four", "after {mishap:?}");
        }
        proxy.close();
        assert_eq!(ask(&proxy, "four").await, "");
        proxy.open();
        assert_eq!(ask(&proxy, "four").await, "four");
    }
}
