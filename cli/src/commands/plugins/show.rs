//! `tidemill plugins show`.

use serde_json::{Value as Json, json};
use tidemill_plugins::package::{
    ModelProvider, Package, PackagedModel, Parameter, Provider, Severity, Signature, Strategy,
    StrategyProvider, Tool, ToolProvider,
};

use super::Show;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::text::{one_line, size};
use crate::output::{json, table};

pub(super) async fn perform(arguments: &Show, console: &mut Console) -> Result<Exit, Error> {
    let package = super::open(&arguments.plugin, arguments.signing_key.as_deref()).await?;
    let here = here(&package, &arguments.pythons).await;
    if arguments.json {
        let mut shown = as_json(&package);
        shown["python"]["here"] = here.into();
        json::whole(&shown, console)?;
    } else {
        show(&package, here, console)?;
    }
    let is_forged = matches!(package.signature, Signature::Wrong | Signature::Missing);
    Ok(if package.is_broken() || is_forged { Exit::Failed } else { Exit::Succeeded })
}

/// The interpreter of this host that fits, or the reason why none does.
#[cfg(target_os = "linux")]
async fn here(package: &Package, pythons: &[String]) -> String {
    use tidemill_plugins::install::choose;
    use tidemill_plugins::settings::Settings;

    let mut settings = Settings::new(std::path::PathBuf::new());
    settings.pythons.splice(0..0, pythons.iter().cloned());
    match choose(package, &settings).await {
        Ok(interpreter) => format!("{} ({})", interpreter.executable().display(), interpreter.release()),
        Err(error) => format!("no interpreter fits: {error}"),
    }
}

#[cfg(not(target_os = "linux"))]
async fn here(_: &Package, _: &[String]) -> String {
    "plugins run only on Linux".into()
}

fn show(package: &Package, here: String, console: &mut Console) -> Result<(), Error> {
    let manifest = &package.manifest;
    let python = &package.python;
    let (oldest, reason) = python.oldest_python();
    let permissions = match manifest.permissions.in_words() {
        words if words.is_empty() => "asks for nothing".into(),
        words => words.join("; "),
    };
    let sdk = python.sdk.clone().unwrap_or_default();
    let locked = python.sdk_version().filter(|_| !python.locked.is_empty());
    let sdk = locked.map_or(sdk.clone(), |version| format!("{sdk} (locked: {version})"));
    let files = format!("{} files, {}", package.files.count(), size(package.files.bytes()));
    console.text(table::pairs(&[
        ("plugin", package.id()),
        ("label", manifest.label.clone()),
        ("description", manifest.description.clone()),
        ("created", manifest.created_at.clone()),
        (
            "dify",
            manifest
                .minimum_dify_version
                .as_ref()
                .map(|version| format!("{version} or newer"))
                .unwrap_or_default(),
        ),
        (
            "runner",
            format!(
                "{} {}, starts {}",
                manifest.runner.language, manifest.runner.version, manifest.runner.entrypoint
            ),
        ),
        ("machines", manifest.arch.join(", ")),
        ("python", format!("{oldest} or newer: {reason}")),
        ("here", here),
        ("sdk", sdk),
        ("requires", requires(package)),
        ("permissions", permissions),
        ("size", files),
        ("sha256", package.hash.clone()),
        ("signature", package.signature.in_words().into()),
    ]))?;
    offers(package, console)?;
    for problem in &package.problems {
        console.line(one_line(&problem.to_string()))?;
    }
    for line in verdict(package).lines() {
        console.line(one_line(line))?;
    }
    Ok(())
}

fn requires(package: &Package) -> String {
    let python = &package.python;
    let file = python.file.unwrap_or_default();
    let many = crate::workflow_file::count(python.requirements.len(), "requirement");
    match python.locked.len() {
        0 => format!("{many} in {file}"),
        locked => format!("{many} in {file}; uv.lock fixes {locked} versions"),
    }
}

fn offers(package: &Package, console: &mut Console) -> Result<(), Error> {
    let providers = &package.providers;
    for provider in &providers.tools {
        let how = match (provider.credentials.is_empty(), provider.has_oauth) {
            (true, false) => "no credentials".into(),
            (true, true) => "login at a server".into(),
            (false, _) => format!("credentials: {}", parameters(&provider.credentials)),
        };
        console.line(format_args!("tools of {}, {}", one_line(&provider.name), one_line(&how)))?;
        for tool in &provider.tools {
            console.line(format_args!(
                "  {}({})",
                one_line(&tool.name),
                one_line(&parameters(&tool.parameters))
            ))?;
        }
    }
    for provider in &providers.models {
        models(provider, console)?;
    }
    for provider in &providers.agent_strategies {
        console.line(format_args!("agent strategies of {}", one_line(&provider.name)))?;
        for strategy in &provider.strategies {
            let (name, parameters) = (one_line(&strategy.name), parameters(&strategy.parameters));
            console.line(format_args!("  {name}({})", one_line(&parameters)))?;
        }
    }
    for (kind, providers) in others(package) {
        for provider in providers {
            let names: Vec<&str> = provider.items.iter().map(|item| item.name.as_str()).take(8).collect();
            let more = if provider.items.len() > names.len() { ", …" } else { "" };
            let kind_of_source = provider.source_kind.as_deref().unwrap_or_default();
            let text = format!("{kind} of {}: {}{more} {kind_of_source}", provider.name, names.join(", "));
            console.line(one_line(text.trim_end()))?;
            if kind == "datasources" && !provider.credentials.is_empty() {
                let fields = parameters(&provider.credentials);
                console.line(format_args!("  credentials: {}", one_line(&fields)))?;
            }
        }
    }
    Ok(())
}

/// A provider of models: the forms of its credentials, and the models of each kind.
fn models(provider: &ModelProvider, console: &mut Console) -> Result<(), Error> {
    let form = |form: &[Parameter]| match parameters(form) {
        text if text.is_empty() => "none".to_owned(),
        text => text,
    };
    let of_all = provider.is_predefined.then(|| format!("credentials: {}", form(&provider.credentials)));
    let of_one = provider.is_customizable;
    let of_one = of_one.then(|| format!("for one model: {}", form(&provider.model_credentials)));
    let how: Vec<String> = of_all.into_iter().chain(of_one).collect();
    console.line(format_args!("models of {}, {}", one_line(&provider.name), one_line(&how.join("; "))))?;
    for kind in &provider.kinds {
        let of_kind: Vec<&str> = provider
            .models
            .iter()
            .filter(|model| model.kind == *kind)
            .map(|model| model.name.as_str())
            .collect();
        let shown = of_kind.iter().take(8).copied().collect::<Vec<_>>().join(", ");
        let more =
            if of_kind.len() > 8 { format!(", … ({} in all)", of_kind.len()) } else { String::new() };
        let by_name = if provider.is_customizable { "any by its name" } else { "" };
        let parts = [format!("{shown}{more}"), by_name.to_owned()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        console.line(format_args!("  {}: {}", kind.word(), one_line(&parts.join("; "))))?;
    }
    Ok(())
}

fn others(package: &Package) -> [(&'static str, &[Provider]); 3] {
    let providers = &package.providers;
    [
        ("datasources", &providers.datasources),
        ("triggers", &providers.triggers),
        ("endpoints", &providers.endpoints),
    ]
}

/// `text: string, often?: number`.
fn parameters(parameters: &[Parameter]) -> String {
    let one = |parameter: &Parameter| {
        let optional = if parameter.required { "" } else { "?" };
        format!("{}{optional}: {}", parameter.name, parameter.kind.word())
    };
    parameters.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What can run, and a line for each part that does not.
fn verdict(package: &Package) -> String {
    if package.is_broken() {
        return "It cannot run here: see the errors.".into();
    }
    if let Some(unusual) = package.python.unusual() {
        let reason = unusual.unusual.unwrap_or("unusual");
        return format!("It cannot run here: it requires {:?}, which is {reason}.", unusual.text);
    }
    let sentences = package.parts_that_do_not_run();
    let has_tools = !package.providers.tools.is_empty();
    let what = if has_tools {
        "Its tools can be tried with `tidemill plugins try`; `tidemill plugins add` installs it for all workers."
    } else if package.has_parts_that_run() {
        "`tidemill plugins add` installs it for all workers."
    } else {
        "It was only read: nothing of it can run here."
    };
    std::iter::once(what.to_owned()).chain(sentences).collect::<Vec<_>>().join("\n")
}

fn as_json(package: &Package) -> Json {
    let manifest = &package.manifest;
    let problems = package.problems.iter().map(|problem| {
        json!({
            "severity": match problem.severity { Severity::Error => "error", Severity::Warning => "warning" },
            "file": problem.file, "line": problem.line, "place": problem.place, "message": problem.message,
        })
    });
    let (oldest, reason) = package.python.oldest_python();
    let requirements: Vec<&str> = package.python.requirements.iter().map(|one| one.text.as_str()).collect();
    let others: serde_json::Map<String, Json> = others(package)
        .into_iter()
        .map(|(kind, list)| (kind.replace(' ', "_"), list.iter().map(provider_as_json).collect()))
        .collect();
    json!({
        "id": package.id(), "author": manifest.author, "name": manifest.name, "version": manifest.version,
        "label": manifest.label, "description": manifest.description, "created_at": manifest.created_at,
        "minimum_dify_version": manifest.minimum_dify_version, "arch": manifest.arch, "tags": manifest.tags,
        "runner": {
            "language": manifest.runner.language, "version": manifest.runner.version,
            "entrypoint": manifest.runner.entrypoint,
        },
        "permissions": manifest.permissions.in_words(),
        "python": {
            "oldest": oldest.to_string(), "reason": reason, "requires_python": package.python.requires_python,
            "sdk": package.python.sdk, "sdk_version": package.python.sdk_version().map(|version| version.to_string()),
            "file": package.python.file, "requirements": requirements,
            "refused": package.python.unusual().map(|unusual| &unusual.text),
        },
        "files": package.files.count(), "bytes": package.files.bytes(), "sha256": package.hash,
        "signature": package.signature.in_words(),
        "tools": package.providers.tools.iter().map(tools_as_json).collect::<Vec<_>>(),
        "models": package.providers.models.iter().map(models_as_json).collect::<Vec<_>>(),
        "agent_strategies": package.providers.agent_strategies.iter().map(strategies_as_json).collect::<Vec<_>>(),
        "others": others,
        "not_run": package.parts_that_do_not_run(),
        "problems": problems.collect::<Vec<_>>(),
    })
}

fn tools_as_json(provider: &ToolProvider) -> Json {
    let tool = |tool: &Tool| {
        json!({
            "name": tool.name, "label": tool.label, "description": tool.description, "file": tool.file,
            "parameters": tool.parameters.iter().map(parameter_as_json).collect::<Vec<_>>(),
        })
    };
    json!({
        "provider": provider.name, "file": provider.file, "oauth": provider.has_oauth,
        "credentials": provider.credentials.iter().map(parameter_as_json).collect::<Vec<_>>(),
        "tools": provider.tools.iter().map(tool).collect::<Vec<_>>(),
    })
}

fn models_as_json(provider: &ModelProvider) -> Json {
    let model = |model: &PackagedModel| {
        let facts = &model.facts;
        let price = facts.price.as_ref().map(|price| {
            json!({"input": price.input, "output": price.output, "unit": price.unit, "currency": price.currency})
        });
        let rules = model
            .rules
            .iter()
            .map(|rule| json!({"name": rule.name, "type": rule.kind, "required": rule.is_required}));
        json!({
            "name": model.name, "label": model.label, "file": model.file, "type": model.kind.word(),
            "features": facts.features, "mode": facts.mode, "context_size": facts.context_size,
            "max_chunks": facts.max_chunks, "pricing": price, "parameters": rules.collect::<Vec<_>>(),
            "deprecated": model.is_deprecated,
        })
    };
    json!({
        "provider": provider.name, "file": provider.file,
        "model_types": provider.kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>(),
        "predefined": provider.is_predefined, "customizable": provider.is_customizable,
        "credentials": provider.credentials.iter().map(parameter_as_json).collect::<Vec<_>>(),
        "model_credentials": provider.model_credentials.iter().map(parameter_as_json).collect::<Vec<_>>(),
        "models": provider.models.iter().map(model).collect::<Vec<_>>(),
    })
}

fn strategies_as_json(provider: &StrategyProvider) -> Json {
    let strategy = |strategy: &Strategy| {
        json!({
            "name": strategy.name, "label": strategy.label, "description": strategy.description, "file": strategy.file,
            "features": strategy.features,
            "parameters": strategy.parameters.iter().map(parameter_as_json).collect::<Vec<_>>(),
        })
    };
    json!({
        "provider": provider.name, "file": provider.file,
        "strategies": provider.strategies.iter().map(strategy).collect::<Vec<_>>(),
    })
}

fn provider_as_json(provider: &Provider) -> Json {
    let items =
        provider.items.iter().map(|item| json!({"name": item.name, "label": item.label, "file": item.file}));
    json!({
        "provider": provider.name, "file": provider.file, "source": provider.source_kind, "oauth": provider.has_oauth,
        "credentials": provider.credentials.iter().map(parameter_as_json).collect::<Vec<_>>(),
        "items": items.collect::<Vec<_>>(),
    })
}

fn parameter_as_json(parameter: &Parameter) -> Json {
    json!({
        "name": parameter.name, "label": parameter.label, "type": parameter.kind.word(),
        "required": parameter.required, "default": parameter.default, "options": parameter.options,
        "help": parameter.help,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::tests::captured;

    #[tokio::test]
    async fn a_plugin_is_shown_with_what_it_offers_and_needs() {
        let plugin = concat!(env!("CARGO_MANIFEST_DIR"), "/../plugins/tests/plugins/many");
        let mut arguments =
            Show { plugin: plugin.into(), signing_key: None, pythons: Vec::new(), json: false };
        let (mut console, out, _) = captured();
        assert_eq!(perform(&arguments, &mut console).await.unwrap(), Exit::Succeeded);
        let text = out.text();
        for expected in [
            "tidemill/many:0.1.0",
            "3.11 or newer: every SDK needs it",
            "may store 1024 bytes",
            "unchecked",
            "credentials: key?: secret-input",
            "say(text: string, often?: number, loud?: boolean, mood?: select)",
            "installs it for all workers.",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        arguments.json = true;
        let (mut console, out, _) = captured();
        perform(&arguments, &mut console).await.unwrap();
        let shown: Json = serde_json::from_str(&out.text()).unwrap();
        assert_eq!((&shown["id"], &shown["problems"]), (&json!("tidemill/many:0.1.0"), &json!([])));
        assert_eq!(shown["tools"][0]["tools"][0]["parameters"][1]["type"], "number");
    }
}
