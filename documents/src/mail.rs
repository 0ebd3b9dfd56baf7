//! A mail: what it says, without its head and attachments.

use mail_parser::MessageParser;

use crate::{ExtractError, html};

/// The lines of the text, else those of the HTML.
pub(crate) fn extract(bytes: &[u8]) -> Result<String, ExtractError> {
    let no_mail = || ExtractError::Broken("it is no mail".into());
    let message = MessageParser::default().parse(bytes).ok_or_else(no_mail)?;
    if message.headers().is_empty() {
        return Err(no_mail());
    }
    // A mail that is HTML alone has that as its text.
    let text = match message.text_part(0) {
        Some(part) if part.is_text_html() => html::text(&message.body_html(0).unwrap_or_default()),
        Some(_) | None => message.body_text(0).unwrap_or_default().into_owned(),
    };
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Ok(lines.join("\n"))
}
