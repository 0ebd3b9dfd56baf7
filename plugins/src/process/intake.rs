//! Files that a plugin uploads: the SDK sends each one as a form to an address that its host names.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::gate::refuse;

/// The start of the names of places for uploads.
pub(super) const UPLOADS: &str = "upload/";
/// The end of the head of a request.
const HEAD_END: &[u8] = b"\r\n\r\n";
/// Longest time until an upload has arrived.
const UPLOAD_WAITS_MAX: Duration = Duration::from_secs(120);

/// A file from a plugin.
pub struct Upload {
    pub filename: String,
    pub mime_type: String,
    pub bytes: Bytes,
}

/// Takes the files that a plugin uploads.
#[async_trait::async_trait]
pub trait Intake: Send + Sync {
    /// Stores a file. Returns what the SDK reads: `id`, `name`, `size`, `extension`, `mime_type`.
    ///
    /// # Errors
    /// The reason, which the plugin sees.
    async fn take(&self, upload: Upload) -> Result<Json, String>;
}

/// Reads an upload, whose first bytes were read already, and answers it. Without an intake it is refused, but read: a client may
/// lose the answer to a request that was not read.
pub(super) async fn receive(
    stream: &mut TcpStream,
    mut read: Vec<u8>,
    intake: Option<&dyn Intake>,
    most: usize,
) -> io::Result<()> {
    let head_end = read.windows(HEAD_END.len()).position(|window| window == HEAD_END);
    let Some(body_at) = head_end.map(|at| at + HEAD_END.len()) else {
        return refuse(stream, "400 Bad Request").await;
    };
    let head = String::from_utf8_lossy(&read[..body_at]).into_owned();
    let Some(length) = header(&head, "content-length").and_then(|text| text.parse::<usize>().ok()) else {
        return refuse(stream, "411 Length Required").await;
    };
    // The form around the file is small.
    if length > most.saturating_add(64 * 1024) {
        return answer(stream, "413 Content Too Large", &too_large(most)).await;
    }
    let mut body = read.split_off(body_at);
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let left = length.saturating_sub(body.len()) as u64;
    let mut rest = (&mut *stream).take(left);
    tokio::time::timeout(UPLOAD_WAITS_MAX, rest.read_to_end(&mut body)).await.map_err(late)??;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    body.truncate(length);
    let Some(intake) = intake else { return refuse(stream, "404 Not Found").await };
    let form = file(header(&head, "content-type").unwrap_or_default(), body.into()).await;
    let taken = match form {
        Ok(upload) if upload.bytes.len() > most => Err(too_large(most)),
        Ok(upload) => intake.take(upload).await,
        Err(reason) => Err(reason),
    };
    match taken {
        Ok(known) => answer(stream, "201 Created", &known.to_string()).await,
        Err(reason) => answer(stream, "400 Bad Request", &reason).await,
    }
}

fn too_large(most: usize) -> String {
    format!("the file has more than {most} bytes (upload_bytes_max)")
}

fn header<'h>(head: &'h str, wanted: &str) -> Option<&'h str> {
    let mut lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
    Some(value.trim())
}

/// The first file of a form.
async fn file(content_type: &str, body: Bytes) -> Result<Upload, String> {
    let wrong = |error: multer::Error| format!("the upload cannot be read: {error}");
    let boundary = multer::parse_boundary(content_type).map_err(wrong)?;
    let body = stream::once(std::future::ready(Ok::<_, io::Error>(body)));
    let mut form = multer::Multipart::new(body, boundary);
    while let Some(field) = form.next_field().await.map_err(wrong)? {
        let Some(filename) = field.file_name().map(str::to_owned) else { continue };
        let mime_type = field.content_type().map(ToString::to_string);
        let mime_type = mime_type.unwrap_or_else(|| "application/octet-stream".into());
        return Ok(Upload { filename, mime_type, bytes: field.bytes().await.map_err(wrong)? });
    }
    Err("the upload has no file".into())
}

async fn answer(stream: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::net::TcpListener;

    use super::*;

    struct Told;

    #[async_trait::async_trait]
    impl Intake for Told {
        async fn take(&self, upload: Upload) -> Result<Json, String> {
            Ok(json!({"name": upload.filename, "size": upload.bytes.len(), "mime_type": upload.mime_type}))
        }
    }

    /// Sends a request in two pieces, and returns the answer.
    async fn ask(head: &str, body: &str, most: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let (first, rest) = body.split_at(body.len().min(5));
        let read = format!("POST /x HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{first}", body.len());
        client.write_all(rest.as_bytes()).await.unwrap();
        receive(&mut stream, read.into_bytes(), Some(&Told), most).await.unwrap();
        drop(stream);
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_form_with_a_file_is_taken_within_its_limit() {
        let head = "Content-Type: multipart/form-data; boundary=xyz\r\n";
        let body = "--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\nabcdef\r\n--xyz--\r\n";
        let answer = ask(head, body, 10).await;
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        assert!(answer.ends_with(r#"{"name":"a.txt","size":6,"mime_type":"text/plain"}"#), "{answer}");
        assert!(ask(head, body, 5).await.contains("upload_bytes_max"));
        assert!(ask(head, "--xyz--\r\n", 5).await.contains("has no file"));
        assert!(ask("", body, 5).await.starts_with("HTTP/1.1 400"));
    }
}
