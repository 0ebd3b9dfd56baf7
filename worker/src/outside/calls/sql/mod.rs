//! `SQL`: queries a database with a given statement, with one a model writes, or through a service that does both.
//!
//! [`statement`] checks a statement before it runs, [`database`] runs it, [`generate`] lets a model write one, and
//! [`service`] calls a service. Answers of databases and services are searched for the password, so that it is never
//! shown.

mod database;
mod generate;
mod outcome;
mod service;
mod statement;
mod values;

use std::time::Duration;

use serde_json::Value as Json;
use tidemill_common::nodes::step::{CallError, Chunk};
use tidemill_common::registry::calls::{DatasourceConfig, Standard, standard};
use tidemill_common::value::JsonMap;

use crate::outside::calls::catalog::VALUE_ERROR;
use crate::outside::calls::sql::database::{Bounds, Target};
use crate::outside::calls::sql::outcome::{data, failed, invalid, refused};
use crate::outside::calls::sql::statement::Prepared;
use crate::outside::calls::{Call, CallContext, Calls, ChunkSink};
use crate::outside::hide::Hide;

/// The error type of a statement that does more than read.
const NOT_READ_ONLY: &str = "SqlNotReadOnly";
/// The error type of an invalid statement.
const INVALID: &str = "SqlInvalid";
/// The error type of a statement the database refuses.
const EXECUTION_FAILED: &str = "SqlExecutionFailed";
/// The error type of a result that is too large or too late.
const LIMIT_EXCEEDED: &str = "SqlLimitExceeded";

pub(super) struct Sql;

#[async_trait::async_trait]
impl Call for Sql {
    fn standard(&self) -> Option<Standard> {
        standard("SQL")
    }
    async fn init(&self, cx: CallContext<'_>, params: JsonMap) -> Result<JsonMap, CallError> {
        let mut input = params;
        if let Some(secret) =
            ["password", "host", "username"].into_iter().find(|name| input.contains_key(*name))
        {
            let message = format!(
                "{secret} is no parameter: a connection is kept as a datasource (`tidemill datasources add`), where its \
                 password is sealed"
            );
            return Err(CallError::of(VALUE_ERROR, message));
        }
        let default = if input.contains_key("sql") { "query" } else { "generate" };
        let mode = input.entry("mode").or_insert_with(|| default.into()).clone();
        let asks = match mode.as_str() {
            Some("query") => false,
            Some("generate" | "service") => true,
            _ => {
                let message = format!("mode is {mode}: there are query, generate and service");
                return Err(CallError::of(VALUE_ERROR, message));
            }
        };
        if asks && !input.contains_key("question") {
            input.insert("question".into(), cx.background.question.as_str().into());
        }
        Ok(input)
    }
    async fn exec(&self, cx: CallContext<'_>, input: JsonMap, out: ChunkSink<'_>) -> Result<(), CallError> {
        let request = SqlRequest::read(cx.calls, &input).await?;
        let mut answer = match input.get("mode").and_then(Json::as_str) {
            Some("service") => service::ask(cx.calls, &request).await?,
            Some("generate") => {
                let sql = generate::sql(cx, &input, &request).await?;
                query(cx.calls, &request, &sql, &JsonMap::new()).await?
            }
            _ => given(cx.calls, &request, &input).await?,
        };
        if let Some(Json::String(sql)) = answer.get_mut("sql") {
            *sql = cx.secrets.masked(sql);
        }
        out(Chunk::Data(answer));
        Ok(())
    }
}

fn text<'a>(input: &'a JsonMap, key: &str) -> Option<&'a str> {
    input.get(key).and_then(Json::as_str).filter(|text| !text.trim().is_empty())
}

/// The checked input of a call.
struct SqlRequest {
    source: DatasourceConfig,
    id: String,
    password: Option<String>,
    question: String,
    tables: Vec<String>,
    read_only: bool,
    bounds: Bounds,
}

impl SqlRequest {
    async fn read(calls: &Calls, input: &JsonMap) -> Result<Self, CallError> {
        let id = text(input, "datasource").ok_or_else(|| {
            CallError::of(VALUE_ERROR, "datasource is required: the id of one that is kept")
        })?;
        let source = calls.datasource(id).await?.of;
        let password = match (&source.password, &source.password_env) {
            (Some(password), _) => Some(password.0.clone()),
            (None, Some(name)) => Some(calls.variable(name, &format!("the datasource {id}"))?),
            (None, None) => None,
        };
        let named = input.get("table_name_list").and_then(Json::as_array);
        let named = named.map(|names| names.iter().filter_map(Json::as_str).map(str::to_owned).collect());
        let tables = named.unwrap_or_else(|| source.table_name_list.clone());
        let config = &calls.config;
        let rows = input.get("rows_max").and_then(Json::as_u64).unwrap_or(config.sql_rows_max);
        let most = Duration::from_secs(config.sql_seconds_max);
        let time = input.get("timeout").and_then(Json::as_f64);
        let time = time.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(most);
        let bounds =
            Bounds { rows: rows.min(config.sql_rows_max), bytes: config.sql_bytes_max, time: time.min(most) };
        Ok(Self {
            id: id.to_owned(),
            password,
            question: text(input, "question").unwrap_or_default().to_owned(),
            tables,
            read_only: input.get("read_only").and_then(Json::as_bool).unwrap_or(true),
            bounds,
            source,
        })
    }

    /// Hides the password in texts.
    fn hide(&self) -> Hide {
        Hide::of(self.password.clone())
    }

    fn without_password(&self, error: CallError) -> CallError {
        let hide = self.hide();
        CallError { message: hide.text(&error.message), data: hide.map(&error.data), ..error }
    }

    fn target<'a>(&'a self, connection_limit: &'a std::sync::Arc<tokio::sync::Semaphore>) -> Target<'a> {
        Target { source: &self.source, password: self.password.as_deref(), connection_limit }
    }
}

/// Runs the statement of the input.
async fn given(calls: &Calls, request: &SqlRequest, input: &JsonMap) -> Result<JsonMap, CallError> {
    let none = JsonMap::new();
    let sql =
        text(input, "sql").ok_or_else(|| invalid("there is no statement: sql is empty (mode: query)", ""))?;
    let bind = input.get("bind").and_then(Json::as_object).unwrap_or(&none);
    query(calls, request, sql, bind).await
}

/// Runs a statement with the values in `bind`.
async fn query(calls: &Calls, request: &SqlRequest, sql: &str, bind: &JsonMap) -> Result<JsonMap, CallError> {
    let most = calls.config.sql_statement_bytes_max;
    if sql.len() > most {
        let message = format!(
            "the statement has {} bytes, more than {most} (calls.sql_statement_bytes_max)",
            sql.len()
        );
        return Err(invalid(message, ""));
    }
    let statement = Prepared::read(sql, request.source.database_type, request.read_only);
    let statement = statement.map_err(|reason| refused(&reason, sql))?;
    let value = |name: &String| {
        bind.get(name).cloned().ok_or_else(|| invalid(format!("there is no value for :{name} in bind"), sql))
    };
    let values = statement.names.iter().map(value).collect::<Result<Vec<Json>, CallError>>()?;
    let connection_limit = calls.connection_limit(&request.id);
    let done = database::run(request.target(&connection_limit), &statement, &values, request.bounds).await;
    let done = done.map_err(|trouble| request.without_password(failed(trouble, sql, statement.reads)))?;
    Ok(data(sql, done))
}

#[cfg(test)]
mod tests;
