//! Settings to fill in: a section for everything that is missing. Every line is a comment until the operator has filled it
//! in, so that the file is valid as it is.

use std::collections::BTreeSet;

use super::kinds::Kind;
use super::remedy::{key, quoted};
use super::report::{Report, Row};
use crate::output::text::one_line;
use crate::workflow_file::count;

/// The kinds that a section of the settings provides, each with its own tables.
const WITH_TABLES: [Kind; 6] =
    [Kind::Model, Kind::Profile, Kind::OpenApiTool, Kind::McpServer, Kind::Dataset, Kind::Moderation];

/// Renders the settings.
pub(crate) fn render(report: &Report) -> String {
    let mut text = format!(
        "# Settings that the workflows of {} need. Remove the # of what you fill in, and add it to tidemill.toml of\n\
         # the workers (http and compat: of the schedulers, too).\n",
        one_line(&report.summary.of)
    );
    let mut written = BTreeSet::new();
    for group in &report.needs {
        let rows: Vec<&Row> = group.open_rows().collect();
        if rows.is_empty() || group.kind.row().is_note {
            continue;
        }
        text.push_str(&format!("\n# {} ({})\n", group.title, count(group.files, "file")));
        match group.kind {
            kind if WITH_TABLES.contains(&kind) => {
                for row in rows {
                    text.push_str(&table(row, kind, &mut written));
                }
            }
            Kind::PluginTool => {
                for row in &rows {
                    text.push_str(&format!("# {}\n", about(row)));
                }
                text.push_str("# [tools]\n# endpoint = \"http://…\"\n");
            }
            Kind::Module => text.push_str(&modules(&rows)),
            Kind::CodeNetwork => text.push_str("# [code]\n# network = true\n"),
            Kind::PrivateHost => {
                text.push_str(&list("http", "allow", rows.iter().map(|row| row.name.as_str())))
            }
            _ => {
                for row in rows {
                    text.push_str(&format!("# {}\n#   {}\n", about(row), one_line(&row.remedy)));
                }
            }
        }
    }
    text
}

/// A section of its own for each row.
fn table(row: &Row, kind: Kind, written: &mut BTreeSet<String>) -> String {
    let head = row.remedy.lines().next().unwrap_or_default().to_owned();
    let mut text = format!("#\n# {}\n", about(row));
    if !written.insert(head.clone()) {
        text.push_str(&format!("# as {head} above\n"));
        return text;
    }
    for line in row.remedy.lines() {
        text.push_str(&format!("# {}\n", one_line(line)));
    }
    if kind == Kind::Model {
        let name = head.trim_start_matches("[providers.").trim_end_matches(']').to_owned();
        let features: Vec<String> =
            row.details.iter().filter_map(|(detail, _)| features(&name, detail)).collect();
        if !features.is_empty() {
            text.push_str("# Only if the features of these models are not known:\n");
            text.push_str(&features.concat());
        }
    }
    text
}

/// The setting for the features of a model that the table of known models lacks.
fn features(provider: &str, detail: &str) -> Option<String> {
    let (model, features) = detail.strip_suffix(')')?.rsplit_once(" (")?;
    let features: Vec<&str> = features
        .split(", ")
        .filter(|one| ["vision", "tool-call", "structured-output"].contains(one))
        .collect();
    let known = tidemill_common::nodes::llm::known::find(model);
    let has = |feature: &&&str| {
        known.as_ref().is_some_and(|known| known.features.iter().any(|one| one == **feature))
    };
    if features.is_empty() || features.iter().all(|feature| has(&feature)) {
        return None;
    }
    let listed: Vec<String> = features.iter().map(|feature| quoted(feature)).collect();
    let (provider, model) = (one_line(provider), one_line(&key(model)));
    Some(format!("# [providers.{provider}.models.{model}]\n# features = [{}]\n", listed.join(", ")))
}

fn modules(rows: &[&Row]) -> String {
    let named = rows.iter().filter_map(|row| row.remedy.split('"').nth(1));
    let mut text = list("code.python", "packages", named);
    for row in rows.iter().filter(|row| !row.remedy.contains('"')) {
        text.push_str(&format!("# {}: {}\n", about(row), one_line(&row.remedy)));
    }
    text
}

fn list<'a>(section: &str, name: &str, values: impl Iterator<Item = &'a str>) -> String {
    let values: BTreeSet<String> = values.map(quoted).collect();
    let values: Vec<String> = values.into_iter().collect();
    format!("# [{section}]\n# {name} = [{}]\n", values.join(", "))
}

/// A line about a row: its name, its parts, and the number of its files.
fn about(row: &Row) -> String {
    let parts: Vec<String> = row.details.iter().map(|(detail, _)| one_line(detail)).collect();
    let parts = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    format!("{}{parts} ({})", one_line(&row.name), count(row.files.len(), "file"))
}
