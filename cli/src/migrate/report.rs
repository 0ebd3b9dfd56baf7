//! The report: each file with its needs, and the needs of all files by kind, most files first. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use tidemill_common::dsl::Diagnostic;
use tidemill_common::graph::Imported;
use tidemill_common::requirements::{Requirement, requirements_of};

use super::installation::{Has, Installation, is_private};
use super::kinds::{KINDS, Kind};
use super::remedy::describe;

/// The form of the JSON output.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) summary: Summary,
    pub(crate) needs: Vec<Group>,
    pub(crate) files: Vec<FileReport>,
}

/// The numbers of files.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Summary {
    /// The folder or the files, as the user named them.
    pub(crate) of: String,
    /// The installation that the files were compared with.
    pub(crate) compared_with: String,
    pub(crate) files: usize,
    pub(crate) run_as_they_are: usize,
    pub(crate) need_a_setting: usize,
    /// Those of them that only need providers of models.
    pub(crate) need_only_models: usize,
    pub(crate) cannot_run: usize,
    /// Apps of mode chat, agent-chat and completion that are read as chatflows and workflows.
    pub(crate) converted: usize,
    /// Files that are no workflows.
    pub(crate) passed_over: usize,
}

/// Whether a file can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Standing {
    Runs,
    NeedsSetting,
    CannotRun,
}

/// A file and what it needs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileReport {
    /// The path below the folder.
    pub(crate) path: String,
    /// The name of the app; may be empty.
    pub(crate) app: String,
    pub(crate) mode: &'static str,
    pub(crate) standing: Standing,
    pub(crate) is_converted: bool,
    pub(crate) errors: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) needs: Vec<NeedOfFile>,
}

/// A problem of a file.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Problem {
    pub(crate) code: String,
    pub(crate) line: Option<u32>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// A need of one file.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NeedOfFile {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) nodes: Vec<String>,
    pub(crate) available: Has,
    pub(crate) remedy: String,
    /// The file of a workflow that is called as a tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) called: Option<String>,
}

/// The needs of one kind.
#[derive(Debug, Serialize)]
pub(crate) struct Group {
    pub(crate) kind: Kind,
    pub(crate) title: &'static str,
    pub(crate) provided_by: &'static str,
    /// The number of files with such a need, without those that cannot run.
    pub(crate) files: usize,
    /// Those of them for which something has to be set or done.
    pub(crate) open_files: usize,
    /// Most files first.
    pub(crate) rows: Vec<Row>,
}

/// What one setting provides, with the files that need it.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// Models, tools and the like, each with its number of files; most files first.
    pub(crate) details: Vec<(String, usize)>,
    pub(crate) available: Has,
    pub(crate) remedy: String,
    pub(crate) files: Vec<String>,
}

/// A file that was read, or the reason why it could not be.
pub(crate) struct Read<'a> {
    pub(crate) path: String,
    pub(crate) imported: Result<&'a Imported, &'a str>,
    /// True for an app without a workflow that was read as one with a workflow.
    pub(crate) is_converted: bool,
}

impl Row {
    /// True when something has to be set or done.
    fn is_open(&self) -> bool {
        self.available != Has::Yes
    }
}

impl Group {
    /// The rows for which something has to be set or done.
    pub(crate) fn open_rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.is_open())
    }
}

impl FileReport {
    /// The needs for which something has to be set or done.
    pub(crate) fn open_needs(&self) -> impl Iterator<Item = &NeedOfFile> {
        self.needs.iter().filter(|need| need.available != Has::Yes && !need.kind.row().is_note)
    }
}

/// Makes the report.
pub(crate) fn report(
    (of, compared_with): (String, String),
    read: &[Read<'_>],
    passed_over: usize,
    installation: &Installation,
) -> Report {
    let by_name = files_by_name(read);
    let file_named = |name: &str| by_name.get(&name.to_lowercase()).cloned().flatten();
    let files: Vec<FileReport> =
        read.iter().map(|file| file_report(file, installation, &file_named)).collect();
    let count = |is: &dyn Fn(&FileReport) -> bool| files.iter().filter(|file| is(file)).count();
    let only_models = |file: &FileReport| {
        file.standing == Standing::NeedsSetting && file.open_needs().all(|need| need.kind == Kind::Model)
    };
    let summary = Summary {
        of,
        compared_with,
        files: files.len(),
        run_as_they_are: count(&|file| file.standing == Standing::Runs),
        need_a_setting: count(&|file| file.standing == Standing::NeedsSetting),
        need_only_models: count(&only_models),
        cannot_run: count(&|file| file.standing == Standing::CannotRun),
        converted: count(&|file| file.is_converted),
        passed_over,
    };
    Report { summary, needs: KINDS.iter().filter_map(|row| group(row.kind, &files)).collect(), files }
}

/// The files by the names of their apps, in lower case. `None` for a name that several files have.
pub(crate) fn files_by_name(read: &[Read<'_>]) -> BTreeMap<String, Option<String>> {
    let mut names = BTreeMap::new();
    for file in read {
        let document = file.imported.ok().and_then(|imported| imported.document.as_ref());
        let Some(name) =
            document.map(|document| document.name.to_lowercase()).filter(|name| !name.is_empty())
        else {
            continue;
        };
        names.entry(name).and_modify(|known| *known = None).or_insert_with(|| Some(file.path.clone()));
    }
    names
}

fn file_report(
    file: &Read<'_>,
    installation: &Installation,
    file_named: &dyn Fn(&str) -> Option<String>,
) -> FileReport {
    let imported = match file.imported {
        Ok(imported) => imported,
        Err(reason) => return unreadable(file, reason),
    };
    let (errors, warnings): (Vec<_>, Vec<_>) =
        imported.diagnostics.iter().partition(|found| found.is_error());
    let document = imported.document.as_ref();
    let needs: Vec<NeedOfFile> = document
        .map(requirements_of)
        .unwrap_or_default()
        .iter()
        .filter(|required| !matches!(&required.what, Requirement::Host { host } if !is_private(host)))
        .map(|required| {
            let described = describe(required, file_named);
            NeedOfFile {
                kind: described.kind,
                name: described.name,
                detail: described.detail,
                nodes: required.nodes.clone(),
                available: installation.has(&required.what),
                remedy: described.remedy,
                called: described.called,
            }
        })
        .collect();
    let mut report = FileReport {
        path: file.path.clone(),
        app: document.map(|document| document.name.clone()).unwrap_or_default(),
        mode: document.map_or("", |document| document.mode.name()),
        standing: Standing::CannotRun,
        is_converted: file.is_converted,
        errors: errors.into_iter().map(problem).collect(),
        warnings: warnings.into_iter().map(problem).collect(),
        needs,
    };
    if imported.is_usable() {
        let is_open = report.open_needs().next().is_some();
        report.standing = if is_open { Standing::NeedsSetting } else { Standing::Runs };
    }
    report
}

fn unreadable(file: &Read<'_>, reason: &str) -> FileReport {
    let problem = Problem { code: "file.unreadable".into(), line: None, message: reason.into(), hint: None };
    FileReport {
        path: file.path.clone(),
        app: String::new(),
        mode: "",
        standing: Standing::CannotRun,
        is_converted: false,
        errors: vec![problem],
        warnings: Vec::new(),
        needs: Vec::new(),
    }
}

fn problem(found: &Diagnostic) -> Problem {
    Problem {
        code: found.code.into(),
        line: found.line,
        message: found.message.clone(),
        hint: found.hint.clone(),
    }
}

/// The needs of a kind. `None` when no file that can run has one.
fn group(kind: Kind, files: &[FileReport]) -> Option<Group> {
    let mut rows: Vec<Row> = Vec::new();
    let (mut with_need, mut with_open) = (0, 0);
    // A setting does not help a file that cannot run.
    for file in files.iter().filter(|file| file.standing != Standing::CannotRun) {
        let of_kind = || file.needs.iter().filter(|need| need.kind == kind);
        with_need += usize::from(of_kind().next().is_some());
        with_open += usize::from(of_kind().any(|need| need.available != Has::Yes));
        for need in of_kind() {
            let at = rows.iter().position(|row| row.name == need.name).unwrap_or_else(|| {
                rows.push(Row {
                    name: need.name.clone(),
                    details: Vec::new(),
                    available: need.available,
                    remedy: need.remedy.clone(),
                    files: Vec::new(),
                });
                rows.len() - 1
            });
            add(&mut rows[at], need, &file.path);
        }
    }
    for row in &mut rows {
        row.details.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    }
    rows.sort_by(|a, b| b.files.len().cmp(&a.files.len()).then_with(|| a.name.cmp(&b.name)));
    let row = kind.row();
    (with_need > 0).then_some(Group {
        kind,
        title: row.title,
        provided_by: row.provided_by,
        files: with_need,
        open_files: with_open,
        rows,
    })
}

fn add(row: &mut Row, need: &NeedOfFile, path: &str) {
    // A row is there when all of it is.
    if need.available != Has::Yes {
        row.available = need.available;
    }
    if row.files.last().is_none_or(|last| last != path) {
        row.files.push(path.to_owned());
    }
    if !need.detail.is_empty() {
        match row.details.iter_mut().find(|(detail, _)| *detail == need.detail) {
            Some((_, files)) => *files += 1,
            None => row.details.push((need.detail.clone(), 1)),
        }
    }
}
