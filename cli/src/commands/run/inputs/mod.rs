//! The inputs of a run: by name, all together as JSON, files, and the question for a chatflow. The scheduler checks them by
//! the start form, as it does for every client. Required inputs that are missing are asked for at a terminal
//! ([`missing`]).

mod files;
mod missing;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value as Json, json};
use tidemill_common::nodes::start::{InputField, InputKind};

use self::files::Given;
use crate::client::Client;
use crate::commands::pairs::{json_or_text, pair};
use crate::console::Console;
use crate::error::Error;
use crate::workflow_file::Workflow;

#[derive(Debug, Clone, Default, Args)]
pub(super) struct InputArgs {
    /// An input; may be given several times. @FILE is the text of a file, @@ the character @
    #[arg(short, long = "input", value_name = "NAME=VALUE", value_parser = pair)]
    input: Vec<(String, String)>,
    /// A file for an input, from this machine or a server; several for a list. Without a name: for the message of a chatflow
    #[arg(short = 'f', long = "file", value_name = "NAME=PATH|URL", value_parser = files::split)]
    given_files: Vec<(Option<String>, String)>,
    /// All inputs as a JSON object, or @FILE for a file with one; inputs given by name win
    #[arg(long, value_name = "JSON|@FILE")]
    inputs: Option<String>,
    /// The question, for a chatflow
    #[arg(long, value_name = "TEXT")]
    query: Option<String>,
    /// An option of the run, as JSON or text, such as deadline_ms=60000, max_steps=100, interactive=false
    #[arg(long = "option", value_name = "NAME=VALUE", value_parser = pair)]
    option: Vec<(String, String)>,
    /// A label by which the run is found again, such as ticket=4711; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    label: Vec<(String, String)>,
    /// Name of the user for whom the workflow runs
    #[arg(long, default_value = "tidemill")]
    user: String,
}

/// The value of an input.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Plain(Json),
    File(Given),
    Files(Vec<Given>),
}

impl Value {
    /// Returns true for a value that the form takes as absent.
    fn is_null(&self) -> bool {
        matches!(self, Self::Plain(Json::Null))
    }

    async fn sent(&self, client: &Client, user: &str) -> Result<Json, Error> {
        match self {
            Self::Plain(value) => Ok(value.clone()),
            Self::File(file) => file.mapping(client, user).await,
            Self::Files(files) => mappings(files, client, user).await,
        }
    }
}

async fn mappings(files: &[Given], client: &Client, user: &str) -> Result<Json, Error> {
    let mut sent = Vec::with_capacity(files.len());
    for file in files {
        sent.push(file.mapping(client, user).await?);
    }
    Ok(Json::Array(sent))
}

/// Everything that a run is started with. Its files are not uploaded yet.
#[derive(Debug)]
pub(super) struct Request {
    /// All but inputs and files.
    body: Json,
    inputs: Vec<(String, Value)>,
    /// The files of the message.
    files: Vec<Given>,
    user: String,
}

impl Request {
    /// Uploads the files, and builds the request that starts the run.
    ///
    /// # Errors
    /// A file cannot be read or is refused, or the scheduler cannot be reached.
    pub(super) async fn body(&self, client: &Client) -> Result<Json, Error> {
        let mut body = self.body.clone();
        let mut inputs = Map::new();
        for (name, value) in &self.inputs {
            inputs.insert(name.clone(), value.sent(client, &self.user).await?);
        }
        body["inputs"] = Json::Object(inputs);
        if !self.files.is_empty() {
            body["files"] = mappings(&self.files, client, &self.user).await?;
        }
        Ok(body)
    }
}

impl InputArgs {
    /// Collects what a run is started with. Asks at the terminal for required inputs that are missing, if `may_ask`.
    ///
    /// # Errors
    /// Inputs cannot be read, are missing, or do not fit the kind of workflow. The scheduler checks the values.
    pub(super) async fn request(
        &self,
        workflow: &Workflow,
        may_ask: bool,
        console: &mut Console,
    ) -> Result<Request, Error> {
        let mut given = self.given(workflow)?;
        let files = self.of_message(workflow)?;
        let mut query = self.query.clone();
        if query.is_some() && !workflow.is_chat() {
            return Err(Error::Usage(format!(
                "{} is not a chatflow: give inputs with -i NAME=VALUE instead of --query",
                workflow.path.display()
            )));
        }
        missing::complete(workflow, &mut given, &mut query, may_ask && console.can_ask(), console).await?;
        let mut body = json!({"workflow": workflow.text, "user": self.user});
        if let Some(query) = query {
            body["query"] = query.into();
        }
        if !self.option.is_empty() {
            let option = |(name, text): &(String, String)| (name.clone(), json_or_text(text));
            body["options"] = Json::Object(self.option.iter().map(option).collect());
        }
        if !self.label.is_empty() {
            let label = |(name, value): &(String, String)| (name.clone(), Json::from(value.as_str()));
            body["labels"] = Json::Object(self.label.iter().map(label).collect());
        }
        Ok(Request { body, inputs: given, files, user: self.user.clone() })
    }

    /// The inputs that the user gives, each once.
    fn given(&self, workflow: &Workflow) -> Result<Vec<(String, Value)>, Error> {
        let all = self.all_at_once()?.into_iter().map(|(name, value)| (name, Value::Plain(value)));
        let mut given: Vec<(String, Value)> = all.collect();
        for (name, text) in &self.input {
            set(&mut given, name, value(workflow.field(name), name, text)?);
        }
        let mut by_name: Vec<(&str, Vec<Given>)> = Vec::new();
        for (name, text) in &self.given_files {
            let Some(name) = name else { continue };
            let file = Given::read(text)?;
            match by_name.iter_mut().find(|(known, _)| known == name) {
                Some((_, files)) => files.push(file),
                None => by_name.push((name, vec![file])),
            }
        }
        for (name, files) in by_name {
            let value = file_value(workflow, name, files)?;
            set(&mut given, name, value);
        }
        Ok(given)
    }

    /// The files for the message of a chatflow.
    fn of_message(&self, workflow: &Workflow) -> Result<Vec<Given>, Error> {
        let texts = self.given_files.iter().filter(|(name, _)| name.is_none());
        let files: Vec<Given> = texts.map(|(_, text)| Given::read(text)).collect::<Result<_, _>>()?;
        if files.is_empty() || workflow.takes_files() {
            return Ok(files);
        }
        let inputs = file_fields(workflow);
        let hint = match inputs.as_str() {
            "" => "it has no input for a file either".to_owned(),
            names => format!("its inputs for files are {names}: write -f NAME=PATH"),
        };
        let path = workflow.path.display();
        Err(Error::Usage(format!("{path} takes no files with a message (features.file_upload); {hint}")))
    }

    fn all_at_once(&self) -> Result<Map<String, Json>, Error> {
        let Some(given) = &self.inputs else { return Ok(Map::new()) };
        let (text, origin) = match given.strip_prefix('@') {
            Some(path) => (text_of(path)?, path.to_owned()),
            None => (given.clone(), "--inputs".into()),
        };
        match serde_json::from_str(&text) {
            Ok(Json::Object(map)) => Ok(map),
            Ok(_) => Err(Error::Usage(format!("{origin} must be a JSON object"))),
            Err(error) => Err(Error::Usage(format!("{origin} is not JSON: {error}"))),
        }
    }
}

/// Sets an input; the last value of a name counts.
fn set(given: &mut Vec<(String, Value)>, name: &str, value: Value) {
    match given.iter_mut().find(|(known, _)| known == name) {
        Some((_, known)) => *known = value,
        None => given.push((name.to_owned(), value)),
    }
}

/// The value of `-i`. The scheduler converts text to numbers and booleans, but mappings and files must be sent as such.
fn value(field: Option<&InputField>, name: &str, text: &str) -> Result<Value, Error> {
    let parsed = |text: &str| {
        let parsed: Result<Json, _> = serde_json::from_str(text);
        parsed.map_err(|error| Error::Usage(format!("the input {name} must be JSON: {error}")))
    };
    let is_json = text.trim_start().starts_with(['{', '[']);
    match field.map(|field| field.kind) {
        Some(InputKind::File | InputKind::FileList) if is_json => Ok(Value::Plain(parsed(text)?)),
        Some(InputKind::File) => Ok(Value::File(Given::read(text)?)),
        Some(InputKind::FileList) => Ok(Value::Files(vec![Given::read(text)?])),
        Some(InputKind::JsonObject) => Ok(Value::Plain(parsed(&of_file(text)?)?)),
        Some(
            InputKind::TextInput
            | InputKind::Select
            | InputKind::Paragraph
            | InputKind::Number
            | InputKind::ExternalDataTool
            | InputKind::Checkbox,
        )
        | None => Ok(Value::Plain(of_file(text)?.into())),
    }
}

/// The text itself, or after an `@` the text of a file.
fn of_file(text: &str) -> Result<String, Error> {
    match text.strip_prefix('@') {
        Some(rest) if rest.starts_with('@') => Ok(rest.to_owned()),
        Some(path) => text_of(path)
            .map_err(|error| Error::Usage(format!("{error}; for a text that begins with @ write @@"))),
        None => Ok(text.to_owned()),
    }
}

fn text_of(path: &str) -> Result<String, Error> {
    let path = PathBuf::from(path);
    let read = std::fs::read_to_string(&path);
    read.map_err(|error| Error::Usage(format!("cannot read {}: {error}", path.display())))
}

/// The value of `-f` for an input.
fn file_value(workflow: &Workflow, name: &str, mut files: Vec<Given>) -> Result<Value, Error> {
    match (workflow.field(name).map(|field| field.kind), files.len()) {
        (Some(InputKind::FileList), _) => Ok(Value::Files(files)),
        (Some(InputKind::File), 1) => Ok(Value::File(files.remove(0))),
        (Some(InputKind::File), count) => {
            Err(Error::Usage(format!("the input {name} takes one file, and -f gives {count}")))
        }
        (Some(kind), _) => Err(Error::Usage(format!(
            "the input {name} is a {}, not a file: write -i {name}=@PATH for the text of a file",
            kind.name()
        ))),
        (None, _) => {
            let known = file_fields(workflow);
            let known = if known.is_empty() { "none".into() } else { known };
            Err(Error::Usage(format!(
                "the start form has no input {name}; its inputs for files are: {known}"
            )))
        }
    }
}

fn file_fields(workflow: &Workflow) -> String {
    let is_file = |field: &&InputField| matches!(field.kind, InputKind::File | InputKind::FileList);
    let names: Vec<&str> =
        workflow.form().iter().filter(is_file).map(|field| field.variable.as_str()).collect();
    names.join(", ")
}
