//! Compares answers with the description of the HTTP interface, as the scheduler serves it: status, content type, JSON body,
//! and the events of streams; and the JSON bodies that `/api/v1` has accepted. A field of an answer that the description does
//! not have fails the test, so the description stays whole. Headers, and bodies of other types, are not compared.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use jsonschema::Validator;
use serde_json::{Map, Value as Json, json};
use tidemill_scheduler::api::openapi;

/// The statuses of requests that no operation takes.
const NO_OPERATION: [u16; 2] = [404, 405];
/// Names a file for complaints; without it a complaint fails its test.
const COMPLAINTS: &str = "DESCRIBED_COMPLAINTS";
const STREAM: &str = "text/event-stream";

/// An operation of the description.
#[derive(Debug)]
pub struct Operation {
    method: String,
    template: Vec<String>,
    described: Json,
}

/// Validators by their schema.
type Validators = HashMap<(String, Fields), Arc<Validator>>;

/// Few schemas are used by many answers.
static VALIDATORS: LazyLock<Mutex<Validators>> = LazyLock::new(Mutex::default);

/// All operations, those with the fewest placeholders first.
static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for (path, methods) in openapi::whole()["paths"].as_object().into_iter().flatten() {
        for (method, described) in methods.as_object().into_iter().flatten() {
            let template = path.split('/').map(str::to_owned).collect();
            all.push(Operation { method: method.to_uppercase(), template, described: described.clone() });
        }
    }
    all.sort_by_key(|one| one.template.iter().filter(|part| part.starts_with('{')).count());
    all
});

/// The operation of a request; `None` when there is none.
pub fn operation(method: &str, path: &str) -> Option<&'static Operation> {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let parts: Vec<&str> = path.split('/').collect();
    OPERATIONS.iter().find(|one| one.method == method && one.fits(&parts))
}

/// Fails when an answer is not as described. `path` may have a query.
///
/// # Panics
/// When the status, the content type or the body is not in the description.
pub fn check(method: &str, path: &str, status: u16, content_type: &str, body: &str) {
    if method == "HEAD" || method == "OPTIONS" {
        return;
    }
    let Some(operation) = operation(method, path) else {
        if !NO_OPERATION.contains(&status) {
            complain(&format!("{method} {path} is not described, and is answered with {status}: {body}"));
        }
        return;
    };
    if let Some(problem) = operation.problem(status, content_type, body) {
        complain(&format!(
            "{method} {path} is answered in another way than scheduler/src/api/openapi says: {problem}\n{status} {content_type}\n{body}"
        ));
    }
}

/// Fails when a JSON body that `/api/v1` has accepted is not as described. `/v1` takes more than it describes, as Dify does: other
/// fields, numbers as texts, texts as Booleans.
///
/// # Panics
/// When the body does not fit.
pub fn check_accepted(method: &str, path: &str, sent: &[u8]) {
    let operation = operation(method, path).filter(|_| path.starts_with("/api/v1/"));
    let content = operation.map(|one| &one.described["requestBody"]["content"]["application/json"]);
    let Some(schema) = content.and_then(|content| content.get("schema")) else { return };
    let Ok(value) = serde_json::from_slice::<Json>(sent) else { return };
    if let Some(problem) = misfit(schema, &value, Fields::OfTheSchema)
        // For optional fields null is as absent.
        && misfit(schema, &without_nulls(&value), Fields::OfTheSchema).is_some()
    {
        complain(&format!(
            "{method} {path} accepts a body that scheduler/src/api/openapi does not allow: {problem}\n{value}"
        ));
    }
}

fn without_nulls(value: &Json) -> Json {
    match value {
        Json::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect()
        }
        Json::Array(items) => items.iter().map(without_nulls).collect(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => value.clone(),
    }
}

/// Fails, or adds the complaint to a file that the environment names: so one run of all tests shows every one.
fn complain(what: &str) {
    let Some(file) = std::env::var_os(COMPLAINTS) else { panic!("{what}") };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    let written = file.and_then(|mut file| file.write_all(format!("{what}\n\n").as_bytes()));
    written.expect("the file of complaints can be written");
}

impl Operation {
    fn fits(&self, parts: &[&str]) -> bool {
        let fits = |(template, part): (&String, &&str)| {
            template == part || (template.starts_with('{') && !part.is_empty())
        };
        self.template.len() == parts.len() && self.template.iter().zip(parts).all(fits)
    }

    /// The description of an answer with this status.
    fn answer(&self, status: u16) -> Option<&Json> {
        let class = format!("{}XX", status / 100);
        let responses = &self.described["responses"];
        let found = responses.get(status.to_string()).or_else(|| responses.get(class))?;
        match found["$ref"].as_str() {
            Some(reference) => openapi::whole().pointer(reference.trim_start_matches('#')),
            None => Some(found),
        }
    }

    fn problem(&self, status: u16, content_type: &str, body: &str) -> Option<String> {
        let Some(answer) = self.answer(status) else {
            return Some(format!("the status {status} is not described"));
        };
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        let Some(content) = answer.get("content").and_then(Json::as_object) else {
            return (!body.is_empty()).then(|| "there is a body, and none is described".to_owned());
        };
        let Some(described) = content.get(essence).or_else(|| content.get("*/*")) else {
            return Some(format!("the content type {essence:?} is not described"));
        };
        match essence {
            "application/json" => misfit_of_text(&described["schema"], body, "the body"),
            STREAM => {
                let event = event_of(described)?;
                let data = body.lines().filter_map(|line| line.strip_prefix("data:"));
                data.map(str::trim).find_map(|data| misfit_of_text(event, data, data))
            }
            _ => None,
        }
    }

    /// Fails when an event of a stream is not as described.
    ///
    /// # Panics
    /// When the data of the event do not fit.
    pub fn check_event(&self, data: &str) {
        let stream = self.answer(200).and_then(|answer| answer.get("content")?.get(STREAM));
        let name = &self.described["operationId"];
        let schema = stream.and_then(event_of).unwrap_or_else(|| panic!("{name} has no stream"));
        if let Some(problem) = misfit_of_text(schema, data, "it") {
            complain(&format!("an event of {name} is not as described: {problem}\n{data}"));
        }
    }
}

/// The schema of the events of a stream.
fn event_of(stream: &Json) -> Option<&Json> {
    stream.pointer("/schema/properties/data/contentSchema")
}

/// The reason why the text `what` does not fit a schema; `None` when it fits.
fn misfit_of_text(schema: &Json, text: &str, what: &str) -> Option<String> {
    match serde_json::from_str(text) {
        Ok(value) => misfit(schema, &value, Fields::OnlyDescribed),
        Err(error) => Some(format!("{what} is not JSON: {error}")),
    }
}

/// Which fields an object may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fields {
    /// Only those that are described.
    OnlyDescribed,
    /// Those that its schema allows: all, unless it says otherwise.
    OfTheSchema,
}

/// The reason why a value does not fit a schema; `None` when it fits.
fn misfit(schema: &Json, value: &Json, fields: Fields) -> Option<String> {
    let key = (schema.to_string(), fields);
    let known = VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    let validator = known.unwrap_or_else(|| {
        let made = Arc::new(compiled(schema, fields));
        VALIDATORS.lock().unwrap_or_else(PoisonError::into_inner).insert(key, made.clone());
        made
    });
    let errors = validator.iter_errors(value).take(3);
    let shown: Vec<String> =
        errors.map(|error| format!("{error} (at {:?})", error.instance_path().to_string())).collect();
    (!shown.is_empty()).then(|| shown.join("; "))
}

/// A schema with the parts that it refers to.
fn compiled(schema: &Json, fields: Fields) -> Validator {
    let mut parts = Map::new();
    collect(schema, &mut parts);
    let mut whole = json!({"allOf": [schema], "components": {"schemas": parts}});
    if fields == Fields::OnlyDescribed {
        close(&mut whole);
    }
    jsonschema::draft202012::new(&whole).unwrap_or_else(|error| panic!("{schema} is not a schema: {error}"))
}

fn collect(value: &Json, parts: &mut Map<String, Json>) {
    match value {
        Json::Object(map) => {
            let name = map.get("$ref").and_then(Json::as_str).and_then(|it| it.rsplit('/').next());
            if let Some(name) = name.filter(|name| !parts.contains_key(*name)) {
                let part = &openapi::whole()["components"]["schemas"][name];
                parts.insert(name.to_owned(), part.clone());
                collect(part, parts);
            }
            map.values().for_each(|value| collect(value, parts));
        }
        Json::Array(items) => items.iter().for_each(|value| collect(value, parts)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

fn close(value: &mut Json) {
    match value {
        Json::Object(map) => {
            if map.get("type").is_some() && map.get("properties").is_some_and(Json::is_object) {
                map.entry("additionalProperties").or_insert(Json::Bool(false));
            }
            map.values_mut().for_each(close);
        }
        Json::Array(items) => items.iter_mut().for_each(close),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: &str = r#"{"status": "ok"}"#;

    #[test]
    fn an_answer_that_is_described_passes() {
        check("GET", "/livez", 200, "application/json", WELL);
        check("GET", "/nowhere", 404, "", "");
        check("POST", "/livez", 405, "", "");
        check("DELETE", "/api/v1/keys/x?y", 204, "", "");
    }

    #[test]
    fn an_answer_that_is_not_described_says_what_is_wrong() {
        let live = operation("GET", "/livez").unwrap();
        for (status, content_type, body, expected) in [
            (500, "application/json", WELL, "the status 500 is not described"),
            (200, "text/plain", WELL, "the content type \"text/plain\" is not described"),
            (200, "application/json", "{", "the body is not JSON"),
            (200, "application/json", "{}", "\"status\" is a required property"),
            (200, "application/json", r#"{"status": "ok", "more": 1}"#, "more"),
        ] {
            let problem = live.problem(status, content_type, body).unwrap_or_default();
            assert!(problem.contains(expected), "{problem}");
        }
    }

    #[test]
    fn every_event_of_a_stream_must_be_described() {
        let stream = operation("POST", "/v1/workflows/run").unwrap();
        let well = "event: ping\n\ndata: {\"event\": \"error\", \"code\": \"c\", \"message\": \"m\", \"status\": 400, \"task_id\": \"t\"}\n\n";
        let problem = |body: &str| stream.problem(200, "text/event-stream; charset=utf-8", body);
        assert_eq!(problem(well), None);
        for wrong in ["data: {\"event\": \"nothing\"}\n\n", "data: {\n\n"] {
            assert!(problem(&format!("{well}{wrong}")).is_some(), "{wrong}");
        }
    }

    #[test]
    fn a_body_that_was_accepted_must_be_described() {
        let schema = json!({"$ref": "#/components/schemas/SubmitRequest"});
        for (body, fits) in [
            (json!({"app": "a", "tenant_id": "t", "max_execution_time": 5}), true),
            (json!({"app": "a", "config": {"user_id": "u", "call_depth": 1}}), true),
            (json!({"app": "a", "options": {"interactive": false, "max_steps": 5}}), true),
            (json!({"app": "a", "tenant": "t"}), false),
            (json!({"app": "a", "config": {"tenant": "t"}}), false),
            (json!({"app": "a", "max_steps": "five"}), false),
        ] {
            assert_eq!(misfit(&schema, &body, Fields::OfTheSchema).is_none(), fits, "{body}");
        }
        check_accepted("POST", "/api/v1/runs", br#"{"app": "a", "user": null}"#);
        check_accepted("POST", "/v1/chat-messages", br#"{"query": "q", "user": 42}"#);
    }

    #[test]
    fn a_fixed_path_wins_over_a_placeholder() {
        let found = |path: &str| operation("GET", path).unwrap().described["operationId"].clone();
        assert_eq!(found("/v1/datasets/tags"), "list_tags");
        assert_eq!(found("/v1/datasets/x"), "get_knowledge_base");
        assert_eq!(found("/v1/workflows/logs"), "list_workflow_logs");
    }

    #[test]
    fn every_schema_of_the_description_can_be_compiled() {
        for schema in openapi::whole()["components"]["schemas"].as_object().unwrap().values() {
            compiled(schema, Fields::OnlyDescribed);
        }
    }
}
