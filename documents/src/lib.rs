//! Extracts the text of documents in the way of Dify's document extractor.
//!
//! This crate does not read files, use the network or measure time. It limits how far a document may unpack and how
//! deep it may nest. It does not limit the time and memory of a parser: the parsers for PDF and tables are foreign
//! code, so the process that runs them has to. [`extract`] is the entry point; `docs/nodes/document-extractor.md` is
//! for users.

mod csv;
mod decode;
mod docx;
mod epub;
mod excel;
mod html;
mod mail;
mod odt;
mod package;
mod pdf;
mod pptx;
mod properties;
mod vtt;
mod xml;
mod yaml;

use tidemill_common::nodes::document_extractor::Format;
use tidemill_common::value::pyjson;
use tidemill_common::value::pyrepr::{JsonLayout, json_into};

/// Limits for one document.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most bytes of all parts of an archive after unpacking.
    pub unpacked_bytes: u64,
    /// Most bytes of extracted text.
    pub text_bytes: u64,
}

/// The reason why a document has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// The document is damaged or of another format.
    #[error("{0}")]
    Broken(String),
    /// The document unpacks to more than is allowed.
    #[error("it unpacks to more than {0} bytes (documents.memory_bytes_max)")]
    Unpacked(u64),
    /// The document has more text than is allowed.
    #[error("it holds more than {0} bytes of text (documents.text_bytes_max)")]
    Text(u64),
    /// No parser for this format is built in.
    #[error(
        "documents of type {0} cannot be read; to send them to an Unstructured service, set documents.unstructured_url (UNSTRUCTURED_API_URL)"
    )]
    Foreign(&'static str),
}

impl ExtractError {
    fn broken(reason: impl std::fmt::Display) -> Self {
        Self::Broken(reason.to_string())
    }
}

/// Returns the text of a document.
///
/// # Errors
/// [`ExtractError`]. The caller has to catch panics of parsers.
pub fn extract(format: Format, bytes: &[u8], limits: Limits) -> Result<String, ExtractError> {
    let text = match format {
        Format::Text => decode::text(bytes),
        Format::Json => json(bytes)?,
        Format::Yaml => yaml::extract(&decode::text(bytes))?,
        Format::Csv => csv::extract(&decode::text(bytes))?,
        Format::Vtt => vtt::extract(&decode::text(bytes)),
        Format::Properties => properties::extract(&decode::text(bytes)),
        Format::Pdf => pdf::extract(bytes)?,
        Format::Docx => docx::extract(bytes, limits)?,
        Format::Excel => excel::extract(bytes, limits)?,
        Format::Pptx => pptx::extract(bytes, limits)?,
        Format::Epub => epub::extract(bytes, limits)?,
        Format::Odt => odt::extract(bytes, limits)?,
        Format::Eml => mail::extract(bytes)?,
        Format::Doc | Format::Ppt | Format::Msg => return Err(ExtractError::Foreign(format.name())),
    };
    match text.len() as u64 > limits.text_bytes {
        true => Err(ExtractError::Text(limits.text_bytes)),
        false => Ok(text),
    }
}

/// The readable part of a web page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The title; empty when the page has none.
    pub title: String,
    /// The author; empty when the page names none.
    pub author: String,
    /// The text, one line per block. If the page marks its main part, only that part.
    pub text: String,
}

/// Reads an HTML page in any encoding. It need not be well formed.
pub fn page(bytes: &[u8]) -> Page {
    html::page(&decode::text(bytes))
}

fn json(bytes: &[u8]) -> Result<String, ExtractError> {
    let value = pyjson::loads(&decode::text(bytes)).map_err(ExtractError::Broken)?;
    let mut out = String::new();
    json_into(&mut out, &value, JsonLayout::Indent(2), false);
    Ok(out)
}

#[cfg(test)]
mod tests;
