//! Tests with a real MariaDB, which uses MySQL's protocol: a private server in its own folder that ends with the test.
//! `make setup` installs it; without it the test prints a note and passes.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use tidemill_common::config::CallsConfig;

use crate::outside::calls::sql::generate;
use crate::outside::calls::sql::tests::{Bench, free_port};

const PASSWORD: &str = "marker-of-a-password";

/// A server that ends when dropped.
struct Server {
    mariadb: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.mariadb.kill();
        let _ = self.mariadb.wait();
    }
}

/// Finds a program in the path or in the usual folders of servers.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let elsewhere = ["/usr/sbin", "/usr/libexec", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(elsewhere).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The program that creates the server's folder, and the server; `None` if they are not installed.
fn programs() -> Option<(PathBuf, PathBuf)> {
    // Debian puts a helper of the first one into a separate package.
    program("my_print_defaults")?;
    Some((program("mariadb-install-db")?, program("mariadbd")?))
}

impl Server {
    async fn start((install, serve): (PathBuf, PathBuf)) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let data = format!("--datadir={}", folder.path().join("data").display());
        let is_root =
            std::fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
        // The server refuses to run as root without this flag.
        let user = is_root.then_some("--user=root");
        let mut command = Command::new(install);
        command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", &data]);
        let done = command.args(user).stdin(Stdio::null()).output().expect("it starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let port = free_port();
        let mut command = Command::new(serve);
        command.args(["--no-defaults", "--bind-address=127.0.0.1", &data, &format!("--port={port}")]);
        command.arg(format!("--socket={}", folder.path().join("socket").display()));
        command.arg(format!("--pid-file={}", folder.path().join("pid").display())).args(user);
        let mariadb = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self { mariadb: mariadb.expect("it starts"), port, _folder: folder };
        server.fill().await;
        server
    }

    async fn fill(&self) {
        let options = MySqlConnectOptions::new().host("127.0.0.1").port(self.port).username("root");
        let mut connection = None;
        for _ in 0..600 {
            connection = options.connect().await.ok();
            if connection.is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let mut connection = connection.expect("the server answers within half a minute");
        for sql in [
            "create database shop".to_owned(),
            format!("create user me@'%' identified by '{PASSWORD}'"),
            "grant all on shop.* to me@'%'".into(),
            "create table shop.t (id int primary key, a smallint unsigned, price decimal(30, 10), at datetime(3), \
             open boolean, how enum('glad', 'sad'), day date, raw blob, ratio double)"
                .into(),
            "insert into shop.t values (7, 1, 12345678901234567890.5, '2026-01-02 03:04:05.25', true, 'glad', \
             '2026-02-03', x'ff00', 1.5), (8, 2, null, null, false, 'sad', null, 'abc', null)"
                .into(),
            "create function shop.changes() returns int modifies sql data \
             begin delete from shop.t; return 1; end"
                .into(),
        ] {
            connection.execute(AssertSqlSafe(sql)).await.expect("it is filled");
        }
        connection.close().await.expect("it closes");
    }

    fn datasource(&self) -> Json {
        json!({"database_type": "mysql", "host": "127.0.0.1", "port": self.port, "username": "me",
               "password": PASSWORD, "database": "shop"})
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a17_mysql_is_asked_in_a_transaction_that_only_reads() {
    let Some(programs) = programs() else {
        eprintln!("MariaDB is not installed, so `sql` is not tried against it: `make setup` installs it");
        return;
    };
    let mut server = Server::start(programs).await;
    let bench = Bench::new(server.datasource(), CallsConfig::default());

    let sql = "select id from t where a = :a";
    let answer = bench.query(json!({"sql": sql, "bind": {"a": 1}})).await.unwrap();
    assert_eq!(answer, json!({"result": [{"id": 7}], "sql": sql}));
    let sql = "select * from t where price > :price and at >= :at and how = :how and day = :day and open = :open; -- all of it";
    let bind = json!({"price": "12345678901234567890.4", "at": "2026-01-02T03:04:05", "how": "glad",
                      "day": "2026-02-03", "open": true});
    let answer = bench.query(json!({"sql": sql, "bind": bind})).await.unwrap();
    let expected = json!([{"id": 7, "a": 1, "price": "12345678901234567890.5000000000", "at": "2026-01-02T03:04:05.250",
        "open": true, "how": "glad", "day": "2026-02-03", "raw": "/wA=", "ratio": 1.5}]);
    assert_eq!(answer["result"], expected);
    let sparse =
        bench.query(json!({"sql": "select * from t where id = :id", "bind": {"id": 8}})).await.unwrap();
    let row = &sparse["result"][0];
    assert_eq!((&row["price"], &row["at"], &row["raw"]), (&Json::Null, &Json::Null, &json!("abc")));
    let nothing = bench.query(json!({"sql": "select :x as v, :y as w", "bind": {"x": null, "y": "z"}})).await;
    assert_eq!(nothing.unwrap()["result"], json!([{"v": null, "w": "z"}]));
    let ordered = bench.query(json!({"sql": "select id from t order by id desc"})).await.unwrap();
    assert_eq!(ordered["result"], json!([{"id": 8}, {"id": 7}]));

    for sql in ["drop table t", "delete from t", "select id from t for update", "select 1 into outfile '/x'"]
    {
        let error = bench.refused(json!({"sql": sql})).await;
        assert!(!error.retryable && error.error_type.starts_with("Sql"), "{sql}: {error:?}");
        assert_ne!(error.error_type, "SqlExecutionFailed", "{sql}: the server is not asked");
    }
    // The transaction refuses writes the parser cannot see.
    let error = bench.refused(json!({"sql": "select changes()"})).await;
    assert_eq!(error.error_type, "SqlExecutionFailed");
    assert!(error.message.contains("READ ONLY transaction"), "{error}");
    let error = bench.refused(json!({"sql": "select wrong from t"})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlExecutionFailed", false));
    assert!(error.data["db_error"].as_str().unwrap().contains("Unknown column 'wrong'"), "{error:?}");
    let columns = "information_schema.columns";
    let long = format!("select count(*) from {columns} as a, {columns} as b, {columns} as c");
    let error = bench.refused(json!({"sql": long, "timeout": 0.5})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlLimitExceeded", false), "{error}");
    let left = bench.query(json!({"sql": "select count(*) as n from t"})).await.unwrap();
    assert_eq!(left["result"], json!([{"n": 2}]), "nothing was changed");

    let config = CallsConfig { sql_rows_max: 1, ..CallsConfig::default() };
    let error = Bench::new(server.datasource(), config).refused(json!({"sql": "select id from t"})).await;
    assert_eq!(error.error_type, "SqlLimitExceeded");

    let (request, _) = bench.request(json!({})).await;
    let told = generate::tables(&bench.calls, &request).await.unwrap();
    assert!(told.contains("t(id int(11), a smallint(5) unsigned, price decimal(30,10)"), "{told}");

    let made = "insert into t (id, a) values (:id, 3)";
    let made = bench.query(json!({"sql": made, "bind": {"id": 9}, "read_only": false})).await.unwrap();
    assert_eq!(made["rows_affected"], json!(1));
    let left = bench.query(json!({"sql": "select count(*) as n from t"})).await.unwrap();
    assert_eq!(left["result"], json!([{"n": 3}]), "what was wanted is kept");

    let mut wrong = server.datasource();
    wrong["password"] = "another-password".into();
    let error = Bench::new(wrong, CallsConfig::default()).refused(json!({"sql": "select 1"})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlExecutionFailed", false));
    assert!(error.message.contains("Access denied"), "{error}");
    assert!(!format!("{error:?}").contains("another-password"));

    server.mariadb.kill().expect("it runs");
    server.mariadb.wait().expect("it ends");
    let error = bench.refused(json!({"sql": "select 1"})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlExecutionFailed", true), "{error}");
    assert!(!format!("{error:?}").contains(PASSWORD));
}
