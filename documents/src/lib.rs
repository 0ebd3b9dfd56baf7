//! Text out of documents: bytes and a format go in, text comes out, as Dify's document extractor gives it.
//!
//! Nothing here reads files, calls out or keeps time. What a document may unpack to and how deep it may nest is bounded; how
//! long a parser may take and what it may use is the business of the process that runs it, since the parsers of PDF and
//! tables are others' work. [`extract`] is the one door; what users should know is in `docs/nodes/document-extractor.md`.

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

/// What a document may ask for.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Most bytes that all parts of a packed document may have when they are unpacked.
    pub unpacked_bytes: u64,
    /// Most bytes of text.
    pub text_bytes: u64,
}

/// Why a document has no text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExtractError {
    /// It is not what it is said to be, or damaged.
    #[error("{0}")]
    Broken(String),
    /// It unpacks to more than is allowed.
    #[error("it unpacks to more than {0} bytes (documents.memory_bytes_max)")]
    Unpacked(u64),
    /// It holds more text than is allowed.
    #[error("it holds more than {0} bytes of text (documents.text_bytes_max)")]
    Text(u64),
    /// Nothing here reads this format.
    #[error(
        "nothing here reads documents of type {0}; set documents.unstructured_url (UNSTRUCTURED_API_URL)"
    )]
    Foreign(&'static str),
}

impl ExtractError {
    fn broken(reason: impl std::fmt::Display) -> Self {
        Self::Broken(reason.to_string())
    }
}

/// The text of a document.
///
/// # Errors
/// [`ExtractError`]. A parser that panics is the caller's to catch.
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

/// A page of the web, as a reader sees it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// What it is called; empty when it does not say.
    pub title: String,
    /// Who wrote it; empty when it does not say.
    pub author: String,
    /// What it says, a line a block: its main part, where it marks one.
    pub text: String,
}

/// Reads a page of HTML, in whatever encoding, well formed or not.
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
