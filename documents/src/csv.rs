//! A table as text, and tables as Markdown.

use crate::ExtractError;

/// The rows as a Markdown table; the first one is its head.
pub(crate) fn extract(text: &str) -> Result<String, ExtractError> {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text.as_bytes());
    let mut out = String::new();
    for (at, record) in reader.records().enumerate() {
        let record = record.map_err(ExtractError::broken)?;
        let cells: Vec<String> =
            record.iter().map(|cell| cell.replace('\n', " ").replace('\r', "")).collect();
        push_row(&mut out, &cells);
        if at == 0 {
            push_row(&mut out, &rule(&cells));
        }
    }
    Ok(out)
}

/// One row of a Markdown table, with the line's end.
pub(crate) fn push_row(out: &mut String, cells: &[String]) {
    out.push_str("| ");
    out.push_str(&cells.join(" | "));
    out.push_str(" |\n");
}

/// The cells below the head: as many dashes as a cell has characters.
pub(crate) fn rule(head: &[String]) -> Vec<String> {
    head.iter().map(|cell| "-".repeat(cell.chars().count())).collect()
}
