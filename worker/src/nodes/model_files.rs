//! Stores the files a model makes, and inserts links to them where they appear in its text (Dify). A stored file has no
//! URL here, so a link is its reference.

use serde_json::{Value as Json, json};
use tidemill_common::failure::NodeFailure;
use tidemill_common::files::Files;
use tidemill_common::ids::RunId;
use tidemill_common::nodes::llm::message::MediaKind;
use tidemill_common::nodes::tool::outputs::file_object;
use tidemill_common::value::mime;

use super::http_request::send;
use crate::outside::http::Http;
use crate::outside::http::read::{Largest, kind_of, read};
use crate::outside::providers::ModelReply;
use crate::outside::providers::media::Source;
use crate::outside::providers::model_file::ModelFile;

/// The default media type of a file, and its extension.
const UNKNOWN: (&str, &str) = ("application/octet-stream", "bin");

/// Access for storing and fetching files.
#[derive(Clone, Copy)]
pub struct FileStore<'a> {
    /// The run that owns the files.
    pub run: &'a RunId,
    /// The guarded client.
    pub http: &'a Http,
    pub files: &'a dyn Files,
}

/// A reply's text with links to its files.
#[derive(Debug)]
pub(crate) struct LinkedText {
    pub(crate) text: String,
    /// File objects, in order.
    pub(crate) files: Vec<Json>,
    /// Bytes of the text that were already streamed.
    streamed_bytes: usize,
}

impl LinkedText {
    /// The text that was not streamed yet: everything from the first file on.
    pub(crate) fn rest(&self) -> &str {
        &self.text[self.streamed_bytes..]
    }
}

/// Stores the files of a reply.
///
/// # Errors
/// A file that cannot be fetched or stored.
pub(crate) async fn store_files(
    reply: &mut ModelReply,
    file_store: FileStore<'_>,
) -> Result<LinkedText, NodeFailure> {
    let said = std::mem::take(&mut reply.text);
    let media = std::mem::take(&mut reply.media);
    let Some(first) = media.first() else {
        return Ok(LinkedText { streamed_bytes: said.len(), text: said, files: Vec::new() });
    };
    let streamed_bytes = first.at;
    let (mut text, mut files, mut from) = (said[..streamed_bytes].to_owned(), Vec::new(), streamed_bytes);
    for (number, file) in (1..).zip(media) {
        let at = file.at;
        let (link, object) = keep(file, number, file_store).await?;
        text.push_str(&said[from..at]);
        text.push_str(&link);
        files.push(object);
        from = at;
    }
    text.push_str(&said[from..]);
    Ok(LinkedText { text, files, streamed_bytes })
}

async fn keep(
    file: ModelFile,
    number: usize,
    file_store: FileStore<'_>,
) -> Result<(String, Json), NodeFailure> {
    let ModelFile { kind, mime_type, format, source, .. } = file;
    let (bytes, mime_type) = match source {
        Source::Bytes(bytes) => (bytes, mime_type),
        Source::Url(url) => fetched(&url, file_store.http).await?,
    };
    let max = file_store.http.bounds.file_bytes_max;
    if bytes.len() as u64 > max {
        return Err(failed(format!(
            "it has {} bytes, and {max} are allowed (http.file_bytes_max)",
            bytes.len()
        )));
    }
    let mime_type = if mime_type.is_empty() { UNKNOWN.0 } else { &mime_type };
    let extension = match format.as_str() {
        "" if mime_type == UNKNOWN.0 => UNKNOWN.1,
        "" => mime::extension_of(mime_type).unwrap_or(UNKNOWN.1),
        format => format,
    };
    let name = format!("{}-{number}.{extension}", kind.name());
    let size = bytes.len();
    let reference =
        file_store.files.keep(file_store.run, bytes).await.map_err(|error| failed(error.to_string()))?;
    let mut object = file_object(mime_type, Some(&name), Some(size), &reference);
    object["type"] = json!(kind.name());
    let link = match kind {
        MediaKind::Image => format!("![]({reference})"),
        MediaKind::Audio | MediaKind::Document | MediaKind::Video => format!("[{name}]({reference})"),
    };
    Ok((link, object))
}

async fn fetched(url: &str, http: &Http) -> Result<(bytes::Bytes, String), NodeFailure> {
    let mut answer = send::get(url, http).await.map_err(|failure| failed(failure.message))?;
    let status = answer.response.status();
    if !status.is_success() {
        return Err(failed(format!("its server answered with status {}", status.as_u16())));
    }
    let content_type = kind_of(answer.response.headers()).content_type;
    let mime_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let max = http.bounds.file_bytes_max;
    let read = read(&mut answer, Largest { text: max, file: max }).await;
    let (_, bytes) = read.map_err(|error| failed(error.to_string()))?;
    Ok((bytes.into(), mime_type))
}

fn failed(reason: String) -> NodeFailure {
    NodeFailure::new("ValueError", format!("a file that the model made cannot be kept: {reason}"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tidemill_common::config::HttpConfig;
    use tidemill_common::files::Folder;
    use tidemill_common::ids::ShardId;

    use super::*;

    fn file(at: usize, kind: MediaKind, mime_type: &str, format: &str) -> ModelFile {
        let source = Source::Bytes(Bytes::from_static(b"bytes"));
        ModelFile { at, kind, mime_type: mime_type.into(), format: format.into(), source }
    }

    async fn linked(text: &str, media: Vec<ModelFile>) -> Result<LinkedText, NodeFailure> {
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::at(&format!("file://{}", folder.path().display())).unwrap();
        let http = Http::new(&HttpConfig::default()).unwrap();
        let run = RunId::generate(ShardId(0));
        let mut reply = ModelReply { text: text.into(), media, ..ModelReply::default() };
        store_files(&mut reply, FileStore { run: &run, http: &http, files: &files }).await
    }

    #[tokio::test]
    async fn files_stand_in_the_text_where_they_came() {
        let media = vec![
            file(3, MediaKind::Image, "image/png", ""),
            file(3, MediaKind::Audio, "audio/mpeg", "mp3"),
            file(6, MediaKind::Document, "", ""),
        ];
        let linked = linked("abcdefg", media).await.unwrap();
        let of = |at: usize, key: &str| linked.files[at][key].as_str().unwrap_or_default().to_owned();
        let expected = format!(
            "abc![]({})[audio-2.mp3]({})def[document-3.bin]({})g",
            of(0, "reference"),
            of(1, "reference"),
            of(2, "reference")
        );
        assert_eq!((linked.text.as_str(), linked.rest()), (expected.as_str(), &expected[3..]));
        let shown: Vec<_> =
            (0..3).map(|at| (of(at, "type"), of(at, "filename"), of(at, "mime_type"))).collect();
        let row = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
        assert_eq!(
            shown,
            [
                row("image", "image-1.png", "image/png"),
                row("audio", "audio-2.mp3", "audio/mpeg"),
                row("document", "document-3.bin", "application/octet-stream"),
            ]
        );
    }

    #[tokio::test]
    async fn a_text_without_files_stays_as_it_is() {
        let linked = linked("abc", Vec::new()).await.unwrap();
        assert_eq!((linked.text.as_str(), linked.rest(), linked.files.len()), ("abc", "", 0));
    }

    #[tokio::test]
    async fn a_file_that_lies_where_nobody_may_look_fails_the_node() {
        let source = Source::Url("http://127.0.0.1:1/a.png".into());
        let media = vec![ModelFile { source, ..file(0, MediaKind::Image, "", "") }];
        let failure = linked("", media).await.unwrap_err();
        assert_eq!(failure.error_type, "ValueError");
        assert!(failure.message.contains("blocked by SSRF protection"), "{}", failure.message);
    }
}
