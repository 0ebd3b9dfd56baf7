//! `tidemill plugins config`: the credentials of a provider of tools, datasources or models, or of one model. Values are stored
//! sealed; a variable of the workers' environment is stored by its name. The plugin checks them on a worker.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::registry::plugins::{ModelOf, VALIDATE, credentials_id, model_credentials_id};
use tidemill_common::value::JsonMap;
use tidemill_plugins::package::Kind;

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
    let id = id(arguments)?;
    if arguments.remove {
        client.forget(PLUGIN_CREDENTIALS.many, &id, false).await?;
        console.note(format_args!("the credentials {} are removed", safe(&id)));
        return Ok(Exit::Succeeded);
    }
    let form = form(&client, arguments).await?;
    let (mut values, mut env) = (JsonMap::new(), JsonMap::new());
    for (name, source) in &arguments.set {
        if let Some(variable) = source.strip_prefix("env:") {
            env.insert(name.clone(), variable.into());
        } else if is_plain(&form, name)? {
            values.insert(name.clone(), source.as_str().into());
        } else {
            let message = format!(
                "--set {name}=…: write {name}=env:VARIABLE for a variable of the workers, or give the value with \
                 --secret-stdin {name}, so that it is not in the command line"
            );
            return Err(Error::Usage(message));
        }
    }
    read(&arguments.secret_stdin, &id, &mut values, console).await?;
    if arguments.set.is_empty() && arguments.secret_stdin.is_empty() {
        ask(&form, (&id, arguments.whose.model_type.as_deref()), &mut values, console).await?;
    }
    if let Some(app) = &arguments.whose.app
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
        params: arguments.whose.params(),
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

/// The parts of the provider's id.
fn parts(provider: &str) -> Result<[&str; 3], Error> {
    let parts: Vec<&str> = provider.split('/').collect();
    parts
        .try_into()
        .map_err(|_| Error::Usage(format!("{provider:?} is not a provider: write AUTHOR/PLUGIN/PROVIDER")))
}

/// The id of the credentials.
fn id(arguments: &Config) -> Result<String, Error> {
    let [author, plugin, provider] = parts(&arguments.provider)?;
    let app = arguments.whose.app.as_deref();
    Ok(match (&arguments.whose.model, &arguments.whose.model_type) {
        (Some(name), Some(kind)) => {
            model_credentials_id((author, plugin, provider), ModelOf { kind, name }, app)
        }
        _ => credentials_id(author, plugin, provider, app),
    })
}

/// The fields of the credentials, of the newest version that is installed.
async fn form(client: &Client, arguments: &Config) -> Result<Vec<Json>, Error> {
    let [author, plugin, name] = parts(&arguments.provider)?;
    let entries = client.entries(PLUGIN.many).await?;
    let plugins = entries["data"].as_array().into_iter().flatten();
    let fitting = plugins.filter(|entry| entry["author"] == author && entry["name"] == plugin);
    let newest = fitting.max_by(|one, other| {
        let version = |entry: &Json| entry["version"].as_str().unwrap_or_default().to_owned();
        tidemill_common::registry::plugins::compare(&version(one), &version(other))
    });
    let find = |key: &str| {
        let mut all = newest.and_then(|entry| entry[key].as_array()).into_iter().flatten();
        all.find(|provider| provider["name"] == name)
    };
    let (of_tools, of_models) = (find("providers").or_else(|| find("datasources")), find("models"));
    let (found, form) = match &arguments.whose.model {
        Some(_) => (of_models, "model_credentials"),
        None => (of_tools.or(of_models), "credentials"),
    };
    let Some(found) = found else {
        let what = if arguments.whose.model.is_some() { " of models" } else { "" };
        let message = format!("no plugin {author}/{plugin} with a provider{what} {name} is installed");
        return Err(Error::Usage(format!("{message}; `tidemill plugins ls` lists them")));
    };
    let fields = found[form].as_array().cloned().unwrap_or_default();
    if fields.is_empty() && found["customizable"] == true {
        let id = &arguments.provider;
        let message =
            format!("the provider {id} has credentials for each model: add --model NAME --model-type TYPE");
        return Err(Error::Usage(message));
    }
    Ok(fields)
}

/// Tests whether the value of a field is no secret, so that it may be in a command line.
fn is_plain(form: &[Json], name: &str) -> Result<bool, Error> {
    let Some(field) = form.iter().find(|field| field["name"] == name) else {
        let known: Vec<&str> = form.iter().filter_map(|field| field["name"].as_str()).collect();
        let known = if known.is_empty() { "none".into() } else { known.join(", ") };
        let message = format!("the provider has no field {name}; its fields: {known}");
        return Err(Error::Usage(safe(&message)));
    };
    Ok(matches!(
        field["type"].as_str().and_then(Kind::from_word),
        Some(Kind::Text | Kind::Number | Kind::Boolean | Kind::Checkbox | Kind::Select)
    ))
}

/// Tests whether a field is asked for, after these answers.
fn is_shown(field: &Json, values: &JsonMap, form: &[Json], model_type: Option<&str>) -> bool {
    let value = |name: &Json| {
        if name == "__model_type" {
            return model_type.map(Json::from);
        }
        let default =
            || form.iter().find(|field| field["name"] == *name).map(|field| field["default"].clone());
        name.as_str().and_then(|name| values.get(name).cloned()).or_else(default)
    };
    let mut conditions = field["show_on"].as_array().into_iter().flatten();
    conditions.all(|on| value(&on["variable"]).is_some_and(|value| value == on["value"]))
}

/// Asks for each field at the terminal.
async fn ask(
    form: &[Json],
    (id, model_type): (&str, Option<&str>),
    values: &mut JsonMap,
    console: &mut Console,
) -> Result<(), Error> {
    if form.is_empty() {
        return Err(Error::Usage(format!("the provider {id} takes no credentials")));
    }
    if !console.can_ask() {
        let names: Vec<&str> = form.iter().filter_map(|field| field["name"].as_str()).collect();
        let message = format!("give the fields with --set FIELD=env:VARIABLE: {}", names.join(", "));
        return Err(Error::Usage(safe(&message)));
    }
    for field in form {
        if !is_shown(field, values, form, model_type) {
            continue;
        }
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

    #[test]
    fn fields_are_asked_for_where_their_conditions_hold() {
        let on = |variable: &str, value: &str| json!({"name": "f", "show_on": [{"variable": variable, "value": value}]});
        let form = [json!({"name": "mode", "default": "chat"}), json!({"name": "key"})];
        let values = JsonMap::from_iter([("key".to_owned(), Json::from("k"))]);
        for (field, expected) in [
            (on("__model_type", "llm"), true),
            (on("__model_type", "tts"), false),
            (on("mode", "chat"), true),
            (on("key", "k"), true),
            (on("key", "x"), false),
            (on("none", "x"), false),
            (json!({"name": "f"}), true),
        ] {
            assert_eq!(is_shown(&field, &values, &form, Some("llm")), expected, "{field}");
        }
    }

    #[test]
    fn values_in_the_command_line_are_for_known_fields_that_are_no_secrets() {
        let field = |name: &str, kind: &str| json!({"name": name, "type": kind});
        let form = [
            field("url", Kind::Text.word()),
            field("safe", "select"),
            field("key", "secret-input"),
            json!({"name": "odd"}),
        ];
        let is_plain = |name: &str| is_plain(&form, name);
        assert!(is_plain("url").unwrap() && is_plain("safe").unwrap());
        assert!(!is_plain("key").unwrap() && !is_plain("odd").unwrap());
        let error = is_plain("kex").unwrap_err().to_string();
        assert!(error.contains("no field kex; its fields: url, safe, key, odd"), "{error}");
    }

    #[tokio::test]
    async fn a_person_is_asked_by_the_form_of_the_provider() {
        let form = [
            json!({"name": "key", "label": "API key", "type": "secret-input", "required": true}),
            json!({"name": "region", "type": "select", "options": ["eu", "us"], "default": "eu"}),
        ];
        let mut values = JsonMap::new();
        let (mut console, _, asked) = captured_with(&["the-key", ""]);
        ask(&form, ("a/b/c", None), &mut values, &mut console).await.unwrap();
        assert_eq!(Json::Object(values), json!({"key": "the-key"}));
        let asked = asked.text();
        assert!(asked.contains("API key (not shown): "), "{asked}");
        assert!(asked.contains("region (eu | us, default eu): "), "{asked}");
        let (mut console, _, _) = captured_with(&[""]);
        let error =
            ask(&form, ("a/b/c", None), &mut JsonMap::new(), &mut console).await.unwrap_err().to_string();
        assert!(error.contains("key is required"), "{error}");
        let (mut console, _, _) = captured();
        let error =
            ask(&form, ("a/b/c", None), &mut JsonMap::new(), &mut console).await.unwrap_err().to_string();
        assert!(error.contains("--set FIELD=env:VARIABLE: key, region"), "{error}");
    }
}
