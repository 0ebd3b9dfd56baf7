//! Builds the request from the input of an `API` call. Pure.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::Value as Json;
use tidemill_common::nodes::step::CallError;
use tidemill_common::nodes::step::api::{TIMEOUT_OVER_SECONDS, is_timeout};
use tidemill_common::registry::calls::API_TIMEOUT_SECONDS;
use tidemill_common::value::JsonMap;

use crate::nodes::http_request::files::Form;
use crate::outside::calls::api::SERVICE_METADATA;
use crate::outside::calls::api::credentials::Credentials;
use crate::outside::http::Call;
use crate::outside::http::watch::Waits;
use crate::outside::openapi::operation::Place;
use crate::outside::openapi::request::{Head, Lists, MediaType, Rules, Unsendable};

/// Accepted content encodings.
const PACKINGS: HeaderValue = HeaderValue::from_static("gzip, deflate");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request without address and credentials.
#[derive(Debug)]
pub(super) struct Draft {
    method: Method,
    /// All but the body; its address may be a path.
    head: Head,
    content_type: Option<MediaType>,
    body: Option<Json>,
    pub(super) timeout: Duration,
    pub(super) accept_text: bool,
    idempotent: bool,
}

/// An input without a value is left out, so that an optional parameter may stay empty. An empty text in the path is
/// refused, because it would call another path.
const RULES: Rules = Rules {
    skips_null: true,
    fills_empty: false,
    sends_empty: true,
    query: Lists::AllItems,
    form: Lists::AllItems,
};

/// The names of the content types, for errors.
pub(super) fn content_types() -> String {
    MediaType::ALL.map(MediaType::name).join(", ")
}

/// Checks an input before its missing values are filled.
///
/// # Errors
/// An invalid value.
pub(super) fn check(input: &JsonMap) -> Result<(), CallError> {
    let given = |key: &str| input.get(key).filter(|value| !value.is_null());
    if let Some(timeout) = given("timeout").filter(|timeout| !is_timeout(timeout)) {
        let message = format!("timeout is {timeout}: it must be more than {TIMEOUT_OVER_SECONDS} seconds");
        return Err(CallError::of("ValueError", message));
    }
    if let Some(method) = given("method") {
        method_of(method)?;
    }
    given("content_type").map_or(Ok(()), |value| type_of(value).map(drop))
}

fn method_of(value: &Json) -> Result<Method, CallError> {
    match value.as_str().unwrap_or_default().to_ascii_uppercase().as_str() {
        "GET" => Ok(Method::GET),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "DELETE" => Ok(Method::DELETE),
        "PATCH" => Ok(Method::PATCH),
        _ => {
            let message =
                format!("the method {value} is not supported: there are get, post, put, delete and patch");
            Err(CallError::of("ApiMethodUnsupported", message))
        }
    }
}

fn type_of(value: &Json) -> Result<MediaType, CallError> {
    MediaType::of(value.as_str().unwrap_or_default()).ok_or_else(|| {
        let message = format!("the content type {value} is not supported: there are {}", content_types());
        CallError::of("ApiContentTypeUnsupported", message)
    })
}

impl Draft {
    pub(super) fn read(input: &JsonMap) -> Result<Self, CallError> {
        check(input)?;
        let given = |key: &str| input.get(key).filter(|value| !value.is_null());
        let flag = |key: &str| given(key).and_then(Json::as_bool).unwrap_or(false);
        let url = given("url").and_then(Json::as_str).unwrap_or_default().trim();
        let mut head = Head::new(url, &RULES);
        put(&mut head, Place::Path, "path", given("path"))?;
        let is_described = given("operation").is_some() || given("path").is_some();
        if let Some((_, name)) = head.address.split_once('{').filter(|_| is_described) {
            let name = name.split('}').next().unwrap_or_default();
            return Err(CallError::new(format!("path.{name} is required: the url has a place for it")));
        }
        if head.address.is_empty() {
            return Err(CallError::new("url is required: of the node, or of a library node (knownParams)"));
        }
        let method = given("method").map_or(Ok(Method::GET), method_of)?;
        let content_type = given("content_type").map(type_of).transpose()?;
        let has_body = matches!(method, Method::POST | Method::PUT | Method::PATCH);
        if has_body && content_type.is_none() {
            let message = format!("{method} needs a content_type");
            return Err(CallError::of("ApiContentTypeMissing", message));
        }
        put(&mut head, Place::Query, "query", given("query"))?;
        put(&mut head, Place::Header, "headers", given("headers"))?;
        let timeout = given("timeout").and_then(Json::as_f64);
        let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Ok(Self {
            method,
            head,
            content_type: content_type.filter(|_| has_body),
            body: given("body").filter(|_| has_body).cloned(),
            timeout: timeout.unwrap_or(Duration::from_secs(API_TIMEOUT_SECONDS)),
            accept_text: flag("accept_text"),
            idempotent: flag("idempotent"),
        })
    }

    /// Returns true if sending the request twice does no harm.
    pub(super) fn may_repeat(&self) -> bool {
        self.idempotent || matches!(self.method, Method::GET | Method::PUT | Method::DELETE)
    }
}

/// Puts the values of a place into the request; `key` names their object in the input.
fn put(head: &mut Head, place: Place, key: &str, values: Option<&Json>) -> Result<(), CallError> {
    match values {
        None => Ok(()),
        Some(Json::Object(values)) => values.iter().try_for_each(|(name, value)| {
            head.put(place, name, value).map_err(|why| unsendable(key, name, why))
        }),
        Some(other) => Err(CallError::new(format!("{key} must be an object, and is {other}"))),
    }
}

/// Converts the reason a value of `key` cannot be sent.
fn unsendable(key: &str, name: &str, why: Unsendable) -> CallError {
    CallError::new(match why {
        Unsendable::Path(text) => format!("{key}.{name} cannot be {text:?}"),
        Unsendable::HeaderName | Unsendable::HeaderValue => format!("the header {name} cannot be sent"),
    })
}

/// Returns the URL of the request. A path belongs to the service's server. A full URL must be on that server too, so
/// that no other server gets the credentials.
pub(super) fn address(draft: &Draft, service: Option<(&str, &str)>) -> Result<Url, CallError> {
    let is_whole = draft.head.address.contains("://");
    let text = match (service, is_whole) {
        (Some((_, server)), false) => {
            format!("{}/{}", server.trim_end_matches('/'), draft.head.address.trim_start_matches('/'))
        }
        (_, true) => draft.head.address.clone(),
        (None, false) => {
            let message = format!(
                "the url {:?} is a path, and there is no service whose server it belongs to",
                draft.head.address
            );
            return Err(CallError::of(SERVICE_METADATA, message));
        }
    };
    let wrong = |reason: String| CallError::new(format!("the url cannot be called: {reason}"));
    let mut url = Url::parse(&text).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(wrong("it must begin with http:// or https:// and a host".into()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "a password does not belong there but to a service (`tidemill services add`)".into(),
        ));
    }
    if let Some((id, server)) = service {
        let at_home = Url::parse(server).is_ok_and(|server| server.origin() == url.origin());
        if !at_home {
            let message = format!(
                "the url is not at the server of the service {id}, whose credentials it would be given"
            );
            return Err(CallError::of(SERVICE_METADATA, message));
        }
    }
    draft.head.add_query(&mut url);
    url.set_fragment(None);
    Ok(url)
}

/// Builds the request.
pub(super) fn call(
    draft: &Draft,
    mut url: Url,
    credentials: &Credentials,
    key: Option<String>,
    waits: Waits,
    verify: bool,
) -> Result<Call, CallError> {
    let unsendable = |name: &str| unsendable("headers", name, Unsendable::HeaderValue);
    let mut headers = draft.head.headers().map_err(|_| unsendable("cookie"))?;
    headers.entry(ACCEPT_ENCODING).or_insert(PACKINGS);
    let (content_type, body) = body(draft)?;
    if let Some(content_type) = content_type {
        let value = HeaderValue::from_str(&content_type).map_err(|_| unsendable("content-type"))?;
        headers.insert(CONTENT_TYPE, value);
    }
    if let Some(key) = key {
        headers
            .insert(IDEMPOTENCY_KEY, HeaderValue::from_str(&key).map_err(|_| unsendable("idempotency-key"))?);
    }
    let private = credentials.put(&mut url, &mut headers)?;
    let body = if body.is_empty() { Vec::new() } else { vec![body] };
    Ok(Call { method: draft.method.clone(), url, headers, body, private, waits, verify })
}

fn body(draft: &Draft) -> Result<(Option<String>, Bytes), CallError> {
    let Some(of) = draft.content_type else { return Ok((None, Bytes::new())) };
    let name = of.name();
    let none = JsonMap::new();
    let fields = match (&draft.body, of) {
        (_, MediaType::Json) => {
            let body = draft.body.as_ref().map(Json::to_string).unwrap_or_default();
            return Ok((Some(name.to_owned()), Bytes::from(body)));
        }
        (None, _) => &none,
        (Some(Json::Object(fields)), _) => fields,
        (Some(other), _) => {
            return Err(CallError::new(format!("body must be an object for {name}, and is {other}")));
        }
    };
    if of == MediaType::Form {
        return Ok((Some(name.to_owned()), Bytes::from(RULES.form(fields))));
    }
    let mut form = Form::new();
    for (field, value) in fields {
        RULES.fields(field, value, &mut |field, text| form.field(field, text));
    }
    let (content_type, text) = form.end();
    Ok((Some(content_type), Bytes::from(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn draft(input: Json) -> Result<Draft, CallError> {
        Draft::read(&input.as_object().cloned().unwrap())
    }

    fn class(input: Json) -> String {
        draft(input).unwrap_err().error_type
    }

    #[test]
    fn se_a16_what_cannot_be_sent_is_refused_by_name() {
        for method in ["post", "PUT", "patch"] {
            assert_eq!(class(json!({"url": "http://h", "method": method})), "ApiContentTypeMissing");
        }
        assert_eq!(class(json!({"url": "http://h", "method": "trace"})), "ApiMethodUnsupported");
        let odd = json!({"url": "http://h", "method": "post", "content_type": "text/xml"});
        assert_eq!(class(odd), "ApiContentTypeUnsupported");
        for timeout in [json!(20), json!(30), json!("60"), json!(0)] {
            let error = draft(json!({"url": "http://h", "timeout": timeout})).unwrap_err();
            assert!(error.message.contains("more than 30 seconds"), "{error}");
        }
        assert_eq!(class(json!({"method": "get"})), "CallError");
        assert_eq!(
            draft(json!({"url": "http://h", "timeout": 31})).unwrap().timeout,
            Duration::from_secs(31)
        );
        assert_eq!(draft(json!({"url": "http://h"})).unwrap().timeout, Duration::from_secs(300));
    }

    #[test]
    fn a_path_is_one_of_the_server_and_an_address_must_be() {
        let url = |url: &str, server: &str| {
            let draft = draft(json!({"url": url, "query": {"a": "x y", "b": [1, true], "c": null}})).unwrap();
            address(&draft, Some(("svc", server)))
        };
        let expected = "http://svc/api/v1/x?a=x+y&b=1&b=true";
        assert_eq!(url("/v1/x", "http://svc/api/").unwrap().as_str(), expected);
        assert_eq!(url("http://svc:80/api/v1/x#top", "http://svc").unwrap().as_str(), expected);
        for other in ["http://evil/x", "https://svc/x", "http://svc:81/x"] {
            let error = url(other, "http://svc").unwrap_err();
            assert_eq!(error.error_type, "ServiceMetadataError", "{other}");
        }
        let alone = draft(json!({"url": "/x"})).unwrap();
        assert_eq!(address(&alone, None).unwrap_err().error_type, "ServiceMetadataError");
        let with_password = draft(json!({"url": "http://u:secret@h/"})).unwrap();
        let error = address(&with_password, None).unwrap_err();
        assert!(!error.message.contains("secret"), "{error}");
    }

    #[test]
    fn a_header_without_a_value_is_left_out() {
        let draft = draft(json!({"url": "http://h", "headers": {"X-A": null, "X-B": 7, "X-C": ""}})).unwrap();
        let headers = draft.head.headers().unwrap();
        let mut sent: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        sent.sort_unstable();
        assert_eq!(sent, [("x-b", &b"7"[..]), ("x-c", b"")]);
        let input = json!({"url": "http://h", "headers": {"X-A": "a\nb"}});
        let error = Draft::read(&input.as_object().cloned().unwrap()).unwrap_err();
        assert_eq!(error.message, "the header X-A cannot be sent");
    }

    #[test]
    fn bodies_are_written_as_their_types_want_them() {
        let sent = |content_type: &str, content: Json| {
            let input =
                json!({"url": "http://h", "method": "post", "content_type": content_type, "body": content});
            let (name, bytes) = body(&draft(input).unwrap())?;
            Ok::<_, CallError>((name.unwrap(), String::from_utf8(bytes.to_vec()).unwrap()))
        };
        let (name, text) = sent("application/json; charset=utf-8", json!({"a": [1]})).unwrap();
        assert_eq!((name.as_str(), text.as_str()), ("application/json", r#"{"a":[1]}"#));
        let (_, text) =
            sent("application/x-www-form-urlencoded", json!({"a": "x&y", "b": [1, 2], "c": {"d": 1}}))
                .unwrap();
        assert_eq!(text, "a=x%26y&b=1&b=2&c=%7B%22d%22%3A1%7D");
        let (name, text) = sent("multipart/form-data", json!({"a\"b": "x"})).unwrap();
        let boundary = name.strip_prefix("multipart/form-data; boundary=").unwrap();
        assert_eq!(
            text,
            format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"a%22b\"\r\n\r\nx\r\n--{boundary}--\r\n"
            )
        );
        assert!(sent("multipart/form-data", json!("x")).is_err());
        let get =
            draft(json!({"url": "http://h", "body": {"a": 1}, "content_type": "application/json"})).unwrap();
        assert_eq!(body(&get).unwrap(), (None, Bytes::new()), "GET has none");
    }
}
