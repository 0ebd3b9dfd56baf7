//! Answers about files, of servers that like `HEAD` and of others.

use std::net::SocketAddr;

use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Redirect};
use axum::routing::any;

use super::*;
use crate::http::tests::{config, local, serve};

#[test]
fn the_size_is_that_of_the_whole_file() {
    for (status, headers, bytes) in [
        (200, &[("content-length", "12")][..], Some(12)),
        (206, &[("content-length", "1"), ("content-range", "bytes 0-0/34")], Some(34)),
        (206, &[("content-length", "1"), ("content-range", "bytes 0-0/*")], None),
        (200, &[("content-length", "12"), ("content-encoding", "gzip")], None),
        (200, &[], None),
        (200, &[("content-length", "-1")], None),
    ] {
        let map: HeaderMap =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let said = said(StatusCode::from_u16(status).unwrap(), &map, "http://h/a").unwrap();
        assert_eq!(said.size, bytes, "{headers:?}");
    }
    assert_eq!(said(StatusCode::NOT_FOUND, &HeaderMap::new(), "http://h/a"), None);
}

async fn file(request: Request) -> axum::response::Response {
    let disposition = "attachment; filename*=UTF-8''%E6%B8%AF.txt";
    let headers = [("content-type", "text/plain; charset=utf-8"), ("content-disposition", disposition)];
    match request.headers().contains_key("range") {
        true => {
            (StatusCode::PARTIAL_CONTENT, headers, [("content-range", "bytes 0-0/5")], "h").into_response()
        }
        false => (headers, "hello").into_response(),
    }
}

async fn only_get(request: Request) -> axum::response::Response {
    match *request.method() == Method::HEAD {
        true => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        false => file(request).await,
    }
}

async fn silent_on_head(request: Request) -> axum::response::Response {
    if *request.method() == Method::HEAD {
        std::future::pending::<()>().await;
    }
    file(request).await
}

/// A server that answers about files: `/no-head` and `/silent` only to GET, `/away` from another place.
async fn files() -> SocketAddr {
    let router = Router::new()
        .route("/file", any(file))
        .route("/no-head", any(only_get))
        .route("/silent", any(silent_on_head))
        .route("/away", any(|| async { Redirect::temporary("/file") }))
        .route("/private", any(|| async { Redirect::temporary("http://10.0.0.1/file") }))
        .route("/never", any(|| async { std::future::pending::<StatusCode>().await }));
    serve(router).await
}

#[tokio::test]
async fn a_server_says_what_a_file_is_without_sending_it() {
    let address = files().await;
    let within = Duration::from_secs(2);
    for (path, last) in
        [("/file", "/file"), ("/no-head", "/no-head"), ("/silent", "/silent"), ("/away", "/file")]
    {
        let said = local().ask(&format!("http://{address}{path}"), within).await;
        let expected = Said {
            name: Some("港.txt".into()),
            content_type: Some("text/plain; charset=utf-8".into()),
            size: Some(5),
            last_url: format!("http://{address}{last}"),
        };
        assert_eq!(said, Some(expected), "{path}");
    }
}

#[tokio::test]
async fn a_server_that_may_not_be_called_or_does_not_answer_says_nothing() {
    let address = files().await;
    let within = Duration::from_millis(200);
    for url in [
        format!("http://{address}/private"),
        format!("http://{address}/none"),
        format!("http://{address}/never"),
        "ftp://127.0.0.1/a".into(),
        "http://10.0.0.1/a".into(),
    ] {
        assert_eq!(local().ask(&url, within).await, None, "{url}");
    }
    let guarded = Http::new(&config(&[])).unwrap();
    assert_eq!(guarded.ask(&format!("http://{address}/file"), within).await, None);
}
