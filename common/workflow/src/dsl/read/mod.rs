//! Reads bytes into a tree that knows the line of every value.
//!
//! This module refuses hostile files, within named limits: size, depth, expansion of aliases, bytes that are
//! not text. After it a document is plain JSON, and the tree maps a path to its line.

mod json;
mod lenient;
mod scalar;
mod tree;
mod yaml;

use serde_json::Value as Json;

use super::features::ServedFeatures;
use super::normal_form::{Migrations, RetryReading};
use super::{Diagnostic, Problems};
use tidemill_base::limits;

pub use scalar::resolve_plain;
pub(crate) use tree::Tree;

/// The code of a text that cannot be read.
pub(crate) const INVALID_YAML: &str = "parse.invalid_yaml";
/// The code of a text that exceeds a limit.
pub(crate) const TOO_LARGE: &str = "parse.too_large";

/// How a workflow file is read: its limits, and whether it is migrated.
#[derive(Debug, Clone, Copy)]
pub struct ParseOptions {
    /// Largest file, in bytes.
    pub bytes_max: usize,
    /// Deepest nesting, in levels.
    pub depth_max: usize,
    /// Most values after aliases are expanded.
    pub values_max: usize,
    /// Most bytes of text after aliases are expanded.
    pub text_bytes_max: usize,
    /// Most nodes inside one node.
    pub children_max: usize,
    /// Whether older forms are migrated as Dify's editor does it.
    pub migrations: Migrations,
    /// What is done about retries that a file leaves open.
    pub retries: RetryReading,
    /// The features that the settings of the reader serve; none for a file alone.
    pub served: ServedFeatures,
}

impl Default for ParseOptions {
    fn default() -> Self {
        Self {
            bytes_max: limits::IMPORT_BYTES_MAX,
            depth_max: limits::DOCUMENT_DEPTH_MAX,
            values_max: limits::DOCUMENT_VALUES_MAX,
            text_bytes_max: limits::DOCUMENT_TEXT_BYTES_MAX,
            children_max: limits::CHILDREN_MAX,
            migrations: Migrations::default(),
            retries: RetryReading::default(),
            served: ServedFeatures::default(),
        }
    }
}

/// Reads a YAML or JSON text. Duplicate keys are reported as warnings; the last one wins.
///
/// # Errors
/// The first problem; reading stops at it.
pub(crate) fn read(
    text: &[u8],
    limits: &ParseOptions,
    problems: &mut Problems,
) -> Result<(Tree, Json), Diagnostic> {
    let text = as_text(text, limits)?;
    // JSON is nearly a subset of YAML, except for escaped surrogate pairs and numbers such as 1e3. A text
    // that is neither is reported by the YAML reader, since most files are YAML.
    let looks_like_json = text.trim_start().starts_with('{');
    let as_json = looks_like_json.then(|| json::read(text, limits, problems));
    let tree = match as_json {
        Some(Ok(tree)) => tree,
        Some(Err(problem)) if problem.code == TOO_LARGE => return Err(problem),
        Some(Err(_)) | None => yaml::read(text, limits, problems)?,
    };
    let value = tree.to_json(limits)?;
    Ok((tree, value))
}

/// Reads JSON that Tidemill has written. Numbers come back exactly.
///
/// # Errors
/// The first problem; reading stops at it.
pub(crate) fn read_json(text: &str, limits: &ParseOptions) -> Result<Json, Diagnostic> {
    json::read(text, limits, &mut Problems::new())?.to_json(limits)
}

fn as_text<'a>(text: &'a [u8], limits: &ParseOptions) -> Result<&'a str, Diagnostic> {
    let refuse = |line, message: String| Diagnostic::at_line(INVALID_YAML, line, message);
    if text.len() > limits.bytes_max {
        let message =
            format!("the file has {} bytes, more than the {} allowed", text.len(), limits.bytes_max);
        return Err(Diagnostic::at_line(TOO_LARGE, None, message)
            .hinted("raise `import_bytes_max` if the workflow really is that large"));
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let text = std::str::from_utf8(text).map_err(|error| {
        let line = line_at(text, error.valid_up_to());
        refuse(Some(line), format!("invalid YAML: not UTF-8 at byte {}", error.valid_up_to()))
            .hinted("save the file as UTF-8")
    })?;
    if let Some(at) = text.bytes().position(|b| b == 0) {
        let line = line_at(text.as_bytes(), at);
        return Err(refuse(Some(line), format!("invalid YAML: a NUL character at byte {at}")));
    }
    Ok(text)
}

fn line_at(text: &[u8], at: usize) -> u32 {
    let breaks = text[..at].iter().filter(|&&b| b == b'\n').count();
    u32::try_from(breaks).unwrap_or(u32::MAX - 1) + 1
}

#[cfg(test)]
mod tests;
