//! Reads the YAML files of a package within one budget for all of them, and their values with typed questions. Each problem is reported
//! with file, line and place. Keys that are not asked for are accepted: real plugins have many.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};

use serde_json::Value as Json;
use tidemill_common::dsl::{ParseOptions, PlainText};

use super::files::Files;
use super::pattern;
use super::problem::{Problem, Severity};
use crate::limits::PackageLimits;

/// Deepest nesting of a YAML file.
const DEPTH_MAX: usize = 64;
/// Most values of a YAML file after its aliases are expanded.
const VALUES_MAX: usize = 100_000;
/// Most bytes of text of a YAML file after its aliases are expanded.
const TEXT_BYTES_MAX: usize = 4 << 20;
/// Most patterns in a list of files.
const PATTERNS_MAX: u32 = 64;

/// A YAML file that was read.
pub(super) struct Yaml {
    file: String,
    text: PlainText,
}

/// What was read until now, with repetitions.
#[derive(Clone, Copy, Default)]
struct Used {
    files: usize,
    bytes: usize,
    /// After aliases were expanded.
    values: usize,
    text_bytes: usize,
}

/// The reader of a package's YAML files.
pub(super) struct Reader<'a> {
    pub(super) files: &'a Files,
    limits: &'a PackageLimits,
    /// The files that could not be read. Others are read again, because they may be large after their aliases are expanded.
    failed: RefCell<BTreeSet<String>>,
    used: Cell<Used>,
    pattern_steps: Cell<u64>,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(files: &'a Files, limits: &'a PackageLimits) -> Self {
        Self {
            files,
            limits,
            failed: RefCell::default(),
            used: Cell::default(),
            pattern_steps: Cell::new(limits.pattern_steps_max),
            problems: RefCell::default(),
        }
    }

    pub(super) fn report(&self, problem: Problem) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < self.limits.problems_max && !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems.into_inner()
    }

    /// Reads a YAML file. `None` after a problem, which is reported once.
    pub(super) fn read(&self, file: &str) -> Option<Yaml> {
        if self.failed.borrow().contains(file) {
            return None;
        }
        let read = self.read_now(file);
        read.map_err(|problem| {
            self.report(problem);
            self.failed.borrow_mut().insert(file.to_owned());
        })
        .ok()
    }

    fn read_now(&self, file: &str) -> Result<Yaml, Problem> {
        let refuse = |message: String| Problem::of_file(file, message);
        let bytes = self.files.get(file).ok_or_else(|| refuse("the package has no such file".into()))?;
        let limits = self.limits;
        let mut used = self.used.get();
        used.files += 1;
        if used.files > limits.yaml_files_max {
            return Err(refuse(format!("more than {} YAML files (yaml_files_max)", limits.yaml_files_max)));
        }
        if bytes.len() > limits.yaml_bytes_max {
            return Err(refuse(format!("more than {} bytes (yaml_bytes_max)", limits.yaml_bytes_max)));
        }
        used.bytes = used.bytes.saturating_add(bytes.len());
        // Also before it is read, so that files beyond the budget cost nothing.
        self.within(used).map_err(refuse)?;
        let options = ParseOptions {
            bytes_max: limits.yaml_bytes_max,
            depth_max: DEPTH_MAX,
            values_max: VALUES_MAX,
            text_bytes_max: TEXT_BYTES_MAX,
            ..ParseOptions::default()
        };
        let read = PlainText::read(bytes, &options);
        match &read {
            Ok(text) => count(&text.value, &mut used),
            // It may have failed at a limit, after as many values.
            Err(_) if bytes.contains(&b'*') => used.values = used.values.saturating_add(VALUES_MAX),
            Err(_) => {}
        }
        self.used.set(used);
        let text = read.map_err(|found| Problem { line: found.line, ..refuse(found.message) })?;
        self.within(used).map_err(refuse)?;
        Ok(Yaml { file: file.to_owned(), text })
    }

    fn within(&self, used: Used) -> Result<(), String> {
        let limits = self.limits;
        for (used, most, what, name) in [
            (used.bytes, limits.yaml_bytes_all_max, "bytes of YAML", "yaml_bytes_all_max"),
            (used.values, limits.yaml_values_all_max, "values", "yaml_values_all_max"),
            (used.text_bytes, limits.yaml_text_bytes_all_max, "bytes of text", "yaml_text_bytes_all_max"),
        ] {
            if used > most {
                return Err(format!("more than {most} {what} in all YAML files ({name})"));
            }
        }
        Ok(())
    }

    /// The root of a file.
    pub(super) fn root<'r>(&'r self, yaml: &'r Yaml) -> Spot<'r> {
        Spot { reader: self, yaml, value: &yaml.text.value, path: String::new() }
    }

    /// The files that a list of names and patterns means, without repetition, in its order. A name that is missing is
    /// reported.
    pub(super) fn named(&self, list: &[Spot<'_>]) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        let mut patterns_left = PATTERNS_MAX;
        for spot in list {
            let Some(name) = spot.text() else { continue };
            let name = name.trim_start_matches("./").to_owned();
            if !pattern::is_pattern(&name) {
                if !self.files.has(&name) {
                    spot.error(format!("the package has no file {name:?}"));
                } else if seen.insert(name.clone()) {
                    found.push(name);
                }
                continue;
            }
            if name.len() > self.limits.path_bytes_max || patterns_left == 0 {
                spot.error(format!(
                    "the pattern is longer than path_bytes_max, or there are more than {PATTERNS_MAX}"
                ));
                continue;
            }
            patterns_left -= 1;
            // Each pattern is compared with all names, so the steps are counted for the whole package.
            let mut steps = self.pattern_steps.get();
            let fitting = self.files.names().filter(|own| pattern::fits(&name, own, &mut steps));
            found.extend(fitting.filter(|own| seen.insert((*own).to_owned())).map(String::from));
            self.pattern_steps.set(steps);
            if steps == 0 {
                let most = self.limits.pattern_steps_max;
                spot.error(format!("its patterns need more than {most} steps (pattern_steps_max)"));
                break;
            }
        }
        found
    }
}

/// Adds the values and the text of a value.
fn count(value: &Json, used: &mut Used) {
    used.values = used.values.saturating_add(1);
    match value {
        Json::String(text) => used.text_bytes = used.text_bytes.saturating_add(text.len()),
        Json::Array(items) => items.iter().for_each(|item| count(item, used)),
        Json::Object(map) => {
            for (key, item) in map {
                used.text_bytes = used.text_bytes.saturating_add(key.len());
                count(item, used);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

/// A value in a YAML file.
#[derive(Clone)]
pub(super) struct Spot<'a> {
    reader: &'a Reader<'a>,
    yaml: &'a Yaml,
    pub(super) value: &'a Json,
    path: String,
}

impl<'a> Spot<'a> {
    fn child(&self, key: &str, value: &'a Json) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        Self { value, path, reader: self.reader, yaml: self.yaml }
    }

    /// The value of a key that may be missing. `null` counts as missing.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(self.child(key, value))
    }

    /// The value of a key that must be there.
    pub(super) fn need(&self, key: &str) -> Option<Self> {
        let found = self.get(key);
        if found.is_none() {
            self.error(format!("{key} is missing"));
        }
        found
    }

    /// The text of a key that must be there; empty if it is not.
    pub(super) fn need_text(&self, key: &str) -> String {
        self.need(key).and_then(|spot| spot.text()).unwrap_or_default()
    }

    /// The text of a key that may be missing.
    pub(super) fn maybe_text(&self, key: &str) -> Option<String> {
        self.get(key).and_then(|spot| spot.text())
    }

    /// A text. A number or a truth value is taken as it is written: `version: 1.0`.
    pub(super) fn text(&self) -> Option<String> {
        match self.value {
            Json::String(text) => Some(text.clone()),
            Json::Number(_) | Json::Bool(_) => Some(self.value.to_string()),
            Json::Null | Json::Array(_) | Json::Object(_) => {
                self.error("this must be a text".into());
                None
            }
        }
    }

    /// The truth value of a key; false without one.
    pub(super) fn flag(&self, key: &str) -> bool {
        match self.get(key) {
            Some(spot) => match spot.value {
                Json::Bool(value) => *value,
                _ => {
                    spot.error("this must be true or false".into());
                    false
                }
            },
            None => false,
        }
    }

    /// The items of a key that has a list; empty without one.
    pub(super) fn list(&self, key: &str) -> Vec<Self> {
        self.get(key).map(|spot| spot.items()).unwrap_or_default()
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Vec<Self> {
        let Json::Array(items) = self.value else {
            self.error("this must be a list".into());
            return Vec::new();
        };
        let item = |(at, value): (usize, &'a Json)| Self {
            value,
            path: format!("{}[{at}]", self.path),
            reader: self.reader,
            yaml: self.yaml,
        };
        items.iter().enumerate().map(item).collect()
    }

    /// The entries of a mapping.
    pub(super) fn entries(&self) -> Vec<(&'a str, Self)> {
        let Json::Object(map) = self.value else {
            self.error("this must be a mapping".into());
            return Vec::new();
        };
        map.iter().map(|(key, value)| (key.as_str(), self.child(key, value))).collect()
    }

    /// A text for people: by language, or one for all.
    pub(super) fn label(&self, key: &str) -> String {
        let Some(spot) = self.get(key) else { return String::new() };
        match spot.value {
            Json::Object(languages) => {
                let english = ["en_US", "en-US", "en"].iter().find_map(|name| languages.get(*name)?.as_str());
                let any = || languages.values().find_map(Json::as_str);
                english.or_else(any).unwrap_or_default().to_owned()
            }
            _ => spot.text().unwrap_or_default(),
        }
    }

    /// The texts of a list of texts.
    pub(super) fn texts(&self, key: &str) -> Vec<String> {
        self.list(key).iter().filter_map(Spot::text).collect()
    }

    /// Reports a problem here.
    pub(super) fn error(&self, message: String) {
        self.report(Severity::Error, message);
    }

    /// Reports something here that does not keep the plugin from running.
    pub(super) fn warn(&self, message: String) {
        self.report(Severity::Warning, message);
    }

    fn report(&self, severity: Severity, message: String) {
        self.reader.report(Problem {
            severity,
            file: self.yaml.file.clone(),
            line: self.yaml.text.line_of(&self.path),
            place: self.path.clone(),
            message,
        });
    }

    /// Reports a name of a file that the package does not have.
    pub(super) fn package_file(&self) {
        if let Some(name) = self.text()
            && !self.reader.files.has(name.trim_start_matches("./"))
        {
            self.error(format!("the package has no file {name:?}"));
        }
    }

    /// The Python file that a key of `extra.python` names, if the package has it.
    pub(super) fn python_source(&self) -> Option<String> {
        let source = self.get("extra")?.get("python")?.get("source")?;
        source.package_file();
        source.text()
    }
}
