//! A bucket for tests: a server in this process that speaks the part of S3 that we use, and refuses wrong
//! signatures. It computes the signature from the published steps of "Signature Version 4", not with the
//! client's code.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use ring::hmac;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;

/// The only bucket.
const NAME: &str = "bucket";
/// Names in one page of a listing.
const PAGE: usize = 2;
const BODY_BYTES_MAX: usize = 16 << 20;
/// A key under which the number of objects that are not complete is read.
pub(super) const UNFINISHED: &str = "unfinished";
const DATE: &str = "Wed, 01 Jan 2025 00:00:00 GMT";

/// The objects by key, and the accepted credentials.
pub(super) struct Bucket {
    id: String,
    secret: String,
    objects: Mutex<BTreeMap<String, Bytes>>,
    /// Objects that come in parts, by the id of their upload.
    unfinished: Mutex<BTreeMap<String, Vec<Bytes>>>,
}

impl Bucket {
    /// Serves an empty bucket until the test's runtime ends. Returns the endpoint.
    pub(super) async fn serve(id: &str, secret: &str) -> String {
        let bucket = Self {
            id: id.into(),
            secret: secret.into(),
            objects: Mutex::default(),
            unfinished: Mutex::default(),
        };
        let app = Router::new().fallback(answer).with_state(Arc::new(bucket));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, app).await });
        endpoint
    }

    /// A request about an object that comes in parts. The parts come in their order.
    fn in_parts(&self, method: &Method, key: &str, query: &str, body: &Bytes) -> Option<Response> {
        let mut unfinished = self.unfinished.lock().unwrap();
        let begins = query.split('&').any(|pair| pair.split('=').next() == Some("uploads"));
        if method == Method::GET && key == UNFINISHED {
            let count = Bytes::from(unfinished.len().to_string());
            return Some((facts(&count), count).into_response());
        }
        if method == Method::POST && begins {
            let id = format!("upload-{}", unfinished.len());
            unfinished.insert(id.clone(), Vec::new());
            let answer = format!(
                "<?xml version=\"1.0\"?><InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
            );
            return Some(answer.into_response());
        }
        let id = query.split('&').find_map(|pair| pair.strip_prefix("uploadId="))?;
        match *method {
            Method::PUT => {
                unfinished.get_mut(id)?.push(body.clone());
                Some(facts(body).into_response())
            }
            Method::POST => {
                let whole = unfinished.remove(id)?.concat();
                let etag = hash(&whole);
                self.objects.lock().unwrap().insert(key.into(), whole.into());
                let answer = format!(
                    "<?xml version=\"1.0\"?><CompleteMultipartUploadResult><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
                );
                Some(answer.into_response())
            }
            Method::DELETE => {
                unfinished.remove(id)?;
                Some(StatusCode::NO_CONTENT.into_response())
            }
            _ => None,
        }
    }

    /// Whether the secret signed the request and its body.
    fn is_signed(&self, head: &Parts, body: &[u8]) -> Option<bool> {
        let text = |name: &str| head.headers.get(name)?.to_str().ok();
        let words = text("authorization")?.strip_prefix("AWS4-HMAC-SHA256 ")?;
        let word = |name: &str| words.split(", ").find_map(|word| word.strip_prefix(name));
        let (id, scope) = word("Credential=")?.split_once('/')?;
        let [date, region, service, "aws4_request"] = scope.split('/').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (names, of_body) = (word("SignedHeaders=")?, text("x-amz-content-sha256")?);
        let mut headers = String::new();
        for name in names.split(';') {
            headers += &format!("{name}:{}\n", text(name)?.trim());
        }
        let mut query: Vec<&str> = head.uri.query().unwrap_or("").split('&').collect();
        query.sort_unstable();
        let (method, path, query) = (&head.method, head.uri.path(), query.join("&"));
        let request = format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{of_body}");
        let moment = text("x-amz-date")?;
        let signed = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hash(request.as_bytes()));
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [date, region, service, "aws4_request", &signed] {
            key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part.as_bytes()).as_ref().into();
        }
        let is_whole = names.split(';').any(|name| name == "host") && hash(body) == of_body;
        Some(id == self.id && is_whole && moment.starts_with(date) && word("Signature=")? == hex(&key))
    }
}

async fn answer(State(bucket): State<Arc<Bucket>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, BODY_BYTES_MAX).await.unwrap();
    if bucket.is_signed(&head, &body) != Some(true) {
        return refused(StatusCode::FORBIDDEN, "SignatureDoesNotMatch");
    }
    let path = head.uri.path().trim_start_matches('/');
    let (name, key) = path.split_once('/').unwrap_or((path, ""));
    if name != NAME {
        return refused(StatusCode::NOT_FOUND, "NoSuchBucket");
    }
    let query = head.uri.query().unwrap_or("").to_owned();
    if let Some(answer) = bucket.in_parts(&head.method, key, &query, &body) {
        return answer;
    }
    let mut objects = bucket.objects.lock().unwrap();
    match head.method {
        Method::GET if key.is_empty() => listing(&objects, head.uri.query().unwrap_or("")),
        Method::GET => match objects.get(key) {
            Some(bytes) => (facts(bytes), bytes.clone()).into_response(),
            None => refused(StatusCode::NOT_FOUND, "NoSuchKey"),
        },
        Method::PUT if head.headers.contains_key("x-amz-copy-source") => {
            let source = head.headers["x-amz-copy-source"].to_str().unwrap().trim_start_matches('/');
            match source.split_once('/').and_then(|(_, key)| objects.get(key).cloned()) {
                Some(bytes) => {
                    let etag = hash(&bytes);
                    objects.insert(key.into(), bytes);
                    format!("<?xml version=\"1.0\"?><CopyObjectResult><ETag>{etag}</ETag></CopyObjectResult>")
                        .into_response()
                }
                None => refused(StatusCode::NOT_FOUND, "NoSuchKey"),
            }
        }
        Method::PUT => {
            let facts = facts(&body);
            objects.insert(key.into(), body);
            facts.into_response()
        }
        Method::DELETE => {
            objects.remove(key);
            StatusCode::NO_CONTENT.into_response()
        }
        _ => refused(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
    }
}

/// A page of the keys with a prefix. A key is the token of the page that begins with it.
fn listing(objects: &BTreeMap<String, Bytes>, query: &str) -> Response {
    let value = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        let found = pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.replace("%2F", "/")).next();
        found.unwrap_or_default()
    };
    let (prefix, from, after) = (value("prefix"), value("continuation-token"), value("start-after"));
    let is_listed = |key: &String| key.starts_with(&prefix) && *key >= from && *key > after;
    let mut keys = objects.iter().filter(|(key, _)| is_listed(key));
    let mut page = String::new();
    for (key, bytes) in keys.by_ref().take(PAGE) {
        page += &format!(
            "<Contents><Key>{key}</Key><Size>{}</Size><ETag>{}</ETag>\
             <LastModified>2025-01-01T00:00:00.000Z</LastModified></Contents>",
            bytes.len(),
            hash(bytes)
        );
    }
    if let Some((next, _)) = keys.next() {
        page +=
            &format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{next}</NextContinuationToken>");
    }
    format!("<?xml version=\"1.0\"?><ListBucketResult>{page}</ListBucketResult>").into_response()
}

fn facts(bytes: &[u8]) -> HeaderMap {
    let facts = [(header::ETAG, format!("\"{}\"", hash(bytes))), (header::LAST_MODIFIED, DATE.into())];
    facts.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect()
}

fn refused(status: StatusCode, code: &str) -> Response {
    (status, format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>")).into_response()
}

fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
