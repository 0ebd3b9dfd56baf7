//! Opens a line: over TCP, TLS or a unix socket, with name, password and database from the address.

use std::io::{Error, ErrorKind};
use std::pin::Pin;

use redis::{ConnectionAddr, ConnectionInfo, RedisError};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::store::redis::connection::tls::Tls;

/// The transport of a line.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Send + Sync> Bytes for T {}

/// Connects without sending anything.
pub(super) async fn connect(info: &ConnectionInfo, tls: &Tls) -> Result<Pin<Box<dyn Bytes>>, RedisError> {
    match info.addr() {
        ConnectionAddr::Tcp(host, port) => Ok(Box::pin(tcp(host, *port).await?)),
        ConnectionAddr::Unix(path) => Ok(Box::pin(UnixStream::connect(path).await?)),
        // The client library with these features has no insecure mode and refuses such an address, too.
        ConnectionAddr::TcpTls { host, port, insecure: false, .. } => {
            let name = ServerName::try_from(host.clone())
                .map_err(|_| wrong(format!("{host} is not a host name that a certificate can have")))?;
            let config = tls.lines().map_err(|error| wrong(error.to_string()))?;
            let stream = tcp(host, *port).await?;
            Ok(Box::pin(TlsConnector::from(config).connect(name, stream).await?))
        }
        other => Err(wrong(format!("redis.url has the address {other}, which is not supported"))),
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
