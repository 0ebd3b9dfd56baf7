//! Joins the descriptions of this folder to whole documents.

use serde_json::{Map, Value as Json, json};

use super::complete::{self, Surface};

/// The families of `/api/v1`.
const NATIVE: [&str; 13] = [
    include_str!("native/apps.json"),
    include_str!("native/webhooks.json"),
    include_str!("native/dead.json"),
    include_str!("native/files.json"),
    include_str!("native/knowledge.json"),
    include_str!("native/keys.json"),
    include_str!("native/fleet.json"),
    include_str!("native/catalog.json"),
    include_str!("native/plugins.json"),
    include_str!("native/runs.json"),
    include_str!("native/following.json"),
    include_str!("native/submitting.json"),
    include_str!("native/shared.json"),
];
const OUTSIDE: &str = include_str!("outside.json");
/// The families of the service API, by their tag.
const SERVICE: [(&str, &str); 15] = [
    ("app", include_str!("service/app.json")),
    ("chat", include_str!("service/chat.json")),
    ("events", include_str!("service/events.json")),
    ("messages", include_str!("service/messages.json")),
    ("conversations", include_str!("service/conversations.json")),
    ("workflows", include_str!("service/workflows.json")),
    ("forms", include_str!("service/forms.json")),
    ("uploads", include_str!("service/files.json")),
    ("annotations", include_str!("service/annotations.json")),
    ("datasets", include_str!("service/datasets.json")),
    ("documents", include_str!("service/documents.json")),
    ("segments", include_str!("service/segments.json")),
    ("metadata", include_str!("service/metadata.json")),
    ("tags", include_str!("service/tags.json")),
    ("pipelines", include_str!("service/pipelines.json")),
];

/// Operations by path, and schemas by name.
#[derive(Debug, Default)]
struct Part {
    tags: Vec<Json>,
    paths: Map<String, Json>,
    schemas: Map<String, Json>,
}

/// The document of `/api/v1`.
pub(super) fn native() -> Json {
    document(
        "Tidemill's native API",
        "The routes below `/api/v1` with their bodies. docs/api.md explains them.",
        "/api/v1",
        part_of_native(),
        &[Surface::Native],
    )
}

/// The document of `/v1`.
pub(super) fn service() -> Json {
    document(
        "Dify's service API, as Tidemill serves it",
        "The routes below `/v1` with their bodies. docs/compatibility.md says where they differ from Dify's.",
        "/v1",
        part_of_service(),
        &[Surface::Service],
    )
}

/// The document with all routes.
pub(super) fn whole() -> Json {
    let mut all = part_of_outside();
    for (prefix, part) in [("/api/v1", part_of_native()), ("/v1", part_of_service())] {
        all.tags.extend(part.tags);
        join(&mut all.paths, part.paths.into_iter().map(|(path, item)| (format!("{prefix}{path}"), item)));
        join(&mut all.schemas, part.schemas);
    }
    document(
        "Tidemill",
        "All routes of a scheduler: Tidemill's native API below `/api/v1`, Dify's service API below `/v1`, webhooks, links of \
         files, probes and metrics.",
        "/",
        all,
        &[Surface::Native, Surface::Service],
    )
}

fn document(title: &str, description: &str, server: &str, part: Part, surfaces: &[Surface]) -> Json {
    let Part { tags, paths, schemas } = part;
    let (mut keys, mut responses) = (Map::new(), Map::new());
    for surface in surfaces {
        join(&mut keys, surface.keys());
        join(&mut responses, surface.responses());
    }
    let text = Json::Object(paths.clone()).to_string();
    responses.retain(|name, _| text.contains(&format!("\"#/components/responses/{name}\"")));
    json!({
        "openapi": "3.1.0",
        "info": {"title": title, "version": "1", "description": description},
        "servers": [{"url": server}],
        "tags": tags,
        "paths": paths,
        "components": {"securitySchemes": keys, "responses": responses, "schemas": schemas},
    })
}

/// The operations of `/api/v1`; each has the first part of its path as its tag.
fn part_of_native() -> Part {
    let mut part = Part::default();
    for text in NATIVE {
        let read = read(text);
        for (path, methods) in object(&read["paths"]) {
            let tag = path.split('/').nth(1).unwrap_or_default().to_owned();
            if !part.tags.iter().any(|known| known["name"] == tag.as_str()) {
                part.tags.push(json!({"name": tag}));
            }
            let methods = completed(Surface::Native, &path, &tag, &methods);
            join(&mut part.paths, [(path, methods)]);
        }
        join(&mut part.schemas, object(&read["schemas"]));
    }
    // The models of the Python client have this order.
    part.schemas.sort_keys();
    part
}

fn part_of_service() -> Part {
    let mut part = Part::default();
    for (tag, text) in SERVICE {
        let read = read(text);
        let paths = object(&read["paths"]);
        if !paths.is_empty() {
            part.tags.push(json!({"name": tag, "description": read["description"]}));
        }
        for (path, methods) in paths {
            let methods = completed(Surface::Service, &path, tag, &methods);
            join(&mut part.paths, [(path, methods)]);
        }
        join(&mut part.schemas, object(&read["schemas"]));
    }
    join(&mut part.schemas, [("ServiceError".to_owned(), complete::service_error())]);
    part
}

fn part_of_outside() -> Part {
    const TAG: &str = "outside";
    let read = read(OUTSIDE);
    let paths = object(&read["paths"]).into_iter().map(|(path, methods)| {
        let methods = completed(Surface::Outside, &path, TAG, &methods);
        (path, methods)
    });
    Part {
        tags: vec![json!({"name": TAG, "description": read["description"]})],
        paths: paths.collect(),
        schemas: object(&read["schemas"]),
    }
}

/// Adds entries, none of which may be there.
fn join(all: &mut Map<String, Json>, more: impl IntoIterator<Item = (String, Json)>) {
    for (name, value) in more {
        let before = all.insert(name, value);
        // A test assembles the same files.
        assert!(before.is_none(), "two descriptions have the same name; one is {before:?}");
    }
}

fn completed(surface: Surface, path: &str, tag: &str, methods: &Json) -> Json {
    let methods = object(methods).into_iter().map(|(method, operation)| {
        let operation = complete::operation(surface, path, &method, tag, &operation);
        (method, operation)
    });
    Json::Object(methods.collect())
}

/// A file of this folder.
fn read(text: &str) -> Json {
    serde_json::from_str(text).expect("a test reads the same files")
}

fn object(value: &Json) -> Map<String, Json> {
    value.as_object().cloned().unwrap_or_default()
}
