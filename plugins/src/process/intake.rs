//! Files that a plugin uploads: the SDK sends each one as a form to an address that its host names.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use serde_json::Value as Json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::gate::refuse;
use crate::settings::ProcessLimits;

/// The start of the names of places for uploads.
pub(super) const UPLOADS: &str = "upload/";
/// The end of the head of a request.
const HEAD_END: &[u8] = b"\r\n\r\n";
/// Longest time until an upload has arrived.
const UPLOAD_WAITS_MAX: Duration = Duration::from_secs(120);
/// Most bytes of the form around a file.
const FORM_BYTES_MAX: u64 = 64 * 1024;
/// The bytes of one permit.
const UNIT: u64 = 1024;
/// The size of the buffer, in bytes, for an upload that the host discards.
const DRAINED_AT_ONCE: usize = 16 * 1024;

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

    /// Most bytes of a file that it would take now, and the name of the limit.
    fn most(&self) -> (u64, &'static str) {
        (u64::MAX, "upload_bytes_max")
    }
}

/// The uploads of one process: how large one may be, and how many bytes of them are held in memory at once.
#[derive(Clone)]
pub(super) struct Uploads {
    each_max: u64,
    network_max: u64,
    all_max: u64,
    room: Arc<Semaphore>,
}

impl Uploads {
    pub(super) fn new(limits: &ProcessLimits) -> Self {
        let each_max = limits.upload_bytes_max as u64;
        // The largest one fits alone.
        let all_max = limits.uploads_bytes_max.max(each_max.saturating_add(FORM_BYTES_MAX));
        let units = usize::try_from(all_max.div_ceil(UNIT)).unwrap_or(usize::MAX);
        let units = units.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        let room = Arc::new(Semaphore::new(units));
        Self { each_max, network_max: limits.network_bytes_max, all_max, room }
    }

    /// Most bytes of a file, with what its intake takes, and the name of the limit.
    fn most(&self, intake: Option<&dyn Intake>) -> (u64, &'static str) {
        let own = [(self.each_max, "upload_bytes_max"), (self.network_max, "network_bytes_max")];
        let all = own.into_iter().chain(intake.map(Intake::most));
        all.min_by_key(|(most, _)| *most).unwrap_or((self.each_max, "upload_bytes_max"))
    }

    /// Waits for room in memory.
    async fn hold(&self, bytes: u64, until: Instant) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).ok()?;
        let acquired = self.room.clone().acquire_many_owned(units);
        tokio::time::timeout_at(until, acquired).await.ok()?.ok()
    }
}

/// Reads an upload, whose first bytes were read already, and answers it. Without an intake it is refused, but read, and not kept: a
/// client may lose the answer to a request that was not read.
pub(super) async fn receive(
    stream: &mut TcpStream,
    mut read: Vec<u8>,
    intake: Option<&dyn Intake>,
    uploads: &Uploads,
) -> io::Result<()> {
    let head_end = read.windows(HEAD_END.len()).position(|window| window == HEAD_END);
    let Some(body_at) = head_end.map(|at| at + HEAD_END.len()) else {
        return refuse(stream, "400 Bad Request").await;
    };
    let head = String::from_utf8_lossy(&read[..body_at]).into_owned();
    let Some(length) = header(&head, "content-length").and_then(|text| text.parse::<u64>().ok()) else {
        return refuse(stream, "411 Length Required").await;
    };
    let most = uploads.most(intake);
    // The form around the file is small.
    if length > most.0.saturating_add(FORM_BYTES_MAX) {
        return answer(stream, "413 Content Too Large", &too_large(most)).await;
    }
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let until = Instant::now() + UPLOAD_WAITS_MAX;
    let left = length.saturating_sub((read.len() - body_at) as u64);
    let Some(intake) = intake else {
        tokio::time::timeout_at(until, drain(stream, left)).await.map_err(late)??;
        return refuse(stream, "404 Not Found").await;
    };
    let Some(_held) = uploads.hold(length, until).await else {
        let reason = format!("{} bytes of uploads are on their way (uploads_bytes_max)", uploads.all_max);
        return answer(stream, "503 Service Unavailable", &reason).await;
    };
    let mut body = read.split_off(body_at);
    let mut rest = (&mut *stream).take(left);
    tokio::time::timeout_at(until, rest.read_to_end(&mut body)).await.map_err(late)??;
    let size = usize::try_from(length).unwrap_or(usize::MAX);
    if body.len() < size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    body.truncate(size);
    let form = file(header(&head, "content-type").unwrap_or_default(), body.into()).await;
    let taken = match form {
        Ok(upload) if upload.bytes.len() as u64 > most.0 => Err(too_large(most)),
        Ok(upload) => intake.take(upload).await,
        Err(reason) => Err(reason),
    };
    match taken {
        Ok(known) => answer(stream, "201 Created", &known.to_string()).await,
        Err(reason) => answer(stream, "400 Bad Request", &reason).await,
    }
}

fn too_large((most, limit): (u64, &str)) -> String {
    format!("the file has more than {most} bytes ({limit})")
}

/// Reads so many bytes and keeps none.
async fn drain(stream: &mut TcpStream, mut left: u64) -> io::Result<()> {
    let mut piece = vec![0; DRAINED_AT_ONCE];
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(DRAINED_AT_ONCE);
        match stream.read(&mut piece[..wanted]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => left -= read as u64,
        }
    }
    Ok(())
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

    /// Takes files of two bytes at most.
    struct Small;

    #[async_trait::async_trait]
    impl Intake for Small {
        async fn take(&self, _: Upload) -> Result<Json, String> {
            Ok(Json::Null)
        }
        fn most(&self) -> (u64, &'static str) {
            (2, "http.file_bytes_max")
        }
    }

    fn uploads(each_max: usize) -> Uploads {
        Uploads::new(&ProcessLimits { upload_bytes_max: each_max, ..ProcessLimits::default() })
    }

    /// Sends a request in two pieces, and returns the answer.
    async fn ask(head: &str, body: &str, most: usize) -> String {
        told(head, body, Some(&Told), &uploads(most)).await
    }

    async fn told(head: &str, body: &str, intake: Option<&dyn Intake>, uploads: &Uploads) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        let (first, rest) = body.split_at(body.len().min(5));
        let read = format!("POST /x HTTP/1.1\r\n{head}Content-Length: {}\r\n\r\n{first}", body.len());
        client.write_all(rest.as_bytes()).await.unwrap();
        receive(&mut stream, read.into_bytes(), intake, uploads).await.unwrap();
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
        let refused = told(head, body, Some(&Small), &uploads(10)).await;
        assert!(refused.contains("2 bytes (http.file_bytes_max)"), "{refused}");
    }

    #[tokio::test]
    async fn uploads_of_a_process_wait_for_room_in_memory_and_those_that_nobody_takes_need_none() {
        let uploads = uploads(10);
        let all = uploads.hold(uploads.all_max, Instant::now()).await.unwrap();
        assert!(told("", "abcdefgh", None, &uploads).await.starts_with("HTTP/1.1 404"));
        assert!(uploads.hold(1, Instant::now()).await.is_none());
        drop(all);
        assert!(uploads.hold(1, Instant::now()).await.is_some());
    }
}
