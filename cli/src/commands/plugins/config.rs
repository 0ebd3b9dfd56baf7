//! `tidemill plugins config`: the credentials of a provider of tools or datasources. Values are stored sealed; a variable of the workers'
//! environment is stored by its name. The plugin checks them on a worker.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::registry::plugins::VALIDATE;
use tidemill_common::value::JsonMap;

use super::Config;
use super::test::{self, Trial};
use crate::client::{Client, ClientError};
use crate::commands::catalog::{self, PLUGIN, PLUGIN_CREDENTIALS};
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::json;
use crate::output::text::safe;

pub(super) async fn perform(arguments: &Config, console: &mut Console) -> Result<Exit, Error> {
    let (client, common) = (arguments.common.client()?, &arguments.common);
    let id = match &arguments.app {
        Some(app) => format!("{}@{app}", arguments.provider),
        None => arguments.provider.clone(),
    };
    if arguments.remove {
        client.forget(PLUGIN_CREDENTIALS.many, &id, false).await?;
        console.note(format_args!("the credentials {} are removed", safe(&id)));
        return Ok(Exit::Succeeded);
    }
    let form = form(&client, &arguments.provider).await?;
    let (mut values, mut env) = (JsonMap::new(), JsonMap::new());
    for (name, source) in &arguments.set {
        let Some(variable) = source.strip_prefix("env:") else {
            let message = format!(
                "--set {name}=…: write {name}=env:VARIABLE for a variable of the workers, or give the value with \
                 --secret-stdin {name}, so that it is not in the command line"
            );
            return Err(Error::Usage(message));
        };
        env.insert(name.clone(), variable.into());
    }
    read(&arguments.secret_stdin, &id, &mut values, console).await?;
    if arguments.set.is_empty() && arguments.secret_stdin.is_empty() {
        ask(&form, &id, &mut values, console).await?;
    }
    if let Some(app) = &arguments.app
        && let Err(ClientError::Refused { status: 404, .. }) = client.entry("apps", app).await
    {
        console.note(format_args!("there is no app {} yet; these credentials serve no other one", safe(app)));
    }
    let body = json!({"values": values, "env": env});
    let stored = client.keep(PLUGIN_CREDENTIALS.many, &id, &body, true).await?;
    if common.json {
        json::whole(&stored, console)?;
    } else {
        console.note(format_args!("the credentials {} are stored", safe(&id)));
    }
    if arguments.no_test {
        return Ok(Exit::Succeeded);
    }
    let trial = Trial {
        provider: &arguments.provider,
        version: None,
        tool: VALIDATE,
        params: arguments.app.iter().map(|app| ("app".to_owned(), app.as_str().into())).collect(),
        at_most: Duration::from_secs(arguments.wait),
    };
    let result = test::run(&client, &trial).await?;
    match result["error"].as_str() {
        None => {
            console.note("the plugin accepts the credentials");
            Ok(Exit::Succeeded)
        }
        Some(error) => {
            console.note(format_args!("they are stored, and the test failed: {}", safe(error)));
            Ok(Exit::Failed)
        }
    }
}

/// Reads the values of these fields: at a terminal each after a question, else a single one whole, and several a line each.
async fn read(fields: &[String], id: &str, values: &mut JsonMap, console: &mut Console) -> Result<(), Error> {
    if fields.len() > 1 && !console.can_ask() {
        values.extend(in_lines(fields, &catalog::piped()?)?);
        return Ok(());
    }
    for name in fields {
        let prompt = format!("{name} of {id} (not shown): ");
        values.insert(name.clone(), catalog::read_secret(&prompt, console).await?.into());
    }
    Ok(())
}

fn in_lines(fields: &[String], text: &str) -> Result<JsonMap, Error> {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.len() != fields.len() {
        let (count, wanted) = (lines.len(), fields.len());
        return Err(Error::Usage(format!(
            "standard input has {count} lines, and --secret-stdin is given {wanted} times: write a line for each"
        )));
    }
    Ok(fields.iter().cloned().zip(lines.into_iter().map(Json::from)).collect())
}

/// The fields of the provider's credentials, of the newest version that is installed.
async fn form(client: &Client, provider: &str) -> Result<Vec<Json>, Error> {
    let [author, plugin, name] = provider.split('/').collect::<Vec<_>>()[..] else {
        return Err(Error::Usage(format!("{provider:?} is not a provider: write AUTHOR/PLUGIN/PROVIDER")));
    };
    let entries = client.entries(PLUGIN.many).await?;
    let plugins = entries["data"].as_array().into_iter().flatten();
    let fitting = plugins.filter(|entry| entry["author"] == author && entry["name"] == plugin);
    let newest = fitting.max_by(|one, other| {
        let version = |entry: &Json| entry["version"].as_str().unwrap_or_default().to_owned();
        tidemill_common::registry::plugins::compare(&version(one), &version(other))
    });
    let of = |kind: &str| newest.and_then(|entry| entry[kind].as_array()).into_iter().flatten();
    let found = of("providers").chain(of("datasources")).find(|provider| provider["name"] == name);
    let Some(found) = found else {
        let message = format!("no plugin {author}/{plugin} with a provider {name} is installed");
        return Err(Error::Usage(format!("{message}; `tidemill plugins ls` lists them")));
    };
    Ok(found["credentials"].as_array().cloned().unwrap_or_default())
}

/// Asks for each field at the terminal.
async fn ask(form: &[Json], id: &str, values: &mut JsonMap, console: &mut Console) -> Result<(), Error> {
    if form.is_empty() {
        return Err(Error::Usage(format!("the provider {id} takes no credentials")));
    }
    if !console.can_ask() {
        let names: Vec<&str> = form.iter().filter_map(|field| field["name"].as_str()).collect();
        let message = format!("give the fields with --set FIELD=env:VARIABLE: {}", names.join(", "));
        return Err(Error::Usage(safe(&message)));
    }
    for field in form {
        let (name, prompt) = (catalog::text(&field["name"]), prompt(field));
        let answer = if field["type"] == "secret-input" {
            console.ask_secret(&prompt).await?
        } else {
            console.ask(&prompt).await?
        };
        let answer = answer.unwrap_or_default().trim().to_owned();
        if !answer.is_empty() {
            values.insert(name, answer.into());
        } else if field["required"] == true && field["default"].is_null() {
            return Err(Error::Usage(format!("{} is required", safe(&name))));
        }
    }
    Ok(())
}

fn prompt(field: &Json) -> String {
    let label = catalog::text(&field["label"]);
    let label = if label.is_empty() { catalog::text(&field["name"]) } else { label };
    let mut notes = Vec::new();
    if field["type"] == "secret-input" {
        notes.push("not shown".to_owned());
    }
    let options: Vec<&str> =
        field["options"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    if !options.is_empty() {
        notes.push(options.join(" | "));
    }
    match (&field["default"], field["required"] == true) {
        (Json::Null, false) => notes.push("may be empty".into()),
        (Json::Null, true) => {}
        (default, _) => notes.push(format!("default {}", catalog::text(default))),
    }
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    safe(&format!("{label}{notes}: "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::tests::{captured, captured_with};

    #[test]
    fn several_secrets_are_a_line_each() {
        let fields = ["id".to_owned(), "key".to_owned()];
        assert_eq!(
            in_lines(&fields, "one\ntwo\n").map(Json::Object).unwrap(),
            json!({"id": "one", "key": "two"})
        );
        let error = in_lines(&fields, "one\n").unwrap_err().to_string();
        assert!(error.contains("1 lines") && !error.contains("one"), "{error}");
    }

    #[tokio::test]
    async fn a_person_is_asked_by_the_form_of_the_provider() {
        let form = [
            json!({"name": "key", "label": "API key", "type": "secret-input", "required": true}),
            json!({"name": "region", "type": "select", "options": ["eu", "us"], "default": "eu"}),
        ];
        let mut values = JsonMap::new();
        let (mut console, _, asked) = captured_with(&["the-key", ""]);
        ask(&form, "a/b/c", &mut values, &mut console).await.unwrap();
        assert_eq!(Json::Object(values), json!({"key": "the-key"}));
        let asked = asked.text();
        assert!(asked.contains("API key (not shown): "), "{asked}");
        assert!(asked.contains("region (eu | us, default eu): "), "{asked}");
        let (mut console, _, _) = captured_with(&[""]);
        let error = ask(&form, "a/b/c", &mut JsonMap::new(), &mut console).await.unwrap_err().to_string();
        assert!(error.contains("key is required"), "{error}");
        let (mut console, _, _) = captured();
        let error = ask(&form, "a/b/c", &mut JsonMap::new(), &mut console).await.unwrap_err().to_string();
        assert!(error.contains("--set FIELD=env:VARIABLE: key, region"), "{error}");
    }
}
