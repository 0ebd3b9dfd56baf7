//! Word documents: paragraphs become lines and tables become Markdown, in the order of the body.

use crate::package::Package;
use crate::xml::Element;
use crate::{ExtractError, Limits};

/// Returns the text of the body.
pub(crate) fn extract(bytes: &[u8], limits: Limits) -> Result<String, ExtractError> {
    let document = Package::open(bytes, limits)?.xml("word/document.xml")?;
    let body = document.child("body").ok_or_else(|| ExtractError::Broken("it has no body".into()))?;
    let mut items = Vec::new();
    for block in body.elements() {
        match block.name.as_str() {
            "p" => items.push(paragraph(block)),
            "tbl" => items.extend(table(block)),
            _ => {}
        }
    }
    Ok(items.join("\n"))
}

/// Returns the text of the paragraph's runs, without text boxes and deleted text.
fn paragraph(paragraph: &Element) -> String {
    let mut out = String::new();
    for part in paragraph.elements() {
        match part.name.as_str() {
            "r" => run(part, &mut out),
            "hyperlink" => {
                part.elements().filter(|inner| inner.name == "r").for_each(|inner| run(inner, &mut out))
            }
            _ => {}
        }
    }
    out
}

fn run(run: &Element, out: &mut String) {
    for part in run.elements() {
        match part.name.as_str() {
            "t" => out.push_str(&part.text()),
            "tab" | "ptab" => out.push('\t'),
            "cr" => out.push('\n'),
            // Breaks of pages and columns have no text.
            "br" if matches!(part.attribute("type"), None | Some("textWrapping")) => out.push('\n'),
            "noBreakHyphen" => out.push('-'),
            _ => {}
        }
    }
}

/// Returns a table as Markdown, or `None` if it is empty. A cell that spans columns or rows is repeated in each.
fn table(table: &Element) -> Option<String> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for row in table.elements().filter(|element| element.name == "tr") {
        let mut cells: Vec<String> = Vec::new();
        for cell in row.elements().filter(|element| element.name == "tc") {
            let properties = cell.child("tcPr");
            let property = |name: &str| properties.and_then(|all| all.child(name));
            let goes_on = property("vMerge").is_some_and(|merge| merge.attribute("val") != Some("restart"));
            let above = rows.last().and_then(|above: &Vec<String>| above.get(cells.len()));
            let text = match above.filter(|_| goes_on) {
                Some(above) => above.clone(),
                None => cell_text(cell),
            };
            let span = property("gridSpan").and_then(|span| span.attribute("val")?.parse().ok());
            // Word has at most 63 columns.
            for _ in 0..span.unwrap_or(1_usize).clamp(1, 63) {
                cells.push(text.clone());
            }
        }
        rows.push(cells);
    }
    if rows.iter().flatten().all(|cell| cell.trim().is_empty()) {
        return None;
    }
    let mut out = String::new();
    for (at, cells) in rows.iter().enumerate() {
        crate::csv::push_row(&mut out, cells);
        if at == 0 {
            crate::csv::push_row(&mut out, &vec!["---".to_owned(); cells.len()]);
        }
    }
    Some(out)
}

fn cell_text(cell: &Element) -> String {
    let paragraphs: Vec<String> =
        cell.elements().filter(|element| element.name == "p").map(paragraph).collect();
    paragraphs.join("\n").replace('\n', "<br>")
}
