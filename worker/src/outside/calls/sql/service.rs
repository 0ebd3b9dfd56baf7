//! A text-to-SQL service: it receives the question, the connection and the tables, writes a statement and runs it.
//!
//! The service runs the statement before the worker sees it. So only the rights of the datasource's user can prevent
//! writes. A statement that writes is still reported as an error.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Value as Json, json};
use tidemill_common::nodes::step::CallError;
use tidemill_common::value::JsonMap;

use crate::outside::calls::Calls;
use crate::outside::calls::catalog::VALUE_ERROR;
use crate::outside::calls::sql::outcome::{invalid, refused};
use crate::outside::calls::sql::statement::{Prepared, Refused};
use crate::outside::calls::sql::{EXECUTION_FAILED, LIMIT_EXCEEDED, SqlRequest};
use crate::outside::tools::operator_client::{Request, excerpt, whole};

pub(super) async fn ask(calls: &Calls, request: &SqlRequest) -> Result<JsonMap, CallError> {
    let answer = async {
        let reply = reply(calls, request).await?;
        read(&reply, request)
    };
    let data = answer.await.map_err(|error| request.without_password(error))?;
    Ok(request.hide().map(&data))
}

async fn reply(calls: &Calls, request: &SqlRequest) -> Result<Json, CallError> {
    let source = &request.source;
    let url = source.service_url.as_deref().ok_or_else(|| {
        let message = format!("the datasource {} has no service_url, which mode: service asks", request.id);
        CallError::of(VALUE_ERROR, message)
    })?;
    let url = Url::parse(url).map_err(|error| CallError::of(VALUE_ERROR, format!("service_url: {error}")))?;
    let body = json!({
        "type": source.database_type.name(),
        "host": source.host,
        "port": source.port.unwrap_or(source.database_type.usual_port()),
        "username": source.username,
        "password": request.password,
        "database": source.database,
        "goal": request.question,
        "table_list": request.tables,
    });
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let config = &calls.config;
    let silence = Duration::from_secs(config.sql_service_seconds_max);
    let body = Bytes::from(body.to_string());
    let request = Request { method: Method::POST, url: &url, headers, body, silence };
    let asking = async {
        let away = |reason: String| {
            let message = format!("the text-to-SQL service does not answer: {reason}");
            CallError::of(EXECUTION_FAILED, message).with(json!({"sql": "", "db_error": reason})).passing()
        };
        let mut answer =
            calls.operator_client()?.send(request).await.map_err(|error| away(error.to_string()))?;
        let status = answer.response.status();
        let bytes = whole(&mut answer, config.answer_bytes_max).await.map_err(away)?;
        if !status.is_success() {
            let detail = format!("the text-to-SQL service answers {}: {}", status.as_u16(), excerpt(&bytes));
            return Err(
                CallError::of(EXECUTION_FAILED, detail.clone()).with(json!({"sql": "", "db_error": detail}))
            );
        }
        serde_json::from_slice(&bytes).map_err(|_| {
            invalid(format!("the text-to-SQL service does not answer with JSON: {}", excerpt(&bytes)), "")
        })
    };
    let late = || {
        let message = format!(
            "no answer of the text-to-SQL service within {silence:?} (calls.sql_service_seconds_max)"
        );
        CallError::of(LIMIT_EXCEEDED, message)
    };
    tokio::time::timeout(silence, asking).await.map_err(|_| late())?
}

/// Reads a reply.
fn read(reply: &Json, request: &SqlRequest) -> Result<JsonMap, CallError> {
    let result = &reply["result"];
    let sql = result["sql"].as_str().unwrap_or_default();
    let detail =
        ["message", "msg", "error"].into_iter().find_map(|key| reply[key].as_str()).unwrap_or_default();
    if sql.trim().is_empty() {
        return Err(invalid(format!("no valid statement was generated{}", suffix(detail)), ""));
    }
    if reply["code"].as_i64() != Some(200) {
        let error =
            CallError::of(EXECUTION_FAILED, format!("the statement could not be run{}", suffix(detail)));
        return Err(error.with(json!({"sql": sql, "db_error": detail})));
    }
    if request.read_only
        && let Err(reason @ Refused::NotReadOnly(_)) = Prepared::read(sql, request.source.database_type, true)
    {
        return Err(refused(&reason, sql));
    }
    let rows = match &result["execute_result"] {
        Json::Array(rows) => rows.clone(),
        Json::Null => Vec::new(),
        other => vec![other.clone()],
    };
    if rows.len() as u64 > request.bounds.rows {
        let most = request.bounds.rows;
        let message =
            format!("the result has {} rows, more than {most} (calls.sql_rows_max, rows_max)", rows.len());
        return Err(CallError::of(LIMIT_EXCEEDED, message).with(json!({"sql": sql})));
    }
    let mut data = JsonMap::new();
    data.insert("result".into(), Json::Array(rows));
    data.insert("sql".into(), sql.into());
    if let Some(risk) = result["risk"].as_str() {
        data.insert("risk".into(), risk.into());
    }
    Ok(data)
}

fn suffix(detail: &str) -> String {
    if detail.is_empty() { String::new() } else { format!(": {detail}") }
}
