//! MySQL and MariaDB.

use serde_json::Value as Json;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow, MySqlSslMode};
use sqlx::types::chrono::{NaiveDate, NaiveDateTime};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Connection, Executor, Row, TypeInfo, ValueRef};
use tidemill_common::registry::calls::{DatabaseType, Tls};
use tidemill_common::value::JsonMap;

use crate::outside::calls::sql::database::{Bounds, Outcome, Target, Trouble, take_all, trouble};
use crate::outside::calls::sql::statement::Prepared;
use crate::outside::calls::sql::values::{Plain, bytes_text};

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

async fn connect(target: Target<'_>) -> Result<MySqlConnection, sqlx::Error> {
    let source = target.source;
    let tls = match source.tls {
        Tls::Prefer => MySqlSslMode::Preferred,
        Tls::Disable => MySqlSslMode::Disabled,
        Tls::Require => MySqlSslMode::Required,
        Tls::Verify => MySqlSslMode::VerifyIdentity,
    };
    let options = MySqlConnectOptions::new()
        .host(source.host.as_deref().unwrap_or_default())
        .port(source.port.unwrap_or(DatabaseType::Mysql.usual_port()))
        .username(source.username.as_deref().unwrap_or_default())
        .database(&source.database)
        .ssl_mode(tls)
        // Keep the server's own SQL modes, so that a statement behaves as in other clients.
        .pipes_as_concat(false)
        .no_engine_substitution(false);
    let options = match target.password {
        Some(password) => options.password(password),
        None => options,
    };
    options.disable_statement_logging().connect().await
}

async fn within(
    connection: &mut MySqlConnection,
    statement: &Prepared,
    values: &[Json],
    bounds: Bounds,
) -> Result<Outcome, Trouble> {
    // The server stops a statement after the time limit. MySQL knows the first variable, MariaDB the second.
    for limit in [
        format!("SET SESSION max_execution_time = {}", bounds.time.as_millis()),
        format!("SET SESSION max_statement_time = {}", bounds.time.as_secs_f64()),
    ] {
        if let Err(error) = connection.execute(AssertSqlSafe(limit)).await
            && !matches!(error, sqlx::Error::Database(_))
        {
            return Err(trouble(&error));
        }
    }
    let begin = if statement.reads { "START TRANSACTION READ ONLY" } else { "START TRANSACTION" };
    connection.execute(begin).await.map_err(|error| trouble(&error))?;
    let mut query = sqlx::query(AssertSqlSafe(statement.text()));
    for value in values {
        query = match Plain::of(value) {
            Plain::Null => query.bind(None::<String>),
            Plain::Bool(value) => query.bind(value),
            Plain::Integer(value) => query.bind(value),
            Plain::Float(value) => query.bind(value),
            Plain::Text(value) => query.bind(value),
        };
    }
    let given = connection.fetch_many(query);
    let (rows, changed) = take_all(given, bounds, |done| done.rows_affected(), object).await?;
    if statement.reads {
        return Ok(Outcome { rows, changed: None });
    }
    connection.execute("COMMIT").await.map_err(|error| trouble(&error))?;
    Ok(Outcome { rows, changed: Some(changed) })
}

fn object(row: &MySqlRow) -> Result<JsonMap, String> {
    let columns = row.columns().iter().enumerate();
    columns.map(|(at, column)| Ok((column.name().to_owned(), value(row, at)?))).collect()
}

/// A value by its column's type. Decimals are texts, to keep all digits.
fn value(row: &MySqlRow, at: usize) -> Result<Json, String> {
    let wrong = |error: sqlx::Error| error.to_string();
    let raw = row.try_get_raw(at).map_err(wrong)?;
    if raw.is_null() {
        return Ok(Json::Null);
    }
    let name = raw.type_info().name().to_owned();
    let made = match kind(&name) {
        Kind::Bool => row.try_get_unchecked::<bool, _>(at).map(Json::from),
        Kind::Unsigned => row.try_get_unchecked::<u64, _>(at).map(Json::from),
        Kind::Integer => row.try_get_unchecked::<i64, _>(at).map(Json::from),
        Kind::Float => row.try_get_unchecked::<f32, _>(at).map(Json::from),
        Kind::Double => row.try_get_unchecked::<f64, _>(at).map(Json::from),
        Kind::Date => row.try_get_unchecked::<NaiveDate, _>(at).map(|date| date.to_string().into()),
        Kind::Moment => row
            .try_get_unchecked::<NaiveDateTime, _>(at)
            .map(|moment| moment.format("%Y-%m-%dT%H:%M:%S%.f").to_string().into()),
        Kind::Time => {
            row.try_get_unchecked::<sqlx::types::chrono::NaiveTime, _>(at).map(|time| time.to_string().into())
        }
        Kind::Bytes => row.try_get_unchecked::<Vec<u8>, _>(at).map(bytes_text),
        Kind::Json => row
            .try_get_unchecked::<String, _>(at)
            .map(|text| serde_json::from_str(&text).unwrap_or_else(|_| text.into())),
        Kind::Text => row.try_get_unchecked::<String, _>(at).map(Json::from),
    };
    made.map_err(wrong)
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Integer,
    Unsigned,
    Float,
    Double,
    Date,
    Moment,
    Time,
    Bytes,
    Json,
    Text,
}

/// Maps a column's type to the way it is read.
fn kind(name: &str) -> Kind {
    match name {
        "BOOLEAN" => Kind::Bool,
        "BIT" | "YEAR" => Kind::Unsigned,
        name if name.ends_with("UNSIGNED") => Kind::Unsigned,
        "TINYINT" | "SMALLINT" | "INT" | "MEDIUMINT" | "BIGINT" => Kind::Integer,
        "FLOAT" => Kind::Float,
        "DOUBLE" => Kind::Double,
        "DATE" => Kind::Date,
        "DATETIME" | "TIMESTAMP" => Kind::Moment,
        "TIME" => Kind::Time,
        "BINARY" | "VARBINARY" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB" | "GEOMETRY" => Kind::Bytes,
        "JSON" => Kind::Json,
        _ => Kind::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_columns_are_read_as_what_they_are() {
        for (name, expected) in [
            ("BOOLEAN", Kind::Bool),
            ("BIGINT UNSIGNED", Kind::Unsigned),
            ("INT", Kind::Integer),
            ("DECIMAL", Kind::Text),
            ("ENUM", Kind::Text),
            ("VARCHAR", Kind::Text),
            ("JSON", Kind::Json),
            ("TIMESTAMP", Kind::Moment),
            ("LONGBLOB", Kind::Bytes),
        ] {
            assert_eq!(kind(name), expected, "{name}");
        }
    }
}
