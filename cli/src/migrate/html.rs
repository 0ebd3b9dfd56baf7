//! The report as one HTML page that needs nothing else: no script, no other file, no network. Every text of a workflow
//! file is escaped.

use super::installation::Has;
use super::kinds::Kind;
use super::report::{FileReport, Group, NeedOfFile, Report, Row, Standing};
use crate::workflow_file::count;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:75rem;padding:0 1rem;color:#1c2430}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.2rem}h3{font-size:1rem;margin:1.4rem 0 .2rem}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #dde3ea}\
th{font-weight:600;color:#566}td.n{text-align:right;width:3rem;font-variant-numeric:tabular-nums}\
.big{display:flex;gap:1rem;flex-wrap:wrap}.big div{border:1px solid #dde3ea;border-radius:8px;padding:.6rem 1.2rem}\
.big b{display:block;font-size:1.7rem}.runs b{color:#18794e}.needs b{color:#9a6700}.cannot b{color:#c4302b}\
code,pre{font:13px/1.45 ui-monospace,monospace;background:#f4f6f9;border-radius:4px}code{padding:.1rem .3rem}\
pre{padding:.4rem .6rem;margin:.2rem 0;white-space:pre-wrap;overflow-wrap:anywhere}\
.quiet{color:#66707c}details{margin:.25rem 0}summary{cursor:pointer;overflow-wrap:anywhere}\
.tag{border-radius:4px;padding:0 .4rem;font-size:.85em}.has{background:#d8f3e3}.no{background:#fde8c8}.unknown{background:#e5e9ef}.bad{background:#fbdcda}\
@media (prefers-color-scheme:dark){body{background:#14181f;color:#dfe5ec}td,th,.big div{border-color:#2c3440}\
code,pre{background:#1f2630}.has{background:#1c4a33}.no{background:#5a4213}.unknown{background:#37404c}.bad{background:#5c2422}}";

/// Renders the page.
pub(crate) fn render(report: &Report) -> String {
    let summary = &report.summary;
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Migration of {of}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n\
         <h1>Migration of {of}</h1>\n<p class=\"quiet\">Compared with {with}</p>\n<div class=\"big\">\n",
        of = escaped(&summary.of),
        with = escaped(&summary.compared_with),
    );
    for (class, number, what) in [
        ("runs", summary.run_as_they_are, "run as they are".to_owned()),
        (
            "needs",
            summary.need_a_setting,
            format!("need something first, {} of them only a provider of models", summary.need_only_models),
        ),
        ("cannot", summary.cannot_run, "cannot run".to_owned()),
    ] {
        page.push_str(&format!("<div class=\"{class}\"><b>{number}</b>{what}</div>\n"));
    }
    page.push_str("</div>\n");
    page.push_str(&format!(
        "<p>{} workflow files. {} converted from apps without a workflow, {} other files passed over.</p>\n",
        summary.files, summary.converted, summary.passed_over
    ));
    page.push_str(&of_standing(report, Standing::CannotRun, "Files that cannot run"));
    let (notes, settings): (Vec<_>, Vec<_>) = report.needs.iter().partition(|group| group.kind.row().is_note);
    page.push_str("<h2>What the workflows need, most files first</h2>\n");
    settings.iter().for_each(|group| page.push_str(&of_group(group)));
    if !notes.is_empty() {
        page.push_str("<h2>Good to know: nothing has to be set</h2>\n");
        notes.iter().for_each(|group| page.push_str(&of_group(group)));
    }
    page.push_str(&of_standing(report, Standing::NeedsSetting, "Files that need something first"));
    page.push_str(&of_standing(report, Standing::Runs, "Files that run as they are"));
    page.push_str("</body>\n</html>\n");
    page
}

/// The files of one standing under their heading; empty without any.
fn of_standing(report: &Report, standing: Standing, title: &str) -> String {
    let files: Vec<_> = report.files.iter().filter(|file| file.standing == standing).collect();
    let mut text = String::new();
    if !files.is_empty() {
        text.push_str(&format!("<h2>{title} ({})</h2>\n", files.len()));
        files.iter().for_each(|file| text.push_str(&of_file(file)));
    }
    text
}

fn of_group(group: &Group) -> String {
    let row = group.kind.row();
    let mut text = format!(
        "<h3>{} <span class=\"quiet\">in {}</span></h3>\n<p class=\"quiet\">{}</p>\n<table>\n\
         <tr><th></th><th>{}</th><th>parts, files</th><th></th><th>what provides it</th></tr>\n",
        escaped(group.title),
        count(group.files, "file"),
        escaped(group.provided_by),
        escaped(row.name),
    );
    group.rows.iter().for_each(|row| text.push_str(&of_row(row, group.kind)));
    text.push_str("</table>\n");
    text
}

fn of_row(row: &Row, kind: Kind) -> String {
    let remedy = format!("<pre>{}</pre>", escaped(&row.remedy));
    let parts: Vec<String> = row
        .details
        .iter()
        .map(|(detail, files)| format!("{} <span class=\"quiet\">{files}</span>", escaped(detail)))
        .collect();
    let files: Vec<String> = row.files.iter().map(|file| escaped(file)).collect();
    format!(
        "<tr><td class=\"n\">{}</td><td>{}</td><td>{}<details><summary class=\"quiet\">files</summary>{}</details></td>\
         <td>{}</td><td>{remedy}</td></tr>\n",
        row.files.len(),
        escaped(&row.name),
        parts.join(", "),
        files.join("<br>"),
        tag(row.available, kind.row().is_note),
    )
}

fn tag(available: Has, is_note: bool) -> &'static str {
    match available {
        Has::Yes => "<span class=\"tag has\">there</span>",
        Has::Unknown => "<span class=\"tag unknown\">not known</span>",
        Has::No if is_note => "",
        Has::No => "<span class=\"tag no\">missing</span>",
    }
}

fn of_file(file: &FileReport) -> String {
    let name = if file.app.is_empty() { String::new() } else { format!(" · {}", escaped(&file.app)) };
    let mode = if file.is_converted { format!("{}, converted", file.mode) } else { file.mode.to_owned() };
    let mut text = format!(
        "<details{}><summary>{}{name} <span class=\"quiet\">{mode}</span></summary>\n<table>\n",
        if file.standing == Standing::CannotRun { " open" } else { "" },
        escaped(&file.path)
    );
    for (problems, tag) in [(&file.errors, "bad"), (&file.warnings, "unknown")] {
        for problem in problems {
            let line = problem.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let hint = problem
                .hint
                .as_ref()
                .map(|hint| format!("<br><span class=\"quiet\">{}</span>", escaped(hint)));
            text.push_str(&format!(
                "<tr><td><span class=\"tag {tag}\">{}</span></td><td colspan=\"3\">{line}{}{}</td></tr>\n",
                escaped(&problem.code),
                escaped(&problem.message),
                hint.unwrap_or_default(),
            ));
        }
    }
    file.needs.iter().for_each(|need| text.push_str(&of_need(need)));
    text.push_str("</table>\n</details>\n");
    text
}

fn of_need(need: &NeedOfFile) -> String {
    let row = need.kind.row();
    format!(
        "<tr><td>{} {}</td><td>{} {}</td><td class=\"quiet\">{}</td><td><pre>{}</pre></td></tr>\n",
        escaped(row.title),
        tag(need.available, row.is_note),
        escaped(&need.name),
        escaped(&need.detail),
        escaped(&need.nodes.join(", ")),
        escaped(&need.remedy),
    )
}

/// The text for HTML, in elements and in attributes. Control characters, and those that change the direction of
/// writing, become spaces.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                safe.push(' ')
            }
            c => safe.push(c),
        }
    }
    safe
}
