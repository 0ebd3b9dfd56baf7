//! The effect of each node type and of its failures.

use serde_json::{Value as Json, json};
use tidemill_common::machine::state::run::NodeStatus;

use super::{Decided, Engine, Made, Pool, is_falsy, items, left_by, made, read, write};
use crate::script::{Ending, FormFate, marked};

impl Engine<'_> {
    /// Runs a node with all its attempts.
    pub(super) fn node(
        &mut self,
        path: &str,
        id: &str,
        pool: &mut Pool,
        errors: &mut Vec<String>,
    ) -> Decided {
        let data = self.data(id);
        let kind = data["type"].as_str().unwrap_or_default().to_string();
        let retry = &data["retry_config"];
        let attempts_max = 1 + if kind == "llm" { retry["max_retries"].as_u64().unwrap_or(0) } else { 0 };
        let mut attempt = 1;
        let end = loop {
            let result = self.attempt(path, id, &data, attempt, pool);
            self.exceptions += u64::from(result.is_err());
            if result.is_ok() || u64::from(attempt) >= attempts_max {
                break result;
            }
            attempt += 1;
        };
        let (status, decided) = match end {
            Ok((outputs, handle)) => {
                outputs.into_iter().for_each(|(name, value)| write(pool, id, &name, value));
                (NodeStatus::Succeeded, Decided::Ended(handle))
            }
            Err(error) => self.failed(id, &data, error, pool, errors),
        };
        // The start node of a body emits no events.
        if kind != "iteration-start" && kind != "loop-start" {
            self.nodes.insert((path.to_string(), id.to_string()), (status, attempt));
        }
        decided
    }

    fn failed(
        &mut self,
        id: &str,
        data: &Json,
        error: String,
        pool: &mut Pool,
        errors: &mut Vec<String>,
    ) -> (NodeStatus, Decided) {
        let handle = match data["error_strategy"].as_str() {
            Some("fail-branch") => "fail-branch",
            Some("default-value") => {
                for item in items(&data["default_value"]) {
                    let name = item["key"].as_str().unwrap_or_default();
                    let text = item["value"].as_str().unwrap_or_default();
                    let value = match item["type"].as_str() {
                        Some("number") => json!(text.parse::<f64>().unwrap_or_default()),
                        Some("array[string]") => serde_json::from_str(text).unwrap_or_default(),
                        _ => json!(text),
                    };
                    write(pool, id, name, value);
                }
                "source"
            }
            _ => {
                errors.push(error);
                return (NodeStatus::Failed, Decided::Failed);
            }
        };
        (NodeStatus::Exception, Decided::Ended(handle.to_string()))
    }

    fn attempt(&mut self, path: &str, id: &str, data: &Json, attempt: u32, pool: &mut Pool) -> Made {
        if self.script.is_given_up(path, id, attempt) {
            return Err("given up".into());
        }
        match data["type"].as_str().unwrap_or_default() {
            "start" | "iteration-start" | "loop-start" | "loop-end" => left_by("source"),
            "llm" => match self.script.ending(path, id, attempt) {
                Ending::Text(text) => made("text", marked(&text, 0).into()),
                Ending::Error(error) => Err(error),
            },
            "template-transform" => made("output", template(data, pool).into()),
            "if-else" => {
                let condition = &data["cases"][0]["conditions"][0];
                left_by(if holds(condition, pool)? { "true" } else { "false" })
            }
            "variable-aggregator" => {
                let first = items(&data["variables"]).iter().find_map(|place| read(pool, place).cloned());
                first.map_or_else(|| left_by("source"), |value| made("output", value))
            }
            "end" => {
                for output in items(&data["outputs"]) {
                    let name = output["variable"].as_str().unwrap_or_default().to_string();
                    let value = read(pool, &output["value_selector"]).cloned().unwrap_or_default();
                    self.outputs.insert(name, value);
                }
                left_by("source")
            }
            "answer" => {
                let text = references(data["answer"].as_str().unwrap_or_default(), pool);
                self.outputs.insert("answer".into(), text.into());
                self.outputs.insert("files".into(), json!([]));
                left_by("source")
            }
            "assigner" => count_up(data, pool),
            "human-input" => Ok(self.form(path, id)),
            "iteration" => self.iteration(path, id, data, pool),
            "loop" => self.loop_(path, id, data, pool),
            other => unreachable!("no {other} is drawn"),
        }
    }

    fn form(&self, path: &str, id: &str) -> (Vec<(String, Json)>, String) {
        match self.script.form(path, id) {
            FormFate::Answered(action, comment) => (vec![("comment".into(), comment.into())], action.into()),
            FormFate::Expires => (Vec::new(), "__timeout".into()),
        }
    }
}

/// Joins the values; a missing, null or empty one shows as a dash.
fn template(data: &Json, pool: &Pool) -> String {
    let shown = |variable: &Json| match read(pool, &variable["value_selector"]) {
        Some(value) if !is_falsy(value) => value.as_str().unwrap_or_default().to_string(),
        Some(_) | None => "-".to_string(),
    };
    items(&data["variables"]).iter().map(shown).collect::<Vec<_>>().join("|")
}

/// Replaces `{{#node.name#}}` by values; a missing value shows as `node.name`.
fn references(text: &str, pool: &Pool) -> String {
    let mut pieces = text.split("{{#");
    let mut rendered = pieces.next().unwrap_or_default().to_string();
    for piece in pieces {
        let (path, rest) = piece.split_once("#}}").unwrap_or((piece, ""));
        let (node, name) = path.split_once('.').unwrap_or((path, ""));
        let value = read(pool, &json!([node, name]));
        rendered.push_str(value.map_or(path, |value| value.as_str().unwrap_or_default()));
        rendered.push_str(rest);
    }
    rendered
}

/// Evaluates a condition; fails when its variable is missing.
pub(super) fn holds(condition: &Json, pool: &Pool) -> Result<bool, String> {
    let value = read(pool, &condition["variable_selector"]).ok_or("the variable is not found")?;
    let wanted = condition["value"].as_str().unwrap_or_default();
    let contains = value.as_str().is_some_and(|text| text.contains(wanted));
    match condition["comparison_operator"].as_str().unwrap_or_default() {
        "contains" => Ok(contains),
        "not contains" => Ok(!contains),
        "≥" => Ok(value.as_f64().unwrap_or_default() >= wanted.parse().unwrap_or_default()),
        other => unreachable!("no operator {other} is drawn"),
    }
}

fn count_up(data: &Json, pool: &mut Pool) -> Made {
    let item = &data["items"][0];
    let place = &item["variable_selector"];
    let old = read(pool, place).and_then(Json::as_i64).ok_or("the variable is not found")?;
    let (node, name) = (place[0].as_str().unwrap_or_default(), place[1].as_str().unwrap_or_default());
    write(pool, node, name, json!(old + item["value"].as_i64().unwrap_or_default()));
    left_by("source")
}
