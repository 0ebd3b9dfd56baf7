//! Messages of a list.

use serde_json::{Value as Json, json};

use tidemill_base::value::JsonMap;

/// The role of a message's author.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Instructions.
    System,
    User,
    Assistant,
    /// The result of a tool. Allowed in a file, but cannot be sent (as on Dify).
    Tool,
}

impl Role {
    /// The name in files and on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }

    /// Finds a role by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::System, Self::User, Self::Assistant, Self::Tool].into_iter().find(|role| role.name() == name)
    }
}

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub role: Role,
    /// A text, or any other value. Prompts show other values as JSON, except `{text, files}`.
    pub content: Json,
    /// The tool calls that an assistant asks for: `[{id, type: function, function: {name, arguments}}]`.
    pub tool_calls: Option<Json>,
    /// The id of the tool call that the message answers; only for role tool.
    pub tool_call_id: Option<String>,
}

/// A stored message.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredMessage {
    pub message: Message,
    /// The node that added it, `<frame>/<node>`; empty for a message that the run began with.
    pub by: Box<str>,
}

impl Message {
    /// Creates a text message.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: Json::String(text.into()), tool_calls: None, tool_call_id: None }
    }

    /// Returns the content as one text.
    pub fn words(&self) -> String {
        match &self.content {
            Json::String(text) => text.clone(),
            Json::Object(map) if map.get("text").is_some_and(Json::is_string) => {
                map.get("text").and_then(Json::as_str).unwrap_or_default().to_owned()
            }
            other => other.to_string(),
        }
    }

    /// Returns the files of the message.
    pub fn files(&self) -> &[Json] {
        let files = self.content.as_object().and_then(|map| map.get("files"));
        files.and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the ids of the tool calls that the message asks for.
    pub fn call_ids(&self) -> impl Iterator<Item = &str> {
        let calls = self.tool_calls.as_ref().and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        calls.iter().filter_map(|call| call.get("id").and_then(Json::as_str))
    }

    /// Returns its fields as an object; absent fields are left out.
    pub fn to_map(&self) -> JsonMap {
        let mut map = JsonMap::new();
        map.insert("role".into(), self.role.name().into());
        map.insert("content".into(), self.content.clone());
        if let Some(calls) = &self.tool_calls {
            map.insert("tool_calls".into(), calls.clone());
        }
        if let Some(id) = &self.tool_call_id {
            map.insert("tool_call_id".into(), id.as_str().into());
        }
        map
    }

    /// Parses a message; `toolCalls` and `toolCallId` are alternative spellings. `None` without a known role
    /// or without content.
    pub fn from_json(value: &Json) -> Option<Self> {
        let map = value.as_object()?;
        let present = |key: &str| map.get(key).filter(|value| !value.is_null());
        let call = present("tool_call_id").or_else(|| present("toolCallId"));
        Some(Self {
            role: Role::from_name(map.get("role")?.as_str()?)?,
            content: map.get("content")?.clone(),
            tool_calls: present("tool_calls").or_else(|| present("toolCalls")).cloned(),
            tool_call_id: call.and_then(Json::as_str).map(str::to_owned),
        })
    }

    /// Estimates the number of tokens: of a line `role: text`, four characters per token.
    pub fn tokens(&self) -> u64 {
        const TOKEN_CHARS: usize = 4;
        let calls = self.tool_calls.as_ref().map_or(0, |calls| calls.to_string().chars().count());
        let chars = self.role.name().len() + 2 + self.words().chars().count() + calls;
        chars.div_ceil(TOKEN_CHARS) as u64
    }

    /// Estimates its size in bytes.
    pub fn size(&self) -> usize {
        let calls = self.tool_calls.as_ref().map_or(0, tidemill_base::value::json_size);
        tidemill_base::value::json_size(&self.content)
            + calls
            + self.tool_call_id.as_ref().map_or(0, String::len)
            + 48
    }
}

impl StoredMessage {
    /// Returns the message in the form that nodes read.
    pub fn to_json(&self, idx: u32) -> Json {
        let mut map = JsonMap::from_iter([("idx".to_string(), json!(idx))]);
        map.extend(self.message.to_map());
        Json::Object(map)
    }
}
