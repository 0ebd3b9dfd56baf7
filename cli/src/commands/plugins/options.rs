//! `tidemill plugins options`: the options of a parameter, as an installed plugin lists them now on a worker.

use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::registry::plugins::OPTIONS;
use tidemill_common::value::JsonMap;

use super::Options;
use super::test::{self, Trial};
use crate::commands::catalog;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::json;
use crate::output::text::{one_line, safe};

pub(super) async fn perform(arguments: &Options, console: &mut Console) -> Result<Exit, Error> {
    let client = arguments.common.client()?;
    let mut params = JsonMap::new();
    params.insert("tool".into(), arguments.tool.as_str().into());
    params.insert("parameter".into(), arguments.parameter.as_str().into());
    if let Some(app) = &arguments.app {
        params.insert("app".into(), app.as_str().into());
    }
    let trial = Trial {
        provider: &arguments.provider,
        version: arguments.version.as_deref(),
        tool: OPTIONS,
        params,
        at_most: Duration::from_secs(arguments.wait),
    };
    let result = test::run(&client, &trial).await?;
    if let Some(error) = result["error"].as_str() {
        let run = catalog::text(&result["run"]);
        console.note(format_args!("{} (tidemill show {run})", safe(error)));
        return Ok(Exit::Failed);
    }
    let options = &result["outputs"]["json"][0]["options"];
    if arguments.common.json {
        json::whole(&json!({"options": options}), console)?;
        return Ok(Exit::Succeeded);
    }
    for option in options.as_array().into_iter().flatten() {
        console.line(one_line(&format!(
            "{}  {}",
            catalog::text(&option["value"]),
            label(&option["label"])
        )))?;
    }
    Ok(Exit::Succeeded)
}

/// A text in English, or in any language.
fn label(label: &Json) -> String {
    match label {
        Json::Object(languages) => {
            let any = || languages.values().find_map(Json::as_str);
            languages.get("en_US").and_then(Json::as_str).or_else(any).unwrap_or_default().to_owned()
        }
        other => catalog::text(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_of_an_option_is_in_english_where_it_can_be() {
        assert_eq!(label(&json!({"de_DE": "Eins", "en_US": "One"})), "One");
        assert_eq!(label(&json!({"de_DE": "Eins"})), "Eins");
        assert_eq!(label(&json!("One")), "One");
    }
}
