//! PowerPoint: the paragraphs of the slides, in the order of the presentation.

use crate::package::{Package, beside};
use crate::xml::Element;
use crate::{ExtractError, Limits};

const PRESENTATION: &str = "ppt/presentation.xml";

/// Returns one line per paragraph or table row.
pub(crate) fn extract(bytes: &[u8], limits: Limits) -> Result<String, ExtractError> {
    let mut package = Package::open(bytes, limits)?;
    let presentation = package.xml(PRESENTATION)?;
    let relations = package.xml("ppt/_rels/presentation.xml.rels")?;
    let mut slides = Vec::new();
    presentation.each("sldId", &mut |slide| {
        // Two attributes are called `id`. The one that matches a relation names the slide's part.
        let related = slide.attributes.iter().filter(|(name, _)| name == "id").find_map(|(_, id)| {
            relations.elements().find(|relation| relation.attribute("Id") == Some(id))?.attribute("Target")
        });
        slides.extend(related.map(|target| beside(PRESENTATION, target)));
    });
    let mut lines = Vec::new();
    for slide in slides {
        walk(&package.xml(&slide)?, &mut lines);
    }
    Ok(lines.join("\n"))
}

fn walk(element: &Element, lines: &mut Vec<String>) {
    for child in element.elements() {
        match child.name.as_str() {
            "p" => push(paragraph(child), lines),
            "tr" => {
                let cells = child.elements().filter(|cell| cell.name == "tc").map(|cell| {
                    let mut inner = Vec::new();
                    walk(cell, &mut inner);
                    inner.join(" ")
                });
                push(cells.collect::<Vec<_>>().join("\t"), lines);
            }
            // A replacement for older programs, with the same content again.
            "Fallback" => {}
            _ => walk(child, lines),
        }
    }
}

fn paragraph(paragraph: &Element) -> String {
    let mut out = String::new();
    for part in paragraph.elements() {
        match part.name.as_str() {
            "r" | "fld" => {
                part.elements().filter(|inner| inner.name == "t").for_each(|t| out.push_str(&t.text()))
            }
            "br" => out.push('\n'),
            _ => {}
        }
    }
    out
}

fn push(line: String, lines: &mut Vec<String>) {
    if !line.trim().is_empty() {
        lines.push(line.trim().to_owned());
    }
}
