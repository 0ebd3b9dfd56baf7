//! Finds and calls tools of plugins. Questions about them are calls, too ([`questions`]).

use std::borrow::Cow;
use std::time::Duration;

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::nodes::tool::{Declaration, Form, Message, Parameter, ParameterType};
use tidemill_common::store::RunOwner;
use tidemill_common::value::JsonMap;
use tidemill_plugins::install::Installed;
use tidemill_plugins::package::{self, Kind, ToolProvider};
use tidemill_plugins::process::pool::Plugins;
use tidemill_plugins::process::{Origin, ProcessError};
use tidemill_plugins::tool::message::Message as Said;
use tidemill_plugins::tool::{self, Call};
use tokio::time::Instant;

use super::FoundTool;
use super::answers::{Answering, Asker};
use super::credentials::Chosen;
use super::files;
use super::host::PluginHost;
use super::questions::{self, Asked};
use crate::jobs::backoff::Backoff;
use crate::outside::tools::{MessageSink, Stage, ToolCall, ToolError, ToolName, ToolRuntime};

impl PluginHost {
    /// Finds a tool of an installed plugin; `None` if the name is that of no installed plugin. With `has_service` also if
    /// this worker cannot run the plugin, or the plugin has no such tool.
    ///
    /// # Errors
    /// The plugin is not ready on this worker, or has no such tool.
    pub(crate) async fn find(
        &self,
        name: &ToolName<'_>,
        has_service: bool,
    ) -> Result<Option<FoundTool>, ToolError> {
        let Some(installed) = self.ready(name, has_service).await? else { return Ok(None) };
        let declaration = match questions::declaration(name.tool) {
            Some(declaration) => declaration,
            None => declaration(tool_of(&installed, name)?.1),
        };
        Ok(Some(FoundTool { plugin: installed.package.id(), declaration }))
    }

    async fn call(
        &self,
        name: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError> {
        let Some(installed) = self.ready(name, false).await? else {
            return Err(ToolError::unavailable(format!(
                "no plugin with the tool {} is installed",
                name.tool
            )));
        };
        let processes = self.processes.as_ref().map_err(|reason| ToolError::unavailable(*reason))?;
        let owner = self.owner_of(*call.run).await?;
        let mut app = owner.app.as_deref();
        let question = Asked::of(name.tool);
        if question.is_some_and(Asked::may_name_app) && app.is_none() {
            app = call.arguments.get(questions::APP).and_then(Json::as_str);
        }
        if question == Some(Asked::Validate) {
            let given = |name: &str| call.arguments.get(name).and_then(Json::as_str);
            let wanted = name.provider_id.rsplit('/').next().unwrap_or_default();
            let model =
                given(questions::MODEL).map(|model| (model, given(questions::MODEL_TYPE).unwrap_or("llm")));
            if self.validate_models(&installed, wanted, (app, &owner.user), model).await? {
                sink(Message::Text(questions::ACCEPTED.into()));
                return Ok(());
            }
        }
        let provider = provider_of(&installed, name)?;
        // A check is about the credentials that were stored just now.
        let newest = question == Some(Asked::Validate);
        let Chosen { credentials, mark } = self.credentials(&installed, &provider, app, newest).await?;
        let mut arguments = call.arguments.clone();
        if question.is_none() {
            // As on Dify, what the tool does not have is not sent to it.
            let (_, tool) = tool_of(&installed, name)?;
            let has = |name: &str| tool.parameters.iter().any(|parameter| parameter.name == name);
            arguments.retain(|name, _| tool.has_runtime_parameters || has(name));
        }
        let asker = asker(&call);
        let (answering, questions) = Answering::new(self, &installed, asker);
        let (arguments, offered) = files::offered(arguments, asker).await?;
        let invocation = Call {
            plugins: processes,
            installed: &installed,
            provider: &provider,
            credentials,
            user: owner.user.clone(),
            owner: format!("{} {mark}", app.unwrap_or_default()),
            answers: answering.answers(),
            offered: answering.offering(offered),
            origin: origin(asker),
        };
        let work = async {
            if let Some(question) = question {
                let is_datasource = !has_tools(&installed, &provider.name);
                // For all tries to begin together.
                let until = Instant::now() + processes.limits().session_timeout;
                let asked = question.ask(&invocation, is_datasource, &arguments, until, &mut *sink).await;
                return asked.map_err(|error| failure(processes, error));
            }
            let (_, tool) = tool_of(&installed, name)?;
            let ended = invoke(&invocation, processes, (tool, arguments), &mut *sink).await;
            // What a failed invocation has asked was paid, too.
            if let Some(usage) = answering.spent() {
                sink(Message::Charged(Box::new(usage)));
            }
            ended
        };
        answering.during(questions, work).await
    }

    /// The owner of a run. Waits while the store does not answer.
    pub(super) async fn owner_of(&self, run: RunId) -> Result<RunOwner, ToolError> {
        let mut backoff = Backoff::default();
        loop {
            match self.jobs.owner_of_run(run).await {
                Ok(owner) => return Ok(owner.unwrap_or_default()),
                Err(error) if error.is_passing() => backoff.wait().await,
                Err(error) => {
                    let message = format!("the app of the run cannot be looked up: {error}");
                    return Err(ToolError::new(Stage::Invoke, message));
                }
            }
        }
    }
}

#[async_trait::async_trait]
impl ToolRuntime for PluginHost {
    async fn parameters(&self, tool: &ToolName<'_>) -> Result<Option<Declaration>, ToolError> {
        Ok(self.find(tool, false).await?.map(|found| found.declaration))
    }

    async fn list(&self, _: &str) -> Result<Vec<Declaration>, ToolError> {
        // Agents name their tools.
        Ok(Vec::new())
    }

    async fn invoke(
        &self,
        tool: &ToolName<'_>,
        call: ToolCall<'_>,
        sink: MessageSink<'_>,
    ) -> Result<(), ToolError> {
        self.call(tool, call, sink).await
    }
}

/// The run that a call works for.
fn asker<'a>(call: &ToolCall<'a>) -> Asker<'a> {
    let ToolCall { run, http, files, nested, auto_approved, .. } = *call;
    let journal = call.step.map(|(journal, ..)| journal);
    Asker { run, http, files, journal, nested, auto_approved, given: &[] }
}

/// The names of the run and the node for log lines.
pub(super) fn origin(asker: Asker<'_>) -> Origin {
    let node = asker.journal.map(|journal| journal.node().to_string());
    Origin { run: asker.run.to_string(), node: node.unwrap_or_default() }
}

/// Invokes a tool, and hands its messages on.
async fn invoke(
    invocation: &Call<'_>,
    processes: &Plugins,
    (tool, arguments): (&package::Tool, JsonMap),
    sink: MessageSink<'_>,
) -> Result<(), ToolError> {
    let failed = |error| failure(processes, error);
    // For all tries to begin together.
    let until = Instant::now() + processes.limits().session_timeout;
    let mut results = loop {
        match pause(invocation.invoke(tool, arguments.clone()).await, until).map_err(failed)? {
            Ok(results) => break results,
            Err(wait) => tokio::time::sleep(wait).await,
        }
    };
    while let Some(said) = results.next().await.map_err(failed)? {
        sink(message(said).map_err(|reason| ToolError::new(Stage::Message, reason))?);
    }
    Ok(())
}

/// The provider in a package: of tools, or else of datasources.
fn provider_of<'i>(
    installed: &'i Installed,
    name: &ToolName<'_>,
) -> Result<Cow<'i, ToolProvider>, ToolError> {
    let Some(question) = Asked::of(name.tool) else {
        return tool_of(installed, name).map(|(provider, _)| Cow::Borrowed(provider));
    };
    let wanted = name.provider_id.rsplit('/').next().unwrap_or_default();
    let providers = &installed.package.providers;
    let of_tools = providers.tools.iter().find(|known| known.name == wanted && !question.is_of_datasources());
    let of_datasources = || providers.datasources.iter().find(|known| known.name == wanted);
    let found = of_tools.map(Cow::Borrowed).or_else(|| of_datasources().map(|it| Cow::Owned(it.as_tools())));
    found.ok_or_else(|| {
        let message = format!("the plugin {} has no provider {wanted}", installed.package.id());
        ToolError::unavailable(message)
    })
}

fn has_tools(installed: &Installed, provider: &str) -> bool {
    installed.package.providers.tools.iter().any(|known| known.name == provider)
}

/// The tool in a package. A provider's name may be the last part of its id.
pub(super) fn tool_of<'i>(
    installed: &'i Installed,
    name: &ToolName<'_>,
) -> Result<(&'i ToolProvider, &'i package::Tool), ToolError> {
    let provider = name.provider_id.rsplit('/').next().unwrap_or_default();
    let package = &installed.package;
    let exact = package.tools_named(&format!("{provider}/{}", name.tool));
    let found = if exact.is_empty() { package.tools_named(name.tool) } else { exact };
    found.first().copied().ok_or_else(|| {
        ToolError::unavailable(format!("the plugin {} has no tool {}", package.id(), name.tool))
    })
}

pub(super) fn declaration(tool: &package::Tool) -> Declaration {
    Declaration {
        name: tool.name.clone(),
        description: tool.description.clone(),
        parameters: tool.parameters.iter().map(parameter).collect(),
        takes_more: tool.has_runtime_parameters,
        has_output_schema: false,
    }
}

fn parameter(parameter: &package::Parameter) -> Parameter {
    let word = match parameter.kind {
        _ if parameter.multiple => "any",
        Kind::Tool | Kind::Tools | Kind::DynamicTreeSelect => "any",
        kind => kind.word(),
    };
    Parameter {
        name: parameter.name.clone(),
        ty: ParameterType::from_name(word).unwrap_or_default(),
        form: match parameter.form {
            package::Form::Schema => Form::Schema,
            package::Form::Form => Form::Form,
            package::Form::Llm => Form::Llm,
        },
        required: parameter.required,
        default: parameter.default.clone(),
        options: if parameter.multiple { Vec::new() } else { parameter.options.clone() },
        description: parameter.help.clone(),
        schema: None,
    }
}

/// A message of a plugin as the message of a tool.
pub(super) fn message(said: Said) -> Result<Message, String> {
    let text = |meta: &Json, key: &str| meta.get(key).and_then(Json::as_str).map(str::to_owned);
    Ok(match said {
        Said::Text(text) => Message::Text(text),
        Said::Json(value) => return Message::from_json(&json!({"type": "json", "json": value})),
        Said::Link(text) => Message::Link { text, file: None },
        Said::Image(url) | Said::ImageLink(url) => {
            Message::Image { url, tool_file_id: None, mime_type: None }
        }
        Said::Blob { bytes, meta } => Message::Blob {
            bytes,
            tool_file_id: None,
            mime_type: text(&meta, "mime_type"),
            // Datasources name it so.
            filename: text(&meta, "filename").or_else(|| text(&meta, "file_name")),
        },
        Said::File { meta } => Message::File(Some(meta)),
        Said::Variable { name, value, is_piece } => Message::Variable { name, value, stream: is_piece },
        Said::Log(_) | Said::RetrieverResources(_) => Message::Ignored,
    })
}

/// The pause after which an invocation is to be begun again, as the inner error: another one has ended its process, and it is
/// not started again yet. Nothing of this one has run. A start that fails is an error, and so is a pause beyond `until`.
pub(super) fn pause<T>(
    begun: Result<T, tool::ToolError>,
    until: Instant,
) -> Result<Result<T, Duration>, tool::ToolError> {
    match begun {
        Ok(begun) => Ok(Ok(begun)),
        Err(tool::ToolError::Process(ProcessError::BackingOff { wait, .. }))
            if Instant::now() + wait < until =>
        {
            Ok(Err(wait))
        }
        Err(error) => Err(error),
    }
}

/// The failure of an invocation, as a node reports it.
pub(super) fn failure(processes: &Plugins, error: tool::ToolError) -> ToolError {
    let error = match error {
        tool::ToolError::Process(error) => error,
        tool::ToolError::Parameter(error) => return ToolError::new(Stage::Invoke, error.to_string()),
        tool::ToolError::Message(error) => return ToolError::new(Stage::Message, error.to_string()),
        tool::ToolError::Credentials(reason) => return ToolError::new(Stage::Invoke, reason),
    };
    let invoke = |error: &ProcessError| ToolError::new(Stage::Invoke, error.to_string());
    match &error {
        ProcessError::Failed { kind, message, .. } => {
            ToolError::new(Stage::Tool, format!("{kind}: {message}"))
        }
        ProcessError::BackingOff { wait, .. } => {
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            ToolError { retry_after_ms: Some(wait.saturating_add(1)), ..invoke(&error).passing() }
        }
        ProcessError::Ended { .. } => {
            // A process is started again only after this pause.
            let wait = u64::try_from(processes.limits().backoff.as_millis()).unwrap_or(u64::MAX);
            ToolError { retry_after_ms: Some(wait.saturating_add(1)), ..invoke(&error).passing() }
        }
        ProcessError::Start { .. }
        | ProcessError::Busy { .. }
        | ProcessError::NotTaken { .. }
        | ProcessError::TimedOut { .. } => invoke(&error).passing(),
        ProcessError::TooMuch { .. }
        | ProcessError::TooManyQuestions { .. }
        | ProcessError::TooManyQuestionsInAll { .. } => invoke(&error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(kind: Kind, form: package::Form) -> package::Parameter {
        package::Parameter {
            name: "p".into(),
            label: String::new(),
            kind,
            form,
            required: true,
            default: None,
            min: None,
            max: None,
            options: vec!["a".into()],
            multiple: false,
            help: "of use".into(),
            show_on: Vec::new(),
        }
    }

    #[test]
    fn parameters_are_declared_as_nodes_and_models_know_them() {
        for (kind, ty) in [
            (Kind::Text, ParameterType::String),
            (Kind::Secret, ParameterType::SecretInput),
            (Kind::Number, ParameterType::Number),
            (Kind::Select, ParameterType::Select),
            (Kind::File, ParameterType::File),
            (Kind::Files, ParameterType::Files),
            (Kind::Model, ParameterType::ModelSelector),
            (Kind::Array, ParameterType::Array),
            (Kind::Tools, ParameterType::Any),
        ] {
            assert_eq!(parameter(&given(kind, package::Form::Llm)).ty, ty, "{kind:?}");
        }
        let one = parameter(&given(Kind::Text, package::Form::Form));
        assert_eq!((one.form, one.required, one.description.as_str()), (Form::Form, true, "of use"));
        let several = package::Parameter { multiple: true, ..given(Kind::Select, package::Form::Form) };
        assert_eq!(parameter(&several).ty, ParameterType::Any, "its plugin takes a list");
    }

    #[test]
    fn messages_of_a_plugin_are_those_of_a_tool() {
        let meta = json!({"mime_type": "image/png", "filename": "a.png"});
        for (said, expected) in [
            (Said::Text("a".into()), Message::Text("a".into())),
            (Said::Json(json!([1])), Message::Json(json!([1]))),
            (Said::Link("l".into()), Message::Link { text: "l".into(), file: None }),
            (
                Said::Blob { bytes: vec![1], meta },
                Message::Blob {
                    bytes: vec![1],
                    tool_file_id: None,
                    mime_type: Some("image/png".into()),
                    filename: Some("a.png".into()),
                },
            ),
            (
                Said::Variable { name: "v".into(), value: json!("x"), is_piece: true },
                Message::Variable { name: "v".into(), value: json!("x"), stream: true },
            ),
            (Said::Log(json!({})), Message::Ignored),
        ] {
            assert_eq!(message(said), Ok(expected));
        }
        assert!(message(Said::Json(json!(1))).unwrap_err().contains("must be an object or a list"));
    }
}
