//! Ids that `/v1` shows as UUIDs, because clients of Dify check that they are. Each follows from what it names, so none
//! is stored, and every scheduler finds the same one.

use tidemill_common::ids::{RunId, named_uuid as named};
use uuid::Uuid;

pub use tidemill_common::ids::workflow_uuid;

/// The id of a user of an app: Dify's end user.
pub fn end_user_uuid(app: &str, user: &str) -> Uuid {
    named(&["end user", app, user])
}

/// The id of a rating of a message.
pub fn feedback_uuid(message: RunId) -> Uuid {
    named(&["feedback", &message.to_string()])
}

/// The id of a run's entry in the logs of its app.
pub fn log_uuid(run: RunId) -> Uuid {
    named(&["log", &run.to_string()])
}

/// The id of an app that was made under an idempotency key; the key is reserved for `reserved`.
pub fn app_uuid(reserved: RunId) -> Uuid {
    named(&["app", &reserved.to_string()])
}

/// The id of the workspace: one for each namespace.
pub fn tenant_uuid(namespace: &str) -> Uuid {
    named(&["workspace", namespace])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_by_kind_app_and_name_and_never_change() {
        let app = "8f14e45f-ceea-467f-a0d2-1f4e0e4b5a51";
        let all = [
            workflow_uuid(app, "a"),
            workflow_uuid(app, "b"),
            workflow_uuid("other", "a"),
            end_user_uuid(app, "a"),
            end_user_uuid(app, "b"),
            tenant_uuid("a"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert_eq!(one.get_version_num(), 5, "validators of old clients take versions 1 to 5");
            assert!(!all[..at].contains(one), "{at}");
        }
        assert_eq!(workflow_uuid(app, "a").to_string(), "18b7955e-1a2d-5535-9af5-6d21bd642892");
    }
}
