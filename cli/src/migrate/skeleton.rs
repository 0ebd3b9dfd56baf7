//! Settings to fill in: a section for everything that is missing. Every line is a comment until the operator has filled it
//! in, so that the file is valid as it is.

use std::collections::{BTreeMap, BTreeSet};

use super::kinds::Kind;
use super::remedy::{key, quoted};
use super::report::{Report, Row};
use crate::output::text::one_line;
use crate::workflow_file::count;

/// The kinds that a section of the settings provides, each with its own tables.
const WITH_TABLES: [Kind; 6] =
    [Kind::Model, Kind::Profile, Kind::OpenApiTool, Kind::McpServer, Kind::Dataset, Kind::Moderation];

/// The features of models that a workflow can need.
const FEATURES: [&str; 3] = ["vision", "tool-call", "structured-output"];

/// Marks of a value that has to be filled in, as the remedies write them.
const PLACEHOLDERS: [&str; 3] = ["…", "//ADDRESS", "//NAME."];

/// Finds a setting that is not filled in. Returns its name.
pub(crate) fn not_filled_in(settings: &str) -> Option<String> {
    let mut section = String::new();
    for line in settings.lines().map(without_comment) {
        let line = line.trim();
        if let Some(head) = line.strip_prefix('[') {
            section = head.trim_matches(['[', ']']).to_owned();
        }
        if PLACEHOLDERS.iter().any(|mark| line.contains(mark)) {
            let name = line.split_once('=').map(|(name, _)| name.trim());
            let parts = [Some(section.as_str()).filter(|section| !section.is_empty()), name];
            return Some(parts.into_iter().flatten().collect::<Vec<_>>().join("."));
        }
    }
    None
}

/// The line up to a `#` outside of quotes.
fn without_comment(line: &str) -> &str {
    let mut is_quoted = false;
    let ends = |c: char| {
        is_quoted ^= c == '"';
        c == '#' && !is_quoted
    };
    line.find(ends).map_or(line, |end| &line[..end])
}

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
        text.push_str(&format!("\n# {} ({})\n", group.title, count(group.open_files, "file")));
        match group.kind {
            kind if WITH_TABLES.contains(&kind) => {
                let models = if kind == Kind::Model { models(&rows) } else { BTreeMap::new() };
                for row in rows {
                    text.push_str(&table(row, &models, &mut written));
                }
            }
            Kind::PluginTool => {
                for row in &rows {
                    text.push_str(&format!("# {}\n#   {}\n", about(row), one_line(&row.remedy)));
                }
                text.push_str(
                    "# or a service in place of all of them:\n# [tools]\n# endpoint = \"http://…\"\n",
                );
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

/// The features of models by the name of the model, for each head of a provider's table.
type Models = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// A section of its own for each row.
fn table(row: &Row, models: &Models, written: &mut BTreeSet<String>) -> String {
    let head = head(row);
    let mut text = format!("#\n# {}\n", about(row));
    if !written.insert(head.clone()) {
        text.push_str(&format!("# as {} above\n", one_line(&head)));
        return text;
    }
    for line in row.remedy.lines() {
        text.push_str(&format!("# {}\n", one_line(line)));
    }
    let of_models: String =
        models.get(&head).into_iter().flatten().filter_map(|one| features(&head, one)).collect();
    if !of_models.is_empty() {
        text.push_str("# Only if the features of these models are not known:\n");
        text.push_str(&of_models);
    }
    text
}

fn head(row: &Row) -> String {
    row.remedy.lines().next().unwrap_or_default().to_owned()
}

/// Collects the features that the workflows need of each model, whatever the purposes for which they use it.
fn models(rows: &[&Row]) -> Models {
    let mut all = Models::new();
    for row in rows {
        let of_provider = all.entry(head(row)).or_default();
        for (detail, _) in &row.details {
            let Some((model, marks)) = detail.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("))
            else {
                continue;
            };
            let wanted = marks.split(", ").filter(|one| FEATURES.contains(one)).map(str::to_owned);
            of_provider.entry(model.to_owned()).or_default().extend(wanted);
        }
    }
    all
}

/// The setting for the features of a model that the table of known models lacks. It replaces what is known, so it lists
/// that as well.
fn features(head: &str, (model, wanted): (&String, &BTreeSet<String>)) -> Option<String> {
    let known =
        tidemill_common::nodes::llm::known::find(model).map(|known| known.features).unwrap_or_default();
    if wanted.iter().all(|feature| known.contains(feature)) {
        return None;
    }
    let more = wanted.iter().filter(|feature| !known.contains(feature));
    let listed: Vec<String> = known.iter().chain(more).map(|feature| quoted(feature)).collect();
    let provider = one_line(head.trim_end_matches(']'));
    let model = one_line(&key(model));
    Some(format!("# {provider}.models.{model}]\n# features = [{}]\n", listed.join(", ")))
}

fn modules(rows: &[&Row]) -> String {
    let named = rows.iter().filter_map(|row| row.remedy.split('"').nth(1));
    let mut text = list("code.python", "packages", named);
    text.push_str("# # then, on each host of a worker: tidemill code install\n");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_filled_in_is_named() {
        for (settings, expected) in [
            ("[providers.own]\nbase_url = \"https://ADDRESS/v1\"", Some("providers.own.base_url")),
            ("[tools]\nendpoint = \"http://…\"", Some("tools.endpoint")),
            ("[providers.a]\n# base_url = \"https://…\"\n[http]\nallow = [] # … and more", None),
            ("[tools]\nendpoint = \"http://h/#x\"   # the address of …", None),
        ] {
            assert_eq!(not_filled_in(settings).as_deref(), expected, "{settings}");
        }
    }
}
