//! The API over TLS, at the level of sockets: a client that stops in its handshake, one that does not read its stream, and
//! a scheduler that stops meanwhile.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tidemill_tests::certificates::Certificates;
use tidemill_tests::check::answered;
use tidemill_tests::client::Client;
use tidemill_tests::cluster::{ADMIN_KEY, Cluster, Scheduler};
use tidemill_tests::flow::Flow;
use tidemill_tests::llm;
use tidemill_tests::wait::{LONG, until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// The beginning of a client's first message: a record of 512 bytes, of which six bytes follow.
const HALF_A_HELLO: [u8; 11] = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];

async fn cluster(
    certificates: &Certificates,
    settings: &[(&str, &str)],
    model: Option<&tidemill_mock_llm::Running>,
) -> Cluster {
    let (certificate, key) = (certificates.file("server.pem"), certificates.file("server.key"));
    let mut all = vec![
        ("scheduler.tls_certificate_file", certificate.as_str()),
        ("scheduler.tls_key_file", key.as_str()),
    ];
    all.extend_from_slice(settings);
    Cluster::start(&all, model).await
}

fn secured(scheduler: &Scheduler, certificates: &Certificates) -> Client {
    Client::secured(&scheduler.address, Some(ADMIN_KEY), &certificates.file("ca.pem"))
}

/// Connects, and sends half of the first message of a handshake.
async fn half_a_handshake(scheduler: &Scheduler) -> TcpStream {
    let mut socket = TcpStream::connect(&scheduler.address).await.expect("it listens");
    socket.write_all(&HALF_A_HELLO).await.expect("it reads");
    socket
}

/// Asks for the events of a run over TLS, with room for few bytes, and reads nothing.
async fn without_reading(
    scheduler: &Scheduler,
    certificates: &Certificates,
    run: &str,
) -> StreamOwned<ClientConnection, std::net::TcpStream> {
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_file(certificates.file("ca.pem")).expect("a certificate");
    roots.add(authority).expect("an authority");
    let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let tls = ClientConnection::new(Arc::new(config), name).expect("a connection");
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let socket = socket.connect(scheduler.address.parse().expect("an address")).await.expect("it listens");
    let socket = socket.into_std().expect("a socket");
    socket.set_nonblocking(false).expect("a blocking socket");
    let request = format!(
        "GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {ADMIN_KEY}\r\n\r\n"
    );
    // The handshake blocks this thread.
    let asked = tokio::task::spawn_blocking(move || {
        let mut stream = StreamOwned::new(tls, socket);
        stream.write_all(request.as_bytes()).and_then(|()| stream.flush()).expect("it reads the request");
        stream
    });
    asked.await.expect("the request is sent")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_stops_in_its_handshake_is_cut_and_others_are_served_meanwhile() {
    let certificates = Certificates::make();
    let cluster = cluster(&certificates, &[("scheduler.header_timeout_ms", "1500")], None).await;
    let scheduler = cluster.scheduler().await;
    let mut half = half_a_handshake(&scheduler).await;
    assert_eq!(secured(&scheduler, &certificates).get("/livez").await.status, 200);
    let mut told = Vec::new();
    let read = tokio::time::timeout(LONG, half.read_to_end(&mut told)).await.expect("the client is cut");
    assert!(read.is_err() || told.is_empty(), "{told:?}");
    let metrics = secured(&scheduler, &certificates).get("/metrics").await.text;
    assert!(metrics.contains("reason=\"header_timeout\""), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_its_stream_over_tls_is_cut_and_others_read_all_of_it() {
    let pieces: Vec<String> = (0..1500).map(|n| format!("<{n}>{}", "x".repeat(8_000))).collect();
    let model = llm::slow(&pieces.iter().map(String::as_str).collect::<Vec<_>>(), 0).await;
    let certificates = Certificates::make();
    // A client that reads is not cut on a busy machine, where it may wait for its turn for seconds.
    let settings = [("scheduler.stream_idle_seconds", "6"), ("scheduler.stream_buffer_bytes", "65536")];
    let cluster = cluster(&certificates, &settings, Some(&model)).await;
    let (scheduler, _worker) = (cluster.scheduler().await, cluster.worker().await);
    let client = secured(&scheduler, &certificates);
    let run = client.start(&Flow::new("start -> llm -> answer"), &[]).await;
    let silent = without_reading(&scheduler, &certificates, &run).await;
    let told = client.follow(&run, None).await.to_the_end().await;
    told.is_whole();
    assert_eq!(told.text(), pieces.concat());
    answered(&client.ended(&run).await, &pieces.concat());
    until("the client that does not read to be cut", LONG, async || {
        let metrics = client.get("/metrics").await.text;
        if metrics.contains("reason=\"stalled\"") { Ok(()) } else { Err(metrics) }
    })
    .await;
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_stops_while_a_client_is_in_its_handshake() {
    let certificates = Certificates::make();
    let cluster = cluster(&certificates, &[], None).await;
    let mut scheduler = cluster.scheduler().await;
    let _half = half_a_handshake(&scheduler).await;
    assert_eq!(secured(&scheduler, &certificates).get("/livez").await.status, 200);
    scheduler.process.terminate();
    let ended = scheduler.process.ended(LONG.max(Duration::from_secs(20))).await;
    assert!(ended.success(), "{ended}: {}", scheduler.process.tail());
}
