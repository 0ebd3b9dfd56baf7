//! Builds the address of a request, with the errors of Dify's client for invalid ones. An error in the text itself
//! escapes the node; any other is a failure of the request.

use reqwest::Url;
use tidemill_common::failure::NodeFailure;
use tidemill_common::nodes::http_request::{ErrorType, draft};
use tidemill_common::value::pyrepr::repr_text;
use url::ParseError;

/// Most characters of an address.
const CHARS_MAX: usize = 65_536;

/// Returns the address with its params and without its fragment.
pub(super) fn url(head: &draft::Head) -> Result<Url, NodeFailure> {
    let text = &head.url;
    if text.chars().count() > CHARS_MAX {
        return Err(NodeFailure::escaped("URL too long"));
    }
    // The parser would silently drop line ends and tabs.
    if let Some((at, found)) = text.chars().enumerate().find(|(_, c)| c.is_ascii_control()) {
        let shown = repr_text(found.encode_utf8(&mut [0; 4]));
        let message = format!("Invalid non-printable ASCII character in URL, {shown} at position {at}.");
        return Err(NodeFailure::escaped(message));
    }
    let mut url = Url::parse(text).map_err(|error| unreadable(text, error))?;
    if !head.params.is_empty() {
        url.set_query(Some(&draft::query(&head.params)));
    }
    url.set_fragment(None);
    Ok(url)
}

fn unreadable(text: &str, error: ParseError) -> NodeFailure {
    let authority = text.split_once("://").map_or(text, |(_, rest)| rest);
    let authority = authority.split(['/', '?', '#']).next().unwrap_or_default();
    let message = format!("the URL cannot be called: {error}");
    match error {
        ParseError::InvalidIpv6Address if authority.contains('[') != authority.contains(']') => {
            NodeFailure::escaped("Invalid IPv6 URL")
        }
        ParseError::InvalidIpv6Address | ParseError::IdnaError
            if !authority.is_ascii() || authority.contains('[') =>
        {
            NodeFailure::escaped(message)
        }
        ParseError::InvalidPort if port(authority).parse::<i64>().is_err() => {
            NodeFailure::escaped(format!("Invalid port: {}", repr_text(port(authority))))
        }
        // The enum of another crate, which may grow.
        _ => ErrorType::Request.failure(message),
    }
}

/// The text after the host.
fn port(authority: &str) -> &str {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let after_host = host.rsplit_once(']').map_or(host, |(_, after_host)| after_host);
    after_host.split_once(':').map_or("", |(_, port)| port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(url: &str) -> draft::Head {
        draft::Head { url: url.into(), params: Vec::new(), headers: Vec::new() }
    }

    #[test]
    fn addresses_that_cannot_be_called_are_told_in_difys_classes() {
        let control = "Invalid non-printable ASCII character in URL, ";
        let own = "the URL cannot be called: ";
        for (text, class, message) in [
            ("http://h/q\n", "WorkflowNodeError", format!("{control}'\\n' at position 10.")),
            ("http://h/ü\tb\n", "WorkflowNodeError", format!("{control}'\\t' at position 10.")),
            ("http://h/\r", "WorkflowNodeError", format!("{control}'\\r' at position 9.")),
            ("http://h/\u{1}", "WorkflowNodeError", format!("{control}'\\x01' at position 9.")),
            ("http://h/\u{7f}", "WorkflowNodeError", format!("{control}'\\x7f' at position 9.")),
            ("http://[::1", "WorkflowNodeError", "Invalid IPv6 URL".into()),
            ("http://[::zz]/", "WorkflowNodeError", format!("{own}invalid IPv6 address")),
            ("http://h:abc/", "WorkflowNodeError", "Invalid port: 'abc'".into()),
            ("http://u:p@h:a:b", "WorkflowNodeError", "Invalid port: 'a:b'".into()),
            ("http://h:99999/", "HttpRequestNodeError", format!("{own}invalid port number")),
            ("http://", "HttpRequestNodeError", format!("{own}empty host")),
        ] {
            let failure = url(&head(text)).unwrap_err();
            assert_eq!((failure.error_type.as_str(), failure.message), (class, message), "{text:?}");
        }
        let long = format!("http://h/{}", "x".repeat(CHARS_MAX));
        assert_eq!(url(&head(&long)).unwrap_err().message, "URL too long");
    }

    #[test]
    fn what_is_not_ascii_may_be_called() {
        for text in ["http://h/a\u{2028}b", "http://h/\u{a0}b", "http://h/ü"] {
            assert!(url(&head(text)).is_ok(), "{text:?}");
        }
    }
}
