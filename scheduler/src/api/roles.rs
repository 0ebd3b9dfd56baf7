//! The role that each operation of `/api/v1` needs. The table has every operation; a test compares it with the router.
//! What it lacks is only for the role `admin`.

use axum::http::Method;

/// What an admin key may do. Each role may do what the ones before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    /// Read, but nothing that opens something or says who did what.
    ReadOnly,
    /// Read all but snapshots; start, change, answer and stop runs; retry and remove dead letters.
    Operator,
    /// All.
    Admin,
}

impl Role {
    /// All of them.
    pub(super) const ALL: [Self; 3] = [Self::ReadOnly, Self::Operator, Self::Admin];

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// The role of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }

    /// What a key with this role opens, in the place of an app's id. No app has such an id.
    pub(super) fn opens(self) -> String {
        format!(":{}", self.name())
    }

    /// The role of a key that opens this; `None` for keys of apps and of datasets.
    pub(super) fn of(opens: &str) -> Option<Self> {
        opens.strip_prefix(':').and_then(Self::named)
    }
}

const READ_ONLY: Role = Role::ReadOnly;
const OPERATOR: Role = Role::Operator;
const ADMIN: Role = Role::Admin;

/// Routes below `/api/v1`, and the role for each of their methods. Webhook addresses of triggers start runs without a key, that
/// of an app's webhook may have a secret, deliveries may name servers, and the audit log has addresses of people: they are not
/// for `read-only`. A snapshot has a run's secrets, sealed, and a workflow of one's own could show what a seal contains: snapshots
/// and texts with seals are for `admin` alone.
#[rustfmt::skip]
const NEEDS: [(&str, &[(Method, Role)]); 64] = [
    ("/admin-keys", &[(Method::GET, OPERATOR), (Method::POST, ADMIN)]),
    ("/admin-keys/{id}", &[(Method::DELETE, ADMIN)]),
    ("/admin-keys/{id}/rotate", &[(Method::POST, ADMIN)]),
    ("/apps", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/apps/{id}", &[(Method::GET, READ_ONLY), (Method::DELETE, ADMIN)]),
    ("/apps/{id}/disable", &[(Method::POST, ADMIN)]),
    ("/apps/{id}/enable", &[(Method::POST, ADMIN)]),
    ("/apps/{id}/keys", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/apps/{id}/limits", &[(Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/apps/{id}/rollback", &[(Method::POST, ADMIN)]),
    ("/apps/{id}/users/{user}", &[(Method::DELETE, ADMIN)]),
    ("/apps/{id}/versions", &[(Method::GET, READ_ONLY)]),
    ("/apps/{id}/versions/{version}", &[(Method::DELETE, ADMIN)]),
    ("/apps/{id}/webhook", &[(Method::GET, OPERATOR), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/apps/{id}/webhook/deliveries", &[(Method::GET, OPERATOR)]),
    ("/apps/{id}/webhook/test", &[(Method::POST, OPERATOR)]),
    ("/audit", &[(Method::GET, OPERATOR)]),
    ("/calls", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/calls/{id}", &[(Method::GET, READ_ONLY), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/datasources", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/datasources/{id}", &[(Method::GET, READ_ONLY), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/dead", &[(Method::GET, READ_ONLY)]),
    ("/dead/retry", &[(Method::POST, OPERATOR)]),
    ("/dead/{id}", &[(Method::GET, READ_ONLY), (Method::DELETE, OPERATOR)]),
    ("/dead/{id}/retry", &[(Method::POST, OPERATOR)]),
    ("/files", &[(Method::POST, OPERATOR)]),
    ("/keys", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/keys/{id}", &[(Method::DELETE, ADMIN)]),
    ("/keys/{id}/budget", &[(Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/keys/{id}/limits", &[(Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/keys/{id}/rotate", &[(Method::POST, ADMIN)]),
    ("/knowledge", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/knowledge/{id}", &[(Method::GET, READ_ONLY), (Method::DELETE, ADMIN)]),
    ("/knowledge/{id}/documents", &[(Method::POST, ADMIN)]),
    ("/knowledge/{id}/documents/{document}", &[(Method::GET, READ_ONLY), (Method::DELETE, ADMIN)]),
    ("/library", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/library/{id}", &[(Method::GET, READ_ONLY), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/plugin-credentials", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/plugin-credentials/{id}", &[(Method::GET, READ_ONLY), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/plugins", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/plugins/{id}", &[(Method::GET, READ_ONLY), (Method::DELETE, ADMIN)]),
    ("/plugins/{id}/options", &[(Method::POST, OPERATOR)]),
    ("/profiles", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/profiles/{id}", &[(Method::GET, READ_ONLY), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/providers", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/providers/{id}", &[(Method::GET, READ_ONLY), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/queues", &[(Method::GET, READ_ONLY)]),
    ("/removals", &[(Method::GET, READ_ONLY)]),
    ("/runs", &[(Method::GET, READ_ONLY), (Method::POST, OPERATOR)]),
    ("/runs/import", &[(Method::POST, ADMIN)]),
    ("/runs/{id}", &[(Method::GET, READ_ONLY)]),
    ("/runs/{id}/commands", &[(Method::POST, OPERATOR)]),
    ("/runs/{id}/events", &[(Method::GET, READ_ONLY)]),
    ("/runs/{id}/history", &[(Method::GET, READ_ONLY)]),
    ("/runs/{id}/messages/{list}", &[(Method::GET, READ_ONLY)]),
    ("/runs/{id}/pauses", &[(Method::GET, READ_ONLY)]),
    ("/runs/{id}/pauses/{pause_id}/answer", &[(Method::POST, OPERATOR)]),
    ("/runs/{id}/rt", &[(Method::GET, READ_ONLY)]),
    ("/runs/{id}/snapshot", &[(Method::GET, ADMIN)]),
    ("/services", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/services/{id}", &[(Method::GET, READ_ONLY), (Method::PUT, ADMIN), (Method::DELETE, ADMIN)]),
    ("/shards", &[(Method::GET, READ_ONLY), (Method::POST, ADMIN)]),
    ("/triggers", &[(Method::GET, OPERATOR)]),
    ("/workers", &[(Method::GET, READ_ONLY)]),
];

/// The role that a request needs. `route` is its pattern below `/api/v1`.
pub(super) fn needs(method: &Method, route: &str) -> Role {
    let method = if *method == Method::HEAD { &Method::GET } else { method };
    let of_route = NEEDS.iter().find(|(listed, _)| *listed == route).map_or(&[][..], |(_, needs)| needs);
    of_route.iter().find(|(listed, _)| listed == method).map_or(Role::Admin, |(_, role)| *role)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The operations of the router, as its source has them.
    fn of_router() -> BTreeSet<(String, String)> {
        let source = include_str!("mod.rs");
        let table = source.split("fn native_routes()").nth(1).expect("the table of routes");
        let table = table.split("\n}\n").next().unwrap_or_default();
        let mut found = BTreeSet::new();
        for route in table.split(".route(").skip(1) {
            let path = route.split('"').nth(1).expect("a path");
            let all = ["get", "post", "put", "patch", "delete"];
            let own: &[&str] = match () {
                () if route.contains("catalog::all(") => &["get", "post"],
                () if route.contains("catalog::one(") => &["get", "put", "delete"],
                () => &all,
            };
            let is_own = |method: &&&str| own.len() < all.len() || has_call(route, method);
            let methods = own.iter().filter(is_own).map(|method| method.to_uppercase());
            found.extend(methods.map(|method| (method, path.to_string())));
        }
        found
    }

    fn has_call(text: &str, method: &str) -> bool {
        text.match_indices(&format!("{method}(")).any(|(at, _)| !text[..at].ends_with(char::is_alphanumeric))
    }

    #[test]
    fn each_operation_of_the_router_has_one_role_and_the_table_has_no_other() {
        let mut listed = BTreeSet::new();
        for (route, method) in
            NEEDS.iter().flat_map(|(route, all)| all.iter().map(move |one| (route, &one.0)))
        {
            assert!(
                listed.insert((method.to_string(), route.to_string())),
                "{method} {route} is there twice"
            );
        }
        assert!(listed.len() > 60, "{listed:?}");
        assert_eq!(of_router(), listed);
    }

    #[test]
    fn a_key_that_may_only_read_changes_nothing_and_what_is_not_listed_is_for_admins() {
        for (route, needs) in NEEDS {
            for (method, role) in needs {
                assert!(*method == Method::GET || *role > Role::ReadOnly, "{method} {route}");
            }
        }
        assert_eq!(needs(&Method::HEAD, "/runs"), Role::ReadOnly);
        assert_eq!(needs(&Method::PATCH, "/runs"), Role::Admin);
        assert_eq!(needs(&Method::GET, "/nothing"), Role::Admin);
    }

    #[test]
    fn a_role_is_read_from_what_its_keys_open() {
        for role in Role::ALL {
            assert_eq!(Role::of(&role.opens()), Some(role));
        }
        assert_eq!(Role::of("admin"), None, "an app of this name");
        assert_eq!(Role::of(super::super::auth::DATASETS), None);
    }
}
