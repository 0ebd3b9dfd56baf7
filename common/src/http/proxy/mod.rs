//! An HTTP proxy for one client: each request and each tunnel (CONNECT) passes the guard, as calls of nodes do.
//!
//! The code of a code node calls servers through it. TLS is end to end, inside tunnels, so the proxy cannot see what they
//! carry. An allowed address must not become a way to databases that trust their network: tunnels go only to the ports of
//! `http.tunnel_ports`, and only the usual methods are passed on, because the first word of a request may be a command
//! elsewhere. Redirects go back to the client, so each hop is a request that is checked again.

mod dial;
mod meter;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, to_bytes};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use reqwest::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName};
use reqwest::{Method, StatusCode, Url};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::http::watch::Waits;
use crate::http::{Call, CallError, Http};

pub use meter::Meter;
use meter::Metered;

/// Headers of one hop, which are not passed on.
const OF_ONE_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The methods that are passed on.
const METHODS: [Method; 7] =
    [Method::GET, Method::HEAD, Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::OPTIONS];

/// The first bytes of a client in TLS: a record of the handshake, in a version that begins with 3. Code can send them before
/// anything else, so they only find mistakes.
const TLS_BEGIN: [u8; 2] = [0x16, 0x03];

/// The tunnel that a request has opened: the client's side, once it has the answer, and the server.
type Opened = Arc<Mutex<Option<(OnUpgrade, TcpStream)>>>;

/// Serves one connection of a client, until one side ends it or the meter is passed.
pub async fn serve<S>(http: Arc<Http>, client: S, meter: Arc<Meter>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (opened, noting) = (Opened::default(), meter.clone());
    let service = hyper::service::service_fn(|request| {
        let (http, opened, meter) = (http.clone(), opened.clone(), noting.clone());
        async move { Ok::<_, Infallible>(answer(&http, request, &opened, &meter).await) }
    });
    let client = TokioIo::new(Metered::new(client, meter.clone()));
    let serving =
        hyper::server::conn::http1::Builder::new().serve_connection(client, service).with_upgrades();
    if let Err(error) = serving.await {
        tracing::debug!(%error, "a connection of a code node broke off");
    }
    let tunnel = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((client, server)) = tunnel else { return };
    if let Ok(client) = client.await
        && let Err(error) = carry(TokioIo::new(client), server, &meter).await
    {
        tracing::debug!(%error, "a tunnel of a code node broke off");
    }
}

/// Carries a tunnel to its end, if it begins as TLS does.
async fn carry<S>(mut client: S, mut server: TcpStream, meter: &Meter) -> std::io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut begin = [0; TLS_BEGIN.len()];
    client.read_exact(&mut begin).await?;
    if begin != TLS_BEGIN {
        if meter.may_note() {
            tracing::warn!("code used a tunnel for something else than TLS");
        }
        return Ok(());
    }
    server.write_all(&begin).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}

async fn answer(http: &Http, request: Request<Incoming>, opened: &Opened, meter: &Meter) -> Response<Body> {
    let answered = if request.method() == Method::CONNECT {
        tunnel(http, request, opened, meter).await
    } else {
        forward(http, request, meter).await
    };
    answered.unwrap_or_else(|(status, reason)| refusal(status, &reason))
}

/// A status and its reason.
type Refused = (StatusCode, String);

async fn tunnel(
    http: &Http,
    request: Request<Incoming>,
    opened: &Opened,
    meter: &Meter,
) -> Result<Response<Body>, Refused> {
    let authority = request.uri().authority().filter(|authority| authority.port().is_some());
    let wrong = || (StatusCode::BAD_REQUEST, "CONNECT needs a host and a port".to_owned());
    // As a URL, odd spellings of an address become what they mean before they are checked.
    let url = authority.and_then(|authority| Url::parse(&format!("https://{}/", authority.as_str())).ok());
    let url = url.filter(|url| url.username().is_empty()).ok_or_else(wrong)?;
    may_tunnel(http, &url).map_err(|reason| {
        noted(meter, &url, "tunnel", Some(&reason));
        (StatusCode::FORBIDDEN, reason)
    })?;
    let server = http.dial(&url).await;
    noted(meter, &url, "tunnel", server.as_ref().err());
    let server = server.map_err(of_call)?;
    let client = hyper::upgrade::on(request);
    *opened.lock().unwrap_or_else(PoisonError::into_inner) = Some((client, server));
    Ok(Response::new(Body::empty()))
}

/// Checks the port of a tunnel, before its host is looked up.
fn may_tunnel(http: &Http, url: &Url) -> Result<(), String> {
    let port = url.port_or_known_default().unwrap_or_default();
    if http.tunnel_ports.contains(&port) {
        return Ok(());
    }
    let ports: Vec<String> = http.tunnel_ports.iter().map(u16::to_string).collect();
    let ports = if ports.is_empty() { "none".to_owned() } else { ports.join(", ") };
    Err(format!("tunnels go only to the ports of http.tunnel_ports ({ports}), not {port}"))
}

async fn forward(http: &Http, request: Request<Incoming>, meter: &Meter) -> Result<Response<Body>, Refused> {
    let wrong = |reason: &str| (StatusCode::BAD_REQUEST, reason.to_owned());
    let (head, body) = request.into_parts();
    if !METHODS.contains(&head.method) {
        let known = METHODS.each_ref().map(Method::as_str).join(", ");
        let reason = format!("this proxy passes on {known}, and no other method");
        return Err((StatusCode::METHOD_NOT_ALLOWED, reason));
    }
    let url = Url::parse(&head.uri.to_string()).ok().filter(|url| url.scheme() == "http");
    let mut url =
        url.ok_or_else(|| wrong("this proxy takes requests with an http:// address, and CONNECT"))?;
    // These cannot fail for a URL with a host.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    let most = usize::try_from(http.bounds.upload_bytes_max).unwrap_or(usize::MAX);
    let body = to_bytes(Body::new(body), most).await.map_err(|_| {
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the request is not whole, or has more than {most} bytes (http.upload_bytes_max)"),
        )
    })?;
    let mut headers = passed_on(&head.headers);
    headers.remove(HOST);
    headers.remove(reqwest::header::CONTENT_LENGTH);
    let bounds = &http.bounds;
    let waits = Waits { connect: bounds.connect, write: bounds.write, read: bounds.read };
    let body = if body.is_empty() { Vec::new() } else { vec![body] };
    let call = Call { method: head.method, url, headers, body, private: Vec::new(), waits, verify: true };
    let answered = http.send_once(&call).await;
    noted(meter, &call.url, "request", answered.as_ref().err());
    let answered = answered.map_err(of_call)?;
    let (status, headers) = (answered.response.status(), passed_on(answered.response.headers()));
    let pieces = futures_util::stream::try_unfold(answered, |mut answer| async move {
        let piece = answer.piece().await?;
        Ok::<_, CallError>(piece.map(|piece| (piece, answer)))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    (*response.status_mut(), *response.headers_mut()) = (status, headers);
    Ok(response)
}

/// The headers for the next hop.
fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut kept = headers.clone();
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        kept.remove(name);
    }
    for name in OF_ONE_HOP {
        kept.remove(name);
    }
    kept
}

/// Logs what was reached, without path and query: they may contain a secret.
fn noted<E: Display>(meter: &Meter, url: &Url, what: &str, error: Option<&E>) {
    if !meter.may_note() {
        return;
    }
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default());
    match error {
        None => tracing::info!(host, port, what, "code calls a server"),
        Some(error) => tracing::warn!(host, port, what, %error, "code cannot call a server"),
    }
}

fn of_call(error: CallError) -> Refused {
    let status = match error {
        CallError::Blocked(_) => StatusCode::FORBIDDEN,
        CallError::TimedOut(..) => StatusCode::GATEWAY_TIMEOUT,
        CallError::Redirects(_) | CallError::Location(_) | CallError::Transport(_) => StatusCode::BAD_GATEWAY,
    };
    (status, error.to_string())
}

/// An answer of the proxy itself. Clients show only the status line of a refused tunnel, so the reason is there, too.
fn refusal(status: StatusCode, reason: &str) -> Response<Body> {
    let mut response = Response::new(Body::from(format!("{reason}\n")));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, reqwest::header::HeaderValue::from_static("text/plain"));
    let plain: String =
        reason.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' }).collect();
    if let Ok(phrase) = ReasonPhrase::try_from(plain.into_bytes()) {
        response.extensions_mut().insert(phrase);
    }
    response
}
