//! Reads the settings: file, then environment, then flags. Each error names the source of its setting.
//! [`environment`] reads the environment.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::{Config, ConfigError, LogConfig, LogFormat, environment};
use crate::{mistakes, telemetry};
use tidemill_base::limits::KEY_CHARS_MIN;

/// The sources of settings.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The file; `None`: `tidemill.toml` in the working directory, if it exists.
    pub file: Option<PathBuf>,
    pub environment: Vec<(String, String)>,
    /// Flags: `section.key` and text.
    pub flags: Vec<(String, String)>,
}

impl Sources {
    /// The named file (or that of `TIDEMILL_CONFIG`), the process's environment, and these flags.
    pub fn of_process(file: Option<PathBuf>, flags: Vec<(String, String)>) -> Self {
        let environment: Vec<(String, String)> = std::env::vars().collect();
        let named =
            || environment.iter().find(|(k, _)| k == "TIDEMILL_CONFIG").map(|(_, v)| PathBuf::from(v));
        Self { file: file.or_else(named), environment, flags }
    }

    /// The content of the file, not checked yet, and the file's name. Without a file the table is empty.
    ///
    /// # Errors
    /// A file that cannot be read, or is no TOML.
    pub fn table(&self) -> Result<(Table, String), ConfigError> {
        let usual = Path::new("tidemill.toml");
        let table = match &self.file {
            Some(path) => read_file(path)?,
            None if usual.is_file() => read_file(usual)?,
            None => Table::new(),
        };
        Ok((table, self.file.as_deref().unwrap_or(usual).display().to_string()))
    }

    /// The log settings, as far as they can be read; used to report errors in the other settings.
    pub fn log(&self) -> LogConfig {
        let file = self.file.as_deref().unwrap_or(Path::new("tidemill.toml"));
        let table: Table = read_file(file).unwrap_or_default();
        let of_file = table.get("log").and_then(|log| log.get("format")).and_then(Value::as_str);
        let of_variable = self.environment.iter().find(|(name, _)| name == "TIDEMILL_LOG_FORMAT");
        let format = match of_variable.map(|(_, text)| text.as_str()).or(of_file) {
            Some("json") => LogFormat::Json,
            Some("text") => LogFormat::Text,
            Some(_) | None => LogFormat::Auto,
        };
        LogConfig { format, ..LogConfig::default() }
    }
}

impl Config {
    /// Reads the settings.
    ///
    /// # Errors
    /// An unreadable file, an unknown key, or an invalid value, each with its source.
    pub fn load(sources: &Sources) -> Result<Self, ConfigError> {
        let (table, file) = sources.table()?;
        Self::of_table(table, &file, sources)
    }

    /// Reads the settings of a table instead of a file, then environment and flags of these sources. `file` names the table
    /// in errors; relative paths of settings are relative to its folder.
    ///
    /// # Errors
    /// An unknown key, or an invalid value, each with its source.
    pub fn of_table(mut table: Table, file: &str, sources: &Sources) -> Result<Self, ConfigError> {
        let known = Table::try_from(Self::default()).unwrap_or_default();
        check_keys(&table, &known, file)?;
        // Keys that were not set by the file, and their source.
        let mut origins = HashMap::new();
        for setting in environment::settings(&sources.environment, &known)? {
            set(&mut table, &known, &setting.key, &setting.text, setting.variable)?;
            origins.insert(setting.key, setting.variable);
        }
        for (key, text) in &sources.flags {
            set(&mut table, &known, key, text, "a flag")?;
            origins.insert(key.clone(), "a flag");
        }
        let of = |keys: &str| keys.split(", ").find_map(|key| origins.get(key).copied()).unwrap_or(file);
        let mut config: Self = table.try_into().map_err(|error: toml::de::Error| {
            let key = mistakes::key_of(&error);
            // The wrong value may be deeper than the setting.
            let setting: Vec<&str> = key.splitn(3, '.').take(2).collect();
            let origin = of(&setting.join(".")).to_owned();
            ConfigError::Value { key, origin, reason: mistakes::without_value(error.message()) }
        })?;
        config.check(of)?;
        config.code.python.folder = Path::new(file).parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(config)
    }

    /// Checks the values again, after a program has changed some. `origin` names what it took them from.
    ///
    /// # Errors
    /// An invalid value.
    pub fn check_again(&self, origin: &str) -> Result<(), ConfigError> {
        self.check(|_| origin)
    }

    /// Checks the values, also against each other. `origin` returns the source of a key; for two conflicting
    /// keys the error names the one that the file did not set, if there is one.
    fn check<'a>(&self, origin: impl Fn(&str) -> &'a str) -> Result<(), ConfigError> {
        let wrong = |key: &str, reason: String| {
            Err(ConfigError::Value { key: key.into(), origin: origin(key).into(), reason })
        };
        if self.run.inline_bytes_max > 32 * 1024 {
            return wrong("run.inline_bytes_max", "at most 32768 bytes".into());
        }
        if self.scheduler.shards == 0 || self.scheduler.shards > tidemill_base::ids::ShardId::COUNT_MAX {
            return wrong("scheduler.shards", format!("1 to {}", tidemill_base::ids::ShardId::COUNT_MAX));
        }
        if self.scheduler.retention_bytes < -1 {
            return wrong("scheduler.retention_bytes", "a number of bytes, 0 for none, or -1".into());
        }
        for (key, ms) in
            [("code.timeout_ms", self.code.timeout_ms), ("documents.timeout_ms", self.documents.timeout_ms)]
        {
            if ms == 0 {
                return wrong(key, "at least 1 ms".into());
            }
        }
        for (key, bytes) in [
            ("code.memory_bytes_max", self.code.memory_bytes_max),
            ("documents.memory_bytes_max", self.documents.memory_bytes_max),
        ] {
            if bytes < 64 << 20 {
                return wrong(key, "at least 64 MiB".into());
            }
        }
        if let Some(package) = self.code.python.wrong_package() {
            return wrong(
                "code.python",
                format!("{package:?} in packages is not a requirement such as \"pandas>=2\""),
            );
        }
        if self.code.network_connections_max == 0 {
            return wrong("code.network_connections_max", "at least 1".into());
        }
        self.check_listeners(&origin)?;
        self.check_features(&origin)?;
        self.check_cors(&origin)?;
        self.check_plugins(&origin)?;
        if let Err(reason) = self.worker.check_permits() {
            return wrong("worker.permits", reason);
        }
        if self.worker.queues.is_empty() {
            return wrong("worker.queues", "at least one queue".into());
        }
        if self.scheduler.shard_renew_ms * 2 > self.scheduler.shard_lease_ms {
            let keys = "scheduler.shard_renew_ms, scheduler.shard_lease_ms";
            return wrong(keys, "the first is at most half of the second".into());
        }
        for (key, secret) in [
            ("scheduler.admin_key", &self.scheduler.admin_key),
            ("scheduler.secret_key", &self.scheduler.secret_key),
        ] {
            let is_weak = !secret.is_empty() && secret.chars().count() < KEY_CHARS_MIN;
            if is_weak && !self.scheduler.allow_weak_keys {
                return wrong(
                    key,
                    format!(
                        "it is too easy to guess: at least {KEY_CHARS_MIN} characters, such as `openssl rand -hex 32` makes \
                         (scheduler.allow_weak_keys = true accepts a shorter one)"
                    ),
                );
            }
        }
        if let Err(reason) = telemetry::check_level(&self.log.level) {
            return wrong("log.level", reason);
        }
        let name = &self.redis.namespace;
        if name.is_empty() || name.contains(['{', '}', ':', ' ']) {
            return wrong("redis.namespace", "some letters, without braces, colons and blanks".into());
        }
        Ok(())
    }
}

fn read_file(path: &Path) -> Result<Table, ConfigError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::File { path: path.into(), source })?;
    text.parse()
        .map_err(|error| ConfigError::Toml { path: path.into(), reason: mistakes::syntax(&text, &error) })
}

fn check_keys(table: &Table, known: &Table, origin: &str) -> Result<(), ConfigError> {
    let unknown = |key: String, among: &Table, prefix: &str| {
        let last = key.rsplit('.').next().unwrap_or(&key).to_string();
        let nearest = nearest(&last, among.keys()).map(|n| format!("{prefix}{n}"));
        Err(ConfigError::Unknown { key, origin: origin.to_string(), nearest })
    };
    for (section, value) in table {
        let Some(Value::Table(keys)) = known.get(section) else {
            return unknown(section.clone(), known, "");
        };
        // The names of providers and profiles are free.
        if matches!(section.as_str(), "providers" | "profiles") {
            continue;
        }
        for key in value.as_table().into_iter().flat_map(Table::keys) {
            if !keys.contains_key(key) {
                return unknown(format!("{section}.{key}"), keys, &format!("{section}."));
            }
        }
    }
    Ok(())
}

/// Sets a key from text, converted to the type of the default.
fn set(table: &mut Table, known: &Table, key: &str, text: &str, origin: &str) -> Result<(), ConfigError> {
    let Some((section, name)) = key.split_once('.') else {
        return Err(ConfigError::Unknown { key: key.into(), origin: origin.into(), nearest: None });
    };
    let default = known.get(section).and_then(|s| s.get(name));
    let wrong =
        |reason: &str| ConfigError::Value { key: key.into(), origin: origin.into(), reason: reason.into() };
    let value = match default {
        Some(Value::String(_)) => Value::String(text.into()),
        Some(Value::Integer(_)) => {
            Value::Integer(text.trim().parse().map_err(|_| wrong("it is not a whole number"))?)
        }
        Some(Value::Boolean(_)) => Value::Boolean(
            // Dify writes `True`.
            text.trim().to_lowercase().parse().map_err(|_| wrong("it is neither true nor false"))?,
        ),
        // A list of numbers has one as its default.
        Some(Value::Array(known)) if known.first().is_some_and(Value::is_integer) => {
            let numbers = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            let numbers: Result<_, _> = numbers.map(|part| part.parse().map(Value::Integer)).collect();
            Value::Array(numbers.map_err(|_| wrong("it is not a list of whole numbers, such as 443,8443"))?)
        }
        Some(Value::Array(_)) => {
            Value::Array(text.split(',').map(|p| Value::String(p.trim().into())).collect())
        }
        Some(Value::Float(_) | Value::Datetime(_) | Value::Table(_)) | None => {
            return Err(ConfigError::Unknown { key: key.into(), origin: origin.into(), nearest: None });
        }
    };
    let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    if let Some(section) = section.as_table_mut() {
        match section.get_mut(name) {
            // `code.python` is a text or a table, whose first key has the same meaning as the text.
            Some(Value::Table(own)) if key == "code.python" => own.insert("interpreter".into(), value),
            Some(_) | None => section.insert(name.into(), value),
        };
    }
    Ok(())
}

/// The names of all settings, as `section.key`.
pub fn names() -> Vec<String> {
    let known = Table::try_from(Config::default()).unwrap_or_default();
    let keys = |(section, keys): (&String, &Value)| {
        let keys = keys.as_table().into_iter().flat_map(Table::keys);
        keys.map(|key| format!("{section}.{key}")).collect::<Vec<_>>()
    };
    known.iter().flat_map(keys).collect()
}

/// The most similar known name, if it is similar enough.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a String>) -> Option<String> {
    known
        .map(|k| (edit_distance(name, k), k))
        .filter(|(distance, k)| *distance <= 1 + k.len() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k.clone())
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let changed = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(environment: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, ConfigError> {
        let own =
            |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Config::load(&Sources { file: None, environment: own(environment), flags: own(flags) })
    }

    #[test]
    fn flags_win_over_the_environment_and_dify_names_are_read() {
        let config = load(
            &[("TIDEMILL_REDIS_URL", "redis://a"), ("WORKFLOW_MAX_EXECUTION_STEPS", "7"), ("PATH", "x")],
            &[("redis.url", "redis://b")],
        )
        .unwrap();
        assert_eq!((config.redis.url.as_str(), config.run.max_steps), ("redis://b", 7));
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_without_its_values() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidemill.toml");
        for (text, says) in [
            ("[tools]\napi_key = hush-1\n", "line 2, column 11"),
            ("[tools]\napi_key = \"hush-1\n", "line 2, column"),
            ("[tools]\napi_key = [\"hush-1\"]\n", "expected a string"),
            ("[worker]\npermits = \"hush-1\"\n", "invalid type: string, expected"),
        ] {
            std::fs::write(&file, text).unwrap();
            let sources = Sources { file: Some(file.clone()), ..Sources::default() };
            let error = Config::load(&sources).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains("hush"), "{text}: {error}");
        }
    }

    #[test]
    fn a_list_of_numbers_is_read_from_the_environment() {
        for (text, ports) in [("443", vec![443]), ("443, 8443", vec![443, 8443]), ("", vec![])] {
            let config = load(&[("TIDEMILL_HTTP_TUNNEL_PORTS", text)], &[]).unwrap();
            assert_eq!(config.http.tunnel_ports, ports, "{text}");
        }
        let error = load(&[("TIDEMILL_HTTP_TUNNEL_PORTS", "443,https")], &[]).unwrap_err().to_string();
        assert!(error.contains("http.tunnel_ports") && error.contains("list of whole numbers"), "{error}");
    }

    #[test]
    fn an_unknown_key_is_refused_with_the_nearest_known_one() {
        let error = load(&[("TIDEMILL_REDIS_URI", "x")], &[]).unwrap_err().to_string();
        assert!(error.contains("did you mean TIDEMILL_REDIS_URL?"), "{error}");
        let error = load(&[("TIDEMILL_WORKER_PERMITS", "many")], &[]).unwrap_err().to_string();
        assert!(error.contains("worker.permits") && error.contains("whole number"), "{error}");
    }

    #[test]
    fn a_value_that_does_not_fit_is_refused_with_what_has_set_it() {
        let refused = |environment: &[_], flags: &[_]| load(environment, flags).unwrap_err().to_string();
        let error = refused(&[("TIDEMILL_WORKER_PERMITS", "0")], &[]);
        assert_eq!(error, "setting worker.permits in TIDEMILL_WORKER_PERMITS: at least 1");
        let error = refused(&[("TIDEMILL_WORKER_PERMITS", "4")], &[("worker.permits", "0")]);
        assert_eq!(error, "setting worker.permits in a flag: at least 1");
        let memory = ("TIDEMILL_CODE_MEMORY_BYTES_MAX", "1");
        let error = refused(&[memory, ("TIDEMILL_CODE_TIMEOUT_MS", "7")], &[]);
        assert_eq!(error, "setting code.memory_bytes_max in TIDEMILL_CODE_MEMORY_BYTES_MAX: at least 64 MiB");
        let error = refused(&[("TIDEMILL_SCHEDULER_SHARD_LEASE_MS", "1")], &[]);
        assert!(error.contains("shard_lease_ms in TIDEMILL_SCHEDULER_SHARD_LEASE_MS: "), "{error}");
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused_by_its_name_and_its_source() {
        let error = load(&[("TIDEMILL_LOG_FORMAT", "loud")], &[]).unwrap_err().to_string();
        assert!(error.starts_with("setting log.format in TIDEMILL_LOG_FORMAT: unknown variant"), "{error}");
        let error = load(&[], &[("redis.timeout_ms", "-1")]).unwrap_err().to_string();
        assert_eq!(error, "setting redis.timeout_ms in a flag: invalid value: integer, expected u64");
        let error = load(&[("TIDEMILL_WORKER_PERMITS", "hush")], &[]).unwrap_err().to_string();
        assert_eq!(error, "setting worker.permits in TIDEMILL_WORKER_PERMITS: it is not a whole number");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("own.toml");
        std::fs::write(&file, "[tools.mcp.one]\ncommand = \"npx --token hush\"\n").unwrap();
        let of_file = |environment: &[(&str, &str)]| {
            let environment = environment.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            Config::load(&Sources { file: Some(file.clone()), environment, flags: Vec::new() })
        };
        let (error, file_shown) = (of_file(&[]).unwrap_err().to_string(), file.display());
        let told = "invalid type: string, expected a sequence";
        assert_eq!(error, format!("setting tools.mcp.one.command in {file_shown}: {told}"));
        // A value in the environment replaces the wrong one of the file.
        std::fs::write(&file, "[scheduler]\nadmin_key = 1234567890123456\n").unwrap();
        let error = of_file(&[]).unwrap_err().to_string();
        assert!(error.contains("setting scheduler.admin_key") && !error.contains("1234567"), "{error}");
        assert!(of_file(&[("TIDEMILL_ADMIN_KEY", "an admin key of enough")]).is_ok());
    }

    #[test]
    fn passwords_and_keys_are_not_shown() {
        let config = load(
            &[("TIDEMILL_REDIS_URL", "redis://u:pw@h:1"), ("TIDEMILL_ADMIN_KEY", "an admin key of enough")],
            &[],
        )
        .unwrap();
        let shown = format!("{config:?}");
        assert!(!shown.contains("pw@") && !shown.contains("of enough"), "{shown}");
        let config = load(&[("TIDEMILL_FILES_SECRET_ACCESS_KEY", "hush")], &[]).unwrap();
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    }
}
