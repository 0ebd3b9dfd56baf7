//! Hosts that http-request nodes call. The URL may begin with an environment variable; a host that only a run knows is
//! no requirement.

use serde_json::Value as Json;

use super::{Found, NodeView, Requirement};
use crate::dsl::Document;
use crate::kinds::NodeKind;
use tidemill_base::value::SegmentType;
use tidemill_base::value::template::{Template, TemplatePiece};

pub(super) fn find(node: &NodeView<'_>, found: &mut Found) {
    if node.kind != NodeKind::HttpRequest {
        return;
    }
    if let Some(host) = host_of(&known_start(node.text("url"), node.document)) {
        found.add(Requirement::Host { host });
    }
}

/// The beginning of the URL, up to the first value that only a run knows.
fn known_start(url: &str, document: &Document) -> String {
    let mut start = String::new();
    for part in Template::parse(url.trim()).parts() {
        match part {
            TemplatePiece::Text(text) => start.push_str(text),
            TemplatePiece::PerhapsVariable(path) => start.push_str(&path.join(".")),
            TemplatePiece::Variable(selector) => match environment(selector, document) {
                Some(value) => start.push_str(value.trim()),
                None => {
                    // A value right after a complete host does not matter; within the host it does.
                    start.push('\0');
                    break;
                }
            },
        }
    }
    start
}

/// The value of an environment variable that is no secret.
fn environment<'a>(selector: &[String], document: &'a Document) -> Option<&'a str> {
    let [scope, name] = selector else { return None };
    let found = document.environment.iter().find(|variable| scope == "env" && *variable.name == **name)?;
    (found.value.ty != SegmentType::Secret).then_some(()).and_then(|()| Json::as_str(&found.value.value))
}

/// The host of an address, in lower case. `None` when it is not complete.
pub(super) fn host_of(url: &str) -> Option<String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next()?,
        None => host.split(':').next()?,
    };
    let is_host = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | ':');
    // A port that only a run knows leaves the host complete.
    (!host.is_empty() && host.chars().all(is_host)).then(|| host.to_lowercase())
}
