//! `tidemill library`, `calls`, `services` and `datasources`: entries in Redis that the steps of all workers use. The
//! four have the same commands; they differ only in their fields, which come from a file.

use clap::{Args, Subcommand};
use serde_json::Value as Json;
use tidemill_common::value::JsonMap;

use super::call_check;
use super::catalog::{self, CALL, DATASOURCE, FileArgs, Kind, SERVICE};
use super::common::Common;
use super::pairs::{json_or_text, pair};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::table;

#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Store an entry: from a file, from --set, or both
    Add {
        #[command(flatten)]
        file: FileArgs,
        /// A field, as JSON or else text; dots lead into objects; may be given several times
        #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = pair)]
        fields: Vec<(String, String)>,
        /// Read the value of this field (such as `password`) from standard input; at a terminal, ask for it
        #[arg(long, value_name = "FIELD")]
        secret_stdin: Option<String>,
        /// Of a Call: wait until the living workers have checked whether they can use it (at most 30 s); fail if none can
        #[arg(long)]
        check: bool,
        #[command(flatten)]
        common: Common,
    },
    /// List entries
    Ls {
        #[command(flatten)]
        common: Common,
    },
    /// Show an entry, without its secrets
    Show {
        /// Id of the entry
        id: String,
        #[command(flatten)]
        common: Common,
    },
    /// Remove an entry
    Rm {
        /// Id of the entry
        id: String,
        /// Remove it even if library nodes use it
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        common: Common,
    },
}

pub(super) async fn perform(kind: Kind, arguments: &Arguments, console: &mut Console) -> Result<Exit, Error> {
    match &arguments.verb {
        Verb::Add { file, fields, secret_stdin, check, common } => {
            if *check && kind.many != CALL.many {
                return Err(Error::Usage("--check is for `tidemill calls add`".into()));
            }
            let mut table = file.table(kind, common).await?;
            for (path, value) in fields {
                put(&mut table, path, json_or_text(value))?;
            }
            if let Some(field) = secret_stdin {
                let prompt = format!("{field} of {} (not shown): ", file.id);
                put(&mut table, field, catalog::read_secret(&prompt, console).await?.into())?;
            }
            let exit = file.send(kind, table, common, console).await?;
            if *check { call_check::wait(&file.id, common, console).await } else { Ok(exit) }
        }
        Verb::Ls { common } => catalog::list(kind, common, renderer(kind), console).await,
        Verb::Show { id, common } => catalog::show(kind, id, common, console).await,
        Verb::Rm { id, force, common } => catalog::forget(kind, id, *force, common, console).await,
    }
}

/// Sets a field by its path. Fails when a value on the path is not an object.
fn put(table: &mut JsonMap, path: &str, value: Json) -> Result<(), Error> {
    match path.split_once('.') {
        None => {
            table.insert(path.into(), value);
            Ok(())
        }
        Some((first, rest)) => match catalog::object(table, first) {
            Some(inner) => put(inner, rest, value),
            None => Err(Error::Usage(format!("cannot set {path}: {first} is not an object"))),
        },
    }
}

fn renderer(kind: Kind) -> fn(&Json) -> String {
    match kind.many {
        many if many == CALL.many => calls,
        many if many == SERVICE.many => services,
        many if many == DATASOURCE.many => datasources,
        _ => library,
    }
}

fn rows(entries: &Json, row: impl Fn(&Json) -> Vec<String>) -> Vec<Vec<String>> {
    entries["data"].as_array().into_iter().flatten().map(row).collect()
}

/// Formats a name, or the names in both languages.
fn name(value: &Json) -> String {
    let each = value.as_object().map(|each| {
        let names = each.values().map(|info| info.get("name").unwrap_or(info));
        names.map(catalog::text).collect::<Vec<_>>().join(" / ")
    });
    each.unwrap_or_else(|| catalog::text(value))
}

fn library(entries: &Json) -> String {
    let row = |entry: &Json| {
        let word = |key: &str| catalog::text(&entry[key]);
        vec![word("id"), word("callId"), name(&entry["name"]), word("service_id"), catalog::changed(entry)]
    };
    table::render(&["NODE", "CALL", "NAME", "SERVICE", "CHANGED"], &rows(entries, row))
}

fn calls(entries: &Json) -> String {
    let row = |entry: &Json| {
        let transport = &entry["transport"];
        let place = match transport["command"].as_array() {
            Some(words) => words.iter().map(catalog::text).collect::<Vec<_>>().join(" "),
            None => catalog::text(&transport["url"]),
        };
        let (id, how) = (catalog::text(&entry["id"]), catalog::text(&transport["type"]));
        vec![id, name(&entry["info"]), how, place, catalog::changed(entry)]
    };
    table::render(&["CALL", "NAME", "BY", "AT", "CHANGED"], &rows(entries, row))
}

fn services(entries: &Json) -> String {
    let row = |entry: &Json| {
        let auth = entry["auth"].as_object().into_iter().flatten().filter(|(_, value)| **value != Json::Null);
        let carried = auth.map(|(place, value)| match value.as_array() {
            Some(list) => {
                let names: Vec<_> = list.iter().map(|item| catalog::text(&item["name"])).collect();
                format!("{place}: {}", names.join(", "))
            }
            None => place.clone(),
        });
        let carried: Vec<_> = carried.collect();
        let word = |key: &str| catalog::text(&entry[key]);
        vec![word("id"), word("server"), carried.join("; "), catalog::changed(entry)]
    };
    table::render(&["SERVICE", "SERVER", "CARRIES", "CHANGED"], &rows(entries, row))
}

fn datasources(entries: &Json) -> String {
    let row = |entry: &Json| {
        let word = |key: &str| catalog::text(&entry[key]);
        let kind = if entry["database_type"].is_null() { "postgres".into() } else { word("database_type") };
        let password = match entry["password_env"].as_str() {
            Some(name) => format!("${name}"),
            None => word("password"),
        };
        vec![word("id"), kind, word("host"), word("database"), password, catalog::changed(entry)]
    };
    table::render(&["DATASOURCE", "TYPE", "HOST", "DATABASE", "PASSWORD", "CHANGED"], &rows(entries, row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_has_its_own_columns_and_shows_names_in_both_languages() {
        let seen = library(&json!({"data": [
            {"id": "n1", "callId": "API", "name": {"zh": "天气", "en": "Weather"}, "service_id": "svc", "updated_at": 0},
            {"id": "n2", "callId": "SQL", "name": "Orders", "updated_at": 0},
        ]}));
        assert!(seen.contains("天气 / Weather") && seen.contains("Orders"), "{seen}");
        let info = json!({"en": {"name": "Greet", "description": "d"}});
        let seen = calls(&json!({"data": [
            {"id": "greet", "info": info, "transport": {"type": "process", "command": ["python3", "greet.py"]}, "updated_at": 0},
        ]}));
        assert!(seen.contains("Greet") && seen.contains("python3 greet.py"), "{seen}");
        let auth = json!({"header": [{"name": "X-Key", "value": "***"}], "oidc": {"token_env": "T"}});
        let seen =
            services(&json!({"data": [{"id": "s", "server": "http://h", "auth": auth, "updated_at": 0}]}));
        assert!(seen.contains("header: X-Key; oidc"), "{seen}");
        let seen = datasources(&json!({"data": [
            {"id": "d", "host": "h", "database": "orders", "password_env": "DB", "updated_at": 0},
        ]}));
        assert!(seen.contains("postgres") && seen.contains("$DB"), "{seen}");
    }

    #[test]
    fn a_field_can_be_set_inside_objects() {
        let mut table = json!({"transport": {"type": "http"}}).as_object().cloned().expect("an object");
        put(&mut table, "transport.url", "http://h".into()).expect("an object on the way");
        put(&mut table, "a.b", 1.into()).expect("made on the way");
        assert_eq!(
            Json::Object(table.clone()),
            json!({"transport": {"type": "http", "url": "http://h"}, "a": {"b": 1}})
        );
        assert!(put(&mut table, "a.b.c", 1.into()).is_err());
    }
}
