//! What a package needs of Python: the interpreter, the packages, and the SDK.
//!
//! Newer plugins have `pyproject.toml` and mostly `uv.lock`, older ones have `requirements.txt`. A requirement may be
//! more than a name with versions: an option of pip, an address, a folder. Such lines make pip fetch or build from places
//! that the package chooses, so they are noted as unusual, and an environment is not made with them unless the settings
//! allow it.

use std::collections::BTreeMap;

use toml::Table;

use super::files::Files;
use super::problem::Problem;
use super::version::{Conditions, Version};

const REQUIREMENTS: &str = "requirements.txt";
const PROJECT: &str = "pyproject.toml";
const LOCK: &str = "uv.lock";
/// The SDK under its normal name.
const SDK: &str = "dify-plugin";
/// The newest SDK that runs on Python 3.11; later ones need 3.12.
const SDK_OF_311: [u32; 3] = [0, 7, 4];
/// The signs that names with versions, extras and conditions consist of, besides ASCII letters and digits. pip also ends a line
/// at signs that are not control characters, and joins lines that end in a backslash.
const PLAIN: &str = " ._-[],<>=!~;()'\"+*";
/// Most requirements that are read.
const REQUIREMENTS_MAX: usize = 500;
/// Largest file of requirements, and largest lock, in bytes.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// What a package needs of Python.
#[derive(Debug, Clone, Default)]
pub struct PythonNeeds {
    /// The file that names the requirements. `None`: the package names none.
    pub file: Option<&'static str>,
    pub requirements: Vec<Requirement>,
    /// Exact versions of the lock, by normal name.
    pub locked: BTreeMap<String, String>,
    /// The conditions on the version of Python, as written.
    pub requires_python: Option<String>,
    /// The requirement of the SDK, as written.
    pub sdk: Option<String>,
}

/// A line that names something to install.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// As written.
    pub text: String,
    /// The normal name of the package: lower case, `-` between words. Empty if the line is unusual.
    pub name: String,
    /// The line of the file. `None` in `pyproject.toml`.
    pub line: Option<usize>,
    /// The reason why the line is not simply a name with versions.
    pub unusual: Option<&'static str>,
}

impl PythonNeeds {
    /// The exact version of the SDK in the lock, or the oldest one that the requirement allows.
    pub fn sdk_version(&self) -> Option<Version> {
        let locked = self.locked.get(SDK).and_then(|version| Version::read(version));
        locked.or_else(|| conditions(self.sdk.as_deref()?).lowest())
    }

    /// The oldest release of Python that fits, with the reason.
    pub fn oldest_python(&self) -> (Version, String) {
        let mut oldest = (Version::new(&[3, 11]), "every SDK needs it".to_owned());
        let mut consider = |version: Version, reason: String| {
            if version.compare(&oldest.0).is_gt() {
                oldest = (version, reason);
            }
        };
        if let Some(sdk) = self.sdk_version()
            && sdk.compare(&Version::new(&SDK_OF_311)).is_gt()
        {
            consider(Version::new(&[3, 12]), format!("the SDK {sdk} needs it"));
        }
        if let Some(text) = &self.requires_python
            && let Some(lowest) = Conditions::read(text).lowest()
        {
            consider(lowest, format!("requires-python is {text:?}"));
        }
        oldest
    }

    /// Tests whether a release of Python fits.
    pub fn allow_python(&self, version: &Version) -> bool {
        let (oldest, _) = self.oldest_python();
        let conditions = self.requires_python.as_deref().map(Conditions::read).unwrap_or_default();
        version.compare(&oldest).is_ge() && conditions.allow(version)
    }

    /// The first requirement that is not simply a name with versions.
    pub fn unusual(&self) -> Option<&Requirement> {
        self.requirements.iter().find(|requirement| requirement.unusual.is_some())
    }
}

impl Requirement {
    /// Whether it is the SDK, perhaps from an address.
    fn names_sdk(&self) -> bool {
        let end = self.text.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c));
        normal(&self.text[..end.unwrap_or(self.text.len())]) == SDK
    }
}

/// Reads what the files of a package say.
pub(super) fn read(files: &Files, report: &dyn Fn(Problem)) -> PythonNeeds {
    let text = |name: &str| {
        let bytes = files.get(name)?;
        let text = std::str::from_utf8(bytes).ok().filter(|text| text.len() <= TEXT_BYTES_MAX);
        if text.is_none() {
            report(Problem::of_file(name, format!("it is not UTF-8, or larger than {TEXT_BYTES_MAX} bytes")));
        }
        text
    };
    let mut needs = PythonNeeds::default();
    let project = text(PROJECT).and_then(|text| table(PROJECT, text, report));
    if let Some(project) = &project {
        needs.file = Some(PROJECT);
        let project = project.get("project").and_then(toml::Value::as_table);
        let written = |key: &str| project.and_then(|project| project.get(key));
        needs.requires_python = written("requires-python").and_then(|value| value.as_str()).map(String::from);
        let listed = written("dependencies").and_then(toml::Value::as_array).into_iter().flatten();
        let listed = listed.filter_map(toml::Value::as_str).map(|text| (text, None));
        needs.requirements = requirements(PROJECT, listed, report);
    }
    // Dify's own host also prefers the newer file if there are both. But that of a library that is a plugin, too, may leave out
    // the SDK.
    let ignored = |_: Problem| {};
    let of_lines = |report: &dyn Fn(Problem)| {
        let text = std::str::from_utf8(files.get(REQUIREMENTS)?).ok()?;
        let lines = text.lines().enumerate().map(|(at, line)| (line, Some(at + 1)));
        Some(requirements(REQUIREMENTS, lines, report))
    };
    let has_sdk = |all: &[Requirement]| all.iter().any(Requirement::names_sdk);
    let is_of_lines = match &project {
        Some(_) => !has_sdk(&needs.requirements) && of_lines(&ignored).is_some_and(|all| has_sdk(&all)),
        None => text(REQUIREMENTS).is_some(),
    };
    if is_of_lines {
        needs.file = Some(REQUIREMENTS);
        needs.requirements = of_lines(report).unwrap_or_default();
    } else if project.is_some()
        && let Some(lock) = text(LOCK).and_then(|text| table(LOCK, text, report))
    {
        needs.locked = locked(&lock);
    }
    needs.sdk = needs.requirements.iter().find(|one| one.name == SDK).map(|one| one.text.clone());
    if needs.sdk.is_none() {
        let file = needs.file.unwrap_or(PROJECT);
        report(Problem::of_file(file, "the SDK (dify_plugin) is not among the requirements".into()));
    }
    needs
}

fn table(file: &str, text: &str, report: &dyn Fn(Problem)) -> Option<Table> {
    let read = text.parse::<Table>();
    read.map_err(|error| report(Problem::of_file(file, error.message().to_owned()))).ok()
}

fn requirements<'t>(
    file: &str,
    lines: impl Iterator<Item = (&'t str, Option<usize>)>,
    report: &dyn Fn(Problem),
) -> Vec<Requirement> {
    let mut read = Vec::new();
    for (text, line) in lines {
        let Some(requirement) = requirement(text, line) else { continue };
        if read.len() == REQUIREMENTS_MAX {
            let message = format!("more than {REQUIREMENTS_MAX} requirements; the others are left out");
            report(Problem::of_line(file, line.unwrap_or(1), message));
            break;
        }
        read.push(requirement);
    }
    read
}

/// Reads one line. `None` for an empty one.
fn requirement(text: &str, line: Option<usize>) -> Option<Requirement> {
    // A comment begins at the line or after a space: an address may contain the sign.
    let text = text.trim_start_matches('\u{feff}');
    let text = if text.starts_with('#') { "" } else { text.split(" #").next().unwrap_or_default() };
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let unusual = |reason| {
        Some(Requirement { text: text.to_owned(), name: String::new(), line, unusual: Some(reason) })
    };
    if text.starts_with('-') {
        return unusual("an option of pip");
    }
    if text.contains("${") || text.ends_with('\\') {
        return unusual("a variable, or a line that goes on");
    }
    if !text.chars().all(|c| c.is_ascii_alphanumeric() || PLAIN.contains(c) || "@:/".contains(c)) {
        return unusual("more than a name with versions: it has a sign that none of these needs");
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('[') {
        Some(extras) => extras.split_once(']').map_or("@", |(_, rest)| rest.trim_start()),
        None => rest,
    };
    if rest.starts_with('@') || rest.starts_with(':') || rest.starts_with('/') || text.contains("://") {
        return unusual("an address or a folder");
    }
    let is_versions = rest.is_empty() || rest.starts_with(['<', '>', '=', '!', '~', ';', '(']);
    let has_option = text.split_whitespace().any(|word| word.starts_with('-'));
    if name.is_empty() || name.starts_with('.') || !is_versions || has_option {
        return unusual("not a name with versions");
    }
    if text.contains(['@', ':', '/']) {
        return unusual("an address or a folder");
    }
    if name.ends_with(".whl") || name.ends_with(".gz") || name.ends_with(".zip") {
        return unusual("a file");
    }
    Some(Requirement { text: text.to_owned(), name: normal(name), line, unusual: None })
}

/// The name of a package as indexes write it.
fn normal(name: &str) -> String {
    let words: Vec<&str> = name.split(['-', '_', '.']).filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase()
}

/// The conditions in a requirement.
fn conditions(requirement: &str) -> Conditions {
    let versions = requirement.split(';').next().unwrap_or_default();
    let from = versions.find(['<', '>', '=', '!', '~']).unwrap_or(versions.len());
    Conditions::read(versions[from..].trim_end_matches(')'))
}

/// The exact versions of a lock. A package with several versions, for several systems, is left to pip.
fn locked(lock: &Table) -> BTreeMap<String, String> {
    let mut versions: BTreeMap<String, Option<String>> = BTreeMap::new();
    let packages = lock.get("package").and_then(toml::Value::as_array);
    for package in packages.into_iter().flatten() {
        let text = |key: &str| package.get(key).and_then(toml::Value::as_str);
        let (Some(name), Some(version)) = (text("name"), text("version")) else { continue };
        let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.+!".contains(c));
        // The plugin itself is in the lock, too; its source is a folder.
        let is_of_index = package.get("source").and_then(|source| source.get("registry")).is_some();
        if is_of_index && is_plain(name) && is_plain(version) {
            let entry = versions.entry(normal(name));
            entry.and_modify(|known| *known = None).or_insert_with(|| Some(version.to_owned()));
        }
    }
    versions.into_iter().filter_map(|(name, version)| Some((name, version?))).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::super::files::Collector;
    use super::*;
    use crate::limits::PackageLimits;

    #[test]
    fn lines_that_are_more_than_a_name_with_versions_are_noted() {
        for (text, name, is_unusual) in [
            ("dify_plugin>=0.4.0,<0.5.0", "dify-plugin", false),
            ("dify_plugin~=0.4  # the SDK", "dify-plugin", false),
            ("Requests[socks]==2.31; python_version > '3'", "requests", false),
            ("zope.interface (>=1)", "zope-interface", false),
            ("-r other.txt", "", true),
            ("--index-url https://evil.example/", "", true),
            ("-e .", "", true),
            ("x @ file:///etc", "", true),
            ("x @ git+https://github.com/a/b", "", true),
            ("git+https://github.com/a/b", "", true),
            ("https://evil.example/a.whl", "", true),
            ("./folder", "", true),
            ("/folder", "", true),
            ("a.whl", "", true),
            ("a==${SECRET}", "", true),
            ("a==1 --config-settings=x=y", "", true),
            ("a[b", "", true),
            ("a>=1\n--index-url https://evil.example/", "", true),
            ("a>=1\t--hash=x", "", true),
            ("a>=1\u{2028}--index-url https://evil.example/", "", true),
            ("a>=1\u{2028}--pre", "", true),
            ("a>=1\u{2029}--pre", "", true),
            ("a>=1\u{85}--pre", "", true),
            ("a>=1\u{b}--pre", "", true),
            ("a>=1\u{c}--pre", "", true),
            ("a>=1\u{1c}--pre", "", true),
            ("a>=1,\\", "", true),
            ("a>=1\\b", "", true),
            ("a>=1 -C x=y", "", true),
            ("a>=$VERSION", "", true),
            ("a>=1; python_version > 'ä'", "", true),
            ("a>=1; sys_platform == 'x' and x == 'file:///etc'", "", true),
            ("a !=1.*, ==1.0+local; extra == \"b\"", "a", false),
        ] {
            let read = requirement(text, None).unwrap();
            assert_eq!((read.name.as_str(), read.unusual.is_some()), (name, is_unusual), "{text}");
        }
        assert_eq!(requirement("  # a comment", None), None);
        assert_eq!(requirement("# -r x", None), None);
    }

    #[test]
    fn the_sdk_decides_which_python_is_needed() {
        let oldest = |sdk: &str, requires: Option<&str>, locked: &[(&str, &str)]| {
            let needs = PythonNeeds {
                sdk: Some(sdk.into()),
                requires_python: requires.map(String::from),
                locked: locked.iter().map(|(name, version)| ((*name).into(), (*version).into())).collect(),
                ..PythonNeeds::default()
            };
            needs.oldest_python().0.to_string()
        };
        assert_eq!(oldest("dify_plugin>=0.4.0,<0.5.0", None, &[]), "3.11");
        assert_eq!(oldest("dify_plugin==0.7.4", None, &[]), "3.11");
        assert_eq!(oldest("dify_plugin>=0.9.0", None, &[]), "3.12");
        assert_eq!(oldest("dify_plugin>=0.4", None, &[("dify-plugin", "0.10.2")]), "3.12");
        assert_eq!(oldest("dify_plugin>=0.4", Some(">=3.13"), &[]), "3.13");
    }

    #[test]
    fn a_lock_gives_the_versions_that_are_the_same_everywhere() {
        let text = r#"
            [[package]]
            name = "own"
            version = "1"
            source = { virtual = "." }
            [[package]]
            name = "Numpy"
            version = "1.0"
            source = { registry = "https://index.example/simple" }
            [[package]]
            name = "a"
            version = "1"
            source = { registry = "x" }
            [[package]]
            name = "a"
            version = "2"
            source = { registry = "x" }
        "#;
        let locked = locked(&text.parse::<Table>().unwrap());
        assert_eq!(locked.into_iter().collect::<Vec<_>>(), [("numpy".to_owned(), "1.0".to_owned())]);
    }

    #[test]
    fn requirements_count_when_the_project_does_not_name_the_sdk() {
        let project = |dependencies: &str| {
            format!("[project]\nrequires-python = \">=3.11\"\ndependencies = [{dependencies}]\n")
        };
        let lock = "[[package]]\nname = \"a\"\nversion = \"2\"\nsource = { registry = \"x\" }\n";
        let read = |project: &str, lines: Option<&str>| {
            let limits = PackageLimits::default();
            let mut collector = Collector::new(&limits);
            collector.add(PROJECT, project.as_bytes()).unwrap();
            collector.add(LOCK, lock.as_bytes()).unwrap();
            if let Some(lines) = lines {
                collector.add(REQUIREMENTS, lines.as_bytes()).unwrap();
            }
            let problems = RefCell::new(0);
            let needs = super::read(&collector.finish().unwrap(), &|_| *problems.borrow_mut() += 1);
            assert_eq!(needs.requires_python.as_deref(), Some(">=3.11"));
            let names: Vec<String> = needs.requirements.iter().map(|one| one.name.clone()).collect();
            (needs.file.unwrap(), names.join(" "), needs.locked.len(), problems.into_inner())
        };
        let (with, without) = (project(r#""dify_plugin", "a""#), project(r#""a""#));
        let both = "b\ndify_plugin~=0.7.1\n";
        assert_eq!(read(&with, Some(both)), (PROJECT, "dify-plugin a".into(), 1, 0));
        assert_eq!(read(&without, Some(both)), (REQUIREMENTS, "b dify-plugin".into(), 0, 0));
        assert_eq!(read(&without, Some("b\n")), (PROJECT, "a".into(), 1, 1));
        assert_eq!(read(&without, None), (PROJECT, "a".into(), 1, 1));
        let far = project(r#""dify_plugin @ git+https://github.com/a/b", "a""#);
        assert_eq!(read(&far, Some(both)), (PROJECT, " a".into(), 1, 1));
    }
}
