//! Forms that a run waits for: shows them, asks for each field at the terminal, and prints the command that answers
//! them.

use serde_json::{Map, Value as Json, json};

use crate::client::view::{FieldView, PauseView};
use crate::console::Console;
use crate::error::Error;
use crate::output::text::{one_line, safe};
use crate::question;

/// The texts before and after a field's name in the text of a form. Older forms use `$outputs`.
const PLACES: [&str; 2] = ["{{#$output.", "{{#$outputs."];
const PLACE_END: &str = "#}}";

/// Asks for an answer: `{"action", "inputs"}` for a form, `{"input"}` for other pauses. Returns `None` when the input
/// ends.
///
/// # Errors
/// The terminal cannot be read.
pub(crate) async fn ask(pause: &PauseView, console: &mut Console) -> Result<Option<Json>, Error> {
    if let Some(asked) = pause.question() {
        return question::ask(&pause.name(), &asked, console).await;
    }
    console.note(format_args!("\n{}", shown(pause)));
    let mut inputs = Map::new();
    for field in pause.fields() {
        match ask_field(&field, pause, console).await? {
            Some(value) => inputs.insert(field.name, value),
            None => return Ok(None),
        };
    }
    let Some(action) = ask_action(pause, console).await? else { return Ok(None) };
    Ok(Some(json!({"action": action, "inputs": inputs})))
}

/// Returns the text of a form, with its fields as `[name]`.
fn shown(pause: &PauseView) -> String {
    let mut text = format!("{} asks:\n", one_line(&pause.name()));
    let content = if pause.content.is_empty() { &pause.message } else { &pause.content };
    for line in safe(&with_fields(content)).lines() {
        text.push_str(format!("  {line}").trim_end());
        text.push('\n');
    }
    text
}

fn with_fields(content: &str) -> String {
    let mut text = content.to_string();
    for place in PLACES {
        while let Some(from) = text.find(place) {
            let Some(len) = text[from..].find(PLACE_END) else { break };
            let name = text[from + place.len()..from + len].to_string();
            text.replace_range(from..from + len + PLACE_END.len(), &format!("[{name}]"));
        }
    }
    text
}

async fn ask_field(
    field: &FieldView,
    pause: &PauseView,
    console: &mut Console,
) -> Result<Option<Json>, Error> {
    let default = field.default_in(pause);
    let mut label = one_line(&field.name);
    match field.kind.as_str() {
        "select" if !field.options.is_empty() => label.push_str(&format!(" ({})", field.options.join(", "))),
        "file" => label.push_str(" (URL)"),
        "file-list" => label.push_str(" (URLs, separated by spaces)"),
        _ => {}
    }
    if let Some(default) = &default {
        label.push_str(&format!(" [{}]", one_line(default)));
    }
    loop {
        let Some(line) = console.ask(&format!("{label}: ")).await? else { return Ok(None) };
        let text = if line.is_empty() { default.clone().unwrap_or_default() } else { line };
        match field.kind.as_str() {
            "select" if !field.options.is_empty() && !field.options.contains(&text) => {
                console.note(format_args!("choose one of {}", field.options.join(", ")));
            }
            "file" => return Ok(Some(field.file(text.trim()))),
            "file-list" => {
                return Ok(Some(text.split_whitespace().map(|url| field.file(url)).collect()));
            }
            _ => return Ok(Some(text.into())),
        }
    }
}

async fn ask_action(pause: &PauseView, console: &mut Console) -> Result<Option<String>, Error> {
    let actions = pause.actions();
    let [first, others @ ..] = actions.as_slice() else {
        let line = console.ask("press Enter to continue: ").await?;
        return Ok(line.map(|_| String::new()));
    };
    if others.is_empty() {
        let line = console.ask(&format!("press Enter for {}: ", one_line(&first.1))).await?;
        return Ok(line.map(|_| first.0.clone()));
    }
    for (at, (id, title)) in actions.iter().enumerate() {
        console.note(format_args!("  {}  {} ({})", at + 1, one_line(title), one_line(id)));
    }
    loop {
        let Some(line) = console.ask("action: ").await? else { return Ok(None) };
        let line = line.trim();
        let by_number = line.parse().ok().and_then(|n: usize| actions.get(n.checked_sub(1)?));
        let by_name = || actions.iter().find(|(id, title)| id == line || title == line);
        match by_number.or_else(by_name) {
            Some((id, _)) => return Ok(Some(id.clone())),
            None => console.note("choose by number or name"),
        }
    }
}

/// Returns the command that answers a pause.
pub(crate) fn how_to_answer(run: &str, pause: &PauseView) -> String {
    let mut line = format!("tidemill answer {run} {}", pause.pause_id);
    if let Some(asked) = pause.question() {
        return one_line(&format!("{line}{}", question::how_to_answer(&asked)));
    }
    let actions: Vec<String> = pause.actions().into_iter().map(|(id, _)| id).collect();
    if actions.is_empty() {
        line.push_str(" --action ''");
    } else {
        line.push_str(&format!(" --action {}", actions.join("|")));
    }
    for field in pause.fields() {
        line.push_str(&format!(" --input {}=…", field.name));
    }
    one_line(&line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::tests::captured_with;

    fn pause() -> PauseView {
        PauseView::read(&json!({
            "pause_id": "p", "node_id": "review", "node_title": "Review", "status": "pending",
            "content": "Draft:\ndear all\n{{#$output.note#}} / {{#$outputs.tone#}}",
            "inputs": [
                {"type": "paragraph", "output_variable_name": "note"},
                {"type": "select", "output_variable_name": "tone",
                 "option_source": {"type": "constant", "value": ["warm", "cold"]}},
                {"type": "file", "output_variable_name": "doc", "allowed_file_types": ["document"]},
            ],
            "actions": [{"id": "approve", "title": "Approve it"}, {"id": "reject", "title": "Reject"}],
            "defaults": {"note": "fine"},
        }))
    }

    #[tokio::test]
    async fn a_form_is_asked_field_by_field_until_each_value_is_valid() {
        let lines = ["", "hot", "warm", "https://h/a.pdf", "perhaps", "2"];
        let (mut console, _, err) = captured_with(&lines);
        let answer = ask(&pause(), &mut console).await.expect("asks").expect("an answer");
        let doc = json!({"type": "document", "transfer_method": "remote_url", "url": "https://h/a.pdf"});
        let expected = json!({"action": "reject", "inputs": {"note": "fine", "tone": "warm", "doc": doc}});
        assert_eq!(answer, expected);
        let expected = "
Review asks:
  Draft:
  dear all
  [note] / [tone]

note [fine]: tone (warm, cold): choose one of warm, cold
tone (warm, cold): doc (URL):   1  Approve it (approve)
  2  Reject (reject)
action: choose by number or name
action: ";
        assert_eq!(err.text(), expected);
    }

    #[tokio::test]
    async fn ending_the_input_leaves_the_form_unanswered() {
        let (mut console, _, _) = captured_with(&["", "warm"]);
        assert_eq!(ask(&pause(), &mut console).await.expect("asks"), None);
    }

    #[test]
    fn the_command_that_answers_names_actions_and_fields() {
        let expected =
            "tidemill answer r p --action approve|reject --input note=… --input tone=… --input doc=…";
        assert_eq!(how_to_answer("r", &pause()), expected);
    }
}
