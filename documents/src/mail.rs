//! Mails: the text of the body, without headers and attachments.

use mail_parser::MessageParser;

use crate::{ExtractError, html};

/// Returns the lines of the plain text, or else those of the HTML.
pub(crate) fn extract(bytes: &[u8]) -> Result<String, ExtractError> {
    let not_a_mail = || ExtractError::Broken("it is not a mail".into());
    let message = MessageParser::default().parse(bytes).ok_or_else(not_a_mail)?;
    if message.headers().is_empty() {
        return Err(not_a_mail());
    }
    // For a mail with only HTML this returns the text of that HTML.
    let text = match message.text_part(0) {
        Some(part) if part.is_text_html() => html::text(&message.body_html(0).unwrap_or_default()),
        Some(_) | None => message.body_text(0).unwrap_or_default().into_owned(),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok(lines.join("\n"))
}
