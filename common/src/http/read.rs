//! Reads the body of an answer. Its class (text or file) is detected on the way; from then on no byte over the limit of
//! the class is kept.

use std::io::Write;

use crate::nodes::http_request::response::{Class, Kind, SNIFFED_BYTES};
use flate2::write::{DeflateDecoder, GzDecoder, ZlibDecoder};
use reqwest::header::{CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName};

use crate::http::{Answer, CallError};

/// Bytes unpacked at a time: a thousandfold compression bomb yields a few MiB before it is detected.
const UNPACKED_AT_ONCE: usize = 4 * 1024;

/// Size limits of answers, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Largest {
    pub text: u64,
    pub file: u64,
}

impl Largest {
    const fn of(self, class: Class) -> u64 {
        match class {
            Class::File => self.file,
            Class::Text => self.text,
        }
    }
}

/// Reasons why an answer was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is too large. The size is known only if the answer announced it.
    #[error("the answer is larger than {max} bytes")]
    TooLarge {
        class: Class,
        /// The limit in bytes.
        max: u64,
        /// The announced size in bytes.
        size: Option<u64>,
    },
    /// The call broke off.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The content type and disposition from the headers.
pub fn kind_of(headers: &HeaderMap) -> Kind {
    Kind {
        content_type: text_of(headers, &CONTENT_TYPE).unwrap_or_default(),
        disposition: text_of(headers, &CONTENT_DISPOSITION),
    }
}

/// The header's value; several are joined, as Dify's client does it.
fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let all: Vec<String> = headers.get_all(name).iter().map(|value| header_text(value.as_bytes())).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// A header's value, decoded as UTF-8 or else as Latin-1.
pub fn header_text(value: &[u8]) -> String {
    match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => value.iter().copied().map(char::from).collect(),
    }
}

/// Reads the whole body.
///
/// # Errors
/// [`ReadError`]; the connection is then closed.
pub async fn read(answer: &mut Answer, largest: Largest) -> Result<(Class, Vec<u8>), ReadError> {
    let kind = kind_of(answer.response.headers());
    let encoding = text_of(answer.response.headers(), &CONTENT_ENCODING).unwrap_or_default();
    let mut intake = Intake::new(&encoding, kind, answer.response.content_length(), largest)?;
    while let Some(piece) = answer.piece().await? {
        intake.take(&piece)?;
    }
    intake.end()
}

/// The state of reading a body.
struct Intake {
    unpacking: Unpacking,
    kind: Kind,
    class: Option<Class>,
    /// The announced size, if the body is not compressed.
    declared: Option<u64>,
    largest: Largest,
}

impl Intake {
    fn new(encoding: &str, kind: Kind, declared: Option<u64>, largest: Largest) -> Result<Self, ReadError> {
        let unpacking = Unpacking::of(encoding);
        let declared = declared.filter(|_| matches!(unpacking, Unpacking::None(_)));
        let class = kind.class();
        let intake = Self { unpacking, kind, class, declared, largest };
        intake.check()?;
        Ok(intake)
    }

    fn take(&mut self, piece: &[u8]) -> Result<(), ReadError> {
        for part in piece.chunks(UNPACKED_AT_ONCE) {
            self.unpacking.write(part)?;
            let bytes = self.unpacking.bytes();
            if self.class.is_none() && bytes.len() >= SNIFFED_BYTES {
                self.class = Some(self.kind.class_of(bytes));
            }
            self.check()?;
        }
        Ok(())
    }

    fn check(&self) -> Result<(), ReadError> {
        let Some(class) = self.class else { return Ok(()) };
        let (max, have) = (self.largest.of(class), self.unpacking.bytes().len() as u64);
        let size = self.declared.filter(|size| *size > max);
        if size.is_some() || have > max {
            return Err(ReadError::TooLarge { class, max, size });
        }
        Ok(())
    }

    fn end(mut self) -> Result<(Class, Vec<u8>), ReadError> {
        self.unpacking.finish()?;
        let class = self.kind.class_of(self.unpacking.bytes());
        self.class = self.class.or(Some(class));
        self.check()?;
        Ok((self.class.unwrap_or(class), self.unpacking.into_bytes()))
    }
}

/// The accepted content encodings. Others are kept unchanged.
enum Unpacking {
    None(Vec<u8>),
    Gzip(GzDecoder<Vec<u8>>),
    Zlib(ZlibDecoder<Vec<u8>>),
    /// Deflate without the zlib header, as some servers send it.
    Raw(DeflateDecoder<Vec<u8>>),
    /// Deflate; the first byte decides between [`Self::Zlib`] and [`Self::Raw`].
    Deflate,
}

impl Unpacking {
    fn of(encoding: &str) -> Self {
        match encoding.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Self::Gzip(GzDecoder::new(Vec::new())),
            "deflate" => Self::Deflate,
            _ => Self::None(Vec::new()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CallError> {
        if matches!(self, Self::Deflate)
            && let Some(first) = bytes.first()
        {
            let has_header = first & 0x0f == 8;
            *self = match has_header {
                true => Self::Zlib(ZlibDecoder::new(Vec::new())),
                false => Self::Raw(DeflateDecoder::new(Vec::new())),
            };
        }
        let written = match self {
            Self::None(all) => all.write_all(bytes),
            Self::Gzip(decoder) => write_to_end(decoder, bytes),
            Self::Zlib(decoder) => write_to_end(decoder, bytes),
            Self::Raw(decoder) => write_to_end(decoder, bytes),
            Self::Deflate => Ok(()),
        };
        written.map_err(unpackable)
    }

    fn finish(&mut self) -> Result<(), CallError> {
        let finished = match self {
            Self::None(_) | Self::Deflate => Ok(()),
            // An empty body, as for HEAD, is not compressed.
            Self::Gzip(decoder) if decoder.header().is_none() => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
            Self::Raw(decoder) => decoder.try_finish(),
        };
        finished.map_err(unpackable)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::None(all) => all,
            Self::Gzip(decoder) => decoder.get_ref(),
            Self::Zlib(decoder) => decoder.get_ref(),
            Self::Raw(decoder) => decoder.get_ref(),
            Self::Deflate => &[],
        }
    }

    fn into_bytes(mut self) -> Vec<u8> {
        match &mut self {
            Self::None(all) => std::mem::take(all),
            Self::Gzip(decoder) => std::mem::take(decoder.get_mut()),
            Self::Zlib(decoder) => std::mem::take(decoder.get_mut()),
            Self::Raw(decoder) => std::mem::take(decoder.get_mut()),
            Self::Deflate => Vec::new(),
        }
    }
}

/// Writes all bytes and drops those after the end of the compressed data. It flushes, so that the unpacked bytes can be
/// counted.
fn write_to_end(decoder: &mut impl Write, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match decoder.write(bytes)? {
            0 => break,
            count => bytes = &bytes[count..],
        }
    }
    decoder.flush()
}

fn unpackable(error: std::io::Error) -> CallError {
    CallError::Transport(format!("the answer cannot be unpacked: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    const LARGEST: Largest = Largest { text: 5_000, file: 20_000 };

    fn taken(
        encoding: &str,
        content_type: &str,
        declared: Option<u64>,
        bytes: &[u8],
    ) -> Result<(Class, usize), ReadError> {
        let kind = Kind { content_type: content_type.into(), disposition: None };
        let mut intake = Intake::new(encoding, kind, declared, LARGEST)?;
        for piece in bytes.chunks(700) {
            intake.take(piece)?;
        }
        intake.end().map(|(class, bytes)| (class, bytes.len()))
    }

    fn packed(mut encoder: impl Write, bytes: &[u8]) {
        encoder.write_all(bytes).unwrap();
    }

    #[test]
    fn packed_answers_are_unpacked_whichever_way() {
        let text = "tide ".repeat(300);
        let (mut gzip, mut zlib, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        packed(GzEncoder::new(&mut gzip, Compression::fast()), text.as_bytes());
        packed(ZlibEncoder::new(&mut zlib, Compression::fast()), text.as_bytes());
        packed(DeflateEncoder::new(&mut raw, Compression::fast()), text.as_bytes());
        for (encoding, bytes) in
            [("GZIP", &gzip), ("deflate", &zlib), ("deflate", &raw), ("br", &text.clone().into_bytes())]
        {
            assert_eq!(
                taken(encoding, "text/plain", None, bytes).unwrap(),
                (Class::Text, 1500),
                "{encoding}"
            );
        }
        assert_eq!(taken("gzip", "text/plain", None, &[]).unwrap(), (Class::Text, 0));
        assert!(taken("gzip", "text/plain", None, b"no gzip at all").is_err());
        assert!(taken("gzip", "text/plain", None, &gzip[..gzip.len() / 2]).is_err());
    }

    #[test]
    fn limits_are_those_of_the_class_and_hold_before_the_end() {
        let zeros = vec![0u8; 50_000];
        let mut bomb = Vec::new();
        packed(GzEncoder::new(&mut bomb, Compression::best()), &vec![b'x'; 1 << 20]);
        let too_large = |result: Result<_, ReadError>| match result {
            Err(ReadError::TooLarge { class, max, size }) => (class, max, size),
            other => panic!("{other:?}"),
        };
        assert_eq!(too_large(taken("", "text/plain", Some(5_001), &[])), (Class::Text, 5_000, Some(5_001)));
        assert_eq!(too_large(taken("", "image/png", None, &zeros)), (Class::File, 20_000, None));
        assert_eq!(
            too_large(taken("", "application/octet-stream", Some(50_000), &zeros)),
            (Class::File, 20_000, Some(50_000))
        );
        let json = vec![b'{'; 6_000];
        assert_eq!(
            too_large(taken("", "application/octet-stream", Some(6_000), &json)),
            (Class::Text, 5_000, Some(6_000))
        );
        assert_eq!(too_large(taken("gzip", "text/plain", Some(9), &bomb)), (Class::Text, 5_000, None));
        assert_eq!(taken("", "text/plain", Some(5_000), &vec![b'x'; 5_000]).unwrap(), (Class::Text, 5_000));
    }
}
