//! Tools that a plugin calls: those of other plugins, of this program, of OpenAPI documents and MCP servers, and of the service
//! at `tools.endpoint`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value as Json, json};
use tidemill_common::nodes::tool::outputs::{Collected, Pending};
use tidemill_common::nodes::tool::{KnownParameters, Message, ProviderKind};
use tidemill_plugins::process::Parts;
use tokio::sync::mpsc;

use super::super::{GivenTool, is_question};
use super::{Answering, text};
use crate::attempt::journal::ChargeSource;
use crate::outside::tools::{ToolCall, ToolName};

impl Answering<'_> {
    /// Calls a tool and sends its messages as they come.
    pub(super) async fn tool(&self, mut request: Json, parts: &Parts) -> Result<(), String> {
        let most = self.host.nesting_max;
        if self.asker.nested >= most {
            return Err(format!(
                "a plugin's calls of tools may be nested {most} deep at most (plugins.nesting_max)"
            ));
        }
        let arguments = request.get_mut("tool_parameters").map(Json::take).unwrap_or_default();
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        let kind = text(&request, "tool_type")?;
        let kind = ProviderKind::from_name(kind).ok_or_else(|| format!("{kind:?} is no type of tool"))?;
        if kind == ProviderKind::Workflow {
            return Err("a plugin cannot call a workflow here; call it with a node of the workflow".into());
        }
        let (provider, tool) = (text(&request, "provider")?, text(&request, "tool")?);
        if is_question(tool) {
            return Err(format!("{tool} is no tool that a plugin can call"));
        }
        let given = given(self.asker.given, kind, provider, tool);
        check_approval(self.asker.auto_approved, given.is_some(), provider, tool)?;
        let plugin = given.and_then(|given| given.plugin.as_deref());
        let name = ToolName { kind, provider_id: provider, provider_name: provider, tool, plugin };
        let found = self.worker()?.outside.tools.find(name).await.map_err(|error| error.message)?;
        let arguments = found.cast(arguments)?;
        let call = Self::call_name();
        let called = ToolCall {
            arguments: &arguments,
            run: self.asker.run,
            http: self.asker.http,
            files: self.asker.files,
            idempotency_key: &call,
            sends_key: false,
            step: self.asker.journal.map(|journal| (journal, call.as_str(), 1)),
            known: found.known().unwrap_or(KnownParameters::NOTHING),
            nested: self.asker.nested + 1,
            auto_approved: self.asker.auto_approved,
        };
        let (to, mut said) = mpsc::unbounded_channel();
        let mut sink = |message: Message| {
            // The receiver lives longer.
            let _ = to.send(message);
        };
        // Files that come in pieces are sent whole: the SDK puts none together that a plugin reads.
        let mut pieces = Collected::default();
        let invoked = found.invoke(called, &mut sink);
        tokio::pin!(invoked);
        let outcome = loop {
            tokio::select! {
                biased;
                Some(message) = said.recv() => self.say(&call, message, &mut pieces, parts).await?,
                outcome = &mut invoked => break outcome,
            }
        };
        while let Ok(message) = said.try_recv() {
            self.say(&call, message, &mut pieces, parts).await?;
        }
        outcome.map_err(|error| error.message)?;
        pieces.end().map_err(|failure| failure.message)
    }

    async fn say(
        &self,
        call: &str,
        message: Message,
        pieces: &mut Collected,
        parts: &Parts,
    ) -> Result<(), String> {
        match message {
            chunk @ Message::BlobChunk { .. } => {
                if let Some(part) = whole(pieces, chunk)? {
                    parts.send(part).await?;
                }
            }
            Message::Spent { run, usage } => self.charge(call, &usage, ChargeSource::of_tool(run)),
            // It is charged already, and counts for this invocation, too.
            Message::Charged(usage) => self.add(&usage),
            Message::Blob { tool_file_id: Some(reference), mime_type, filename, .. } => {
                let most = self.asker.http.bounds.file_bytes_max;
                let bytes = self.asker.files.read(&reference, most).await;
                let bytes = bytes.map_err(|error| format!("a file of the tool cannot be read: {error}"))?;
                parts.send(blob(&bytes, mime_type, filename)).await?;
            }
            other => {
                if let Some(part) = part(other) {
                    parts.send(part).await?;
                }
            }
        }
        Ok(())
    }
}

/// The tool of an agent's strategy that a question names.
fn given<'g>(all: &'g [GivenTool], kind: ProviderKind, provider: &str, tool: &str) -> Option<&'g GivenTool> {
    // The SDK has no word for tools of plugins alone.
    let word = |kind: ProviderKind| if kind == ProviderKind::Plugin { ProviderKind::Builtin } else { kind };
    all.iter().find(|one| word(one.kind) == word(kind) && one.provider == provider && one.tool == tool)
}

/// Refuses a tool that needs approval in this run, because a plugin cannot ask a person. As in our own agents, the name alone
/// is enough for a tool that the author has given to the agent; any other must be approved with its provider.
fn check_approval(
    approved: Option<&[Arc<str>]>,
    is_given: bool,
    provider: &str,
    tool: &str,
) -> Result<(), String> {
    let id = format!("{provider}/{tool}");
    let is_free = |name: &Arc<str>| **name == *id || is_given && **name == *tool;
    if approved.is_none_or(|all| all.iter().any(is_free)) {
        return Ok(());
    }
    Err(format!(
        "calls of tools must be approved in this run, and a plugin cannot ask for approval: {id} is not among \
         tool_approval.auto_approved_tools"
    ))
}

/// The file that a piece completes.
fn whole(pieces: &mut Collected, chunk: Message) -> Result<Option<Json>, String> {
    pieces.take(chunk).map_err(|failure| failure.message)?;
    Ok(match pieces.files.pop() {
        Some(Pending::Keep { bytes, mime_type, filename }) => Some(blob(&bytes, Some(mime_type), filename)),
        Some(Pending::Object(_) | Pending::Kept { .. }) | None => None,
    })
}

fn blob(bytes: &[u8], mime_type: Option<String>, filename: Option<String>) -> Json {
    let meta = json!({"mime_type": mime_type, "filename": filename});
    json!({"type": "blob", "message": {"blob": STANDARD.encode(bytes)}, "meta": meta})
}

/// A message as the SDK reads it. `None`: it says nothing.
fn part(message: Message) -> Option<Json> {
    let one =
        |kind: &str, message: Json, meta: Json| Some(json!({"type": kind, "message": message, "meta": meta}));
    match message {
        Message::Text(text) => one("text", json!({"text": text}), Json::Null),
        Message::Json(value) => one("json", json!({"json_object": value}), Json::Null),
        Message::Link { text, file } => {
            one("link", json!({"text": text}), file.map_or(Json::Null, |file| json!({"file": file})))
        }
        Message::Image { url, tool_file_id, mime_type } => {
            let meta = json!({"tool_file_id": tool_file_id, "mime_type": mime_type});
            one("image_link", json!({"text": url}), meta)
        }
        Message::Blob { bytes, mime_type, filename, .. } => Some(blob(&bytes, mime_type, filename)),
        Message::Variable { name, value, stream } => {
            let variable = json!({"variable_name": name, "variable_value": value, "stream": stream});
            one("variable", variable, Json::Null)
        }
        Message::File(meta) => one("file", Json::Null, meta.unwrap_or_default()),
        Message::BlobChunk { .. } | Message::Spent { .. } | Message::Charged(_) | Message::Ignored => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_calls_a_tool_in_the_version_that_its_strategy_was_given() {
        let one = |kind, plugin: Option<&str>| GivenTool {
            kind,
            provider: "a/p/web".into(),
            tool: "find".into(),
            plugin: plugin.map(str::to_owned),
        };
        let all = [one(ProviderKind::Api, None), one(ProviderKind::Builtin, Some("a/p:1.0.0"))];
        let plugin = |kind, tool| given(&all, kind, "a/p/web", tool).map(|found| found.plugin.as_deref());
        for kind in [ProviderKind::Builtin, ProviderKind::Plugin] {
            assert_eq!(plugin(kind, "find"), Some(Some("a/p:1.0.0")), "{kind:?}");
        }
        assert_eq!(
            (plugin(ProviderKind::Api, "find"), plugin(ProviderKind::Mcp, "find")),
            (Some(None), None)
        );
        assert_eq!(plugin(ProviderKind::Builtin, "drop"), None);
    }

    #[test]
    fn a_tool_that_needs_approval_is_refused() {
        let approved: [Arc<str>; 2] = ["find".into(), "web/read".into()];
        let check = |is_given, provider, tool| check_approval(Some(&approved), is_given, provider, tool);
        assert!(check_approval(None, false, "web", "drop").is_ok(), "no tool of the run needs approval");
        assert!(check(true, "web", "find").is_ok() && check(false, "web", "read").is_ok());
        for (is_given, provider, tool) in [
            (false, "other", "find"),
            (false, "other", "read"),
            (true, "web", "drop"),
            (false, "web", "drop"),
        ] {
            let refused = check(is_given, provider, tool).unwrap_err();
            assert!(refused.contains(&format!("{provider}/{tool}")), "{refused}");
            assert!(refused.contains("tool_approval.auto_approved_tools"), "{refused}");
        }
        assert!(check_approval(Some(&[]), true, "web", "find").is_err());
    }

    #[test]
    fn messages_of_a_tool_are_those_that_the_sdk_reads() {
        assert_eq!(
            part(Message::Text("a".into())),
            Some(json!({"type": "text", "message": {"text": "a"}, "meta": null}))
        );
        let file = Message::Blob {
            bytes: b"a".into(),
            tool_file_id: None,
            mime_type: Some("text/plain".into()),
            filename: None,
        };
        assert_eq!(
            part(file),
            Some(json!({
                "type": "blob", "message": {"blob": "YQ=="}, "meta": {"mime_type": "text/plain", "filename": null},
            }))
        );
        assert_eq!(part(Message::Ignored), None);
    }

    #[test]
    fn a_file_in_pieces_is_sent_whole() {
        let piece = |bytes: &[u8], end: bool| Message::BlobChunk {
            id: "a".into(),
            bytes: bytes.into(),
            total_length: 4,
            end,
            mime_type: Some("text/plain".into()),
            filename: None,
        };
        let mut pieces = Collected::default();
        assert_eq!(whole(&mut pieces, piece(b"ab", false)), Ok(None));
        let sent = whole(&mut pieces, piece(b"cd", true)).unwrap().unwrap();
        assert_eq!(sent["type"], "blob");
        assert_eq!(sent["message"]["blob"], STANDARD.encode("abcd"));
        assert!(pieces.end().is_ok() && whole(&mut pieces, piece(b"abcde", true)).is_err());
    }
}
