//! The report for a terminal: first the numbers, then what cannot run, then the settings that are missing, most files
//! first. Texts of files cannot control the terminal.

use std::collections::BTreeMap;

use super::installation::Has;
use super::kinds::Kind;
use super::report::{FileReport, Group, Report, Row, Standing, Summary};
use crate::output::text::{one_line, shortened};
use crate::workflow_file::count;

/// Most rows of a kind, so that the whole is read in a minute; `--all` shows all.
const ROWS_MAX: usize = 4;
/// Most reasons why files cannot run.
const REASONS_MAX: usize = 10;
/// Most parts of a row, such as models of a provider.
const DETAILS_MAX: usize = 4;
/// Longest name, list of parts and message, in characters.
const NAME_CHARS_MAX: usize = 44;
const DETAILS_CHARS_MAX: usize = 90;
const MESSAGE_CHARS_MAX: usize = 130;
/// Most names of files in a line.
const FILES_MAX: usize = 3;

/// The line under rows with the mark `?`.
const UNKNOWN: &str = "\n  ?  the API does not show it; add --config with the workers' settings (which modules a \
                       dify-sandbox has is never known)\n";

/// Formats the report. With `all` no row is left out, and each file is listed with its needs.
pub(crate) fn render(report: &Report, all: bool) -> String {
    let mut text = head(report);
    text.push_str(&broken(report, all));
    let (notes, settings): (Vec<_>, Vec<_>) = report.needs.iter().partition(|group| group.kind.row().is_note);
    let open: Vec<&&Group> = settings.iter().filter(|group| group.open_rows().next().is_some()).collect();
    if !open.is_empty() {
        text.push_str("\nWHAT IS MISSING, most files first\n");
        open.iter().for_each(|group| text.push_str(&of_group(group, all)));
        if open.iter().any(|group| group.open_rows().any(|row| row.available == Has::Unknown)) {
            text.push_str(UNKNOWN);
        }
    }
    let present: Vec<String> = settings.iter().filter_map(|group| present(group, all)).collect();
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
                0 => "need something first".to_owned(),
                only => format!("need something first ({only} of them only a provider of models)"),
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

/// The three numbers in one line.
pub(crate) fn numbers(summary: &Summary) -> String {
    format!(
        "{} run as they are, {} need something first, {} cannot run",
        summary.run_as_they_are, summary.need_a_setting, summary.cannot_run
    )
}

/// The files that cannot run, by the first reason.
fn broken(report: &Report, all: bool) -> String {
    let mut reasons: BTreeMap<(&str, String), Vec<String>> = BTreeMap::new();
    for file in report.files.iter().filter(|file| file.standing == Standing::CannotRun) {
        let Some(first) = file.errors.first() else { continue };
        let line = first.line.map(|line| format!(":{line}")).unwrap_or_default();
        let hint = first.hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default();
        let message = one_line(&format!("{}{hint}", first.message));
        let place = format!("{}{line}", one_line(&file.path));
        reasons.entry((&first.code, message)).or_default().push(place);
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by(|(one, some), (other, more)| more.len().cmp(&some.len()).then_with(|| one.cmp(other)));
    let mut text = String::new();
    if !reasons.is_empty() {
        text.push_str("\nCANNOT RUN, by reason\n");
    }
    let shown = if all { reasons.len() } else { REASONS_MAX.min(reasons.len()) };
    for ((code, message), places) in &reasons[..shown] {
        let message = cut(message, MESSAGE_CHARS_MAX, all);
        text.push_str(&format!("{:>6}  {code}: {message}\n", places.len()));
        text.push_str(&format!("          {}\n", listed(places, FILES_MAX, ", ", all)));
    }
    if reasons.len() > shown {
        let files = reasons[shown..].iter().map(|(_, places)| places.len()).sum();
        let more = count(reasons.len() - shown, "other reason");
        text.push_str(&format!("        and {more}, in {}\n", count(files, "file")));
    }
    text
}

/// The first parts, and the number of the others.
fn listed(parts: &[String], most: usize, between: &str, all: bool) -> String {
    let shown = if all { parts.len() } else { most.min(parts.len()) };
    let text = parts[..shown].join(between);
    match parts.len() - shown {
        0 => text,
        rest => format!("{text}{between}{rest} more"),
    }
}

/// The text, shortened unless all is shown.
fn cut(text: &str, chars_max: usize, all: bool) -> String {
    if all { text.into() } else { shortened(text, chars_max) }
}

fn of_group(group: &Group, all: bool) -> String {
    let is_note = group.kind.row().is_note;
    let rows: Vec<&Row> = if is_note { group.rows.iter().collect() } else { group.open_rows().collect() };
    let files = if is_note { group.files } else { group.open_files };
    let mut text = format!("\n  {} ({})\n", group.title, count(files, "file"));
    text.push_str(&format!("  {}\n", group.provided_by));
    let shown = if all { rows.len() } else { ROWS_MAX };
    let name_of = |row: &Row| name_of(row, group.kind, all);
    let width = rows.iter().take(shown).map(|row| name_of(row).chars().count()).max().unwrap_or(0);
    for row in rows.iter().take(shown) {
        let name = name_of(row);
        let padding = " ".repeat(width - name.chars().count());
        let mark = if row.available == Has::Unknown { "? " } else { "" };
        let line = format!("{:>6}  {name}{padding}  {mark}{}", row.files.len(), details(row, all));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    if rows.len() > shown {
        let files = rows[shown..].iter().map(|row| row.files.len()).max().unwrap_or(0);
        text.push_str(&format!(
            "        and {} more, each in at most {}\n",
            rows.len() - shown,
            count(files, "file")
        ));
    }
    text
}

/// The name of a row. Ids stay whole, because a setting or a command needs them so.
fn name_of(row: &Row, kind: Kind, all: bool) -> String {
    let is_id = matches!(kind, Kind::Dataset | Kind::WorkflowTool);
    cut(&one_line(&row.name), NAME_CHARS_MAX, all || is_id)
}

/// The parts of a row; where there are none, the files.
fn details(row: &Row, all: bool) -> String {
    let (parts, most): (Vec<String>, usize) = if row.details.is_empty() {
        (row.files.iter().map(|file| one_line(file)).collect(), FILES_MAX)
    } else {
        (row.details.iter().map(|(detail, _)| one_line(detail)).collect(), DETAILS_MAX)
    };
    cut(&listed(&parts, most, ", ", all), DETAILS_CHARS_MAX, all)
}

/// One line for what the installation has of a kind.
fn present(group: &Group, all: bool) -> Option<String> {
    let there = group.rows.iter().filter(|row| row.available == Has::Yes);
    let rows: Vec<String> = there.map(|row| name_of(row, group.kind, all)).collect();
    let names = cut(&rows.join(", "), DETAILS_CHARS_MAX, all);
    (!rows.is_empty()).then(|| format!("  {}: {names}\n", group.title))
}

fn of_file(file: &FileReport) -> String {
    let standing = match file.standing {
        Standing::Runs => "runs",
        Standing::NeedsSetting => "needs something first",
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
