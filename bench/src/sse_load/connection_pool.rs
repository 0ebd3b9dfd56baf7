//! HTTP over connections that are reused, as many as there are clients at the same time.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::Value as Json;
use tokio::net::TcpStream;

/// The reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    #[error("broken connection: {0}")]
    Broken(#[from] hyper::Error),
    #[error("refused with {status}: {body}")]
    Refused { status: u16, body: String },
    #[error("{0}")]
    Wrong(String),
}

/// A connection without a request in flight.
pub(super) type Connection = SendRequest<Full<Bytes>>;

/// A pool of connections to one address, with the key for it.
pub(crate) struct ConnectionPool {
    address: SocketAddr,
    bearer: String,
    idle: Mutex<Vec<Connection>>,
}

impl ConnectionPool {
    pub(super) fn new(address: SocketAddr, key: &str) -> Self {
        Self { address, bearer: format!("Bearer {key}"), idle: Mutex::default() }
    }

    /// Returns a connection that was used before, or a new one.
    pub(super) async fn connect(&self) -> Result<Connection, Fault> {
        loop {
            let known = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut known) = known else { break };
            if known.ready().await.is_ok() {
                return Ok(known);
            }
        }
        let stream = TcpStream::connect(self.address).await.map_err(Fault::Connect)?;
        stream.set_nodelay(true).map_err(Fault::Connect)?;
        let (sender, driver) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(driver);
        Ok(sender)
    }

    /// Keeps a connection whose answer was read completely.
    pub(super) fn release(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }

    /// Sends a request.
    pub(super) async fn ask(
        &self,
        connection: &mut Connection,
        method: Method,
        path: &str,
        body: String,
    ) -> Result<Response<Incoming>, Fault> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "tidemill")
            .header(header::AUTHORIZATION, &self.bearer)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| Fault::Wrong(error.to_string()))?;
        let response = connection.send_request(request).await?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        Err(Fault::Refused { status, body: String::from_utf8_lossy(&body).into_owned() })
    }

    /// Posts an object and returns the object of the answer.
    pub(super) async fn post(
        &self,
        connection: &mut Connection,
        path: &str,
        body: &Json,
    ) -> Result<Json, Fault> {
        let response = self.ask(connection, Method::POST, path, body.to_string()).await?;
        let body = response.into_body().collect().await?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| Fault::Wrong(format!("not JSON: {error}")))
    }
}
