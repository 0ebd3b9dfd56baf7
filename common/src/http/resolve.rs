//! Looks up hosts once per connection. The checked addresses are the ones connected to, so a name cannot change its
//! answer after the check (DNS rebinding).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::http::guard::{Blocked, Guard};

/// Resolves host names.
#[async_trait::async_trait]
pub trait Lookup: Send + Sync {
    /// Returns all addresses of a host.
    async fn addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The operating system's resolver.
pub struct SystemLookup;

#[async_trait::async_trait]
impl Lookup for SystemLookup {
    async fn addresses(&self, host: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// A resolver that returns only allowed addresses.
#[derive(Clone)]
pub struct Checked {
    guard: Arc<Guard>,
    lookup: Arc<dyn Lookup>,
    /// Hosts of the proxies. The settings chose them, so they are not checked.
    free: Arc<[String]>,
}

impl std::fmt::Debug for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checked")
            .field("guard", &self.guard)
            .field("free", &self.free)
            .finish_non_exhaustive()
    }
}

impl Checked {
    /// Wraps `lookup` with a guard; `free` hosts are not checked.
    pub fn new(guard: Arc<Guard>, lookup: Arc<dyn Lookup>, free: Vec<String>) -> Self {
        Self { guard, lookup, free: free.into() }
    }

    /// The allowed addresses of a host; the port is 0.
    pub(crate) async fn addresses(
        self,
        host: &str,
    ) -> Result<Addrs, Box<dyn std::error::Error + Send + Sync>> {
        let found = self.lookup.addresses(host).await?;
        let is_free =
            self.free.iter().any(|free| free.eq_ignore_ascii_case(host)) || self.guard.lets_host(host);
        let mut blocked: Option<Blocked> = None;
        let mut allowed = Vec::with_capacity(found.len());
        for address in found {
            match self.guard.check(host, address) {
                Err(reason) if !is_free => blocked = Some(reason),
                Err(_) | Ok(()) => allowed.push(SocketAddr::new(address, 0)),
            }
        }
        match blocked {
            Some(reason) if allowed.is_empty() => Err(Box::new(reason)),
            Some(_) | None => Ok(Box::new(allowed.into_iter())),
        }
    }
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let own = self.clone();
        Box::pin(async move { own.addresses(name.as_str()).await })
    }
}
