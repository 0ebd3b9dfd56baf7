//! Reads CSV and writes Markdown tables.

use crate::ExtractError;

/// Returns the rows as a Markdown table. The first row is the head.
pub(crate) fn extract(text: &str) -> Result<String, ExtractError> {
    let mut out = String::new();
    let mut push = |cells: &[String]| {
        let is_head = out.is_empty();
        push_row(&mut out, cells);
        if is_head {
            push_row(&mut out, &rule(cells));
        }
    };
    for block in blocks(text) {
        if block.trim_end_matches(['\r', '\n']).is_empty() {
            push(&[]);
            continue;
        }
        let mut reader =
            csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(block.as_bytes());
        for record in reader.records() {
            let record = record.map_err(ExtractError::broken)?;
            let cell = |cell: &str| cell.replace('\n', " ").replace('\r', "");
            push(&record.iter().map(cell).collect::<Vec<_>>());
        }
    }
    Ok(out)
}

/// Splits the text into empty lines and the parts between them. Empty lines become rows without cells, but the CSV
/// reader would skip them. Empty lines within quotes do not count.
fn blocks(text: &str) -> Vec<&str> {
    let (mut blocks, mut begin, mut line) = (Vec::new(), 0, 0);
    let (mut quoted, mut at_cell) = (false, true);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            // Two quotes in a row: the cell closes and opens again.
            b'"' if quoted => quoted = false,
            b'"' if at_cell || text[..at].ends_with('"') => quoted = true,
            b'\n' if !quoted => {
                if matches!(&text[line..at], "" | "\r") {
                    blocks
                        .extend([&text[begin..line], &text[line..=at]].into_iter().filter(|s| !s.is_empty()));
                    begin = at + 1;
                }
                line = at + 1;
            }
            _ => {}
        }
        at_cell = !quoted && matches!(byte, b',' | b'\n' | b'\r');
    }
    blocks.extend(Some(&text[begin..]).filter(|rest| !rest.is_empty()));
    blocks
}

/// Appends one row of a Markdown table with its line break.
pub(crate) fn push_row(out: &mut String, cells: &[String]) {
    out.push_str("| ");
    out.push_str(&cells.join(" | "));
    out.push_str(" |\n");
}

/// Returns the cells below the head, each with as many dashes as the head's cell has characters.
pub(crate) fn rule(head: &[String]) -> Vec<String> {
    head.iter().map(|cell| "-".repeat(cell.chars().count())).collect()
}
