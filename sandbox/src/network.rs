//! The network of one execution: connections to a proxy of the worker, which passes calls through the guard.
//!
//! The program can make no socket. It asks for connections on a descriptor that it got, and the worker sends it one end
//! of a new pair; the proxy serves the other end. So nothing is reachable besides the proxy, and what the program does
//! to its descriptors harms only its own connections.

use std::convert::Infallible;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown};
use tidemill_common::http::Http;
use tidemill_common::http::proxy::{self, Meter};
use tidemill_common::limits::CODE_REFUSALS_MAX;
use tidemill_common::nodes::code::CodeConfig;
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tracing::Instrument;

use crate::frame::Verdict;
use crate::pool::Failed;

/// The certificates that the system trusts: the first file that exists.
const CERTIFICATES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What programs may do outside.
#[derive(Debug)]
pub(crate) struct Network {
    http: Arc<Http>,
    pub(crate) connections_max: usize,
    bytes_max: u64,
}

impl Network {
    pub(crate) fn new(config: &CodeConfig, http: Arc<Http>) -> Self {
        Self { http, connections_max: config.network_connections_max, bytes_max: config.network_bytes_max }
    }

    /// Writes the certificates that programs trust, those of the system and of `http.ca_file`, into a file of this
    /// folder. `None` if there are none; libraries may bring their own.
    ///
    /// # Errors
    /// The file cannot be written, or `http.ca_file` cannot be read.
    pub(crate) fn write_certificates(&self, folder: &Path) -> Result<Option<PathBuf>, String> {
        let mut all: Vec<u8> =
            CERTIFICATES.iter().find_map(|file| std::fs::read(file).ok()).unwrap_or_default();
        let own = self.http.ca_file.as_str();
        if !own.is_empty() {
            all.push(b'\n');
            all.extend(std::fs::read(own).map_err(|error| format!("http.ca_file {own}: {error}"))?);
        }
        if all.is_empty() {
            return Ok(None);
        }
        let file = folder.join("certificates.pem");
        std::fs::write(&file, all).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(Some(file))
    }
}

/// The worker's end of one execution's network. Dropping it ends all connections.
#[derive(Debug)]
pub(crate) struct Gate {
    asking: UnixStream,
    http: Arc<Http>,
    connections: JoinSet<()>,
    connections_max: usize,
    bytes_max: u64,
    meter: Arc<Meter>,
    /// The program has got a connection.
    is_used: bool,
    /// How often it asked for more connections than it may have.
    refusals: u32,
}

impl Gate {
    /// Opens the network for one execution. Returns the program's end and the worker's.
    pub(crate) fn open(network: &Network) -> std::io::Result<(OwnedFd, Self)> {
        let (theirs, asking) = pair()?;
        let gate = Self {
            asking,
            http: network.http.clone(),
            connections: JoinSet::new(),
            connections_max: network.connections_max,
            bytes_max: network.bytes_max,
            meter: Meter::new(network.bytes_max),
            is_used: false,
            refusals: 0,
        };
        Ok((theirs, gate))
    }

    /// Gives out connections as long as the future is polled.
    pub(crate) async fn serve(gate: Option<&mut Self>) -> Infallible {
        if let Some(gate) = gate
            && let Err(error) = gate.answer().await
        {
            tracing::debug!(%error, "the network of an execution broke off");
        }
        std::future::pending().await
    }

    /// Answers each byte that the program sends, until it closes its end.
    async fn answer(&mut self) -> std::io::Result<()> {
        let mut byte = [0];
        while self.asking.read(&mut byte).await? == 1 {
            while self.connections.try_join_next().is_some() {}
            if self.connections.len() >= self.connections_max {
                self.refuse()?;
                self.send(None).await?;
                continue;
            }
            let (theirs, ours) = pair()?;
            self.is_used = true;
            let serving = proxy::serve(self.http.clone(), ours, self.meter.clone());
            // The span of the job names run and node in the log.
            self.connections.spawn(serving.in_current_span());
            self.send(Some(theirs)).await?;
        }
        Ok(())
    }

    /// Counts a refused request. It is logged once, and too many end the giving out: each costs the worker a message.
    fn refuse(&mut self) -> std::io::Result<()> {
        let most = self.connections_max;
        self.refusals += 1;
        if self.refusals == 1 {
            tracing::warn!(most, "code asked for more connections than code.network_connections_max");
        }
        if self.refusals < CODE_REFUSALS_MAX {
            return Ok(());
        }
        rustix::net::shutdown(&self.asking, Shutdown::Both)?;
        Err(std::io::Error::other("code asked too often for more connections (CODE_REFUSALS_MAX)"))
    }

    async fn send(&self, connection: Option<OwnedFd>) -> std::io::Result<()> {
        let one: Vec<_> = connection.iter().map(AsFd::as_fd).collect();
        let sending = || -> std::io::Result<usize> {
            let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut rights = SendAncillaryBuffer::new(&mut space);
            if !one.is_empty() {
                rights.push(SendAncillaryMessage::ScmRights(&one));
            }
            let message = [IoSlice::new(b"n")];
            Ok(rustix::net::sendmsg(&self.asking, &message, &mut rights, SendFlags::NOSIGNAL)?)
        };
        self.asking.async_io(Interest::WRITABLE, sending).await.map(drop)
    }

    /// Adds what the network meant for the end of the execution.
    pub(crate) fn conclude<O>(
        self,
        ran: Result<(Verdict, O, String), Failed>,
    ) -> Result<(Verdict, O, String), Failed> {
        let note = if self.refusals >= CODE_REFUSALS_MAX {
            tracing::warn!(refusals = self.refusals, "code got no more connections (CODE_REFUSALS_MAX)");
            format!(
                "The worker gave it no more connections: it asked {CODE_REFUSALS_MAX} times (CODE_REFUSALS_MAX) for more than {} at \
                 once (code.network_connections_max)\n",
                self.connections_max
            )
        } else if self.meter.is_passed() {
            tracing::warn!(bytes_max = self.bytes_max, "code moved more bytes than code.network_bytes_max");
            format!(
                "The worker ended its connections: more than {} bytes (code.network_bytes_max)\n",
                self.bytes_max
            )
        } else {
            String::new()
        };
        match ran {
            Ok((verdict, output, complaints)) => Ok((verdict, output, complaints + &note)),
            Err(Failed::Execution(verdict, complaints)) => {
                Err(Failed::Execution(verdict, complaints + &note))
            }
            Err(Failed::Helper(reason)) if self.is_used => {
                tracing::warn!(reason, "the Python sandbox ended while code that had called servers ran");
                Err(Failed::Execution(Verdict::Lost, note))
            }
            Err(failed @ Failed::Helper(_)) => Err(failed),
        }
    }
}

/// A pair of connected sockets: one for a program, and one for the worker.
fn pair() -> std::io::Result<(OwnedFd, UnixStream)> {
    let (theirs, ours) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    Ok((theirs.into(), UnixStream::from_std(ours)?))
}
