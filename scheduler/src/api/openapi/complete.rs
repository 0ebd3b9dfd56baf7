//! Completes the description of an operation with what the program knows itself: the kind of its key, the role or the scope
//! that it needs, and the errors that every operation of its kind has.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::{Map, Value as Json, json};

use crate::api::key_scopes::{self, Needs};
use crate::api::roles;

/// Statuses of errors: the name of the answer, and when it comes.
const ERRORS: [(u16, &str, &str); 16] = [
    (400, "BadRequest", "A value is wrong, or the request cannot be read."),
    (401, "Unauthorized", "There is no key, a wrong one, or one that has ended."),
    (402, "OverBudget", "The key or the app may spend nothing more."),
    (403, "Forbidden", "The key may not do this, or the API is closed."),
    (404, "NotFound", "There is no such thing, or it belongs to another app or user."),
    (408, "TooSlow", "The body did not arrive in time."),
    (409, "Conflict", "The state of the thing, or an earlier request under the same key, forbids this."),
    (410, "Gone", "The time of the thing is over."),
    (412, "Refused", "The form is answered already, or its time is over."),
    (413, "TooLarge", "The body, or a value in it, is larger than its limit."),
    (415, "WrongType", "Files of this type are not taken."),
    (422, "Unusable", "The workflow cannot run."),
    (
        429,
        "TooManyRequests",
        "Too many requests, or too many wrong keys. `Retry-After` says when to try again.",
    ),
    (501, "NotServed", "This operation of Dify is not served; the message says what to use."),
    (
        503,
        "Unavailable",
        "Redis or a worker does not answer, or the process stops. `Retry-After` says when to try again.",
    ),
    (504, "NotAnswered", "What does the work, such as a worker, has not answered in time."),
];

/// A part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surface {
    /// `/api/v1`
    Native,
    /// `/v1`
    Service,
    /// The rest: no keys.
    Outside,
}

impl Surface {
    /// The beginning of the names of its answers.
    fn prefix(self) -> &'static str {
        match self {
            Self::Native | Self::Outside => "",
            Self::Service => "Service",
        }
    }

    /// The kinds of keys.
    pub(super) fn keys(self) -> Map<String, Json> {
        let key = |description: &str| json!({"type": "http", "scheme": "bearer", "description": description});
        let named = match self {
            Self::Native => {
                vec![("admin_key", key("The admin key of the settings, or a stored one with a role."))]
            }
            Self::Service => vec![
                ("app_key", key("The key of an app: `app-…`.")),
                ("dataset_key", key("A key of datasets: `dataset-…`.")),
            ],
            Self::Outside => Vec::new(),
        };
        named.into_iter().map(|(name, key)| (name.to_owned(), key)).collect()
    }

    /// All answers with errors.
    pub(super) fn responses(self) -> Map<String, Json> {
        let schema = json!({"$ref": format!("#/components/schemas/{}Error", self.prefix())});
        let answer = |(status, name, when): (u16, &str, &str)| {
            let mut answer = json!({
                "description": when,
                "content": {"application/json": {"schema": schema}},
            });
            match status {
                // `/v1` keeps what only an operator may read to itself.
                422 if self != Self::Service => {
                    answer["description"] = format!("{when} `diagnostics` lists the reasons.").into();
                }
                401 => answer["headers"] = json!({"WWW-Authenticate": header("`Bearer realm=\"api\"`")}),
                429 | 503 => answer["headers"] = json!({"Retry-After": header("Seconds.")}),
                _ => {}
            }
            (format!("{}{name}", self.prefix()), answer)
        };
        ERRORS.into_iter().map(answer).collect()
    }
}

fn header(description: &str) -> Json {
    json!({"description": description, "schema": {"type": "string"}})
}

/// The body of every error of `/v1`.
pub(super) fn service_error() -> Json {
    json!({
        "type": "object",
        "description": "The body of every error.",
        "properties": {
            "code": {"type": "string"},
            "message": {"type": "string"},
            "status": {"type": "integer"},
            "params": {"type": "string", "description": "The name of the field that is wrong."},
            "run_id": {"type": "string", "description": "The run whose durability is not known."},
            "durability": {"type": "string", "description": "`unknown`: it was not reached in time."},
        },
        "required": ["code", "message", "status"],
    })
}

/// The complete description of an operation.
pub(super) fn operation(surface: Surface, path: &str, method: &str, tag: &str, described: &Json) -> Json {
    let mut whole = described.clone();
    let is_public = surface == Surface::Outside || described.get("security").is_some();
    whole["tags"] = json!([tag]);
    if is_public {
        whole["security"] = json!([]);
    } else if surface == Surface::Native {
        let role = roles::needs(&method_of(method), path).name();
        whole["security"] = json!([{"admin_key": []}]);
        whole["x-role"] = role.into();
        note(&mut whole, &format!("Needs the role `{role}`."));
    } else if is_of_datasets(path) {
        whole["security"] = json!([{"dataset_key": []}]);
    } else {
        whole["security"] = json!([{"app_key": []}]);
        if let Needs::Scope(scope) = key_scopes::needs(&method_of(method), path) {
            whole["x-scope"] = scope.name().into();
            note(
                &mut whole,
                &format!("Needs the scope `{}`, if the key is limited to scopes.", scope.name()),
            );
        }
    }
    let errors = errors(path, is_public, described);
    if let Some(whole) = whole.as_object_mut() {
        whole.shift_remove("x-errors");
    }
    if let Some(responses) = whole["responses"].as_object_mut() {
        responses.values_mut().for_each(with_frames);
        if responses.contains_key("304") {
            for status in ["200", "304"] {
                responses[status]["headers"] = json!({"ETag": header("What `If-None-Match` names.")});
            }
        }
        for (status, name, _) in ERRORS {
            if errors.contains(&u64::from(status)) && !responses.contains_key(&status.to_string()) {
                let answer = json!({"$ref": format!("#/components/responses/{}{name}", surface.prefix())});
                responses.insert(status.to_string(), answer);
            }
        }
    }
    whole
}

/// Wraps the schema of an event into that of a frame of an event stream, as newer versions of OpenAPI describe streams.
fn with_frames(answer: &mut Json) {
    let Some(stream) = answer.pointer_mut("/content/text~1event-stream") else { return };
    let event = stream["schema"].take();
    stream["schema"] = json!({
        "type": "object",
        "description": "A frame of the stream.",
        "properties": {
            "id": {"type": "string", "description": "What a client sends as `Last-Event-ID` to go on after this event."},
            "event": {"type": "string"},
            "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": event},
        },
    });
}

/// The statuses of the errors that an operation may answer with: those that come before its handler (keys, roles, limits, names of
/// parameters, modes of apps, the store), those of reading its path and its body, and `x-errors`, those of its handler.
fn errors(path: &str, is_public: bool, described: &Json) -> BTreeSet<u64> {
    let own = described["x-errors"].as_array().into_iter().flatten().filter_map(Json::as_u64);
    let mut all: BTreeSet<u64> = own.collect();
    if is_public {
        return all;
    }
    all.extend([400, 401, 403, 429, 503]);
    if path.contains('{') {
        all.insert(404);
    }
    if described.get("requestBody").is_some() {
        all.extend([408, 413]);
    }
    all
}

/// True for the routes of datasets, which need a key of datasets.
fn is_of_datasets(path: &str) -> bool {
    path.starts_with("/datasets") || path.starts_with("/workspaces")
}

/// Adds a sentence to the description.
fn note(operation: &mut Json, sentence: &str) {
    let before = operation["description"].as_str().map(|text| format!("{text} ")).unwrap_or_default();
    operation["description"] = format!("{before}{sentence}").into();
}

fn method_of(name: &str) -> Method {
    name.to_uppercase().parse().unwrap_or(Method::GET)
}
