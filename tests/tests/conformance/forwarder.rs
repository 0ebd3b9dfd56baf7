//! A fixed address that leads to the mock of the current case, because workers read the addresses of models only at
//! their start.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

#[derive(Default)]
struct Now {
    target: Option<SocketAddr>,
    /// Connections to the current target. They are cut when it changes, so that none is used for the next case.
    open: JoinSet<()>,
}

/// Forwards bytes.
pub(crate) struct Forwarder {
    now: Arc<Mutex<Now>>,
    /// `http://host:port`
    pub(crate) base_url: String,
}

impl Forwarder {
    /// Starts it. Without a target it closes every connection.
    pub(crate) async fn start() -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base_url = format!("http://{}", listener.local_addr()?);
        let now = Arc::new(Mutex::new(Now::default()));
        let own = now.clone();
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                let mut now = own.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(target) = now.target else { continue };
                now.open.spawn(async move {
                    if let Ok(mut to) = TcpStream::connect(target).await {
                        // Pieces of a stream must not wait for each other.
                        let (_, _) = (from.set_nodelay(true), to.set_nodelay(true));
                        // Either side may close the connection at any time.
                        let _ = copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        Ok(Self { now, base_url })
    }

    /// Sends new connections to this address from now on.
    pub(crate) fn lead_to(&self, base_url: &str) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.open.abort_all();
        now.target = base_url.trim_start_matches("http://").parse().ok();
    }
}
