//! What each operation of `/v1` needs of a key that is limited to scopes. The table has every route; what describes the app
//! itself is open to each of its keys.

use axum::http::Method;
use tidemill_common::store::KeyScope;

/// What a key needs for a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// A valid key.
    Key,
    Scope(KeyScope),
}

/// Routes whose requests need the same, whatever their method. All others need [`KeyScope::Read`] to read, and
/// [`KeyScope::Run`] for the rest.
const ROUTES: [(&str, Needs); 8] = [
    ("/info", Needs::Key),
    ("/meta", Needs::Key),
    ("/parameters", Needs::Key),
    ("/site", Needs::Key),
    ("/files/upload", Needs::Scope(KeyScope::Files)),
    ("/files/{id}/preview", Needs::Scope(KeyScope::Files)),
    ("/form/human_input/{token}", Needs::Scope(KeyScope::Forms)),
    // It only asks a model for questions that a reader could ask next, but that costs money.
    ("/messages/{id}/suggested", Needs::Scope(KeyScope::Run)),
];

/// What a request needs. `route` is its pattern, with or without `/v1`.
pub(super) fn needs(method: &Method, route: &str) -> Needs {
    let below = route.strip_prefix("/v1").unwrap_or(route);
    let listed = ROUTES.iter().find(|(route, _)| *route == below).map(|(_, needs)| *needs);
    let reads = [Method::GET, Method::HEAD].contains(method);
    listed.unwrap_or(Needs::Scope(if reads { KeyScope::Read } else { KeyScope::Run }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_needs_one_scope() {
        for (method, route, expected) in [
            (Method::GET, "/v1/info", Needs::Key),
            (Method::POST, "/v1/workflows/run", Needs::Scope(KeyScope::Run)),
            (Method::POST, "/v1/chat-messages/{id}/stop", Needs::Scope(KeyScope::Run)),
            (Method::DELETE, "/v1/conversations/{id}", Needs::Scope(KeyScope::Run)),
            (Method::GET, "/v1/messages", Needs::Scope(KeyScope::Read)),
            (Method::GET, "/workflow/{id}/events", Needs::Scope(KeyScope::Read)),
            (Method::POST, "/v1/files/upload", Needs::Scope(KeyScope::Files)),
            (Method::GET, "/v1/form/human_input/{token}", Needs::Scope(KeyScope::Forms)),
            (Method::POST, "/v1/form/human_input/{token}", Needs::Scope(KeyScope::Forms)),
        ] {
            assert_eq!(needs(&method, route), expected, "{method} {route}");
        }
    }
}
