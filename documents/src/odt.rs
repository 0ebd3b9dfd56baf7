//! OpenDocument text: paragraphs and headings become lines, table rows become lines of cells.

use crate::package::Package;
use crate::xml::{Element, Node};
use crate::{ExtractError, Limits};

/// Returns the text of the document.
pub(crate) fn extract(bytes: &[u8], limits: Limits) -> Result<String, ExtractError> {
    let content = Package::open(bytes, limits)?.xml("content.xml")?;
    let body = content.find("text").ok_or_else(|| ExtractError::Broken("it has no text".into()))?;
    let mut lines = Vec::new();
    blocks(body, &mut lines);
    Ok(lines.join("\n").trim().to_owned())
}

fn blocks(element: &Element, lines: &mut Vec<String>) {
    for child in element.elements() {
        match child.name.as_str() {
            "p" | "h" => lines.push(inline(child)),
            "table-row" => {
                let cells = child.elements().filter(|cell| cell.name == "table-cell").map(|cell| {
                    let mut inner = Vec::new();
                    blocks(cell, &mut inner);
                    inner.join(" ")
                });
                lines.push(cells.collect::<Vec<_>>().join("\t"));
            }
            // Deleted text that change tracking keeps.
            "tracked-changes" => {}
            _ => blocks(child, lines),
        }
    }
}

fn inline(element: &Element) -> String {
    let mut out = String::new();
    for child in &element.children {
        match child {
            // Line breaks in the file are only spaces; spaces that count are elements of their own.
            Node::Text(text) => out.push_str(&text.replace(['\n', '\r', '\t'], " ")),
            Node::Element(inner) => match inner.name.as_str() {
                "tab" => out.push('\t'),
                "line-break" => out.push('\n'),
                "s" => {
                    let count: usize = inner.attribute("c").and_then(|c| c.parse().ok()).unwrap_or(1);
                    // A larger number is not text but an attack or an error.
                    out.extend(std::iter::repeat_n(' ', count.min(1_000)));
                }
                "annotation" => {}
                _ => out.push_str(&inline(inner)),
            },
        }
    }
    out
}
