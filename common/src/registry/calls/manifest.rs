//! Manifests: the name, schemas and transport of a user's own Call.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Info;
use crate::registry::http;
use crate::registry::secrets::Secret;
use tidemill_base::language::Language;
use tidemill_base::value::JsonMap;

/// The manifest of a Call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Manifest {
    /// Name and description by language: `zh`, `en` or both.
    pub info: BTreeMap<String, Info>,
    /// Schema of its input.
    pub input_schema: JsonMap,
    /// Schema of its output.
    pub output_schema: JsonMap,
    pub transport: Option<Transport>,
    /// The supported operations; `init` and `exec` are required.
    pub operations: Vec<Operation>,
    /// Whether `exec` answers line by line; must be true.
    pub streaming: bool,
    /// Whether the node continues at the handle that the output names in `branch_id`.
    pub branch: bool,
    /// Default of the node's setting to fill parameters from the context; `false` when absent.
    pub enable_filling: bool,
    /// Default of the node's setting to stream its text to the user; `false` when absent.
    pub to_user: bool,
}

/// An operation of a Call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Builds the input from system variables and parameters.
    Init,
    /// Runs the Call.
    Exec,
    /// Informs the Call after the run.
    AfterExec,
}

impl Operation {
    /// The name in requests.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Exec => "exec",
            Self::AfterExec => "after_exec",
        }
    }
}

/// The transport of a Call.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Transport {
    /// `POST {url}` with an operation; the answer consists of lines.
    Http {
        url: String,
        /// Sent with every request.
        #[serde(default)]
        headers: BTreeMap<String, Secret>,
        /// Headers whose values come from the named variables of the worker's environment.
        #[serde(default)]
        headers_env: BTreeMap<String, String>,
    },
    /// A program that reads an operation from standard input and answers with lines.
    Process {
        /// The program and its arguments.
        command: Vec<String>,
        /// Variables in its environment.
        #[serde(default)]
        env: BTreeMap<String, Secret>,
        /// Variables whose values come from the named variables of the worker's environment.
        #[serde(default)]
        env_from: BTreeMap<String, String>,
    },
    /// The program around a worker runs it. Such a worker registers the Call itself when it starts.
    Worker,
}

impl Manifest {
    /// Name and description in a language, or in the other one.
    pub fn info(&self, language: Language) -> Info {
        let (first, second) = match language {
            Language::Zh => ("zh", "en"),
            Language::En => ("en", "zh"),
        };
        self.info.get(first).or_else(|| self.info.get(second)).cloned().unwrap_or_default()
    }

    /// Whether the Call supports an operation.
    pub fn has(&self, operation: Operation) -> bool {
        self.operations.contains(&operation)
    }

    /// Checks the manifest. The first three checks are requirements for every Call.
    ///
    /// # Errors
    /// The problem.
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.has(Operation::Init) {
            return Err("operations must name init, which makes its input".into());
        }
        if !self.has(Operation::Exec) || !self.streaming {
            return Err(
                "operations must name exec, and streaming must be true: exec answers line by line".into()
            );
        }
        let is_told = |info: &Info| !info.name.trim().is_empty();
        let others = self.info.keys().find(|language| !["zh", "en"].contains(&language.as_str()));
        if let Some(other) = others {
            return Err(format!("info has texts in {other:?}: there are zh and en"));
        }
        if self.info.is_empty() || !self.info.values().all(is_told) {
            return Err("info must have a name and a description, in zh, en or both".into());
        }
        super::schema("input_schema", &self.input_schema)?;
        super::schema("output_schema", &self.output_schema)?;
        match &self.transport {
            None => Err("transport is missing: {type: http, url} or {type: process, command}".into()),
            Some(Transport::Worker) => Ok(()),
            Some(Transport::Http { url, headers, headers_env }) => {
                http::base_url(url)
                    .map_err(|reason| format!("transport {}", reason.replace("base_url", "url")))?;
                http::headers(headers).map_err(|reason| format!("transport {reason}"))?;
                let twice = headers_env.keys().find(|name| headers.contains_key(*name));
                twice.map_or(Ok(()), |name| Err(format!("transport has the header {name} twice")))
            }
            Some(Transport::Process { command, env, env_from }) => {
                if command.first().is_none_or(|program| program.trim().is_empty()) {
                    return Err("transport.command must begin with a program".into());
                }
                let is_name = |name: &&String| name.is_empty() || name.contains(['=', '\0']);
                match env.keys().chain(env_from.keys()).find(is_name) {
                    Some(name) => {
                        Err(format!("transport.env has {name:?}, which is not a valid name of a variable"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}
