//! Converts Swagger 2 documents, the version before OpenAPI 3, to the newer form: server address, bodies separate from
//! parameters, parameter schemas in one place. References are kept and followed later.

use serde_json::{Value as Json, json};
use tidemill_common::value::JsonMap;

use crate::outside::openapi::document::resolved;
use crate::outside::openapi::operation::METHODS;
use crate::outside::openapi::request::MediaType;

/// Fields of a parameter that belong to its schema in OpenAPI 3.
const OF_SCHEMA: [&str; 6] = ["type", "format", "items", "enum", "default", "description"];
// Media types: a form with files, a form without, and the default body.
const MULTIPART: &str = MediaType::Multipart.name();
const FORM: &str = MediaType::Form.name();
const JSON: &str = MediaType::Json.name();

/// Returns true for a Swagger 2 document.
pub(super) fn is_one(document: &Json) -> bool {
    match document.get("swagger") {
        Some(Json::String(version)) => version.starts_with('2'),
        Some(Json::Number(version)) => version.as_f64() == Some(2.0),
        _ => false,
    }
}

/// Converts a document to OpenAPI 3.
pub(super) fn converted(mut document: Json) -> Json {
    let server = server(&document);
    let before = document.clone();
    if let Some(paths) = document.get_mut("paths").and_then(Json::as_object_mut) {
        paths.values_mut().for_each(|item| convert_item(&before, item));
    }
    document["openapi"] = json!("3.0.0");
    if let (None, Some(server)) = (document.get("servers"), server) {
        document["servers"] = json!([{"url": server}]);
    }
    document
}

/// The server, if the document names a host. Uses the first HTTP scheme, or `https` if there is none.
fn server(document: &Json) -> Option<String> {
    let text = |at: &str| document.pointer(at).and_then(Json::as_str);
    let host = text("/host")?;
    let schemes = document.get("schemes").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    let scheme = schemes.iter().filter_map(Json::as_str).find(|scheme| scheme.starts_with("http"));
    let path = text("/basePath").unwrap_or_default().trim_matches('/');
    Some(format!("{}://{host}/{path}", scheme.unwrap_or("https")))
}

fn convert_item(document: &Json, item: &mut Json) {
    let shared = take_parameters(document, item);
    for method in METHODS {
        let Some(operation) = item.get_mut(method).filter(|operation| operation.is_object()) else {
            continue;
        };
        let all = shared.iter().cloned().chain(take_parameters(document, operation));
        let (outer, inner): (Vec<Json>, Vec<Json>) =
            all.partition(|one| !matches!(one["in"].as_str(), Some("body" | "formData")));
        if let Some(body) = body(document, operation, &inner) {
            operation["requestBody"] = body;
        }
        operation["parameters"] = outer.into_iter().map(with_schema).collect();
    }
}

fn take_parameters(document: &Json, of: &mut Json) -> Vec<Json> {
    let taken = of.as_object_mut().and_then(|of| of.shift_remove("parameters"));
    let listed = taken.as_ref().and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
    listed.iter().map(|one| resolved(document, one).clone()).collect()
}

fn with_schema(mut parameter: Json) -> Json {
    if parameter.get("schema").is_none() {
        parameter["schema"] = schema_of(&parameter);
    }
    parameter
}

fn schema_of(parameter: &Json) -> Json {
    let fields = OF_SCHEMA.iter().filter_map(|key| Some(((*key).to_owned(), parameter.get(*key)?.clone())));
    let mut schema = JsonMap::from_iter(fields);
    // OpenAPI 3 describes a file as a binary string.
    if schema.get("type").and_then(Json::as_str) == Some("file") {
        schema.insert("type".into(), json!("string"));
        schema.insert("format".into(), json!("binary"));
    }
    Json::Object(schema)
}

/// The body: the one body parameter, or a form of the form parameters.
fn body(document: &Json, operation: &Json, parameters: &[Json]) -> Option<Json> {
    let consumes = [operation, document].into_iter().find_map(|at| at.get("consumes")?.as_array());
    let first = |wanted: &[&str]| {
        let mut types = consumes.into_iter().flatten().filter_map(Json::as_str);
        types.find(|ty| wanted.is_empty() || wanted.contains(ty)).map(str::to_owned)
    };
    if let Some(whole) = parameters.iter().find(|one| one["in"] == "body") {
        let media_type = first(&[]).unwrap_or_else(|| JSON.to_owned());
        let schema = whole.get("schema").cloned().unwrap_or_default();
        return Some(json!({"content": {media_type: {"schema": schema}}}));
    }
    let (mut properties, mut required) = (JsonMap::new(), Vec::new());
    for one in parameters {
        let Some(name) = one["name"].as_str() else { continue };
        properties.insert(name.to_owned(), schema_of(one));
        if one["required"] == true {
            required.push(json!(name));
        }
    }
    if properties.is_empty() {
        return None;
    }
    let has_files = parameters.iter().any(|one| one["type"] == "file");
    let usual = if has_files { MULTIPART } else { FORM };
    let media_type = if has_files { None } else { first(&[FORM, MULTIPART]) };
    let media_type = media_type.unwrap_or_else(|| usual.to_owned());
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Some(json!({"content": {media_type: {"schema": schema}}}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outside::openapi::operation::Place;
    use crate::outside::tools::openapi::document::read;
    use tidemill_common::nodes::tool::ParameterType;

    const PETS: &str = r##"
swagger: "2.0"
host: pets.example.com
basePath: /v2/
schemes: [ws, http]
consumes: [application/xml, application/json]
parameters:
  limit: {name: limit, in: query, type: integer, default: 10, description: how many}
paths:
  /pets/{id}:
    parameters: [{name: id, in: path, type: string, required: true}]
    get: {operationId: getPet, parameters: [{$ref: "#/parameters/limit"}]}
    put:
      operationId: putPet
      consumes: [application/json]
      parameters: [{in: body, name: body, schema: {$ref: "#/definitions/Pet"}}]
  /photos:
    post:
      operationId: addPhoto
      parameters:
        - {name: photo, in: formData, type: file, required: true}
        - {name: caption, in: formData, type: string}
definitions:
  Pet: {type: object, required: [name], properties: {name: {type: string}, age: {type: integer}}}
"##;

    #[test]
    fn operations_of_swagger_are_tools_as_those_of_openapi_are() {
        let operations = read(PETS.as_bytes(), None).unwrap();
        let [get, put, photo] = &operations[..] else { panic!("{operations:#?}") };
        assert_eq!(
            (get.url.as_str(), put.url.as_str()),
            ("http://pets.example.com/v2/pets/{id}", get.url.as_str())
        );
        let outer: Vec<_> = get.outer.iter().map(|one| (one.name.as_str(), one.place)).collect();
        assert_eq!(outer, [("id", Place::Path), ("limit", Place::Query)]);
        let limit = &get.declaration.parameters[1];
        assert_eq!((limit.ty, limit.description.as_str()), (ParameterType::Number, "how many"));
        assert_eq!((get.body.as_ref(), get.outer[1].default.as_ref()), (None, Some(&json!(10))));
        let body = put.body.as_ref().unwrap();
        assert_eq!((body.media_type.as_str(), &body.required), (JSON, &vec!["name".to_owned()]));
        assert_eq!(body.properties.keys().collect::<Vec<_>>(), ["name", "age"]);
        let form = photo.body.as_ref().unwrap();
        assert_eq!((form.media_type.as_str(), &form.required), (MULTIPART, &vec!["photo".to_owned()]));
        let types: Vec<_> = photo.declaration.parameters.iter().map(|one| one.ty).collect();
        assert_eq!(types, [ParameterType::File, ParameterType::String]);
        // The settings give the server when the document has none, or override it.
        let elsewhere = read(PETS.as_bytes(), Some("https://here/v1")).unwrap();
        assert_eq!(elsewhere[2].url, "https://here/v1/photos");
    }
}
