//! PDF. A document without text, such as a scan, gives an empty text.

use crate::ExtractError;

/// Returns the text of all pages.
pub(crate) fn extract(bytes: &[u8]) -> Result<String, ExtractError> {
    pdf_extract::extract_text_from_mem(bytes).map_err(ExtractError::broken)
}
