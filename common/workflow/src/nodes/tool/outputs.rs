//! Builds the node's outputs from a tool's messages: texts are joined, JSON values form a list, variables are set by
//! name, files stay in order. The worker stores the files' bytes.

use serde_json::{Value as Json, json};

use super::{ErrorType, Message};
use crate::nodes::Usage;
use crate::nodes::condition::compare::class_name;
use crate::nodes::llm::usage;
use tidemill_base::failure::NodeFailure;
use tidemill_base::ids::RunId;
use tidemill_base::value::mime::extension_of;
use tidemill_base::value::{FILE_IDENTITY, FILE_IDENTITY_KEY, JsonMap, Segment, SegmentType};

/// Outputs that all tools have; a variable cannot have one of these names.
pub const RESERVED: [&str; 3] = ["json", "text", "files"];

/// The type of an unknown file.
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// The extension of such a file (Dify's).
const UNKNOWN_EXTENSION: &str = "bin";

/// Most bytes reserved in advance for a file in pieces; the declared length is not trusted beyond this.
const ROOM_MAX: usize = 1024 * 1024;

/// A file of the answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Pending {
    /// A file object.
    Object(Json),
    /// Bytes to store.
    Keep {
        /// The content.
        bytes: Vec<u8>,
        mime_type: String,
        filename: Option<String>,
    },
    /// A stored file whose reference must still be checked.
    Kept {
        reference: String,
        mime_type: Option<String>,
        filename: Option<String>,
        /// True when it came as a blob message, whose failures have their own texts.
        is_blob: bool,
    },
}

/// The messages so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Collected {
    text: String,
    json: Vec<Json>,
    variables: Vec<(String, Json)>,
    /// Files in order.
    pub files: Vec<Pending>,
    pieces: Vec<InPieces>,
    /// The cost of the call, and the sub-workflow run that caused it.
    pub spent: Option<(Usage, Option<RunId>)>,
    /// The cost of calls within the call that are charged already.
    pub charged: Option<Usage>,
}

/// A file that arrives in pieces.
#[derive(Debug, Clone, PartialEq)]
struct InPieces {
    id: String,
    bytes: Vec<u8>,
    total: usize,
    mime_type: Option<String>,
    filename: Option<String>,
}

impl Collected {
    /// Takes the next message. Returns the output's name and the text to stream, if any.
    ///
    /// # Errors
    /// An invalid message, which fails the node.
    pub fn take(&mut self, message: Message) -> Result<Option<(String, String)>, NodeFailure> {
        match message {
            Message::Text(text) => Ok(self.say(text)),
            Message::Link { text, file: None } => Ok(self.say(format!("Link: {text}\n"))),
            Message::Link { text, file: Some(file) } => {
                self.files.push(Pending::Object(file));
                Ok(self.say(format!("File: {text}\n")))
            }
            Message::Image { url, tool_file_id, mime_type } => {
                self.files.push(image(url, tool_file_id, mime_type)?);
                Ok(None)
            }
            Message::Blob { bytes, tool_file_id, mime_type, filename } => {
                self.files.push(match tool_file_id {
                    Some(reference) => Pending::Kept { reference, mime_type, filename, is_blob: true },
                    None => keep(bytes, mime_type, filename),
                });
                Ok(None)
            }
            chunk @ Message::BlobChunk { .. } => self.take_piece(chunk).map(|()| None),
            Message::Json(value) => {
                if !Segment::infer(value.clone()).is_falsy() {
                    self.json.push(value);
                }
                Ok(None)
            }
            Message::Variable { name, value, stream } => self.take_variable(name, value, stream),
            Message::File(meta) => {
                self.files.push(Pending::Object(file_of(meta)?));
                Ok(None)
            }
            Message::Spent { run, usage } => {
                self.spent = Some((*usage, run));
                Ok(None)
            }
            Message::Charged(usage) => {
                self.charged = Some(match self.charged.take() {
                    Some(before) => usage::sum(&before, &usage),
                    None => *usage,
                });
                Ok(None)
            }
            Message::Ignored => Ok(None),
        }
    }

    fn say(&mut self, text: String) -> Option<(String, String)> {
        self.text.push_str(&text);
        Some(("text".into(), text))
    }

    fn take_variable(
        &mut self,
        name: String,
        value: Json,
        stream: bool,
    ) -> Result<Option<(String, String)>, NodeFailure> {
        if RESERVED.contains(&name.as_str()) {
            let message = format!("The variable name '{name}' is reserved.");
            return Err(ErrorType::Invocation.failure(message));
        }
        let old = self.variables.iter_mut().find(|(known, _)| *known == name);
        if !stream {
            match old {
                Some((_, old)) => *old = value,
                None => self.variables.push((name, value)),
            }
            return Ok(None);
        }
        let Json::String(piece) = value else {
            return Err(ErrorType::Node.failure("When 'stream' is True, 'variable_value' must be a string."));
        };
        match old {
            Some((_, Json::String(text))) => text.push_str(&piece),
            // Python adds a text to a list letter by letter, and to nothing else.
            Some((_, Json::Array(items))) => items.extend(piece.chars().map(|c| Json::String(c.into()))),
            Some((_, other)) => {
                let class = class_name(other);
                let message = format!("unsupported operand type(s) for +=: '{class}' and 'str'");
                return Err(NodeFailure::escaped(message));
            }
            None => self.variables.push((name.clone(), Json::String(piece.clone()))),
        }
        Ok(Some((name, piece)))
    }

    fn take_piece(&mut self, message: Message) -> Result<(), NodeFailure> {
        let Message::BlobChunk { id, bytes, total_length, end, mime_type, filename } = message else {
            return Ok(());
        };
        let wrong = |reason: String| Err(ErrorType::File.failure(reason));
        if id.is_empty() {
            return wrong("tool blob chunk message is missing id".into());
        }
        let Ok(total) = usize::try_from(total_length) else {
            return wrong("tool blob chunk total_length must be non-negative".into());
        };
        let at = match self.pieces.iter().position(|one| one.id == id) {
            Some(at) => at,
            None => {
                let room = Vec::with_capacity(total.min(ROOM_MAX));
                self.pieces.push(InPieces {
                    id: id.clone(),
                    bytes: room,
                    total,
                    mime_type: None,
                    filename: None,
                });
                self.pieces.len() - 1
            }
        };
        let one = &mut self.pieces[at];
        if one.total != total {
            return wrong(format!("tool blob chunk {id} changed total_length"));
        }
        if one.bytes.len().saturating_add(bytes.len()) > total {
            return wrong(format!("tool blob chunk {id} exceeds declared total_length"));
        }
        one.bytes.extend_from_slice(&bytes);
        one.mime_type = mime_type.or(one.mime_type.take());
        one.filename = filename.or(one.filename.take());
        if end {
            let InPieces { bytes, mime_type, filename, .. } = self.pieces.remove(at);
            self.files.push(keep(bytes, mime_type, filename));
        }
        Ok(())
    }

    /// Ends the messages.
    ///
    /// # Errors
    /// A file with missing pieces.
    pub fn end(&self) -> Result<(), NodeFailure> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let ids: Vec<&str> = self.pieces.iter().map(|one| one.id.as_str()).collect();
        let message = format!("tool blob chunk stream ended before completion: {}", ids.join(", "));
        Err(ErrorType::File.failure(message))
    }

    /// Adds a file object that is already stored.
    pub fn keep(&mut self, file: Json) {
        self.files.push(Pending::Object(file));
    }

    /// The names of all variables. Dify ends the stream of each, including those that were not streamed.
    pub fn variable_names(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|(name, _)| name.as_str())
    }

    /// The outputs, with the files as objects.
    pub fn outputs(self, files: Vec<Json>) -> Vec<(String, Segment)> {
        let json = if self.json.is_empty() { vec![json!({"data": []})] } else { self.json };
        let mut outputs = vec![
            ("text".to_owned(), Segment::string(self.text)),
            ("files".to_owned(), Segment::new(SegmentType::ArrayFile, Json::Array(files))),
            ("json".to_owned(), Segment::infer(Json::Array(json))),
        ];
        outputs.extend(self.variables.into_iter().map(|(name, value)| (name, Segment::restore_files(value))));
        outputs
    }
}

fn keep(bytes: Vec<u8>, mime_type: Option<String>, filename: Option<String>) -> Pending {
    Pending::Keep { bytes, mime_type: mime_type.unwrap_or_else(|| UNKNOWN_TYPE.into()), filename }
}

/// A file at a URL need not be stored; any other must have a reference.
fn image(url: String, reference: Option<String>, mime_type: Option<String>) -> Result<Pending, NodeFailure> {
    if let Some(reference) = reference {
        return Ok(Pending::Kept { reference, mime_type, filename: None, is_blob: false });
    }
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(ErrorType::File.failure("tool message is missing tool_file_id metadata"));
    }
    let mime_type = mime_type.unwrap_or_else(|| {
        let path = url.split(['?', '#']).next().unwrap_or_default();
        tidemill_base::value::mime::of_name(path).unwrap_or(UNKNOWN_TYPE).to_owned()
    });
    let filename = url.split(['?', '#']).next().and_then(|path| path.rsplit('/').next()).map(str::to_owned);
    let mut file = file_object(&mime_type, filename.as_deref().filter(|name| !name.is_empty()), None, "");
    file["transfer_method"] = json!("remote_url");
    file["reference"] = Json::Null;
    file["remote_url"] = json!(url);
    Ok(Pending::Object(file))
}

fn file_of(meta: Option<Json>) -> Result<Json, NodeFailure> {
    let Some(meta) = meta else {
        return Err(ErrorType::Node.failure("Tool message file is missing metadata."));
    };
    let Some(file) = meta.get("file") else {
        return Err(ErrorType::Node.failure("File message is missing 'file' key in meta"));
    };
    if file.get(FILE_IDENTITY_KEY).and_then(Json::as_str) != Some(FILE_IDENTITY) {
        let message = format!("Expected File object but got {}", python_type(file));
        return Err(ErrorType::Node.failure(message));
    }
    Ok(file.clone())
}

const fn python_type(value: &Json) -> &'static str {
    match value {
        Json::Null => "<class 'NoneType'>",
        Json::Bool(_) => "<class 'bool'>",
        Json::Number(_) => "<class 'int'>",
        Json::String(_) => "<class 'str'>",
        Json::Array(_) => "<class 'list'>",
        Json::Object(_) => "<class 'dict'>",
    }
}

/// The file object of a file stored by this system.
pub fn file_object(mime_type: &str, filename: Option<&str>, size: Option<usize>, reference: &str) -> Json {
    let main = mime_type.split('/').next().unwrap_or_default();
    let kind = if matches!(main, "image" | "audio" | "video") { main } else { "document" };
    // A file without an extension gets that of its type, since models identify files by it.
    let named =
        filename.and_then(|name| name.rsplit_once('.')).map(|(_, end)| end).filter(|end| !end.is_empty());
    let plain = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let by_type = || extension_of(&plain).filter(|_| plain != UNKNOWN_TYPE);
    let extension = named.or_else(by_type).unwrap_or(UNKNOWN_EXTENSION);
    let extension = format!(".{extension}");
    let mut file = JsonMap::new();
    for (key, value) in [
        (FILE_IDENTITY_KEY, json!(FILE_IDENTITY)),
        ("id", Json::Null),
        ("type", json!(kind)),
        ("transfer_method", json!("tool_file")),
        ("remote_url", Json::Null),
        ("reference", json!(reference)),
        ("related_id", Json::Null),
        ("filename", json!(filename)),
        ("extension", json!(extension)),
        ("mime_type", json!(mime_type)),
        ("size", size.map_or(json!(-1), |size| json!(size))),
        ("url", Json::Null),
    ] {
        file.insert(key.into(), value);
    }
    Json::Object(file)
}
