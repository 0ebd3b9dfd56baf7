//! The table of clients, for the terminal and for docs/compatibility.md.

use std::fmt::Write as _;

use crate::outcome::{Outcome, Verdict};

/// The lines around the table in docs/compatibility.md.
const BEGIN: &str = "<!-- clients: begin (written by `make clients`) -->";
const END: &str = "<!-- clients: end -->";

/// Every method of a client that does not work, with the reason.
pub(crate) fn details(outcome: &Outcome) -> String {
    let mut text = format!("{} {}: {} work\n", outcome.name, outcome.version, outcome.count(Verdict::Works));
    for line in outcome.lines.iter().filter(|line| line.result != Verdict::Works) {
        let verdict = if line.result == Verdict::Fails { "FAILS" } else { "fails on Dify, too" };
        let _ = writeln!(text, "  {verdict}: {}: {}", line.method, line.note.replace('\n', " "));
    }
    text
}

/// A row for each client.
pub(crate) fn markdown(outcomes: &[Outcome]) -> String {
    let mut text =
        "| client | calls that work | calls that fail on Dify, too |\n| --- | --- | --- |\n".to_owned();
    for outcome in outcomes {
        let of_client = outcome.lines.iter().filter(|line| line.result == Verdict::Client);
        let of_client: Vec<String> =
            of_client.map(|line| format!("`{}` {}", line.method, line.note)).collect();
        let of_client = if of_client.is_empty() { "–".to_owned() } else { of_client.join("; ") };
        let total = outcome.lines.len() - outcome.count(Verdict::Client);
        let (name, version, works) = (&outcome.name, &outcome.version, outcome.count(Verdict::Works));
        let _ = writeln!(text, "| {name} {version} | {works} of {total} | {of_client} |");
    }
    text
}

/// Writes the table into docs/compatibility.md, between its two lines.
///
/// # Panics
/// When the page cannot be read or written, or lacks the lines.
pub(crate) fn write(outcomes: &[Outcome]) {
    let path = tidemill_tests::workspace().join("docs/compatibility.md");
    let page = std::fs::read_to_string(&path).expect("docs/compatibility.md can be read");
    let (before, rest) = page.split_once(BEGIN).expect("the page has the first line of the table");
    let (_, after) = rest.split_once(END).expect("the page has the last line of the table");
    let page = format!("{before}{BEGIN}\n\n{}\n{END}{after}", markdown(outcomes));
    std::fs::write(&path, page).expect("docs/compatibility.md can be written");
}
