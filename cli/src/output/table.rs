//! Tables for the terminal. Widths are counted in characters.

use super::text::one_line;

/// Formats a table: a head, then rows. Columns are two spaces apart; empty cells show `-`.
pub(crate) fn render(head: &[&str], rows: &[Vec<String>]) -> String {
    let shown = |cell: &String| if cell.is_empty() { "-".to_string() } else { one_line(cell) };
    let mut lines: Vec<Vec<String>> = vec![head.iter().map(|title| (*title).to_string()).collect()];
    lines.extend(rows.iter().map(|row| row.iter().map(shown).collect()));
    let width = |column: usize| {
        lines.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for row in &lines {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Formats names and values, one pair per line, without the pairs that have no value.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let pairs: Vec<_> = pairs.iter().filter(|(_, value)| !value.is_empty()).collect();
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    pairs.iter().map(|(name, value)| format!("{name:width$}  {}\n", one_line(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let text = render(
            &["RUN", "STATUS", "ERROR"],
            &[row(["1", "succeeded", ""]), row(["größer", "", "it\nbroke"])],
        );
        assert_eq!(text, "RUN     STATUS     ERROR\n1       succeeded  -\ngrößer  -          it broke\n");
    }

    #[test]
    fn pairs_without_a_value_are_left_out() {
        let text = pairs(&[("run", "1".into()), ("error", String::new()), ("status", "failed".into())]);
        assert_eq!(text, "run     1\nstatus  failed\n");
    }
}
