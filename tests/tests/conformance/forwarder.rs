//! One address that leads to the mock of the case at hand: workers read the addresses of models once, at their start.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

#[derive(Default)]
struct Now {
    target: Option<SocketAddr>,
    /// Connections to the present target; they are cut when it changes, so that none is used again for the next.
    open: JoinSet<()>,
}

/// Forwards bytes.
pub(crate) struct Forwarder {
    now: Arc<Mutex<Now>>,
    /// `http://host:port`
    pub(crate) base_url: String,
}

impl Forwarder {
    /// Starts it; until it is pointed somewhere it hangs up.
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
                        // Pieces of a stream must not wait for one another.
                        let (_, _) = (from.set_nodelay(true), to.set_nodelay(true));
                        // Either side may hang up as it likes.
                        let _ = copy_bidirectional(&mut from, &mut to).await;
                    }
                });
            }
        });
        Ok(Self { now, base_url })
    }

    /// Leads to this address from now on.
    pub(crate) fn lead_to(&self, base_url: &str) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.open.abort_all();
        now.target = base_url.trim_start_matches("http://").parse().ok();
    }
}
