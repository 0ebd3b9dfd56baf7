//! `tidemill plugins show`.

use serde_json::{Value as Json, json};
use tidemill_plugins::package::{
    Package, Parameter, Provider, Severity, Signature, Strategy, StrategyProvider, Tool, ToolProvider,
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
    console.line(verdict(package))
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
            let kinds = provider.model_kinds.join(", ");
            let text = format!("{kind} of {}: {}{more} {kinds}", provider.name, names.join(", "));
            console.line(one_line(text.trim_end()))?;
        }
    }
    Ok(())
}

fn others(package: &Package) -> [(&'static str, &[Provider]); 4] {
    let providers = &package.providers;
    [
        ("models", &providers.models),
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

/// Whether `try` can run it, and what nothing here runs yet.
fn verdict(package: &Package) -> String {
    if package.is_broken() {
        return "It cannot run here: see the errors.".into();
    }
    if let Some(unusual) = package.python.unusual() {
        let reason = unusual.unusual.unwrap_or("unusual");
        return format!("It cannot run here: it requires {:?}, which is {reason}.", unusual.text);
    }
    let others: Vec<&str> =
        others(package).iter().filter(|(_, list)| !list.is_empty()).map(|(kind, _)| *kind).collect();
    let (tools, agents) =
        (!package.providers.tools.is_empty(), !package.providers.agent_strategies.is_empty());
    let others = others.join(" and ");
    if !tools && !agents {
        return format!("It was only read: Tidemill does not run {others} of plugins yet.");
    }
    let mut sentences = Vec::new();
    if tools {
        sentences.push("Its tools can be tried with `tidemill plugins try`.".to_owned());
    }
    if !others.is_empty() {
        sentences.push(format!("Its {others} do not run."));
    }
    sentences.push("`tidemill plugins add` installs it for all workers.".into());
    sentences.join(" ")
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
        "agent_strategies": package.providers.agent_strategies.iter().map(strategies_as_json).collect::<Vec<_>>(),
        "others": others,
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
        "provider": provider.name, "file": provider.file, "model_types": provider.model_kinds,
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
