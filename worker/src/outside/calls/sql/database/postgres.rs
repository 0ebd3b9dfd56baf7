//! PostgreSQL. The server writes each row as JSON, so values of every type look as the server shows them. A query
//! inside another query can only read.

use futures_util::TryStreamExt;
use serde_json::Value as Json;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgRow, PgSslMode};
use sqlx::{
    AssertSqlSafe, Column, ConnectOptions, Connection, Either, Executor, Row, SqlSafeStr, Statement, TypeInfo,
};
use tidemill_common::registry::calls::{DatabaseType, Tls};
use tidemill_common::value::JsonMap;

use crate::outside::calls::sql::database::{Bounds, Intake, Outcome, Target, Trouble, take_all, trouble};
use crate::outside::calls::sql::statement::Prepared;

pub(super) async fn run(
    target: Target<'_>,
    statement: &Prepared,
    values: &[Json],
    bounds: Bounds,
) -> Result<Outcome, Trouble> {
    let mut connection = connect(target).await.map_err(|error| trouble(&error))?;
    let done = within(&mut connection, statement, values, bounds).await;
    // The connection is no longer needed, so an error here does not matter.
    let _ = connection.close().await;
    done
}

async fn connect(target: Target<'_>) -> Result<PgConnection, sqlx::Error> {
    let source = target.source;
    let tls = match source.tls {
        Tls::Prefer => PgSslMode::Prefer,
        Tls::Disable => PgSslMode::Disable,
        Tls::Require => PgSslMode::Require,
        Tls::Verify => PgSslMode::VerifyFull,
    };
    let options = PgConnectOptions::new_without_pgpass()
        .host(source.host.as_deref().unwrap_or_default())
        .port(source.port.unwrap_or(DatabaseType::Postgres.usual_port()))
        .username(source.username.as_deref().unwrap_or_default())
        .password(target.password.unwrap_or_default())
        .database(&source.database)
        .ssl_mode(tls)
        .application_name("tidemill");
    options.disable_statement_logging().connect().await
}

async fn within(
    connection: &mut PgConnection,
    statement: &Prepared,
    values: &[Json],
    bounds: Bounds,
) -> Result<Outcome, Trouble> {
    let begin = if statement.reads { "BEGIN READ ONLY" } else { "BEGIN" };
    // The server stops a statement after the time limit.
    let limit = format!("SET LOCAL statement_timeout = {}", bounds.time.as_millis());
    for text in [begin.to_owned(), limit] {
        connection.execute(AssertSqlSafe(text)).await.map_err(|error| trouble(&error))?;
    }
    let texts = values.iter().map(|value| value as &Json);
    let rows_max = bounds.rows.saturating_add(1);
    let around = |inner: &str| match statement.reads {
        true => format!("SELECT row_to_json(q)::text FROM (\n{inner}\n) AS q LIMIT {rows_max}"),
        false => inner.to_owned(),
    };
    let types = types(connection, &around(&statement.text())).await?;
    let marked = statement.text_with(|at| match types.get(at - 1).map(String::as_str) {
        None | Some("TEXT") => format!("${at}"),
        Some(name) => format!("CAST(${at}::text AS {name})"),
    });
    let mut query = sqlx::query(AssertSqlSafe(around(&marked)));
    for (at, value) in texts.enumerate() {
        let is_list = types.get(at).is_some_and(|name| name.ends_with("[]"));
        query = query.bind(text_of(value, is_list));
    }
    if !statement.reads {
        let done = written(connection, query, bounds).await?;
        connection.execute("COMMIT").await.map_err(|error| trouble(&error))?;
        return Ok(done);
    }
    let mut intake = Intake::new(bounds);
    let mut rows = query.fetch(connection);
    while let Some(row) = rows.try_next().await.map_err(|error| trouble(&error))? {
        let text: String = row.try_get(0).map_err(|error| trouble(&error))?;
        intake.take(text.len(), || object(&text))?;
    }
    Ok(Outcome { rows: intake.rows, changed: None })
}

/// Runs a statement that writes. Its returned rows may contain only texts and numbers.
async fn written(
    connection: &mut PgConnection,
    query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    bounds: Bounds,
) -> Result<Outcome, Trouble> {
    let given = connection.fetch_many(query);
    let (rows, changed) = take_all(given, bounds, |done| done.rows_affected(), returned).await?;
    Ok(Outcome { rows, changed: Some(changed) })
}

/// Reads a returned row.
fn returned(row: &PgRow) -> Result<JsonMap, String> {
    let value = |at: usize| {
        row.try_get::<Option<i64>, _>(at)
            .map(Json::from)
            .or_else(|_| row.try_get::<Option<i32>, _>(at).map(Json::from))
            .or_else(|_| row.try_get::<Option<bool>, _>(at).map(Json::from))
            .or_else(|_| row.try_get::<Option<f64>, _>(at).map(Json::from))
            .or_else(|_| row.try_get::<Option<String>, _>(at).map(Json::from))
            .map_err(|_| {
                let of = row.column(at).type_info();
                format!("a returned column has the type {}: cast it to text", of.name())
            })
    };
    let columns = row.columns().iter().enumerate();
    columns.map(|(at, column)| Ok((column.name().to_owned(), value(at)?))).collect()
}

/// The types the server expects for the values, as names for a cast.
async fn types(connection: &mut PgConnection, text: &str) -> Result<Vec<String>, Trouble> {
    let prepared = connection.prepare(AssertSqlSafe(text.to_owned()).into_sql_str()).await;
    let prepared = prepared.map_err(|error| trouble(&error))?;
    let Some(Either::Left(types)) = prepared.parameters() else { return Ok(Vec::new()) };
    Ok(types.iter().map(|of| cast_name(of.name())).collect())
}

/// The name of a type in a cast. Some names mean a one-letter type there.
fn cast_name(name: &str) -> String {
    let (name, list) = name.strip_suffix("[]").map_or((name, ""), |name| (name, "[]"));
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let name = match name {
        "CHAR" | "bpchar" => "bpchar".into(),
        "BIT" => "varbit".into(),
        "UNKNOWN" | "VARCHAR" | "NAME" | "TEXT" => "TEXT".into(),
        name if is_plain || name.starts_with('"') || name.contains('.') => name.to_owned(),
        name => format!("\"{}\"", name.replace('"', "\"\"")),
    };
    name + list
}

/// A value in the server's text form.
fn text_of(value: &Json, is_list: bool) -> Option<String> {
    match value {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        Json::Array(items) if is_list => Some(list_of(items)),
        other => Some(other.to_string()),
    }
}

/// A list in PostgreSQL's array syntax.
fn list_of(items: &[Json]) -> String {
    let item = |item: &Json| match item {
        Json::Null => "NULL".to_owned(),
        Json::Array(items) => list_of(items),
        other => {
            let text = text_of(other, false).unwrap_or_default();
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
    };
    format!("{{{}}}", items.iter().map(item).collect::<Vec<_>>().join(","))
}

fn object(text: &str) -> Result<JsonMap, String> {
    serde_json::from_str(text).map_err(|error| format!("a row is not JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_are_written_as_the_server_reads_them() {
        assert_eq!(
            list_of(&[json!(1), json!("a\"b\\"), Json::Null, json!([true])]),
            r#"{"1","a\"b\\",NULL,{"true"}}"#
        );
        assert_eq!(text_of(&json!([1]), false).unwrap(), "[1]", "JSON where it is no list of the database");
    }

    #[test]
    fn types_of_one_letter_are_not_meant() {
        for (name, expected) in [
            ("CHAR", "bpchar"),
            ("VARCHAR[]", "TEXT[]"),
            ("INT4", "INT4"),
            ("my mood", "\"my mood\""),
            ("mood", "mood"),
        ] {
            assert_eq!(cast_name(name), expected);
        }
    }
}
