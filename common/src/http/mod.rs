//! HTTP calls for workflows. The author of a workflow chooses the address, so every address is checked.
//!
//! The modules in the order of a call: [`guard`] decides which addresses are allowed, [`resolve`] checks every
//! looked-up name with it, [`call`] sends and follows redirects, [`quarantine`] avoids tainted connections, [`watch`]
//! enforces the time limits, and [`read`] reads the answer within its size limits. [`ask`] only asks what a file is.
//! [`proxy`] lets other programs call through the same guard: the code of code nodes.
//!
//! Workers use it for what nodes call, schedulers for the files that a request names.

pub mod ask;
pub mod call;
mod clients;
pub mod guard;
pub mod post;
pub mod proxy;
pub mod quarantine;
pub mod read;
pub mod resolve;
pub mod watch;

use std::sync::Arc;
use std::time::Duration;

use crate::config::{HttpConfig, masked_url};
use reqwest::{Certificate, Proxy, Url};

use crate::http::clients::Clients;
use crate::http::guard::Guard;
use crate::http::quarantine::Quarantine;
use crate::http::resolve::{Checked, Lookup, SystemLookup};

pub use crate::http::ask::Said;
pub use crate::http::call::{Answer, Call, CallError};

/// Lifetime of an idle connection.
const IDLE: Duration = Duration::from_secs(60);
/// Most idle connections per host.
const IDLE_MAX: usize = 32;

/// A setting of `[http]` that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("setting http.{key}: {reason}")]
pub struct HttpSettingError {
    pub key: &'static str,
    pub reason: String,
}

/// Limits of calls, from the settings.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Longest wait for the connection.
    pub connect: Duration,
    /// Longest wait for the next piece of an answer.
    pub read: Duration,
    /// Longest wait until the next piece of a request is sent.
    pub write: Duration,
    /// Largest text answer, in bytes.
    pub text_bytes_max: u64,
    /// Largest file answer, in bytes.
    pub file_bytes_max: u64,
    /// Largest total size of a request's files, in bytes.
    pub upload_bytes_max: u64,
    pub redirects_max: u32,
    /// True when certificates are checked.
    pub ssl_verify: bool,
}

/// The HTTP client of all workflows. It keeps idle connections for later calls.
#[derive(Debug)]
pub struct Http {
    clients: Clients,
    quarantine: Quarantine,
    guard: Arc<Guard>,
    resolver: Checked,
    proxies: Arc<Proxies>,
    /// The ports to which [`proxy`] opens tunnels.
    tunnel_ports: Vec<u16>,
    pub bounds: Bounds,
    /// The file with additional trusted certificates; empty: none.
    pub ca_file: String,
}

impl Http {
    /// Builds the client from the settings.
    ///
    /// # Errors
    /// A setting that cannot be used.
    pub fn new(config: &HttpConfig) -> Result<Self, HttpSettingError> {
        Self::with_lookup(config, Arc::new(SystemLookup))
    }

    /// As [`Http::new`], with another resolver.
    pub(crate) fn with_lookup(
        config: &HttpConfig,
        lookup: Arc<dyn Lookup>,
    ) -> Result<Self, HttpSettingError> {
        // The first call sets the default for the process. Later calls fail, which is harmless.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let guard = Guard::new(config.guard, &config.allow);
        let guard = Arc::new(guard.map_err(|reason| HttpSettingError { key: "allow", reason })?);
        let proxies = Arc::new(Proxies::of(config)?);
        let resolver = Checked::new(guard.clone(), lookup, proxies.hosts());
        let authorities = match config.ca_file.as_str() {
            "" => Vec::new(),
            file => certificates(file)?,
        };
        let bounds = Bounds {
            connect: Duration::from_secs(config.connect_seconds),
            read: Duration::from_secs(config.read_seconds),
            write: Duration::from_secs(config.write_seconds),
            text_bytes_max: config.text_bytes_max,
            file_bytes_max: config.file_bytes_max,
            upload_bytes_max: config.upload_bytes_max,
            redirects_max: config.redirects_max,
            ssl_verify: config.ssl_verify,
        };
        let clients = Clients::new(resolver.clone(), proxies.clone(), authorities)?;
        Ok(Self {
            clients,
            quarantine: Quarantine::default(),
            guard,
            resolver,
            proxies,
            tunnel_ports: config.tunnel_ports.clone(),
            bounds,
            ca_file: config.ca_file.clone(),
        })
    }
}

fn certificates(file: &str) -> Result<Vec<Certificate>, HttpSettingError> {
    let wrong = |reason: String| HttpSettingError { key: "ca_file", reason: format!("{file}: {reason}") };
    let text = std::fs::read(file).map_err(|error| wrong(error.to_string()))?;
    Certificate::from_pem_bundle(&text).map_err(|error| wrong(error.to_string()))
}

/// The proxies by URL scheme.
#[derive(Debug)]
struct Proxies(Vec<SchemeProxy>);

#[derive(Debug)]
struct SchemeProxy {
    /// `None` for every scheme.
    scheme: Option<&'static str>,
    host: String,
    /// With user and password.
    url: Url,
    proxy: Proxy,
}

impl Proxies {
    fn of(config: &HttpConfig) -> Result<Self, HttpSettingError> {
        let all = [
            ("proxy_http", Some("http"), &config.proxy_http),
            ("proxy_https", Some("https"), &config.proxy_https),
            ("proxy", None, &config.proxy),
        ];
        let given = all.into_iter().filter(|(_, _, url)| !url.is_empty());
        given.map(|(key, scheme, url)| proxy(key, scheme, url)).collect::<Result<_, _>>().map(Self)
    }

    fn hosts(&self) -> Vec<String> {
        self.0.iter().map(|proxy| proxy.host.clone()).collect()
    }

    /// Returns true if calls to this URL use a proxy.
    fn serves(&self, url: &Url) -> bool {
        self.of_url(url).is_some()
    }

    fn of_url(&self, url: &Url) -> Option<&SchemeProxy> {
        self.0.iter().find(|proxy| proxy.scheme.is_none_or(|scheme| scheme == url.scheme()))
    }
}

fn proxy(
    key: &'static str,
    scheme: Option<&'static str>,
    url: &str,
) -> Result<SchemeProxy, HttpSettingError> {
    let wrong = |reason: String| HttpSettingError { key, reason: format!("{}: {reason}", masked_url(url)) };
    let parsed = Url::parse(url).map_err(|error| wrong(error.to_string()))?;
    let Some(host) = parsed.host_str().filter(|_| matches!(parsed.scheme(), "http" | "https")) else {
        return Err(wrong("it looks like http://[user:password@]host:port".into()));
    };
    let (host, url) = (host.to_owned(), parsed.clone());
    let proxy = match scheme {
        Some("http") => Proxy::http(parsed),
        Some(_) => Proxy::https(parsed),
        None => Proxy::all(parsed),
    };
    Ok(SchemeProxy { scheme, host, url, proxy: proxy.map_err(|error| wrong(error.to_string()))? })
}

#[cfg(test)]
mod tests;
