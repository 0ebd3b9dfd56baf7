//! Converts a statement's result or error to the output of the step. Pure.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::step::CallError;
use tidemill_common::value::JsonMap;

use crate::outside::calls::sql::database::{Outcome, Trouble};
use crate::outside::calls::sql::statement::Refused;
use crate::outside::calls::sql::{EXECUTION_FAILED, INVALID, LIMIT_EXCEEDED, NOT_READ_ONLY};

/// Builds the output.
pub(super) fn data(sql: &str, outcome: Outcome) -> JsonMap {
    let mut data = JsonMap::new();
    data.insert("result".into(), Json::Array(outcome.rows));
    data.insert("sql".into(), sql.into());
    if let Some(changed) = outcome.changed {
        data.insert("rows_affected".into(), changed.into());
    }
    data
}

/// The error of an invalid statement.
pub(super) fn invalid(message: impl Into<String>, sql: &str) -> CallError {
    CallError::of(INVALID, message).with(json!({"sql": sql}))
}

/// The error of a refused statement.
pub(super) fn refused(reason: &Refused, sql: &str) -> CallError {
    let class = match reason {
        Refused::Invalid(_) => INVALID,
        Refused::NotReadOnly(_) => NOT_READ_ONLY,
    };
    CallError::of(class, reason.to_string()).with(json!({"sql": sql}))
}

/// The error of a statement that failed. A retry may help if the connection failed and nothing can have been changed.
pub(super) fn failed(trouble: Trouble, sql: &str, reads: bool) -> CallError {
    let of = |class: &str, message: String, detail: &str| {
        CallError::of(class, message).with(json!({"sql": sql, "db_error": detail}))
    };
    match trouble {
        Trouble::Connection(detail) => {
            let error = of(EXECUTION_FAILED, format!("the database does not answer: {detail}"), &detail);
            if reads { error.passing() } else { error }
        }
        Trouble::Refused(detail) => of(EXECUTION_FAILED, format!("the database refuses: {detail}"), &detail),
        Trouble::Bound(detail) => of(LIMIT_EXCEEDED, detail.clone(), &detail),
    }
}
