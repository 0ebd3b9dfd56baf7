//! `tidemill plugins try`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::config::{Config, LogConfig, Sources};
use tidemill_common::http::Http;
use tidemill_common::telemetry;
use tidemill_plugins::install::{InstallError, Installed, install};
use tidemill_plugins::package::{Kind, Package, Tool, ToolProvider};
use tidemill_plugins::process::pool::Plugins;
use tidemill_plugins::process::{MemoryStorage, Offered, Origin};
use tidemill_plugins::settings::Settings;
use tidemill_plugins::tool::message::Message;
use tidemill_plugins::tool::{Call, Results, missing, with_defaults};
use tidemill_sandbox::guest;
use tidemill_sandbox::helper::Host;

use super::Try;
use crate::commands::Interrupts;
use crate::commands::pairs::json_or_text;
use crate::console::Console;
use crate::error::{Error, Exit};
use crate::output::text::safe;

type JsonMap = serde_json::Map<String, Json>;

/// Most bytes of a file that is given as a parameter.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// What is logged with `--verbose`.
const VERBOSE: &str = "warn,tidemill_plugins=debug,tidemill_common::http=info";

pub(super) async fn perform(arguments: &Try, console: &mut Console) -> Result<Exit, Error> {
    let package = Arc::new(super::open(&arguments.plugin, None).await?);
    let (provider, tool) = chosen(&package, &arguments.tool)?;
    let credentials = credentials(arguments, provider)?;
    let (params, offered) = params(arguments, tool)?;
    let config = Config::load(&Sources::of_process(arguments.config.clone(), Vec::new()));
    let config = config.map_err(|error| Error::Usage(error.to_string()))?;
    if arguments.verbose {
        telemetry::start_logs(&LogConfig { level: VERBOSE.into(), format: config.log.format });
    }
    let settings = settings(arguments, &config);
    let http = Http::new(&config.http).map_err(|error| Error::Usage(error.to_string()))?;
    let no_host = || Error::Failed("this program cannot host plugins".into());
    let host = Host::this_program().ok_or_else(no_host)?;
    for gap in guest::not_enforced() {
        console.note(format_args!("not enforced by this kernel: {gap}"));
    }
    let installed = Arc::new(ready(&package, &settings, console).await?);
    let plugins = Plugins::new(settings, host, Arc::new(http));
    let call = Call {
        plugins: &plugins,
        installed: &installed,
        provider,
        credentials,
        user: "tidemill-plugins-try".into(),
        owner: String::new(),
        answers: Arc::new(MemoryStorage::new(package.manifest.permissions.storage_bytes.unwrap_or(0))),
        offered,
        origin: Origin::default(),
    };
    let mut interrupts = Interrupts::new();
    let outcome = tokio::select! {
        outcome = run(&call, tool, params, arguments, console) => outcome,
        () = interrupts.next() => Err(Error::Failed("interrupted".into())),
    };
    plugins.stop().await;
    outcome
}

/// The tool of this name, if there is exactly one.
fn chosen<'p>(package: &'p Package, name: &str) -> Result<(&'p ToolProvider, &'p Tool), Error> {
    match &package.tools_named(name)[..] {
        [one] => Ok(*one),
        [] => {
            let all = package.providers.tools.iter().flat_map(|provider| &provider.tools);
            let all: Vec<&str> = all.map(|tool| tool.name.as_str()).collect();
            let all = if all.is_empty() { "none".into() } else { all.join(", ") };
            Err(Error::Usage(safe(&format!("{} has no tool {name:?}; its tools: {all}", package.id()))))
        }
        [_, _, ..] => Err(Error::Usage(format!("several tools are called {name:?}: write PROVIDER/{name}"))),
    }
}

fn settings(arguments: &Try, config: &Config) -> Settings {
    let mut settings = Settings::of(config);
    if let Some(cache) = &arguments.cache {
        settings.cache.clone_from(cache);
    }
    settings.pythons.splice(0..0, arguments.pythons.iter().cloned());
    if let Some(url) = &arguments.index_url {
        settings.index_url.clone_from(url);
    }
    if arguments.wheels.is_some() {
        settings.wheels.clone_from(&arguments.wheels);
    }
    settings.process.session_timeout = Duration::from_secs(arguments.timeout.max(1));
    settings
}

/// The credentials, from variables: a value on the command line would be seen by other users.
fn credentials(arguments: &Try, provider: &ToolProvider) -> Result<JsonMap, Error> {
    let mut read = JsonMap::new();
    for (name, source) in &arguments.credentials {
        let Some(variable) = source.strip_prefix("env:") else {
            let message = format!(
                "--credential {name}=…: write {name}=env:VARIABLE, so that the value is not in the command line"
            );
            return Err(Error::Usage(message));
        };
        if provider.credentials.iter().all(|field| field.name != *name) {
            let known: Vec<&str> = provider.credentials.iter().map(|field| field.name.as_str()).collect();
            let known = if known.is_empty() { "none".into() } else { known.join(", ") };
            let message = format!("the credentials have no field {name:?}; the fields: {known}");
            return Err(Error::Usage(safe(&message)));
        }
        let value = std::env::var(variable).map_err(|_| {
            Error::Usage(format!("the variable {variable} of --credential {name} is not set"))
        })?;
        read.insert(name.clone(), value.into());
    }
    let missing: Vec<&str> =
        missing(&provider.credentials, &read).iter().map(|field| field.name.as_str()).collect();
    if missing.is_empty() {
        return Ok(with_defaults(&provider.credentials, read));
    }
    Err(Error::Usage(safe(&format!(
        "the tool needs credentials: --credential {}=env:VARIABLE",
        missing.join("=env:… --credential ")
    ))))
}

/// The parameters, and the files among them.
fn params(arguments: &Try, tool: &Tool) -> Result<(JsonMap, Offered), Error> {
    let (mut params, mut files) = (JsonMap::new(), BTreeMap::new());
    for (name, text) in &arguments.params {
        let value = match text.strip_prefix('@') {
            Some(path) => file(Path::new(path), &mut files)?,
            None if is_text(tool, name) => text.as_str().into(),
            None => json_or_text(text),
        };
        match params.entry(name.clone()) {
            serde_json::map::Entry::Vacant(place) => drop(place.insert(value)),
            // A parameter that is given twice is a list.
            serde_json::map::Entry::Occupied(mut known) => match known.get_mut() {
                Json::Array(items) => items.push(value),
                one => *one = Json::Array(vec![one.take(), value]),
            },
        }
    }
    Ok((params, Offered::new(files)))
}

/// Whether a parameter is a text, so that what is given for it is taken as it is, also if it is JSON.
fn is_text(tool: &Tool, name: &str) -> bool {
    let kinds = [
        Kind::Text,
        Kind::Secret,
        Kind::Select,
        Kind::DynamicSelect,
        Kind::DynamicTreeSelect,
        Kind::Checkbox,
    ];
    tool.parameters.iter().any(|parameter| parameter.name == name && kinds.contains(&parameter.kind))
}

/// A file of this machine, as Dify gives files to tools.
fn file(path: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> Result<Json, Error> {
    let failed = |error: std::io::Error| Error::Usage(format!("{}: {error}", path.display()));
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > FILE_BYTES_MAX {
        return Err(Error::Usage(format!("{} has more than {FILE_BYTES_MAX} bytes", path.display())));
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let extension =
        path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    let mime = tidemill_common::value::mime::of_extension(extension.trim_start_matches('.'))
        .unwrap_or("application/octet-stream");
    let kind = match mime.split('/').next() {
        Some(kind @ ("image" | "audio" | "video")) => kind,
        Some(_) | None => "document",
    };
    let name = format!("file-{}{extension}", files.len() + 1);
    let value = json!({
        "dify_model_identity": "__dify__file__", "url": Offered::address(&name), "mime_type": mime,
        "filename": path.file_name().map(|name| name.to_string_lossy()), "extension": extension,
        "size": size, "type": kind,
    });
    files.insert(name, bytes);
    Ok(value)
}

/// Makes the package ready, with its progress on standard error.
async fn ready(
    package: &Arc<Package>,
    settings: &Settings,
    console: &mut Console,
) -> Result<Installed, Error> {
    let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    let say = move |text: String| {
        // The receiver lives as long as the install.
        let _ = say.send(text);
    };
    let working = async {
        let done = install(package.clone(), settings, &say).await;
        drop(say);
        done
    };
    let saying = async {
        while let Some(text) = said.recv().await {
            console.note(text);
        }
    };
    let (done, ()) = tokio::join!(working, saying);
    done.map_err(super::failed::<InstallError>)
}

async fn run(
    call: &Call<'_>,
    tool: &Tool,
    params: JsonMap,
    arguments: &Try,
    console: &mut Console,
) -> Result<Exit, Error> {
    if arguments.validate {
        call.validate_credentials().await.map_err(super::failed)?;
        console.note("the plugin accepts the credentials");
    }
    let mut results = call.invoke(tool, params).await.map_err(super::failed)?;
    let mut number = 0;
    while let Some(message) = next(&mut results).await? {
        number += 1;
        if arguments.json {
            console.line(message.as_json())?;
        } else {
            show(&message, console)?;
        }
        if let (Some(folder), Message::Blob { bytes, meta }) = (&arguments.save, &message) {
            let path = save(folder, number, bytes, meta)?;
            console.note(format_args!("saved {}", path.display()));
        }
    }
    console.note(format_args!(
        "{}: the tool ended well, with {}",
        safe(&tool.name),
        crate::workflow_file::count(number, "message")
    ));
    Ok(Exit::Succeeded)
}

async fn next(results: &mut Results) -> Result<Option<Message>, Error> {
    results.next().await.map_err(super::failed)
}

fn show(message: &Message, console: &mut Console) -> Result<(), Error> {
    match message {
        Message::Text(text) => console.line(format_args!("text      {}", safe(text))),
        Message::Link(text) => console.line(format_args!("link      {}", safe(text))),
        Message::Image(text) | Message::ImageLink(text) => {
            console.line(format_args!("image     {}", safe(text)))
        }
        Message::Json(value) => console.line(format_args!("json      {}", safe(&value.to_string()))),
        Message::Variable { name, value, .. } => {
            console.line(format_args!("variable  {} = {}", safe(name), safe(&value.to_string())))
        }
        Message::Blob { bytes, meta } => {
            console.line(format_args!("blob      {} bytes {}", bytes.len(), safe(&meta.to_string())))
        }
        Message::File { meta } => console.line(format_args!("file      {}", safe(&meta.to_string()))),
        Message::Log(value) => console.line(format_args!("log       {}", safe(&value.to_string()))),
        Message::RetrieverResources(value) => {
            console.line(format_args!("sources   {}", safe(&value.to_string())))
        }
    }
}

/// Writes a blob under a name of ours: the plugin's own name could be any path.
fn save(folder: &Path, number: usize, bytes: &[u8], meta: &Json) -> Result<PathBuf, Error> {
    let named =
        meta["filename"].as_str().and_then(|name| Path::new(name).extension()?.to_str().map(String::from));
    let of_kind = meta["mime_type"].as_str().and_then(|kind| Some(kind.split_once('/')?.1.to_owned()));
    let extension =
        named.or(of_kind).filter(|text| text.chars().all(|c| c.is_ascii_alphanumeric())).unwrap_or_default();
    let path = folder.join(format!("blob-{number}")).with_extension(extension);
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes));
    written.map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
    Ok(path)
}
