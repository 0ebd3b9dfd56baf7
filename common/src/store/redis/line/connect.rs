//! Opening a line: over TCP, TLS or a unix socket, as the address has it, with name, password and database.

use std::io::{Error, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;

use redis::{ConnectionAddr, ConnectionInfo, RedisError};
use rustls::RootCertStore;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// What a line runs over.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Send + Sync> Bytes for T {}

/// Connects; says nothing yet.
pub(super) async fn connect(
    info: &ConnectionInfo,
    roots: &Arc<RootCertStore>,
) -> Result<Pin<Box<dyn Bytes>>, RedisError> {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => Ok(Box::pin(tcp(host, *port).await?)),
        ConnectionAddr::Unix(path) => Ok(Box::pin(UnixStream::connect(path).await?)),
        // The client library has no way to be told of an insecure one with the features in use, and refuses it likewise.
        ConnectionAddr::TcpTls { host, port, insecure: false, .. } => {
            let name = ServerName::try_from(host.clone())
                .map_err(|_| wrong(format!("{host} is no name that a certificate could have")))?;
            let config = rustls::ClientConfig::builder().with_root_certificates(roots.clone());
            let config = config.with_no_client_auth();
            let stream = tcp(host, *port).await?;
            Ok(Box::pin(TlsConnector::from(Arc::new(config)).connect(name, stream).await?))
        }
        other => Err(wrong(format!("redis.url leads to {other}, which is not supported"))),
    }
}

async fn tcp(host: &str, port: u16) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn wrong(reason: String) -> RedisError {
    Error::new(ErrorKind::InvalidInput, reason).into()
}
