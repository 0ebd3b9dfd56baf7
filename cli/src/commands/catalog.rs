//! Code that `tidemill providers`, `profiles`, `library`, `calls`, `services` and `datasources` share: reading entries
//! from files, reading keys, and showing entries.

use std::io::Read;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value as Json;
use tidemill_common::registry::table_in;
use tidemill_common::value::JsonMap;

use super::common::Common;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::{json, table};

/// The entry to store, and the file that it comes from.
#[derive(Debug, Args)]
pub(super) struct FileArgs {
    /// Id of the entry
    pub(super) id: String,
    /// File with the entry: TOML (.toml; the table itself, or settings that contain it), JSON or YAML; flags win
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Change the existing entry; fields that are not given stay as they are, also the key
    #[arg(long, conflicts_with = "replace")]
    update: bool,
    /// Replace the existing entry, if there is one
    #[arg(long)]
    replace: bool,
}

/// Arguments for an entry that has a key.
#[derive(Debug, Args)]
pub(super) struct AddArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Environment variable of the workers that has the key
    #[arg(long, value_name = "NAME", conflicts_with = "api_key_stdin")]
    api_key_env: Option<String>,
    /// Read the key from standard input; at a terminal, ask for it
    #[arg(long)]
    api_key_stdin: bool,
}

/// The names of a kind of entry and of its key's fields.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// The singular.
    pub(super) one: &'static str,
    /// The plural; also used in paths and as the section of a file.
    pub(super) many: &'static str,
    key: &'static str,
    key_env: &'static str,
}

pub(super) const PROVIDER: Kind =
    Kind { one: "provider", many: "providers", key: "api_key", key_env: "api_key_env" };
pub(super) const PROFILE: Kind =
    Kind { one: "profile", many: "profiles", key: "apiKey", key_env: "apiKeyEnv" };

pub(super) const LIBRARY: Kind = Kind { one: "library node", many: "library", key: "", key_env: "" };
pub(super) const CALL: Kind = Kind { one: "Call", many: "calls", key: "", key_env: "" };
pub(super) const SERVICE: Kind = Kind { one: "service", many: "services", key: "", key_env: "" };
pub(super) const DATASOURCE: Kind =
    Kind { one: "datasource", many: "datasources", key: "password", key_env: "password_env" };

pub(super) const PLUGIN: Kind = Kind { one: "plugin", many: "plugins", key: "", key_env: "" };
pub(super) const PLUGIN_CREDENTIALS: Kind =
    Kind { one: "plugin credentials", many: "plugin-credentials", key: "", key_env: "" };

impl FileArgs {
    /// Returns the entry to store: with `--update` the existing one, overwritten with the fields of the file.
    pub(super) async fn table(&self, kind: Kind, common: &Common) -> Result<JsonMap, Error> {
        let mut table = JsonMap::new();
        if self.update
            && let Json::Object(there) = common.client()?.entry(kind.many, &self.id).await?
        {
            table = there;
        }
        let of_file = self.of_file(kind)?;
        let names_key = has_key(kind, &of_file);
        table.retain(|name, _| !names_key || ![kind.key, kind.key_env].contains(&name.as_str()));
        table.extend(of_file);
        Ok(table)
    }

    fn of_file(&self, kind: Kind) -> Result<JsonMap, Error> {
        let Some(path) = &self.file else { return Ok(JsonMap::new()) };
        let wrong = |reason: String| Error::Usage(format!("{}: {reason}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let is_toml = path.extension().is_some_and(|ending| ending == "toml");
        table_in(&text, is_toml, kind.many, &self.id).map_err(wrong)
    }

    /// Stores the entry and shows the result.
    pub(super) async fn send(
        &self,
        kind: Kind,
        mut table: JsonMap,
        common: &Common,
        console: &mut Console,
    ) -> Result<Exit, Error> {
        table.insert("id".into(), self.id.as_str().into());
        let stored = common
            .client()?
            .keep(kind.many, &self.id, &Json::Object(table), self.replace || self.update)
            .await?;
        for warning in stored["warnings"].as_array().into_iter().flatten() {
            console.note(format_args!("warning: {}", text(warning)));
        }
        if common.json {
            json::whole(&stored, console)?;
        } else {
            console.note(format_args!("{} {} is stored", kind.one, self.id));
        }
        Ok(Exit::Succeeded)
    }
}

/// Returns true if the table has a field for a key.
fn has_key(kind: Kind, table: &JsonMap) -> bool {
    let given = [kind.key, kind.key_env, "api_key", "api_key_env"];
    given.iter().any(|name| table.contains_key(*name))
}

/// Reads a secret from the terminal or from standard input.
pub(super) async fn read_secret(prompt: &str, console: &mut Console) -> Result<String, Error> {
    let read = if console.can_ask() { console.ask_secret(prompt).await? } else { Some(piped()?) };
    let secret = read.unwrap_or_default().trim().to_owned();
    if secret.is_empty() {
        return Err(Error::Usage("standard input is empty".into()));
    }
    Ok(secret)
}

impl AddArgs {
    /// Puts the key into the table. With `wanted`, asks for a missing key at the terminal.
    pub(super) async fn put_key(
        &self,
        kind: Kind,
        table: &mut JsonMap,
        wanted: bool,
        console: &mut Console,
    ) -> Result<(), Error> {
        let asked = wanted && console.can_ask() && !has_key(kind, table);
        let (name, value) = if let Some(variable) = &self.api_key_env {
            (kind.key_env, variable.clone())
        } else if self.api_key_stdin || asked {
            (kind.key, self.read_key(console).await?)
        } else {
            return Ok(());
        };
        for other in [kind.key, kind.key_env, "api_key", "api_key_env"] {
            table.remove(other);
        }
        table.insert(name.into(), value.into());
        Ok(())
    }

    async fn read_key(&self, console: &mut Console) -> Result<String, Error> {
        let prompt = format!("API key of {} (not shown): ", self.file.id);
        let read = if console.can_ask() { console.ask_secret(&prompt).await? } else { Some(piped()?) };
        let key = read.unwrap_or_default().trim().to_owned();
        if key.is_empty() {
            return Err(Error::Usage(
                "no key was given; type it, pipe it in, or name a variable that has it with --api-key-env"
                    .into(),
            ));
        }
        Ok(key)
    }
}

pub(super) fn piped() -> Result<String, Error> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Error::Failed(format!("cannot read the key from standard input: {error}")))?;
    Ok(text)
}

/// Lists all entries of a kind.
pub(super) async fn list(
    kind: Kind,
    common: &Common,
    render: fn(&Json) -> String,
    console: &mut Console,
) -> Result<Exit, Error> {
    let entries = common.client()?.entries(kind.many).await?;
    if common.json {
        json::whole(&entries, console)?;
    } else if entries["data"].as_array().is_none_or(Vec::is_empty) {
        let others =
            if kind.many == PROVIDER.many { "; workers may have more in their settings" } else { "" };
        console.note(format_args!("no {} is stored in Redis{others}", kind.one));
    } else {
        console.text(render(&entries))?;
    }
    Ok(Exit::Succeeded)
}

/// Shows one entry.
pub(super) async fn show(
    kind: Kind,
    id: &str,
    common: &Common,
    console: &mut Console,
) -> Result<Exit, Error> {
    let entry = common.client()?.entry(kind.many, id).await?;
    if common.json {
        json::whole(&entry, console)?;
    } else {
        let fields = entry.as_object().into_iter().flatten();
        let pairs: Vec<(&str, String)> =
            fields.map(|(name, value)| (name.as_str(), shown(name, value))).collect();
        console.text(table::pairs(&pairs))?;
    }
    Ok(Exit::Succeeded)
}

/// Removes one entry.
pub(super) async fn forget(
    kind: Kind,
    id: &str,
    force: bool,
    common: &Common,
    console: &mut Console,
) -> Result<Exit, Error> {
    common.client()?.forget(kind.many, id, force).await?;
    console.note(format_args!("{} {id} is removed", kind.one));
    Ok(Exit::Succeeded)
}

/// Formats the time of the last change of an entry.
pub(super) fn changed(entry: &Json) -> String {
    entry["updated_at"].as_f64().map(crate::output::text::moment).unwrap_or_default()
}

/// Describes where the key of an entry is.
pub(super) fn key(entry: &Json) -> String {
    let variable = [&entry["api_key_env"], &entry["apiKeyEnv"]].into_iter().find_map(Json::as_str);
    let sealed = [&entry["api_key"], &entry["apiKey"]].into_iter().find_map(Json::as_str);
    variable.map(|name| format!("${name}")).or_else(|| sealed.map(Into::into)).unwrap_or_default()
}

fn shown(name: &str, value: &Json) -> String {
    match value.as_f64().filter(|_| name.ends_with("_at")) {
        Some(seconds) => crate::output::text::moment(seconds),
        None => text(value),
    }
}

/// Formats a value on one line.
pub(super) fn text(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Bool(_) | Json::Number(_) | Json::Array(_) | Json::Object(_) => value.to_string(),
    }
}

/// Puts a value into a table if there is one.
pub(super) fn put(table: &mut JsonMap, name: &str, value: Option<impl Into<Json>>) {
    if let Some(value) = value {
        table.insert(name.into(), value.into());
    }
}

/// Returns an object within a table; creates it when it is missing. Returns `None` when the value is not an object.
pub(super) fn object<'a>(table: &'a mut JsonMap, name: &str) -> Option<&'a mut JsonMap> {
    table.entry(name).or_insert_with(|| Json::Object(JsonMap::new())).as_object_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::console::tests::{captured, captured_with};

    fn add(api_key_env: Option<&str>, api_key_stdin: bool) -> AddArgs {
        let api_key_env = api_key_env.map(Into::into);
        AddArgs { file: from(None), api_key_env, api_key_stdin }
    }

    fn from(file: Option<PathBuf>) -> FileArgs {
        FileArgs { id: "p".into(), file, update: false, replace: false }
    }

    #[tokio::test]
    async fn a_key_comes_from_a_variable_or_a_prompt_and_replaces_other_keys() {
        for (add, table, wanted, typed, expected) in [
            (add(Some("E"), false), json!({"api_key": "***"}), true, &[][..], json!({"api_key_env": "E"})),
            (add(None, true), json!({"api_key_env": "E"}), false, &[" sk-1 "], json!({"api_key": "sk-1"})),
            (add(None, false), json!({}), true, &["sk-2"], json!({"api_key": "sk-2"})),
            (add(None, false), json!({"api_key_env": "E"}), true, &["x"], json!({"api_key_env": "E"})),
            (add(None, false), json!({}), false, &["x"], json!({})),
        ] {
            let mut object = table.as_object().cloned().expect("an object");
            let (mut console, out, err) = captured_with(typed);
            add.put_key(PROVIDER, &mut object, wanted, &mut console).await.expect("a key");
            assert_eq!(Json::Object(object), expected, "{table}");
            assert!(!out.text().contains("sk-") && !err.text().contains("sk-"));
        }
        let (mut console, _, _) = captured_with(&[""]);
        let refused = add(None, true).put_key(PROVIDER, &mut JsonMap::new(), true, &mut console).await;
        assert!(refused.expect_err("no key").to_string().contains("--api-key-env"));
        let (mut console, _, _) = captured();
        let mut object = JsonMap::new();
        add(None, false).put_key(PROVIDER, &mut object, true, &mut console).await.expect("nobody to ask");
        assert!(object.is_empty());
    }

    #[test]
    fn a_file_is_the_entry_itself_or_contains_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("writes");
            from(Some(path)).of_file(PROVIDER)
        };
        let table = json!({"kind": "ollama", "max_retries": 1});
        for (name, text) in [
            ("a.toml", "kind = \"ollama\"\nmax_retries = 1\n"),
            ("b.toml", "[providers.p]\nkind = \"ollama\"\nmax_retries = 1\n[providers.q]\n"),
            ("c.yml", "kind: ollama\nmax_retries: 1\n"),
            ("d.json", "{\"providers\": {\"p\": {\"kind\": \"ollama\", \"max_retries\": 1}}}"),
        ] {
            assert_eq!(Json::Object(read(name, text).expect("a table")), table, "{name}");
        }
        let error = read("e.toml", "[providers.other]\n").expect_err("another one").to_string();
        assert!(error.contains("e.toml: it has no table [providers.p]"), "{error}");
        assert!(read("f.toml", "kind =").is_err() && read("g.json", "[]").is_err());
    }
}
