//! A TCP proxy to a server whose target can be changed: open connections stay, new ones go to the new target. A host
//! name or a virtual address behaves like this after a fail-over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::{TcpListener, TcpStream};

/// A running proxy; it stops when its runtime ends.
#[derive(Debug)]
pub struct SwitchingProxy {
    port: u16,
    target: Arc<AtomicU16>,
}

impl SwitchingProxy {
    /// Starts a proxy to a local port.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let target = Arc::new(AtomicU16::new(to));
        let current = target.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let to = current.load(Ordering::Relaxed);
                tokio::spawn(pass(client, to));
            }
        });
        Self { port, target }
    }

    /// Sends new connections to this port from now on.
    pub fn switch_to(&self, port: u16) {
        self.target.store(port, Ordering::Relaxed);
    }

    /// Its address, as a setting.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

async fn pass(mut client: TcpStream, to: u16) {
    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", to)).await {
        // When one side closes, both connections end.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
