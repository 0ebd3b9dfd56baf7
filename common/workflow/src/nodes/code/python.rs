//! `code.python`: the interpreter of code nodes, and the packages of an environment of its own.
//!
//! A text names the interpreter. A table also declares packages; `tidemill code install` makes their environment.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use tidemill_base::hidden::HiddenUrl;

/// The name of the lock file if the settings name none.
const LOCK: &str = "tidemill-code.lock";

/// `code.python`, as a text or as a table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PythonConfig(pub PythonTable);

/// `[code.python]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PythonTable {
    /// The Python, 3.9 or newer: a path, or a name to look up in `PATH`.
    pub interpreter: String,
    /// Requirements as pip reads them, such as `requests` or `pandas>=2,<3`. None: the interpreter's own packages.
    pub packages: Vec<String>,
    /// The folder of the environments.
    pub environments: String,
    /// The lock file with exact versions and hashes; empty: `tidemill-code.lock` beside the settings.
    pub lock: String,
    /// The index to install from, instead of pip's own settings.
    pub index_url: HiddenUrl,
    /// A folder with wheels to install from, instead of an index.
    pub wheels: String,
    /// True when packages without a wheel may be built, which runs their code.
    pub allow_builds: bool,
    /// Modules that every helper imports at its start, so that no execution has to.
    pub preload: Vec<String>,
    /// The folder of the settings file, from which relative paths count.
    #[serde(skip)]
    pub folder: PathBuf,
}

impl Default for PythonTable {
    fn default() -> Self {
        Self {
            interpreter: "python3".into(),
            packages: Vec::new(),
            environments: "/var/lib/tidemill/python".into(),
            lock: String::new(),
            index_url: HiddenUrl::default(),
            wheels: String::new(),
            allow_builds: false,
            preload: Vec::new(),
            folder: PathBuf::new(),
        }
    }
}

impl PythonTable {
    /// Whether code runs in an environment of declared packages.
    pub const fn has_environment(&self) -> bool {
        !self.packages.is_empty()
    }

    /// The path of the lock file.
    pub fn lock_file(&self) -> PathBuf {
        self.path(if self.lock.is_empty() { LOCK } else { &self.lock })
    }

    /// A path of the settings, which counts from their folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.join(Path::new(path))
    }

    /// The first entry that is not a requirement by name, such as an option of pip, an address or a path.
    pub fn wrong_package(&self) -> Option<&String> {
        self.packages.iter().find(|one| {
            !one.starts_with(|first: char| first.is_ascii_alphanumeric())
                || one.contains(['\n', '\r', '@', '/', '\\'])
        })
    }
}

impl std::ops::Deref for PythonConfig {
    type Target = PythonTable;
    fn deref(&self) -> &PythonTable {
        &self.0
    }
}

impl std::ops::DerefMut for PythonConfig {
    fn deref_mut(&mut self) -> &mut PythonTable {
        &mut self.0
    }
}

impl From<&str> for PythonConfig {
    fn from(interpreter: &str) -> Self {
        Self(PythonTable { interpreter: interpreter.into(), ..PythonTable::default() })
    }
}

/// As a text if it only names the interpreter, so that a variable of the environment can set it.
impl Serialize for PythonConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let plain = Self::from(self.interpreter.as_str());
        if self.0 == (PythonTable { folder: self.folder.clone(), ..plain.0 }) {
            return serializer.serialize_str(&self.interpreter);
        }
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PythonConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrTable;
        impl<'de> serde::de::Visitor<'de> for TextOrTable {
            type Value = PythonConfig;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path or name of a Python, or a table")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PythonConfig, E> {
                Ok(text.into())
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<PythonConfig, A::Error> {
                PythonTable::deserialize(MapAccessDeserializer::new(map)).map(PythonConfig)
            }
        }
        deserializer.deserialize_any(TextOrTable)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_text_names_the_interpreter_and_a_table_declares_packages() {
        let text: PythonConfig = serde_json::from_value(json!("/usr/bin/python3.12")).unwrap();
        assert_eq!((text.interpreter.as_str(), text.has_environment()), ("/usr/bin/python3.12", false));
        assert_eq!(serde_json::to_value(&text).unwrap(), json!("/usr/bin/python3.12"));
        let table: PythonConfig = serde_json::from_value(json!({"packages": ["requests"]})).unwrap();
        assert_eq!((table.interpreter.as_str(), table.has_environment()), ("python3", true));
        let again: PythonConfig = serde_json::from_value(serde_json::to_value(&table).unwrap()).unwrap();
        assert_eq!(again, table);
        let error = serde_json::from_value::<PythonConfig>(json!({"package": []})).unwrap_err();
        assert!(error.to_string().contains("unknown field `package`"), "{error}");
    }

    #[test]
    fn paths_count_from_the_settings_and_options_are_no_packages() {
        let mut table = PythonTable { folder: "/etc/tidemill".into(), ..PythonTable::default() };
        assert_eq!(table.lock_file(), Path::new("/etc/tidemill/tidemill-code.lock"));
        table.lock = "/srv/own.lock".into();
        assert_eq!(table.lock_file(), Path::new("/srv/own.lock"));
        table.packages = ["requests[socks]>=2", "--index-url=x"].map(String::from).into();
        assert_eq!(table.wrong_package(), Some(&"--index-url=x".to_owned()));
    }
}
