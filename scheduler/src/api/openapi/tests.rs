//! The documents, the router and the files in docs/openapi say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;

use axum::http::StatusCode;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use serde_json::Value as Json;

use super::{native, service, whole};
use crate::api::native::parameters;
use crate::api::tests::fixtures::{Server, request};
use crate::api::{ApiState, openapi};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

type Operations = BTreeSet<(String, String)>;

fn documented() -> Operations {
    let paths = whole()["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().keys();
        methods.map(move |method| (path.clone(), method.clone()))
    });
    methods.collect()
}

/// The routes and methods of a router, from its own description of itself: axum has no other list of them.
fn of_router(state: &ApiState) -> Operations {
    let text = format!("{:#?}", crate::api::router(state.clone()));
    let own = text.split("fallback_router: ").next().unwrap();
    let (routes, paths) = own.split_once("node: Node").expect("axum shows its routes as before");
    let id_and_rest = |piece: &str| {
        let rest = piece.trim_start_matches(['(', '\n', ' ']);
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok().map(|id| (id, rest[digits.len()..].to_owned()))
    };
    let by_id = |text: &str| -> BTreeMap<u32, String> {
        text.split("RouteId").skip(1).filter_map(id_and_rest).collect()
    };
    let (routes, paths) = (by_id(routes), by_id(paths));
    assert!(routes.len() > 100 && routes.len() == paths.len(), "{} {}", routes.len(), paths.len());
    let mut all = Operations::new();
    for (id, shown) in routes {
        let path = paths[&id].split('"').nth(1).expect("a path").to_owned();
        let own = METHODS.into_iter().filter(|method| {
            let field = format!("{method}: ");
            let line = shown.lines().map(str::trim).find(|line| line.starts_with(&field));
            !line.expect("axum shows each method").ends_with("None,")
        });
        let own: Vec<&str> = own.collect();
        // A route for any method has none of its own.
        let methods = if own.is_empty() { METHODS.to_vec() } else { own };
        all.extend(methods.into_iter().map(|method| (path.clone(), method.to_owned())));
    }
    all
}

#[tokio::test]
async fn the_documents_have_every_route_of_the_router_and_no_other() {
    let (router, documented) = (of_router(&Server::start().state), documented());
    let missing: Vec<_> = router.difference(&documented).collect();
    let unknown: Vec<_> = documented.difference(&router).collect();
    assert!(missing.is_empty(), "routes without a description in scheduler/src/api/openapi: {missing:#?}");
    assert!(unknown.is_empty(), "descriptions without a route: {unknown:#?}");
}

#[test]
fn the_document_of_each_api_has_the_routes_below_its_path() {
    for (document, prefix) in [(native(), "/api/v1"), (service(), "/v1")] {
        for (path, item) in document["paths"].as_object().unwrap() {
            assert_eq!(&whole()["paths"][format!("{prefix}{path}")], item, "{prefix}{path}");
        }
        assert_eq!(document["servers"][0]["url"], prefix);
    }
}

#[test]
fn the_query_parameters_of_the_native_api_are_those_that_it_reads() {
    let mut documented = BTreeMap::new();
    for (path, item) in native()["paths"].as_object().unwrap() {
        let parameters =
            item.as_object().unwrap().values().filter_map(|operation| operation["parameters"].as_array());
        let names =
            parameters.flatten().filter(|one| one["in"] == "query").map(|one| one["name"].as_str().unwrap());
        let names: BTreeSet<&str> = names.collect();
        if !names.is_empty() {
            documented.insert(path.as_str(), names);
        }
    }
    let read = parameters::all().iter().map(|(path, names)| (*path, names.iter().copied().collect()));
    assert_eq!(documented, read.collect());
}

#[test]
fn every_path_parameter_is_described_once() {
    for (path, method) in documented() {
        let operation = &whole()["paths"][&path][&method];
        let described =
            operation["parameters"].as_array().into_iter().flatten().filter(|one| one["in"] == "path");
        let mut described: Vec<&str> = described.map(|one| one["name"].as_str().unwrap()).collect();
        let mut named: Vec<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        described.sort_unstable();
        named.sort_unstable();
        assert_eq!(described, named, "{method} {path}");
    }
}

#[test]
fn every_reference_has_its_part_and_every_part_is_used() {
    for document in [whole(), native(), service()] {
        let mut used = BTreeSet::new();
        references(document, &mut used);
        for reference in &used {
            let found = document.pointer(reference.trim_start_matches('#'));
            assert!(found.is_some(), "{reference} does not exist");
        }
        for name in document["components"]["schemas"].as_object().unwrap().keys() {
            assert!(used.contains(&format!("#/components/schemas/{name}")), "nothing uses the schema {name}");
        }
        for name in document["components"]["responses"].as_object().unwrap().keys() {
            assert!(
                used.contains(&format!("#/components/responses/{name}")),
                "nothing uses the answer {name}"
            );
        }
    }
}

fn references(value: &Json, used: &mut BTreeSet<String>) {
    match value {
        Json::Object(map) => {
            used.extend(map.get("$ref").and_then(Json::as_str).map(str::to_owned));
            map.values().for_each(|value| references(value, used));
        }
        Json::Array(items) => items.iter().for_each(|value| references(value, used)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}

#[test]
fn the_files_have_only_what_a_document_shows() {
    for (folder, document) in [("native", native()), ("service", service())] {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/api/openapi").join(folder);
        for file in std::fs::read_dir(folder).unwrap() {
            let file = file.unwrap().path();
            let read: Json = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let file = file.display();
            let parts: Vec<&String> = read.as_object().unwrap().keys().collect();
            assert_eq!(parts, ["description", "paths", "schemas"], "{file}");
            for (path, methods) in read["paths"].as_object().unwrap() {
                for (method, operation) in methods.as_object().unwrap() {
                    let shown = &document["paths"][path][method];
                    assert!(shown.is_object(), "{file} is not in the list of assemble.rs");
                    for set_by_the_program in ["/tags", "/x-role", "/x-scope", "/responses/default"] {
                        let given = operation.pointer(set_by_the_program);
                        assert_eq!(given, None, "{file}: {method} {path}: {set_by_the_program}");
                    }
                }
            }
            for name in read["schemas"].as_object().unwrap().keys() {
                let shown = &document["components"]["schemas"][name];
                assert!(shown.is_object(), "{file} is not in the list of assemble.rs");
            }
        }
    }
}

#[test]
fn every_operation_has_an_id_of_its_own_a_summary_and_a_kind_of_key() {
    let mut ids = BTreeSet::new();
    for (path, method) in documented() {
        let operation = &whole()["paths"][&path][&method];
        let id = operation["operationId"].as_str().unwrap_or_default();
        assert!(!id.is_empty() && ids.insert(id.to_owned()), "{method} {path}: {id:?}");
        assert!(operation["summary"].as_str().is_some_and(|text| !text.ends_with('.')), "{method} {path}");
        let keys = operation["security"].as_array().unwrap();
        let scheme = match &path {
            path if path.starts_with("/v1/datasets") || path.starts_with("/v1/workspaces") => "dataset_key",
            path if path.starts_with("/v1/") && path.len() > "/v1/".len() => "app_key",
            path if path.starts_with("/api/v1/") => "admin_key",
            _ => "",
        };
        let is_public = scheme.is_empty() || path.ends_with("/openapi.json");
        assert!(
            keys.iter().all(|key| key.get(scheme).is_some()) && keys.is_empty() == is_public,
            "{method} {path}"
        );
    }
}

#[test]
fn an_operation_with_a_tag_of_its_answer_says_so() {
    for (path, method) in documented() {
        let operation = &whole()["paths"][&path][&method];
        let has_tag = operation["responses"]["304"].is_object();
        let asks = |one: &Json| one["name"] == "If-None-Match";
        assert_eq!(
            operation["parameters"].as_array().is_some_and(|all| all.iter().any(asks)),
            has_tag,
            "{path}"
        );
        assert_eq!(operation["responses"]["200"]["headers"]["ETag"].is_object(), has_tag, "{path}");
    }
}

#[test]
fn errors_of_v1_have_no_diagnostics() {
    assert!(!service()["components"]["responses"].to_string().contains("diagnostics"));
}

#[test]
fn tags_have_different_names() {
    let tags = whole()["tags"].as_array().unwrap();
    let names: BTreeSet<&str> = tags.iter().map(|tag| tag["name"].as_str().unwrap()).collect();
    assert_eq!(names.len(), tags.len(), "{tags:?}");
}

#[tokio::test]
async fn the_documents_are_served_without_a_key_and_not_again_to_a_client_that_has_them() {
    let server = Server::start();
    for (path, document) in
        [(openapi::PATH, whole()), ("/api/v1/openapi.json", native()), ("/v1/openapi.json", service())]
    {
        let answer = server.get("", path).await;
        assert_eq!((answer.status, &answer.json()), (StatusCode::OK, document), "{path}");
        assert_eq!(answer.headers["content-type"], "application/json", "{path}");
        let mut again = request("GET", "", path, "");
        again.headers_mut().insert("if-none-match", answer.headers["etag"].clone());
        let again = server.ask(again).await;
        assert_eq!((again.status, again.text.as_str()), (StatusCode::NOT_MODIFIED, ""), "{path}");
    }
}

#[tokio::test]
async fn a_document_is_compressed_for_a_client_that_accepts_it() {
    let server = Server::start();
    for (accepts, is_packed) in [
        ("gzip, deflate", true),
        ("br;q=1, GZIP;q=0.5", true),
        ("gzip;q=0, identity", false),
        ("gzip; q=0.0", false),
        ("identity", false),
    ] {
        let mut asked = request("GET", "", "/v1/openapi.json", "");
        asked.headers_mut().insert("accept-encoding", accepts.parse().unwrap());
        let answer = server.send(asked).await;
        assert_eq!(answer.headers().contains_key("content-encoding"), is_packed, "{accepts}");
        assert_eq!(answer.headers()["vary"], "accept-encoding", "{accepts}");
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let mut text = String::new();
        let read = match is_packed {
            true => GzDecoder::new(&*bytes).read_to_string(&mut text),
            false => (&*bytes).read_to_string(&mut text),
        };
        assert!(read.is_ok() && serde_json::from_str::<Json>(&text).unwrap() == *service(), "{accepts}");
    }
}

fn files() -> [(PathBuf, String); 2] {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/openapi");
    let text = |document: &Json| serde_json::to_string_pretty(document).unwrap() + "\n";
    [(folder.join("native.json"), text(native())), (folder.join("service.json"), text(service()))]
}

#[test]
fn the_files_in_docs_openapi_are_those_of_the_program() {
    for (file, text) in files() {
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(stored == text, "{} is stale: run `make openapi`", file.display());
    }
}

#[test]
#[ignore = "writes docs/openapi; `make openapi` runs it"]
fn write_the_files_in_docs_openapi() {
    for (file, text) in files() {
        std::fs::write(&file, text).unwrap();
    }
}
