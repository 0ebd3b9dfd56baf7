//! The clients below [`Http`](super::Http). Each reads the certificates of the machine, which takes some milliseconds, so it
//! is built when the first call needs it: most processes call no server in their first moment, and some never.

use std::sync::{Arc, OnceLock};

use reqwest::{Certificate, Client, ClientBuilder};

use super::resolve::Checked;
use super::watch::WatchLayer;
use super::{HttpSettingError, IDLE, IDLE_MAX, Proxies};

/// A client, or what it is built from.
#[derive(Debug)]
struct Lazy {
    verify: bool,
    idle_max: usize,
    built: OnceLock<Client>,
}

/// The clients with the same settings: checking certificates or not, keeping connections or opening one for every call.
#[derive(Debug)]
pub(super) struct Clients {
    all: [Lazy; 4],
    resolver: Checked,
    proxies: Arc<Proxies>,
    /// Certificates that are trusted besides those of the machine.
    own: Vec<Certificate>,
}

impl Clients {
    /// Prepares the clients. With certificates or proxies of the settings one is built at once, so that a mistake in them is
    /// found at the start.
    ///
    /// # Errors
    /// A setting that cannot be used.
    pub(super) fn new(
        resolver: Checked,
        proxies: Arc<Proxies>,
        own: Vec<Certificate>,
    ) -> Result<Self, HttpSettingError> {
        let lazy = |verify, idle_max| Lazy { verify, idle_max, built: OnceLock::new() };
        let all = [lazy(true, IDLE_MAX), lazy(true, 0), lazy(false, IDLE_MAX), lazy(false, 0)];
        let clients = Self { all, resolver, proxies, own };
        if !clients.own.is_empty() || !clients.proxies.0.is_empty() {
            clients.get(true, false)?;
        }
        Ok(clients)
    }

    /// The client with these properties. `apart` opens a connection for every call.
    ///
    /// # Errors
    /// It cannot be built.
    pub(super) fn get(&self, verify: bool, apart: bool) -> Result<&Client, HttpSettingError> {
        let lazy = &self.all[usize::from(!verify) * 2 + usize::from(apart)];
        if let Some(built) = lazy.built.get() {
            return Ok(built);
        }
        let built = self.build(lazy)?;
        Ok(lazy.built.get_or_init(|| built))
    }

    /// Builds a client that trusts the system's certificates and our own; without system certificates it trusts only ours.
    fn build(&self, lazy: &Lazy) -> Result<Client, HttpSettingError> {
        let merged = self.builder(lazy).tls_certs_merge(self.own.iter().cloned()).build();
        merged.or_else(|error| {
            tracing::warn!(
                ?error,
                "the machine's certificates cannot be used; https calls trust http.ca_file alone"
            );
            let alone = self.builder(lazy).tls_certs_only(self.own.iter().cloned()).build();
            alone.map_err(|error| HttpSettingError { key: "ca_file", reason: format!("{error:?}") })
        })
    }

    fn builder(&self, lazy: &Lazy) -> ClientBuilder {
        let plain = Client::builder()
            .user_agent(concat!("tidemill/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .http1_only()
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(lazy.idle_max)
            .tls_danger_accept_invalid_certs(!lazy.verify)
            .dns_resolver(Arc::new(self.resolver.clone()))
            .connector_layer(WatchLayer);
        self.proxies.0.iter().fold(plain, |builder, proxy| builder.proxy(proxy.proxy.clone()))
    }
}
