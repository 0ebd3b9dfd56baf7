//! The report for a terminal: first the numbers, then what cannot run, then the settings that are missing, most files
//! first. Texts of files cannot control the terminal.

use std::collections::BTreeMap;

use super::installation::Has;
use super::report::{FileReport, Group, Report, Row, Standing};
use crate::output::text::{one_line, shortened};
use crate::workflow_file::count;

/// Most rows of a kind; `--all` shows all.
const ROWS_MAX: usize = 8;
/// Most parts of a row, such as models of a provider.
const DETAILS_MAX: usize = 4;
/// Longest name, list of parts and message, in characters.
const NAME_CHARS_MAX: usize = 44;
const DETAILS_CHARS_MAX: usize = 90;
const MESSAGE_CHARS_MAX: usize = 130;
/// Most names of files in a line.
const FILES_MAX: usize = 3;

/// Formats the report. With `all` no row is left out, and each file is listed with its needs.
pub(crate) fn render(report: &Report, all: bool) -> String {
    let mut text = head(report);
    text.push_str(&broken(report, all));
    let (notes, settings): (Vec<_>, Vec<_>) = report.needs.iter().partition(|group| group.kind.row().is_note);
    let open: Vec<&&Group> = settings.iter().filter(|group| group.open_rows().next().is_some()).collect();
    if !open.is_empty() {
        text.push_str("\nWHAT IS MISSING, most files first\n");
        open.iter().for_each(|group| text.push_str(&of_group(group, all)));
    }
    let present: Vec<String> = settings.iter().filter_map(|group| present(group)).collect();
    if !present.is_empty() {
        text.push_str(&format!("\nTHERE ALREADY\n{}", present.concat()));
    }
    if !notes.is_empty() {
        text.push_str("\nGOOD TO KNOW, nothing has to be set\n");
        notes.iter().for_each(|group| text.push_str(&of_group(group, all)));
    }
    if all {
        text.push_str("\nFILES\n");
        report.files.iter().for_each(|file| text.push_str(&of_file(file)));
    }
    text
}

fn head(report: &Report) -> String {
    let summary = &report.summary;
    let mut text = format!("{} in {}\n\n", count(summary.files, "workflow file"), one_line(&summary.of));
    let lines = [
        (summary.run_as_they_are, "run as they are".to_owned()),
        (
            summary.need_a_setting,
            match summary.need_only_models {
                0 => "need a setting".to_owned(),
                only => format!("need a setting ({only} of them only a provider of models)"),
            },
        ),
        (summary.cannot_run, "cannot run".to_owned()),
    ];
    for (number, what) in lines {
        text.push_str(&format!("{number:>6}  {what}\n"));
    }
    text.push('\n');
    if summary.converted > 0 {
        let apps = count(summary.converted, "app");
        text.push_str(&format!(
            "{apps} of mode chat, agent-chat or completion: read as chatflows or workflows\n"
        ));
    }
    if summary.passed_over > 0 {
        text.push_str(&format!("{} passed over: not a workflow\n", count(summary.passed_over, "other file")));
    }
    text.push_str(&format!("Compared with {}\n", one_line(&summary.compared_with)));
    text
}

/// The files that cannot run, by the first reason.
fn broken(report: &Report, all: bool) -> String {
    let mut reasons: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
    for file in report.files.iter().filter(|file| file.standing == Standing::CannotRun) {
        let Some(first) = file.errors.first() else { continue };
        let line = first.line.map(|line| format!(":{line}")).unwrap_or_default();
        let hint = first.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let place = format!("{}{line}", one_line(&file.path));
        let message = one_line(&format!("{}{hint}", first.message));
        reasons.entry(&first.code).or_default().push((&file.path, format!("{place}\n            {message}")));
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(code, files)| (std::cmp::Reverse(files.len()), *code));
    let mut text = String::new();
    if !reasons.is_empty() {
        text.push_str("\nCANNOT RUN, by reason\n");
    }
    for (code, files) in reasons {
        text.push_str(&format!("{:>6}  {code}\n", files.len()));
        let shown = if all { files.len() } else { FILES_MAX };
        for (_, line) in files.iter().take(shown) {
            let lines: Vec<String> =
                line.lines().map(|part| shortened(part, MESSAGE_CHARS_MAX + 12)).collect();
            text.push_str(&format!("          {}\n", lines.join("\n")));
        }
        if files.len() > shown {
            text.push_str(&format!("          and {} more\n", files.len() - shown));
        }
    }
    text
}

fn of_group(group: &Group, all: bool) -> String {
    let rows: Vec<&Row> =
        if group.kind.row().is_note { group.rows.iter().collect() } else { group.open_rows().collect() };
    let mut text = format!("\n  {} ({})\n", group.title, count(group.files, "file"));
    text.push_str(&format!("  {}\n", group.provided_by));
    let shown = if all { rows.len() } else { ROWS_MAX };
    let width = rows.iter().take(shown).map(|row| name_of(row).chars().count()).max().unwrap_or(0);
    for row in rows.iter().take(shown) {
        let name = name_of(row);
        let padding = " ".repeat(width - name.chars().count());
        let mark = if row.available == Has::Unknown { "? " } else { "" };
        let line = format!("{:>6}  {name}{padding}  {mark}{}", row.files.len(), details(row));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if rows.len() > shown {
        let rest: Vec<&Row> = rows[shown..].to_vec();
        let files = rest.iter().map(|row| row.files.len()).max().unwrap_or(0);
        text.push_str(&format!(
            "        and {} more, each in at most {}\n",
            rest.len(),
            count(files, "file")
        ));
    }
    text
}

fn name_of(row: &Row) -> String {
    shortened(&one_line(&row.name), NAME_CHARS_MAX)
}

/// The parts of a row; where there are none, the files.
fn details(row: &Row) -> String {
    let mut parts: Vec<String> =
        row.details.iter().take(DETAILS_MAX).map(|(detail, _)| one_line(detail)).collect();
    let mut rest = row.details.len().saturating_sub(DETAILS_MAX);
    if row.details.is_empty() {
        parts = row.files.iter().take(FILES_MAX).map(|file| one_line(file)).collect();
        rest = row.files.len().saturating_sub(FILES_MAX);
    }
    if rest > 0 {
        parts.push(format!("{rest} more"));
    }
    shortened(&parts.join(", "), DETAILS_CHARS_MAX)
}

/// One line for what the installation has of a kind.
fn present(group: &Group) -> Option<String> {
    let rows: Vec<String> = group.rows.iter().filter(|row| row.available == Has::Yes).map(name_of).collect();
    let names = shortened(&rows.join(", "), DETAILS_CHARS_MAX);
    (!rows.is_empty()).then(|| format!("  {}: {names}\n", group.title))
}

fn of_file(file: &FileReport) -> String {
    let standing = match file.standing {
        Standing::Runs => "runs",
        Standing::NeedsSetting => "needs a setting",
        Standing::CannotRun => "cannot run",
    };
    let mut text = format!("  {}: {standing}\n", one_line(&file.path));
    for need in &file.needs {
        let mark = match need.available {
            Has::Yes => "has",
            Has::Unknown => "?",
            Has::No if need.kind.row().is_note => "note",
            Has::No => "needs",
        };
        let what = one_line(&format!("{} {}", need.name, need.detail));
        text.push_str(&format!("    {mark:<6} {}: {}\n", need.kind.row().title, what.trim_end()));
    }
    text
}
