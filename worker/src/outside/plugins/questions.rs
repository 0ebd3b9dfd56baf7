//! What a plugin does besides running its tools: it checks credentials, lists the options of a parameter, and reads datasources.
//! Each has a name that no tool has, and is called as a tool is.

use std::sync::Arc;

use serde_json::{Value as Json, json};
use tidemill_common::ids::RunId;
use tidemill_common::nodes::tool::{Declaration, Message, Parameter};
use tidemill_common::registry::plugins::{DOWNLOAD, OPTIONS, PAGE, VALIDATE};
use tidemill_common::value::JsonMap;
use tidemill_plugins::process::{NoAnswers, Offered, Origin};
use tidemill_plugins::tool::{Call, Results, ToolError as Trouble};
use tokio::time::Instant;

use super::credentials::Chosen;
use super::host::PluginHost;
use super::run::{declaration as declared, failure, message, pause, tool_of};
use crate::outside::tools::{MessageSink, ToolError, ToolName};

/// The app whose credentials are used, where the run has none.
pub(super) const APP: &str = "app";
/// A model of a provider of models, whose credentials are checked.
pub(super) const MODEL: &str = "model";
pub(super) const MODEL_TYPE: &str = "model_type";
/// The answer of [`VALIDATE`].
pub(super) const ACCEPTED: &str = "the plugin accepts the credentials";

/// A question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    Validate,
    Options,
    /// A page of an online document.
    Page,
    /// A file of an online drive.
    Download,
}

/// Their names and parameters.
const QUESTIONS: [(Asked, &str, &[&str]); 4] = [
    (Asked::Validate, VALIDATE, &[APP, MODEL, MODEL_TYPE]),
    (Asked::Options, OPTIONS, &[APP, "tool", "parameter"]),
    (Asked::Page, PAGE, &["datasource", "workspace_id", "page_id", "type"]),
    (Asked::Download, DOWNLOAD, &["datasource", "id", "bucket"]),
];

/// The declaration of a question; `None` for the name of a tool.
pub(super) fn declaration(name: &str) -> Option<Declaration> {
    let (_, name, parameters) = QUESTIONS.iter().find(|(_, known, _)| *known == name)?;
    let parameter = |name: &&str| Parameter { name: (*name).into(), ..Parameter::default() };
    let parameters = parameters.iter().map(parameter).collect();
    Some(Declaration { name: (*name).into(), parameters, ..Declaration::default() })
}

impl Asked {
    /// The question of a name; `None` for the name of a tool.
    pub(super) fn of(name: &str) -> Option<Self> {
        QUESTIONS.iter().find(|(_, known, _)| *known == name).map(|(asked, ..)| *asked)
    }

    /// True for those of a person, who may ask for an app.
    pub(super) fn may_name_app(self) -> bool {
        matches!(self, Self::Validate | Self::Options)
    }

    pub(super) fn is_of_datasources(self) -> bool {
        matches!(self, Self::Page | Self::Download)
    }

    /// Asks the plugin. A process that is not started again yet is waited for until then.
    pub(super) async fn ask(
        self,
        call: &Call<'_>,
        is_datasource: bool,
        arguments: &JsonMap,
        until: Instant,
        sink: MessageSink<'_>,
    ) -> Result<(), Trouble> {
        loop {
            match pause(self.once(call, is_datasource, arguments).await, until)? {
                Ok(Answer::Message(message)) => {
                    sink(message);
                    return Ok(());
                }
                Ok(Answer::Results(mut results)) => {
                    while let Some(said) = results.next().await? {
                        sink(message(said).map_err(Trouble::unusable)?);
                    }
                    return Ok(());
                }
                Err(wait) => tokio::time::sleep(wait).await,
            }
        }
    }

    async fn once(
        self,
        call: &Call<'_>,
        is_datasource: bool,
        arguments: &JsonMap,
    ) -> Result<Answer, Trouble> {
        let text = |key: &str| arguments.get(key).and_then(Json::as_str).unwrap_or_default();
        match self {
            Self::Validate => {
                if is_datasource {
                    call.validate_datasource_credentials().await?;
                } else {
                    call.validate_credentials().await?;
                }
                Ok(Answer::Message(Message::Text(ACCEPTED.into())))
            }
            Self::Options => {
                let options = call.options(text("tool"), text("parameter")).await?;
                Ok(Answer::Message(Message::Json(json!({"options": options}))))
            }
            Self::Page => {
                let page = Json::Object(arguments.clone());
                Ok(Answer::Results(call.page(text("datasource"), &page).await?))
            }
            Self::Download => {
                let file = Json::Object(arguments.clone());
                Ok(Answer::Results(call.download(text("datasource"), &file).await?))
            }
        }
    }
}

enum Answer {
    Message(Message),
    Results(Results),
}

impl PluginHost {
    /// The declaration of a tool with the parameters that it has at run time.
    ///
    /// # Errors
    /// The plugin is not ready on this worker, or cannot be asked.
    pub(crate) async fn at_run_time(
        &self,
        name: &ToolName<'_>,
        run: &RunId,
    ) -> Result<Option<Declaration>, ToolError> {
        let Some(installed) = self.ready(name, false).await? else { return Ok(None) };
        let processes = self.processes.as_ref().map_err(|reason| ToolError::unavailable(*reason))?;
        let (provider, tool) = tool_of(&installed, name)?;
        let owner = self.owner_of(*run).await?;
        let app = owner.app.as_deref();
        let Chosen { credentials, mark } = self.credentials(&installed, provider, app, false).await?;
        let call = Call {
            plugins: processes,
            installed: &installed,
            provider,
            credentials,
            user: owner.user.clone(),
            owner: format!("{} {mark}", app.unwrap_or_default()),
            answers: Arc::new(NoAnswers),
            offered: Offered::default(),
            origin: Origin { run: run.to_string(), node: String::new() },
        };
        let failed = |error| failure(processes, error);
        let until = Instant::now() + processes.limits().session_timeout;
        let found = loop {
            match pause(call.runtime_parameters(&tool.name).await, until).map_err(failed)? {
                Ok(found) => break found,
                Err(wait) => tokio::time::sleep(wait).await,
            }
        };
        let mut declaration = declared(tool);
        merge(&mut declaration.parameters, found.iter().filter_map(Parameter::from_json));
        Ok(Some(declaration))
    }
}

/// Parameters at run time replace those of the same name, as on Dify, and the others follow.
fn merge(known: &mut Vec<Parameter>, found: impl Iterator<Item = Parameter>) {
    for parameter in found {
        match known.iter_mut().find(|one| one.name == parameter.name) {
            Some(one) => *one = parameter,
            None => known.push(parameter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_names_that_are_no_tools() {
        for (asked, name, parameters) in QUESTIONS {
            assert_eq!(Asked::of(name), Some(asked));
            assert_eq!(declaration(name).unwrap().parameters.len(), parameters.len());
            assert!(super::super::is_question(name), "{name}");
        }
        assert_eq!((Asked::of("say"), declaration("say")), (None, None));
    }

    #[test]
    fn parameters_at_run_time_replace_those_of_the_same_name() {
        let named = |name: &str, description: &str| Parameter {
            name: name.into(),
            description: description.into(),
            ..Parameter::default()
        };
        let mut known = vec![named("a", ""), named("b", "")];
        merge(&mut known, [named("b", "new"), named("c", "")].into_iter());
        assert_eq!(known, [named("a", ""), named("b", "new"), named("c", "")]);
    }
}
