//! Tests of `SQL` with a SQLite file and private PostgreSQL and MariaDB servers.

use std::time::Duration;

use serde_json::{Value as Json, json};
use sqlx::{AssertSqlSafe, Connection, Executor};
use tidemill_common::config::{CallsConfig, HttpConfig};
use tidemill_common::store::CatalogKind;

use crate::outside::calls::sql::*;
use crate::outside::calls::tests::key;
use crate::tests::fake::FakeJobs;

mod mysql;
mod postgres;
mod service;

/// A worker with one datasource.
pub(super) struct Bench {
    pub(super) calls: Calls,
}

impl Bench {
    pub(super) fn new(datasource: Json, config: CallsConfig) -> Self {
        let jobs = FakeJobs::new();
        jobs.keep(CatalogKind::Datasource, "db", datasource, &key());
        let calls = Calls::new(jobs.clone(), Some(key()), |_| None, Duration::ZERO);
        let calls = calls.with_client(&config, &HttpConfig::default()).expect("the defaults are right");
        Self { calls }
    }
    pub(super) async fn request(&self, mut input: Json) -> (SqlRequest, JsonMap) {
        input["datasource"] = "db".into();
        let input = input.as_object().cloned().expect("an object");
        (SqlRequest::read(&self.calls, &input).await.expect("there is such a datasource"), input)
    }
    pub(super) async fn query(&self, input: Json) -> Result<Json, CallError> {
        let (request, input) = self.request(input).await;
        given(&self.calls, &request, &input).await.map(Json::Object)
    }
    pub(super) async fn refused(&self, input: Json) -> CallError {
        match self.query(input.clone()).await {
            Ok(answer) => panic!("{input} is answered: {answer}"),
            Err(error) => error,
        }
    }
}

/// A free port.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address").port()
}

async fn sqlite() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("t.db").display().to_string();
    let mut connection =
        sqlx::SqliteConnection::connect(&format!("sqlite://{file}?mode=rwc")).await.expect("a file");
    let sql = "create table t (id integer, a integer, b text, c blob, d real); \
               insert into t values (7, 1, 'one', x'ff', 1.5), (8, 2, null, x'61', 2.0)";
    connection.execute(AssertSqlSafe(sql.to_owned())).await.expect("it is filled");
    connection.close().await.expect("it closes");
    (folder, file)
}

async fn bench(config: CallsConfig) -> (tempfile::TempDir, Bench) {
    let (folder, file) = sqlite().await;
    (folder, Bench::new(json!({"database_type": "sqlite", "database": file}), config))
}

#[tokio::test]
async fn se_a17_a_query_of_sqlite_gives_rows_and_its_text() {
    let (_folder, bench) = bench(CallsConfig::default()).await;
    let sql = "select id from t where a = :a";
    let answer = bench.query(json!({"sql": sql, "bind": {"a": 1}})).await.unwrap();
    assert_eq!(answer, json!({"result": [{"id": 7}], "sql": sql}));
    let all = bench.query(json!({"sql": "select * from t order by id"})).await.unwrap();
    let expected = json!([
        {"id": 7, "a": 1, "b": "one", "c": "/w==", "d": 1.5},
        {"id": 8, "a": 2, "b": null, "c": "a", "d": 2.0},
    ]);
    assert_eq!(all["result"], expected);
    let twice =
        bench.query(json!({"sql": "select :x || :x || :y as v", "bind": {"x": "a", "y": null}})).await;
    assert_eq!(twice.unwrap()["result"], json!([{"v": null}]));
    let error = bench.refused(json!({"sql": sql})).await;
    assert_eq!(error.error_type, "SqlInvalid");
    assert!(error.message.contains("no value for :a"), "{error}");
}

#[tokio::test]
async fn se_a17_what_does_not_only_read_leaves_sqlite_untouched() {
    let (_folder, bench) = bench(CallsConfig::default()).await;
    for sql in ["drop table t", "delete from t", "select 1; drop table t", "pragma user_version = 7"] {
        let error = bench.refused(json!({"sql": sql})).await;
        assert_eq!((error.error_type.as_str(), error.retryable), ("SqlNotReadOnly", false), "{sql}: {error}");
        assert_eq!(error.data["sql"], sql);
    }
    let left = bench.query(json!({"sql": "select count(*) as n from t"})).await.unwrap();
    assert_eq!(left["result"], json!([{"n": 2}]));
    let gone = bench
        .query(json!({"sql": "delete from t where id = :id", "bind": {"id": 8}, "read_only": false}))
        .await;
    assert_eq!(gone.unwrap()["rows_affected"], 1);
    let left = bench.query(json!({"sql": "select count(*) as n from t"})).await.unwrap();
    assert_eq!(left["result"], json!([{"n": 1}]));
}

#[tokio::test]
async fn se_a17_what_the_database_refuses_is_told_and_not_tried_again() {
    let (_folder, bench) = bench(CallsConfig::default()).await;
    let sql = "select missing from t";
    let error = bench.refused(json!({"sql": sql})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlExecutionFailed", false));
    assert_eq!(error.data["sql"], sql);
    assert!(error.data["db_error"].as_str().unwrap().contains("no such column: missing"), "{error:?}");
    let error = bench.refused(json!({"sql": "Here is your query."})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlInvalid", false));
}

#[tokio::test]
async fn xc_11_a_result_beyond_its_bounds_is_an_error_that_names_the_setting() {
    let config = CallsConfig { sql_rows_max: 3, sql_bytes_max: 40, ..CallsConfig::default() };
    let (_folder, bench) = bench(config).await;
    let numbers = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n";
    let limited = |count: u32| json!({"sql": format!("{numbers} limit {count}")});
    assert_eq!(bench.query(limited(3)).await.unwrap()["result"].as_array().unwrap().len(), 3);
    let error = bench.refused(limited(4)).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlLimitExceeded", false));
    assert!(error.message.contains("more than 3 rows (calls.sql_rows_max"), "{error}");
    let error = bench.refused(json!({"sql": "select id from t", "rows_max": 1})).await;
    assert!(error.message.contains("more than 1 rows"), "{error}");
    let error = bench.refused(json!({"sql": format!("select '{}' as v", "x".repeat(50))})).await;
    assert!(error.message.contains("more than 40 bytes (calls.sql_bytes_max"), "{error}");
    let endless = format!("select count(*) from ({numbers})");
    let error = bench.refused(json!({"sql": endless, "timeout": 0.2})).await;
    assert!(error.message.contains("within 0.2 s (calls.sql_seconds_max"), "{error}");
    let long = format!("select 1 -- {}", "x".repeat(70_000));
    let error = bench.refused(json!({"sql": long})).await;
    assert!(error.message.contains("calls.sql_statement_bytes_max"), "{error}");
}

#[tokio::test]
async fn se_a17_a_file_that_is_not_there_is_named_and_not_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("none.db");
    let datasource = json!({"database_type": "sqlite", "database": file.display().to_string()});
    let bench = Bench::new(datasource, CallsConfig::default());
    let error = bench.refused(json!({"sql": "select 1"})).await;
    assert_eq!(error.error_type, "SqlExecutionFailed");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_model_is_told_of_the_tables_of_sqlite() {
    let (_folder, bench) = bench(CallsConfig::default()).await;
    let (request, _) = bench.request(json!({})).await;
    let told = generate::tables(&bench.calls, &request).await.unwrap();
    assert_eq!(told, "t(id INTEGER, a INTEGER, b TEXT, c BLOB, d REAL)");
    let (request, _) = bench.request(json!({"table_name_list": ["nothing"]})).await;
    let error = generate::tables(&bench.calls, &request).await.unwrap_err();
    assert!(error.message.contains("the datasource db has no nothing"), "{error}");
}
