//! A door to a server that can be led elsewhere: connections that are open stay where they are, new ones go to the new
//! place. So does a name or a virtual address after a fail-over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use tokio::net::{TcpListener, TcpStream};

/// A running door; ends with its runtime.
#[derive(Debug)]
pub struct Door {
    port: u16,
    leads_to: Arc<AtomicU16>,
}

impl Door {
    /// Starts one that leads to this port of the machine.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = listener.local_addr().expect("a bound listener has an address").port();
        let leads_to = Arc::new(AtomicU16::new(to));
        let target = leads_to.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let to = target.load(Ordering::Relaxed);
                tokio::spawn(pass(client, to));
            }
        });
        Self { port, leads_to }
    }

    /// From now on new connections go there.
    pub fn lead_to(&self, port: u16) {
        self.leads_to.store(port, Ordering::Relaxed);
    }

    /// Where it is, as a setting.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

async fn pass(mut client: TcpStream, to: u16) {
    if let Ok(mut server) = TcpStream::connect(("127.0.0.1", to)).await {
        // Whoever closes first ends both.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}
