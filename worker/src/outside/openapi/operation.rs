//! Finds the operations of a document, with the parameters and the body that each describes.

use serde_json::Value as Json;
use tidemill_common::value::JsonMap;

use crate::outside::openapi::document::resolved;

/// The supported methods, in order.
pub(crate) const METHODS: [&str; 8] = ["get", "post", "put", "patch", "delete", "head", "options", "trace"];

/// The place of a parameter in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Path,
    Query,
    Header,
    Cookie,
}

impl Place {
    fn of(name: &str) -> Option<Self> {
        match name {
            "path" => Some(Self::Path),
            "query" => Some(Self::Query),
            "header" => Some(Self::Header),
            "cookie" => Some(Self::Cookie),
            _ => None,
        }
    }
}

/// An operation in its document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Described<'a> {
    document: &'a Json,
    pub(crate) path: &'a str,
    /// In lower case, as in the document.
    pub(crate) method: &'static str,
    /// The path's object, which may have parameters for all of its operations.
    item: &'a Json,
    pub(crate) fields: &'a JsonMap,
}

/// A parameter outside of the body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter<'a> {
    pub(crate) place: Place,
    pub(crate) name: &'a str,
    pub(crate) is_required: bool,
    pub(crate) fields: &'a Json,
}

/// Lists the operations of a document in its order.
pub(crate) fn operations(document: &Json) -> impl Iterator<Item = Described<'_>> {
    let paths = document.get("paths").and_then(Json::as_object).into_iter().flatten();
    paths.flat_map(move |(path, item)| {
        let item = resolved(document, item);
        METHODS.into_iter().filter_map(move |method| {
            let fields = item.get(method)?.as_object()?;
            Some(Described { document, path, method, item, fields })
        })
    })
}

impl<'a> Described<'a> {
    /// Its `operationId`, unless that is empty.
    pub(crate) fn id(&self) -> Option<&'a str> {
        self.fields.get("operationId").and_then(Json::as_str).filter(|id| !id.is_empty())
    }

    /// The parameters of the path and of the operation. An operation's parameter replaces the one of its path.
    pub(crate) fn parameters(&self) -> Vec<Parameter<'a>> {
        let of_path = self.item.get("parameters").and_then(Json::as_array);
        let own = self.fields.get("parameters").and_then(Json::as_array);
        let mut all: Vec<Parameter<'a>> = Vec::new();
        for one in of_path.into_iter().chain(own).flatten() {
            let fields = resolved(self.document, one);
            let text = |key: &str| fields.get(key).and_then(Json::as_str);
            let (Some(place), Some(name)) = (text("in").and_then(Place::of), text("name")) else { continue };
            let is_required = fields.get("required").and_then(Json::as_bool) == Some(true);
            all.retain(|known| (known.place, known.name) != (place, name));
            all.push(Parameter { place, name, is_required, fields });
        }
        all
    }

    /// The body's description, with references resolved.
    pub(crate) fn body(&self) -> Option<&'a Json> {
        self.fields.get("requestBody").map(|body| resolved(self.document, body))
    }

    /// The media types of a body in the document's order, with what is said of each.
    pub(crate) fn contents(body: &'a Json) -> impl Iterator<Item = (&'a str, &'a Json)> {
        let content = body.get("content").and_then(Json::as_object);
        content.into_iter().flatten().map(|(media_type, of)| (media_type.as_str(), of))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_come_in_order_with_the_parameters_of_their_paths() {
        let document = json!({
            "paths": {
                "/b": {"$ref": "#/components/paths/B"},
                "/a": {"get": {"operationId": ""}, "summary": "no operation", "post": "neither"},
            },
            "components": {
                "paths": {"B": {
                    "parameters": [
                        {"name": "x", "in": "cookie", "required": true}, {"name": "y", "in": "query"},
                        {"name": "z", "in": "body"}, {"in": "query"},
                    ],
                    "put": {"operationId": "second", "requestBody": {"$ref": "#/components/bodies/One"}},
                    "get": {"operationId": "first", "parameters": [{"$ref": "#/components/parameters/X"}]},
                }},
                "parameters": {"X": {"name": "x", "in": "cookie"}},
                "bodies": {"One": {"content": {"text/xml": {}, "application/json": {"schema": {}}}}},
            },
        });
        let all: Vec<_> = operations(&document).collect();
        let named: Vec<_> = all.iter().map(|one| (one.method, one.path, one.id())).collect();
        assert_eq!(named, [("get", "/b", Some("first")), ("put", "/b", Some("second")), ("get", "/a", None)]);
        let parameters = |at: usize| -> Vec<_> {
            all[at].parameters().iter().map(|one| (one.place, one.name, one.is_required)).collect()
        };
        assert_eq!(parameters(0), [(Place::Query, "y", false), (Place::Cookie, "x", false)]);
        assert_eq!(parameters(1), [(Place::Cookie, "x", true), (Place::Query, "y", false)]);
        let body = all[1].body().unwrap();
        let media_types: Vec<_> = Described::contents(body).map(|(media_type, _)| media_type).collect();
        assert_eq!(media_types, ["text/xml", "application/json"]);
        assert!(all[0].body().is_none() && operations(&json!({})).next().is_none());
    }
}
