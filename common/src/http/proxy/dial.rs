//! Opens connections for tunnels: to an address that the guard has checked, or through the proxy of the settings.

use std::net::{IpAddr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Url;
use tidemill_base::value::file_name::decode::percent;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::guard::Blocked;
use crate::http::watch::Stage;
use crate::http::{CallError, Http};

/// Most bytes of a proxy's answer to CONNECT.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

impl Http {
    /// Opens a connection to a server, after the checks of every call. The checked address is the one that is connected
    /// to.
    ///
    /// # Errors
    /// [`CallError`].
    pub(super) async fn dial(&self, url: &Url) -> Result<TcpStream, CallError> {
        let limit = self.bounds.connect;
        let late = || CallError::TimedOut(Stage::Connecting, limit);
        tokio::time::timeout(limit, self.connect(url)).await.map_err(|_| late())?
    }

    async fn connect(&self, url: &Url) -> Result<TcpStream, CallError> {
        self.check(url)?;
        let host = url.host_str().unwrap_or_default();
        let port = url.port_or_known_default().unwrap_or(443);
        if let Some(proxy) = self.proxies.of_url(url) {
            return through(&proxy.url, host, port).await;
        }
        let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let addresses: Vec<SocketAddr> = match literal {
            // `check` has allowed it.
            Ok(address) => vec![SocketAddr::new(address, port)],
            Err(_) => {
                let found =
                    self.resolver.clone().addresses(host).await.map_err(|error| of_lookup(&*error))?;
                found.map(|address| SocketAddr::new(address.ip(), port)).collect()
            }
        };
        let mut last = CallError::Transport(format!("{host} has no address"));
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = CallError::Transport(format!("{host}: {error}")),
            }
        }
        Err(last)
    }
}

fn of_lookup(error: &(dyn std::error::Error + 'static)) -> CallError {
    match error.downcast_ref::<Blocked>() {
        Some(blocked) => CallError::Blocked(blocked.clone()),
        None => CallError::Transport(error.to_string()),
    }
}

/// Opens a tunnel through a proxy. The settings chose it, so its own address is not checked.
async fn through(proxy: &Url, host: &str, port: u16) -> Result<TcpStream, CallError> {
    let failed = |what: String| CallError::Transport(format!("the proxy of [http]: {what}"));
    if proxy.scheme() != "http" {
        return Err(failed("code nodes can use only a proxy with an http:// address".into()));
    }
    let io = |error: std::io::Error| failed(error.to_string());
    let own = (proxy.host_str().unwrap_or_default(), proxy.port_or_known_default().unwrap_or(80));
    let mut stream = TcpStream::connect((own.0.trim_matches(['[', ']']), own.1)).await.map_err(io)?;
    let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
    if let Some(known) = credentials(proxy) {
        request.push_str(&format!("Proxy-Authorization: Basic {known}\r\n"));
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await.map_err(io)?;
    let mut answer = Vec::new();
    // Byte by byte, because what comes after the head belongs to the tunnel.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() == ANSWER_BYTES_MAX {
            return Err(failed(format!("its answer is longer than {ANSWER_BYTES_MAX} bytes")));
        }
        answer.push(stream.read_u8().await.map_err(io)?);
    }
    let line =
        String::from_utf8_lossy(answer.split(|byte| *byte == b'\r').next().unwrap_or_default()).into_owned();
    match line.split_whitespace().nth(1) {
        Some("200") => Ok(stream),
        Some(_) | None => Err(failed(format!("it answered {line:?}"))),
    }
}

fn credentials(proxy: &Url) -> Option<String> {
    let plain = |text: &str| percent(text).unwrap_or_else(|| text.to_owned());
    let (user, password) = (plain(proxy.username()), plain(proxy.password().unwrap_or_default()));
    (!user.is_empty()).then(|| STANDARD.encode(format!("{user}:{password}")))
}
