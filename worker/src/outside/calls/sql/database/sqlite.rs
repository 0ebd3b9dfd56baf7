//! SQLite: a local file. It is opened read-only unless the statement writes. A statement that takes too long is
//! interrupted.

use std::time::Instant;

use serde_json::Value as Json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Connection, Executor, Row, TypeInfo, ValueRef};
use tidemill_common::value::JsonMap;

use crate::outside::calls::sql::database::{
    Bounds, Outcome, Target, Trouble, out_of_time, take_all, trouble,
};
use crate::outside::calls::sql::statement::Prepared;
use crate::outside::calls::sql::values::{Plain, bytes_text};

/// SQLite instructions between two checks of the time limit.
const LOOK_EVERY: i32 = 10_000;

pub(super) async fn run(
    target: Target<'_>,
    statement: &Prepared,
    values: &[Json],
    bounds: Bounds,
) -> Result<Outcome, Trouble> {
    let began = Instant::now();
    let options = SqliteConnectOptions::new()
        .filename(&target.source.database)
        .read_only(statement.reads)
        .create_if_missing(false)
        .busy_timeout(bounds.time)
        .disable_statement_logging();
    let mut connection = options.connect().await.map_err(|error| trouble(&error))?;
    {
        let mut handle = connection.lock_handle().await.map_err(|error| trouble(&error))?;
        handle.set_progress_handler(LOOK_EVERY, move || began.elapsed() < bounds.time);
    }
    let done = within(&mut connection, statement, values, bounds).await;
    // The connection is no longer needed, so an error here does not matter.
    let _ = connection.close().await;
    match done {
        Err(Trouble::Refused(_)) if began.elapsed() >= bounds.time => Err(out_of_time(bounds)),
        done => done,
    }
}

async fn within(
    connection: &mut SqliteConnection,
    statement: &Prepared,
    values: &[Json],
    bounds: Bounds,
) -> Result<Outcome, Trouble> {
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
    Ok(Outcome { rows, changed: (!statement.reads).then_some(changed) })
}

fn object(row: &SqliteRow) -> Result<JsonMap, String> {
    let columns = row.columns().iter().enumerate();
    columns.map(|(at, column)| Ok((column.name().to_owned(), value(row, at)?))).collect()
}

/// A value by its own type; SQLite columns may hold any type.
fn value(row: &SqliteRow, at: usize) -> Result<Json, String> {
    let wrong = |error: sqlx::Error| error.to_string();
    let raw = row.try_get_raw(at).map_err(wrong)?;
    if raw.is_null() {
        return Ok(Json::Null);
    }
    match raw.type_info().name() {
        "INTEGER" => row.try_get_unchecked::<i64, _>(at).map(Json::from).map_err(wrong),
        "REAL" => row.try_get_unchecked::<f64, _>(at).map(Json::from).map_err(wrong),
        "BLOB" => row.try_get_unchecked::<Vec<u8>, _>(at).map(bytes_text).map_err(wrong),
        _ => row.try_get_unchecked::<String, _>(at).map(Json::from).map_err(wrong),
    }
}
