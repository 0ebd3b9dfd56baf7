//! The provider `webscraper`: the text of a web page, fetched through the guard for all workflow addresses.

use bytes::Bytes;
use reqwest::header::{HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Method, Url};
use serde_json::{Value as Json, json};
use tidemill_common::nodes::tool::{Declaration, Form, Parameter, ParameterType};
use tidemill_common::value::JsonMap;

use crate::outside::http::read::{Largest, kind_of, read};
use crate::outside::http::watch::Waits;
use crate::outside::http::{Call, Http};
use crate::outside::tools::builtin::text;

/// The default `User-Agent` (Dify's).
const AGENT: &str = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) \
                     Chrome/100.0.1000.0 Safari/537.36";

pub(super) fn tools() -> Vec<Declaration> {
    let parameter = |name: &str, ty, form, default: Option<Json>, description: &str| Parameter {
        name: name.into(),
        ty,
        form,
        required: default.is_none(),
        default,
        description: description.into(),
        ..Parameter::default()
    };
    let parameters = vec![
        parameter("url", ParameterType::String, Form::Llm, None, "the address of the page"),
        parameter("user_agent", ParameterType::String, Form::Form, Some(json!(AGENT)), ""),
        parameter("generate_summary", ParameterType::Boolean, Form::Form, Some(json!(false)), ""),
    ]
    .into_iter()
    .map(|one| Parameter { required: one.name == "url", ..one })
    .collect();
    vec![Declaration {
        name: "webscraper".into(),
        description: "Reads a web page. Takes its URL.".into(),
        parameters,
        takes_more: false,
        has_output_schema: false,
    }]
}

pub(super) async fn run(arguments: &JsonMap, http: &Http) -> Result<String, String> {
    let url = text(arguments, "url", "");
    if url.is_empty() {
        return Ok("Please input url".into());
    }
    let summary = text(arguments, "generate_summary", "false");
    if !matches!(summary.to_ascii_lowercase().as_str(), "false" | "0" | "no") {
        return Err(
            "generate_summary needs a model, which built-in tools do not have: pass the page to an llm node"
                .into(),
        );
    }
    let address = Url::parse(&url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let address = address.ok_or_else(|| format!("{url:?} is not an http:// or https:// URL"))?;
    let agent = text(arguments, "user_agent", AGENT);
    let agent = HeaderValue::from_str(&agent).map_err(|_| "the user_agent cannot be sent".to_owned())?;
    let bounds = &http.bounds;
    let call = Call {
        method: Method::GET,
        url: address,
        headers: HeaderMap::from_iter([(USER_AGENT, agent)]),
        body: Vec::<Bytes>::new(),
        private: Vec::new(),
        waits: Waits { connect: bounds.connect, write: bounds.write, read: bounds.read },
        verify: bounds.ssl_verify,
    };
    let mut answer = http.send(call).await.map_err(|error| error.to_string())?;
    let status = answer.response.status().as_u16();
    if status != 200 {
        return Ok(format!("URL returned status code {status}."));
    }
    let kind = kind_of(answer.response.headers()).content_type;
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !matches!(kind.as_str(), "text/html" | "text/plain" | "application/json") {
        return Ok(format!("Unsupported content-type [{kind}] of URL."));
    }
    let max = bounds.text_bytes_max;
    let (_, bytes) =
        read(&mut answer, Largest { text: max, file: max }).await.map_err(|error| error.to_string())?;
    if kind != "text/html" {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let page = tidemill_documents::page(&bytes);
    if page.text.trim().is_empty() {
        return Ok(String::new());
    }
    Ok(format!("\nTITLE: {}\nAUTHOR: {}\nTEXT:\n\n{}\n", page.title, page.author, page.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_common::config::HttpConfig;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Returns the tool's text for a page with this answer, and the received request.
    async fn said(status: &str, kind: &str, body: &str, more: Json) -> (Result<String, String>, String) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/a", listener.local_addr().unwrap());
        let answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let server = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let read = socket.read(&mut head).await.unwrap();
            socket.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&head[..read]).into_owned()
        });
        let http = Http::new(&HttpConfig { guard: false, ..HttpConfig::default() }).unwrap();
        let mut arguments = json!({"url": url});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let said = run(arguments.as_object().unwrap(), &http).await;
        (said, server.await.unwrap())
    }

    #[tokio::test]
    async fn a_page_is_told_as_dify_tells_it() {
        let body = "<html><head><title>T</title></head><body><p>One &amp; two</p></body></html>";
        let (found, asked) =
            said("200 OK", "text/html; charset=utf-8", body, json!({"user_agent": "me"})).await;
        assert_eq!(found.as_deref(), Ok("\nTITLE: T\nAUTHOR: \nTEXT:\n\nOne & two\n"));
        assert!(asked.contains("user-agent: me\r\n"), "{asked}");
        let (found, asked) = said("200 OK", "application/json", "{}", json!({})).await;
        assert_eq!((found.as_deref(), asked.contains("Mozilla/5.0")), (Ok("{}"), true));
        for (status, kind, expected) in [
            ("404 Not Found", "text/html", "URL returned status code 404."),
            ("200 OK", "image/png", "Unsupported content-type [image/png] of URL."),
            ("200 OK", "text/html", ""),
        ] {
            assert_eq!(said(status, kind, "", json!({})).await.0.as_deref(), Ok(expected));
        }
    }

    #[tokio::test]
    async fn what_cannot_be_fetched_says_why() {
        let http = Http::new(&HttpConfig::default()).unwrap();
        for (arguments, expected) in [
            (json!({}), Ok("Please input url")),
            (json!({"url": "file:///etc/passwd"}), Err("is not an http:// or https:// URL")),
            (json!({"url": "http://127.0.0.1:1/"}), Err("is a loopback address")),
            (json!({"url": "http://h/", "generate_summary": true}), Err("generate_summary needs a model")),
        ] {
            let found = run(arguments.as_object().unwrap(), &http).await;
            match (&found, expected) {
                (Ok(found), Ok(said)) => assert_eq!(found, said),
                (Err(found), Err(said)) => assert!(found.contains(said), "{found}"),
                other => panic!("{other:?}"),
            }
        }
    }
}
