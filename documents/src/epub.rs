//! EPUB books: the text of the chapters in reading order.

use crate::package::{Package, beside};
use crate::{ExtractError, Limits, html};

/// Returns the text of the chapters in the spine.
pub(crate) fn extract(bytes: &[u8], limits: Limits) -> Result<String, ExtractError> {
    let mut package = Package::open(bytes, limits)?;
    let container = package.xml("META-INF/container.xml")?;
    let missing = |what: &str| ExtractError::Broken(format!("it has no {what}"));
    let book = container.find("rootfile").and_then(|root| root.attribute("full-path"));
    let book = book.ok_or_else(|| missing("package document"))?.to_owned();
    let document = package.xml(&book)?;
    let manifest = document.child("manifest").ok_or_else(|| missing("manifest"))?;
    let spine = document.child("spine").ok_or_else(|| missing("spine"))?;
    let mut chapters = Vec::new();
    for entry in spine.elements() {
        let href = entry.attribute("idref").and_then(|id| {
            manifest.elements().find(|item| item.attribute("id") == Some(id))?.attribute("href")
        });
        let Some(href) = href else { continue };
        let path = beside(&book, &decoded(href.split('#').next().unwrap_or_default()));
        let text = html::text(&package.text(&path)?);
        if !text.is_empty() {
            chapters.push(text);
        }
    }
    Ok(chapters.join("\n"))
}

/// Decodes the URL escapes of a path.
fn decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let hex = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.extend(u8::try_from(high * 16 + low));
                at += 3;
            }
            (_, _, _) => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
