//! Required inputs that are missing: they are asked for at a terminal; elsewhere one error lists all of them, each with
//! its type and the flag that gives it.

use serde_json::{Map, Value as Json};
use tidemill_common::nodes::start::{InputField, InputKind, validate_form};

use super::files::Given;
use super::{Value, of_file, set};
use crate::console::Console;
use crate::error::Error;
use crate::output::table;
use crate::output::text::one_line;
use crate::workflow_file::Workflow;

/// Completes the inputs and the question.
///
/// # Errors
/// Something is missing and may not be asked for, or the input of the terminal ends.
pub(super) async fn complete(
    workflow: &Workflow,
    given: &mut Vec<(String, Value)>,
    query: &mut Option<String>,
    may_ask: bool,
    console: &mut Console,
) -> Result<(), Error> {
    let is_given = |name: &str| given.iter().any(|(known, value)| known == name && !value.is_null());
    let fields: Vec<&InputField> =
        workflow.form().iter().filter(|field| field.required && !is_given(&field.variable)).collect();
    let needs_query = workflow.is_chat() && query.is_none();
    if fields.is_empty() && !needs_query {
        return Ok(());
    }
    if !may_ask {
        console.note(listed(&fields, needs_query).trim_end());
        return Err(Error::Usage(format!(
            "{} needs inputs that are missing: give them with these flags, or run the command at a terminal to be asked",
            workflow.path.display()
        )));
    }
    for field in fields {
        let value = ask(field, console).await?;
        let value = value.ok_or_else(|| ended(&field.variable))?;
        set(given, &field.variable, value);
    }
    if needs_query {
        *query = Some(ask_query(console).await?);
    }
    Ok(())
}

fn ended(name: &str) -> Error {
    Error::Usage(format!("the input ended before {name} was given"))
}

/// The list of everything that is missing.
fn listed(fields: &[&InputField], needs_query: bool) -> String {
    let row = |field: &&InputField| vec![one_line(&field.variable), kind(field), flag(field)];
    let mut rows: Vec<Vec<String>> = fields.iter().map(row).collect();
    if needs_query {
        rows.push(vec![
            "query".into(),
            "the question, since this is a chatflow".into(),
            "--query TEXT".into(),
        ]);
    }
    table::render(&["MISSING", "TYPE", "FLAG"], &rows)
}

/// The type of an input in words, with its rules.
fn kind(field: &InputField) -> String {
    let among =
        |list: &[String]| if list.is_empty() { String::new() } else { format!(": {}", list.join(", ")) };
    let most =
        |what: &str| field.max_length.filter(|most| *most > 0).map(|most| format!(", at most {most} {what}"));
    let text = match field.kind {
        InputKind::TextInput | InputKind::Paragraph => {
            format!("text{}", most("characters").unwrap_or_default())
        }
        InputKind::Select => format!("one of{}", among(&field.options)),
        InputKind::Number => "number".into(),
        InputKind::Checkbox => "true or false".into(),
        InputKind::JsonObject => "JSON object".into(),
        InputKind::File => format!("file{}", among(&field.allowed_file_types)),
        InputKind::FileList => {
            format!("files{}{}", among(&field.allowed_file_types), most("files").unwrap_or_default())
        }
        InputKind::ExternalDataTool => "text".into(),
    };
    one_line(&text)
}

fn flag(field: &InputField) -> String {
    let name = one_line(&field.variable);
    match field.kind {
        InputKind::File => format!("-f {name}=PATH|URL"),
        InputKind::FileList => format!("-f {name}=PATH|URL (once for each file)"),
        InputKind::JsonObject => format!("-i {name}=JSON|@FILE"),
        InputKind::TextInput | InputKind::Paragraph | InputKind::ExternalDataTool => {
            format!("-i {name}=TEXT|@FILE")
        }
        InputKind::Select | InputKind::Number | InputKind::Checkbox => format!("-i {name}=VALUE"),
    }
}

async fn ask_query(console: &mut Console) -> Result<String, Error> {
    loop {
        let line = console.ask("query (the question): ").await?.ok_or_else(|| ended("query"))?;
        if !line.trim().is_empty() {
            return Ok(line);
        }
        console.note("a question is required");
    }
}

/// Asks for an input until the form takes the value. Returns `None` when the input ends.
async fn ask(field: &InputField, console: &mut Console) -> Result<Option<Value>, Error> {
    if field.label != field.variable {
        console.note(one_line(&field.label));
    }
    if field.kind == InputKind::FileList {
        return ask_files(field, console).await;
    }
    if field.kind == InputKind::Select {
        for (at, option) in field.options.iter().enumerate() {
            console.note(format_args!("  {}  {}", at + 1, one_line(option)));
        }
    }
    let default = default(field);
    let shown = default.as_deref().map(|text| format!(" [{}]", one_line(text))).unwrap_or_default();
    let prompt = format!("{} ({}){shown}: ", one_line(&field.variable), hint(field));
    loop {
        let Some(line) = console.ask(&prompt).await? else { return Ok(None) };
        let text = if line.trim().is_empty() { default.clone().unwrap_or_default() } else { line };
        match read(field, &text) {
            Ok(value) => return Ok(Some(value)),
            Err(reason) => console.note(one_line(&reason)),
        }
    }
}

/// The words beside the name in a question.
fn hint(field: &InputField) -> String {
    match field.kind {
        InputKind::Select => "number or option".into(),
        InputKind::Checkbox => "yes or no".into(),
        InputKind::File => format!("{}; path or URL", kind(field)),
        InputKind::TextInput
        | InputKind::Paragraph
        | InputKind::Number
        | InputKind::ExternalDataTool
        | InputKind::FileList
        | InputKind::JsonObject => kind(field),
    }
}

/// The default of a field as a person would type it; none for files.
fn default(field: &InputField) -> Option<String> {
    let text = match &field.default {
        Json::Null => return None,
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let is_file = matches!(field.kind, InputKind::File | InputKind::FileList);
    Some(text).filter(|text| !text.is_empty() && !is_file)
}

/// Reads an answer. The error says what is wrong with it.
fn read(field: &InputField, text: &str) -> Result<Value, String> {
    let word = text.trim();
    if word.is_empty() {
        return Err("a value is required".into());
    }
    let plain = match field.kind {
        InputKind::File => return Given::read(word).map(Value::File).map_err(|error| error.to_string()),
        InputKind::Select => {
            let by_number = word.parse().ok().and_then(|n: usize| field.options.get(n.checked_sub(1)?));
            let by_name = field.options.iter().find(|option| *option == word);
            by_name.or(by_number).ok_or("choose by number or name")?.as_str().into()
        }
        InputKind::Checkbox => match word.to_lowercase().as_str() {
            "y" | "yes" | "true" | "1" => Json::Bool(true),
            "n" | "no" | "false" | "0" => Json::Bool(false),
            _ => return Err("answer yes or no".into()),
        },
        InputKind::JsonObject => {
            let text = of_file(word).map_err(|error| error.to_string())?;
            let object = serde_json::from_str(&text).map_err(|error| format!("this is not JSON: {error}"))?;
            // The form does not check the schema: the run would begin, and its start node fail. It takes an empty object.
            match field.violation(&object).filter(|_| object != Json::Object(Map::new())) {
                Some(reason) => return Err(reason),
                None => object,
            }
        }
        InputKind::Number => word.into(),
        InputKind::TextInput | InputKind::Paragraph | InputKind::ExternalDataTool | InputKind::FileList => {
            of_file(text).map_err(|error| error.to_string())?.into()
        }
    };
    let inputs = Map::from_iter([(field.variable.clone(), plain.clone())]);
    match validate_form(std::slice::from_ref(field), &inputs) {
        Ok(_) => Ok(Value::Plain(plain)),
        Err(error) => Err(error.message().to_owned()),
    }
}

/// Asks for files one by one; an empty line ends the list.
async fn ask_files(field: &InputField, console: &mut Console) -> Result<Option<Value>, Error> {
    let most = field.max_length.filter(|most| *most > 0).and_then(|most| usize::try_from(most).ok());
    let mut files = Vec::new();
    while most.is_none_or(|most| files.len() < most) {
        let end = if files.is_empty() { "" } else { "; Enter ends the list" };
        let prompt = format!(
            "{} {} ({}; path or URL{end}): ",
            one_line(&field.variable),
            files.len() + 1,
            kind(field)
        );
        let Some(line) = console.ask(&prompt).await? else { return Ok(None) };
        match (line.trim(), files.is_empty()) {
            ("", true) => console.note("a file is required"),
            ("", false) => break,
            (text, _) => match Given::read(text) {
                Ok(file) => files.push(file),
                Err(error) => console.note(error),
            },
        }
    }
    Ok(Some(Value::Files(files)))
}
