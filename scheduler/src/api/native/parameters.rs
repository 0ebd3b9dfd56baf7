//! The query parameters that each route of `/api/v1` reads. Others are refused: a filter that is passed over would show
//! more than the client asked for. `/v1` passes them over, as Dify does.

use axum::extract::{FromRequestParts, MatchedPath, Request};
use axum::middleware::Next;
use axum::response::Response;
use tidemill_common::dsl::suggest::nearest;

use crate::api::error::ApiError;
use crate::api::request::Params;

/// Routes below `/api/v1`, and the parameters that one of their methods reads. Routes that are not listed read none.
const READ: [(&str, &[&str]); 18] = [
    ("/apps", &["create", "strict"]),
    ("/apps/{id}", &["runs"]),
    ("/audit", &["action", "before", "limit", "since", "who"]),
    ("/calls/{id}", &["force"]),
    ("/datasources/{id}", &["force"]),
    ("/dead", &["before", "limit"]),
    ("/files", &["app", "name", "user"]),
    ("/knowledge/{id}/documents/{document}", &["segments"]),
    ("/library/{id}", &["force"]),
    ("/plugin-credentials/{id}", &["force"]),
    ("/profiles/{id}", &["force"]),
    ("/providers/{id}", &["force"]),
    (
        "/runs",
        &["app", "before", "error", "label", "limit", "since", "status", "total", "until", "user", "wait"],
    ),
    ("/runs/{id}", &["values"]),
    ("/runs/{id}/events", &["after", "dialect", "follow"]),
    ("/runs/{id}/history", &["errors", "from", "limit", "view"]),
    ("/runs/{id}/messages/{list}", &["from", "limit"]),
    ("/services/{id}", &["force"]),
];

/// All routes with parameters, for the test of the description.
#[cfg(test)]
pub(in crate::api) fn all() -> &'static [(&'static str, &'static [&'static str])] {
    &READ
}

/// Refuses requests with a parameter that their route does not read.
///
/// # Errors
/// 400 `invalid_param`, with the nearest name.
pub async fn known(request: Request, next: Next) -> Result<Response, ApiError> {
    if request.uri().query().is_none_or(str::is_empty) {
        return Ok(next.run(request).await);
    }
    let (mut parts, body) = request.into_parts();
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let route = route.strip_prefix("/api/v1").unwrap_or(route).to_string();
    let params = Params::from_request_parts(&mut parts, &()).await?;
    if let Some(message) = refusal(&route, params.names()) {
        return Err(ApiError::invalid_param(message));
    }
    Ok(next.run(Request::from_parts(parts, body)).await)
}

fn refusal<'a>(route: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let read = READ.iter().find(|(listed, _)| *listed == route).map_or(&[][..], |(_, read)| read);
    let mut unknown: Vec<&str> = names.filter(|name| !name.is_empty() && !read.contains(name)).collect();
    unknown.sort_unstable();
    let first = unknown.first()?;
    let hint = match (nearest(first, read.iter().copied()), read) {
        (Some(meant), _) => format!("did you mean {meant}?"),
        (None, []) => "this route has no parameters".into(),
        (None, read) => format!("this route has {}", read.join(", ")),
    };
    Some(format!("unknown parameter {first}; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_parameters_are_refused_with_what_the_route_reads() {
        for (route, names, expected) in [
            ("/runs", vec!["limit", "status"], None),
            ("/runs", vec!["limit", ""], None),
            ("/runs", vec!["limt"], Some("unknown parameter limt; did you mean limit?")),
            (
                "/runs",
                vec!["limit", "page"],
                Some(
                    "unknown parameter page; this route has app, before, error, label, limit, since, status, total, until, user, wait",
                ),
            ),
            ("/triggers", vec!["limit"], Some("unknown parameter limit; this route has no parameters")),
        ] {
            assert_eq!(refusal(route, names.iter().copied()).as_deref(), expected, "{route} {names:?}");
        }
    }
}
