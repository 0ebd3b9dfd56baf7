//! The layer around both APIs: it lets pages in browsers call them (CORS), and compresses large JSON bodies. A request of a
//! program that asks for neither passes through. Event streams are never compressed: a client would receive their frames late.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body::Body as _;
use tidemill_common::config::{ANY_ORIGIN, Config, CorsConfig};
use tower::{Layer, ServiceExt, service_fn};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::openapi;

/// The content type of a body that is compressed.
const JSON: &[u8] = b"application/json";

/// What surrounds each API.
pub(super) struct Outers {
    native: Outer,
    dify: Outer,
}

impl Outers {
    /// Creates it from the settings.
    pub(super) fn new(config: &Config) -> Arc<Self> {
        let (cors, gzip) = (&config.cors, config.scheduler.gzip_bytes_min);
        let (native, dify) = (&cors.native_origins, &cors.origins);
        Arc::new(Self { native: Outer::new(cors, native, gzip), dify: Outer::new(cors, dify, gzip) })
    }

    /// What surrounds the API of this path. The links of files are what `/v1` shows. `None` for webhooks and probes.
    fn of(&self, path: &str) -> Option<&Outer> {
        let is_below =
            |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // The description is for pages of any origin, like `/v1`.
        if is_below("/v1") || is_below("/files") || path == openapi::PATH {
            return Some(&self.dify);
        }
        is_below("/api/v1").then_some(&self.native)
    }
}

/// What surrounds one API.
struct Outer {
    /// `None`: no page may call the API.
    cors: Option<CorsLayer>,
    /// The smallest JSON body that is compressed, in bytes; 0: none is.
    gzip_bytes_min: u64,
}

impl Outer {
    /// Creates it for an API that pages of these origins may call.
    fn new(cors: &CorsConfig, origins: &[String], gzip_bytes_min: usize) -> Self {
        Self { cors: layer(cors, origins), gzip_bytes_min: gzip_bytes_min as u64 }
    }

    /// True for a response whose compression saves more than it costs.
    fn compresses(&self, response: &Response) -> bool {
        let kind = response.headers().get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let size = response.body().size_hint().exact();
        self.gzip_bytes_min > 0
            && kind.starts_with(JSON)
            && !response.headers().contains_key(header::CONTENT_ENCODING)
            && size.is_some_and(|size| size >= self.gzip_bytes_min)
    }
}

/// The values were checked when the settings were read.
fn layer(cors: &CorsConfig, origins: &[String]) -> Option<CorsLayer> {
    let origins: Vec<&String> = origins.iter().filter(|origin| !origin.is_empty()).collect();
    let allowed = if origins.iter().any(|origin| *origin == ANY_ORIGIN) {
        AllowOrigin::any()
    } else if origins.is_empty() {
        return None;
    } else {
        AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()))
    };
    let names = |list: &[String]| -> Vec<HeaderName> {
        list.iter().filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok()).collect()
    };
    let methods = cors.methods.iter().filter_map(|name| Method::from_bytes(name.as_bytes()).ok());
    Some(
        CorsLayer::new()
            .allow_origin(allowed)
            .allow_methods(methods.collect::<Vec<_>>())
            .allow_headers(names(&cors.headers))
            .expose_headers(names(&cors.exposed_headers)),
    )
}

/// Answers the question of a browser before a request of a page (`OPTIONS`, without a key), and adds the headers that the
/// client's headers ask for.
pub(super) async fn serve(State(outers): State<Arc<Outers>>, request: Request, next: Next) -> Response {
    let Some(outer) = outers.of(request.uri().path()) else { return next.run(request).await };
    let accepts = request.headers().get(header::ACCEPT_ENCODING).cloned();
    let is_of_page = request.headers().contains_key(header::ORIGIN) || request.method() == Method::OPTIONS;
    let response = match &outer.cors {
        Some(cors) if is_of_page => across_origins(cors, request, next).await,
        Some(_) | None => next.run(request).await,
    };
    match accepts {
        Some(accepts) if outer.compresses(&response) => compressed(response, accepts).await,
        Some(_) | None => response,
    }
}

async fn across_origins(cors: &CorsLayer, request: Request, next: Next) -> Response {
    let inner = service_fn(move |request: Request| {
        let next = next.clone();
        async move { Ok::<_, Infallible>(next.run(request).await) }
    });
    match cors.layer(inner).oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

/// The response in the encoding that the client accepts.
async fn compressed(response: Response, accepts: HeaderValue) -> Response {
    let mut asked = Request::new(Body::empty());
    asked.headers_mut().insert(header::ACCEPT_ENCODING, accepts);
    let mut response = Some(response);
    let inner = service_fn(move |_: Request| {
        std::future::ready(Ok::<_, Infallible>(response.take().unwrap_or_default()))
    });
    let layer = CompressionLayer::new().gzip(true).quality(CompressionLevel::Fastest);
    match layer.layer(inner).oneshot(asked).await {
        Ok(response) => response.map(Body::new),
        Err(never) => match never {},
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_api_has_its_own_rules_and_other_paths_have_none() {
        let outers = Outers::new(&Config::default());
        for (path, expected) in [
            ("/v1", Some(true)),
            ("/v1/", Some(true)),
            ("/v1/nothing/here", Some(true)),
            ("/api/v1/apps", Some(false)),
            ("/files/0199/file-preview", Some(true)),
            ("/filesystem", None),
            ("/v10/x", None),
            ("/livez", None),
            ("/triggers/webhook/v1", None),
        ] {
            assert_eq!(outers.of(path).map(|outer| outer.cors.is_some()), expected, "{path}");
        }
    }
}
