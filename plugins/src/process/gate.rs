//! The network of a process: a proxy on a port of this machine that passes calls through the guard, as for code nodes. The
//! kernel refuses connections to other ports. The proxy asks for a word that only the plugin has, so other users of
//! the machine cannot use it.
//!
//! Files for a plugin are served here as well, under a name that exists nowhere else: the SDK loads files from addresses. Files
//! from it come here, too ([`super::intake`]).

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use tidemill_common::http::Http;
use tidemill_common::http::proxy::{self, Meter};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::intake::{self, Intake, UPLOADS, Uploads};
use super::shared::lock;
use crate::settings::ProcessLimits;

/// The pause after a connection that could not be accepted.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
/// The name of the server of files.
pub(super) const FILES: &str = "http://files.tidemill.invalid/";
/// Most bytes of the head of a first request.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// Longest time for it.
const HEAD_MAX: Duration = Duration::from_secs(10);

/// Files that the plugin may load during a session, by name, and the place where it may upload some.
#[derive(Clone, Default)]
pub struct Offered {
    files: Arc<BTreeMap<String, Arc<Vec<u8>>>>,
    intake: Option<(String, Arc<dyn Intake>)>,
}

impl Offered {
    /// Offers these files. A name must have only letters, digits, `.`, `-` and `_`, and no other session may use it.
    pub fn new(files: BTreeMap<String, Vec<u8>>) -> Self {
        let files = files.into_iter().map(|(name, bytes)| (name, Arc::new(bytes))).collect();
        Self { files: Arc::new(files), intake: None }
    }

    /// Lets the plugin upload files. The name is as for files, and a secret of this session.
    #[must_use]
    pub fn taking(self, name: String, intake: Arc<dyn Intake>) -> Self {
        Self { intake: Some((name, intake)), ..self }
    }

    /// The address for uploads with this name.
    pub fn upload_address(name: &str) -> String {
        format!("{FILES}{UPLOADS}{name}")
    }

    /// The address of a file, for the plugin.
    pub fn address(name: &str) -> String {
        format!("{FILES}{name}")
    }
}

/// What the sessions of a process offer now.
#[derive(Clone, Default)]
pub(super) struct OnOffer(Arc<Mutex<Shelf>>);

#[derive(Default)]
struct Shelf {
    files: BTreeMap<String, Arc<Vec<u8>>>,
    intakes: BTreeMap<String, Arc<dyn Intake>>,
}

impl OnOffer {
    /// Offers what a session has until its guard is dropped.
    pub(super) fn offer(&self, offered: &Offered) -> Offering {
        let mut shelf = lock(&self.0);
        shelf.files.extend(offered.files.iter().map(|(name, bytes)| (name.clone(), bytes.clone())));
        shelf.intakes.extend(offered.intake.clone());
        Offering { all: self.clone(), own: offered.clone() }
    }

    fn get(&self, name: &str) -> Option<Arc<Vec<u8>>> {
        lock(&self.0).files.get(name).cloned()
    }

    fn intake(&self, name: &str) -> Option<Arc<dyn Intake>> {
        lock(&self.0).intakes.get(name).cloned()
    }
}

/// The offer of a session. Dropping it ends it.
pub(super) struct Offering {
    all: OnOffer,
    own: Offered,
}

impl Drop for Offering {
    fn drop(&mut self) {
        let mut all = lock(&self.all.0);
        for name in self.own.files.keys() {
            all.files.remove(name);
        }
        if let Some((name, _)) = &self.own.intake {
            all.intakes.remove(name);
        }
    }
}

/// The network of one process. Dropping it ends all its connections.
pub(super) struct Gate {
    serving: JoinHandle<()>,
    pub(super) port: u16,
    word: String,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Gate {
    pub(super) async fn open(http: Arc<Http>, offered: OnOffer, limits: &ProcessLimits) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let mut random = [0; 16];
        SystemRandom::new()
            .fill(&mut random)
            .map_err(|_| io::Error::other("the system has no random numbers"))?;
        let word: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = format!("basic {}", STANDARD.encode(format!("plugin:{word}")));
        let connections = Arc::new(Semaphore::new(limits.connections_max));
        let (bytes_max, uploads) = (limits.network_bytes_max, Uploads::new(limits));
        let serving = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            loop {
                while open.try_join_next().is_some() {}
                let Ok(place) = connections.clone().acquire_owned().await else { return };
                let Ok((stream, _)) = listener.accept().await else {
                    // There are no descriptors, for example; that does not change at once.
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                };
                let (http, offered, expected) = (http.clone(), offered.clone(), expected.clone());
                let uploads = uploads.clone();
                open.spawn(async move {
                    let _place = place;
                    let bounds = (bytes_max, &uploads);
                    if let Err(error) = serve(stream, http, &offered, &expected, bounds).await {
                        tracing::debug!(%error, "a connection of a plugin broke off");
                    }
                });
            }
        });
        Ok(Self { serving, port, word })
    }

    /// The address of the proxy, with its word.
    pub(super) fn address(&self) -> String {
        format!("http://plugin:{}@127.0.0.1:{}", self.word, self.port)
    }
}

async fn serve(
    mut stream: TcpStream,
    http: Arc<Http>,
    offered: &OnOffer,
    expected: &str,
    (bytes_max, uploads): (u64, &Uploads),
) -> io::Result<()> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let head = tokio::time::timeout(HEAD_MAX, head(&mut stream)).await.map_err(late)??;
    let text = String::from_utf8_lossy(&head).into_owned();
    let is_known = text.lines().skip(1).any(|line| {
        line.split_once(':').is_some_and(|(name, value)| {
            let (given, wanted) = (value.trim().as_bytes(), expected.as_bytes());
            // The scheme is in any case, the rest is not.
            name.eq_ignore_ascii_case("proxy-authorization")
                && given.len() == wanted.len()
                && given[..6].eq_ignore_ascii_case(&wanted[..6])
                && given[6..] == wanted[6..]
        })
    });
    if !is_known {
        return refuse(&mut stream, "407 Proxy Authentication Required").await;
    }
    let mut words = text.lines().next().unwrap_or_default().split(' ');
    match (words.next(), words.next().and_then(|url| url.strip_prefix(FILES))) {
        (Some("GET"), Some(name)) => {
            let file = offered.get(name);
            return give(&mut stream, file.as_deref().map(Vec::as_slice)).await;
        }
        (Some("POST"), Some(name)) => {
            let intake = name.strip_prefix(UPLOADS).and_then(|name| offered.intake(name));
            return intake::receive(&mut stream, head, intake.as_deref(), uploads).await;
        }
        _ => {}
    }
    proxy::serve(http, Replayed { head, at: 0, stream }, Meter::new(bytes_max)).await;
    Ok(())
}

/// Reads to the end of the head of a request. What comes after it in the same packet is returned as well.
async fn head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await?;
        head.extend_from_slice(&piece[..read]);
        if read == 0 || head.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("its first request has no end"));
        }
    }
    Ok(head)
}

pub(super) async fn refuse(stream: &mut TcpStream, status: &str) -> io::Result<()> {
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await
}

async fn give(stream: &mut TcpStream, file: Option<&[u8]>) -> io::Result<()> {
    let Some(bytes) = file else { return refuse(stream, "404 Not Found").await };
    let length = bytes.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(bytes).await?;
    stream.shutdown().await
}

/// A connection whose first bytes were read already.
struct Replayed {
    head: Vec<u8>,
    at: usize,
    stream: TcpStream,
}

impl AsyncRead for Replayed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.at < self.head.len() {
            let to = self.head.len().min(self.at + into.remaining());
            into.put_slice(&self.head[self.at..to]);
            self.at = to;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Replayed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tidemill_common::config::HttpConfig;

    use super::*;

    async fn ask(gate: &Gate, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", gate.port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![0; 4096];
        let read = stream.read(&mut answer).await.unwrap();
        String::from_utf8_lossy(&answer[..read]).into_owned()
    }

    #[tokio::test]
    async fn only_the_plugin_gets_through_and_only_past_the_guard() {
        let http = Arc::new(Http::new(&HttpConfig::default()).unwrap());
        let offered = Offered::new(BTreeMap::from([("a.txt".into(), b"content".to_vec())]));
        let all = OnOffer::default();
        let offering = all.offer(&offered);
        let gate = Gate::open(http, all, &ProcessLimits::default()).await.unwrap();
        let word = STANDARD.encode(format!("plugin:{}", gate.word));
        let get = |url: &str, word: &str| {
            format!("GET {url} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic {word}\r\n\r\n")
        };
        let file = Offered::address("a.txt");
        for request in [
            format!("GET {file} HTTP/1.1\r\nHost: x\r\n\r\n"),
            get(&file, ""),
            get(&file, &STANDARD.encode("plugin:another-word")),
            get(&file, &format!("{word}x")),
        ] {
            let answer = ask(&gate, &request).await;
            assert!(answer.starts_with("HTTP/1.1 407"), "{request}: {answer}");
        }
        let answer = ask(&gate, &get(&file, &word)).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        let answer = ask(&gate, &get(&Offered::address("b.txt"), &word)).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        drop(offering);
        let answer = ask(&gate, &get(&file, &word)).await;
        assert!(answer.starts_with("HTTP/1.1 404"), "the session has ended: {answer}");
        let answer = ask(&gate, &get("http://127.0.0.1:1/", &word)).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("loopback"), "{answer}");
    }
}
