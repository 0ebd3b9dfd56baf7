//! Runs one statement: opens a connection, starts a read-only transaction, reads the rows within limits. One file per
//! database. Each statement has its own connection, so nothing remains for the next one.

mod mysql;
mod postgres;
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::stream::BoxStream;
use serde_json::Value as Json;
use sqlx::Either;
use tidemill_common::registry::calls::{DatabaseType, DatasourceConfig};
use tidemill_common::value::JsonMap;
use tokio::sync::Semaphore;

use crate::outside::calls::sql::statement::Prepared;

/// A datasource with its opened password.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) source: &'a DatasourceConfig,
    pub(super) password: Option<&'a str>,
    /// Limits the number of connections at the same time.
    pub(super) connection_limit: &'a Arc<Semaphore>,
}

/// Limits of a result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) rows: u64,
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

/// The result of a statement.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    /// Each row is an object by column names.
    pub(super) rows: Vec<Json>,
    /// The number of changed rows, for a statement that writes.
    pub(super) changed: Option<u64>,
}

/// Reasons why a statement failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The connection failed. A retry could help.
    Connection(String),
    /// The database refused the statement.
    Refused(String),
    /// A limit was exceeded; the text names the setting.
    Bound(String),
}

/// Runs a statement; `values` are the values of its names, in order.
pub(super) async fn run(
    target: Target<'_>,
    statement: &Prepared,
    values: &[Json],
    bounds: Bounds,
) -> Result<Outcome, Trouble> {
    let work = async {
        // The semaphore is never closed.
        let _permit = target.connection_limit.acquire().await;
        match target.source.database_type {
            DatabaseType::Postgres => postgres::run(target, statement, values, bounds).await,
            DatabaseType::Mysql => mysql::run(target, statement, values, bounds).await,
            DatabaseType::Sqlite => sqlite::run(target, statement, values, bounds).await,
            kind @ (DatabaseType::Opengauss | DatabaseType::Mongodb) => Err(Trouble::Refused(format!(
                "{} is asked through a service only (mode: service)",
                kind.name()
            ))),
        }
    };
    match tokio::time::timeout(bounds.time, work).await {
        Ok(done) => done,
        Err(_) => Err(out_of_time(bounds)),
    }
}

fn out_of_time(bounds: Bounds) -> Trouble {
    let seconds = bounds.time.as_secs_f64();
    Trouble::Bound(format!("there was no result within {seconds} s (calls.sql_seconds_max, timeout)"))
}

/// The rows so far.
struct Intake {
    rows: Vec<Json>,
    bytes: u64,
    bounds: Bounds,
}

impl Intake {
    fn new(bounds: Bounds) -> Self {
        Self { rows: Vec::new(), bytes: 0, bounds }
    }
    /// Takes a row. `bytes` is its size as JSON, known before the row is built.
    fn take(&mut self, bytes: usize, row: impl FnOnce() -> Result<JsonMap, String>) -> Result<(), Trouble> {
        let Bounds { rows, bytes: most, .. } = self.bounds;
        if self.rows.len() as u64 >= rows {
            return Err(Trouble::Bound(format!(
                "the result has more than {rows} rows (calls.sql_rows_max, rows_max): ask for fewer, with LIMIT"
            )));
        }
        self.bytes += bytes as u64;
        if self.bytes > most {
            return Err(Trouble::Bound(format!(
                "the result has more than {most} bytes (calls.sql_bytes_max): ask for fewer rows or columns"
            )));
        }
        self.rows.push(Json::Object(row().map_err(Trouble::Refused)?));
        Ok(())
    }
}

/// Reads all results: rows with `object`, and the number of changed rows with `changes`.
async fn take_all<D, R>(
    mut given: BoxStream<'_, Result<Either<D, R>, sqlx::Error>>,
    bounds: Bounds,
    changes: impl Fn(D) -> u64,
    object: impl Fn(&R) -> Result<JsonMap, String>,
) -> Result<(Vec<Json>, u64), Trouble> {
    let (mut intake, mut changed) = (Intake::new(bounds), 0);
    while let Some(next) = given.try_next().await.map_err(|error| trouble(&error))? {
        match next {
            Either::Left(done) => changed += changes(done),
            Either::Right(row) => {
                let made = object(&row);
                let text = made.as_ref().map(|row| serde_json::to_string(row).unwrap_or_default());
                intake.take(text.map_or(0, |text| text.len()), || made)?;
            }
        }
    }
    Ok((intake.rows, changed))
}

/// Converts an error of the library. Errors of the database keep their own text.
fn trouble(error: &sqlx::Error) -> Trouble {
    use sqlx::Error;
    match error {
        Error::Database(refused) => {
            let code = refused.code().unwrap_or_default();
            let text = refused.message().to_owned();
            if is_passing(&code) {
                Trouble::Connection(text)
            } else if STOPPED.contains(&&*code) {
                Trouble::Bound(format!("{text} (calls.sql_seconds_max, timeout)"))
            } else {
                Trouble::Refused(text)
            }
        }
        Error::Io(error) => Trouble::Connection(error.to_string()),
        Error::Tls(error) => Trouble::Connection(format!("TLS: {error}")),
        Error::Protocol(text) => Trouble::Connection(text.clone()),
        Error::PoolTimedOut | Error::PoolClosed | Error::WorkerCrashed => {
            Trouble::Connection(error.to_string())
        }
        other => Trouble::Refused(other.to_string()),
    }
}

/// Codes of statements stopped by a timeout: PostgreSQL, MariaDB.
const STOPPED: [&str; 2] = ["57014", "70100"];

/// Codes of temporary failures: the SQLSTATE of starting, stopping or full PostgreSQL and MySQL servers; SQLite busy
/// and locked.
fn is_passing(code: &str) -> bool {
    code.len() == 5 && code.starts_with("08")
        || ["57P01", "57P02", "57P03", "53300", "5", "6"].contains(&code)
}

#[cfg(test)]
mod tests;
