//! Tests with a real PostgreSQL: a private server in its own folder that ends with the test. Its programs are searched
//! in `PATH` and in Debian's folder; `make setup` installs them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value as Json, json};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use tidemill_common::config::CallsConfig;

use crate::outside::calls::sql::generate;
use crate::outside::calls::sql::tests::{Bench, free_port};

const PASSWORD: &str = "marker-of-a-password";

/// A server that ends when dropped.
struct Server {
    postgres: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.postgres.kill();
        let _ = self.postgres.wait();
    }
}

fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|folder| folder.join(name));
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let of_debian = versions.map(|version| version.path().join("bin").join(name));
    let found = of_debian.chain(in_path).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("{name} is missing: `make setup` installs PostgreSQL"))
}

/// Runs a program without root rights, because the server refuses to run as root.
fn humble(name: &str) -> Command {
    let is_root =
        std::fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
    let mut command = Command::new(if is_root { PathBuf::from("setpriv") } else { program(name) });
    if is_root {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--"]).arg(program(name));
    }
    command.current_dir("/").stdin(Stdio::null());
    command
}

fn run(command: &mut Command) {
    let done = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(done.status.success(), "{command:?}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let open = |path: &Path| {
            let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
            std::fs::set_permissions(path, all).expect("it is ours");
        };
        open(folder.path());
        let (data, secret) = (folder.path().join("data"), folder.path().join("secret"));
        std::fs::write(&secret, PASSWORD).expect("it is written");
        let secret = secret.display().to_string();
        run(humble("initdb")
            .arg("-D")
            .arg(&data)
            .args(["-U", "me", "-A", "scram-sha-256", "--no-sync"])
            .args(["--pwfile", &secret]));
        let port = free_port();
        let settings = ["listen_addresses=127.0.0.1", "fsync=off", "unix_socket_directories="];
        let mut command = humble("postgres");
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        for setting in settings {
            command.args(["-c", setting]);
        }
        let postgres = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let server = Self { postgres, port, _folder: folder };
        server.fill().await;
        server
    }

    async fn fill(&self) {
        let options = PgConnectOptions::new_without_pgpass().host("127.0.0.1").port(self.port).username("me");
        let options = options.password(PASSWORD).database("postgres");
        let mut connection = None;
        for _ in 0..600 {
            connection = options.connect().await.ok();
            if connection.is_some() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let mut connection = connection.expect("the server answers within half a minute");
        let sql = "create type mood as enum ('glad', 'sad'); \
                   create table t (id int primary key, a smallint, price numeric(30, 10), at timestamptz, tags text[], \
                                   how mood, more jsonb, day date); \
                   insert into t values (7, 1, 12345678901234567890.5, '2026-01-02T03:04:05Z', '{a,b}', 'glad', '{\"x\": [1]}', '2026-02-03'), \
                                        (8, 2, null, null, null, 'sad', null, null); \
                   create sequence s; \
                   create function changes() returns int language sql volatile as 'delete from t; select 1'";
        connection.execute(AssertSqlSafe(sql.to_owned())).await.expect("it is filled");
        connection.close().await.expect("it closes");
    }

    fn datasource(&self) -> Json {
        json!({"database_type": "postgres", "host": "127.0.0.1", "port": self.port, "username": "me",
               "password": PASSWORD, "database": "postgres"})
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn se_a17_postgres_is_asked_in_a_transaction_that_only_reads() {
    let mut server = Server::start().await;
    let bench = Bench::new(server.datasource(), CallsConfig::default());

    let sql = "select id from t where a = :a";
    let answer = bench.query(json!({"sql": sql, "bind": {"a": 1}})).await.unwrap();
    assert_eq!(answer, json!({"result": [{"id": 7}], "sql": sql}));
    let sql = "select * from t where price > :price and at = :at and tags @> :tags and how = :how and more @> :more \
               and day = :day and id = any(:ids); -- all of it";
    let bind = json!({"price": "12345678901234567890.4", "at": "2026-01-02T03:04:05Z", "tags": ["a"], "how": "glad",
                      "more": {"x": [1]}, "day": "2026-02-03", "ids": [7, 8]});
    let answer = bench.query(json!({"sql": sql, "bind": bind})).await.unwrap();
    let row = &answer["result"][0];
    assert_eq!(
        (&row["tags"], &row["how"], &row["more"]),
        (&json!(["a", "b"]), &json!("glad"), &json!({"x": [1]}))
    );
    assert!(row["at"].as_str().unwrap().starts_with("2026-01-02T03:04:05"), "{row}");
    let nothing =
        bench.query(json!({"sql": "select :x::int as v, :y as w", "bind": {"x": null, "y": "z"}})).await;
    assert_eq!(nothing.unwrap()["result"], json!([{"v": null, "w": "z"}]));
    let ordered = bench.query(json!({"sql": "select id from t order by id desc"})).await.unwrap();
    assert_eq!(ordered["result"], json!([{"id": 8}, {"id": 7}]));

    for sql in
        ["drop table t", "with x as (delete from t returning 1) select * from x", "select nextval('s')"]
    {
        let error = bench.refused(json!({"sql": sql})).await;
        assert_eq!((error.error_type.as_str(), error.retryable), ("SqlNotReadOnly", false), "{sql}");
    }
    // The transaction refuses writes the parser cannot see.
    let error = bench.refused(json!({"sql": "select changes()"})).await;
    assert_eq!(error.error_type, "SqlExecutionFailed");
    assert!(error.message.contains("read-only transaction"), "{error}");
    let error = bench.refused(json!({"sql": "select wrong from t"})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlExecutionFailed", false));
    assert!(error.data["db_error"].as_str().unwrap().contains("\"wrong\" does not exist"), "{error:?}");
    let error = bench.refused(json!({"sql": "select pg_sleep(60)", "timeout": 0.5})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlLimitExceeded", false), "{error}");
    let left = bench.query(json!({"sql": "select count(*) as n from t"})).await.unwrap();
    assert_eq!(left["result"], json!([{"n": 2}]), "nothing was changed");

    let config = CallsConfig { sql_rows_max: 1, ..CallsConfig::default() };
    let narrow = Bench::new(server.datasource(), config);
    let error = narrow.refused(json!({"sql": "select id from t"})).await;
    assert_eq!(error.error_type, "SqlLimitExceeded");

    let (request, _) = bench.request(json!({})).await;
    let told = generate::tables(&bench.calls, &request).await.unwrap();
    assert!(told.contains("t(id integer, a smallint, price numeric"), "{told}");

    let made = "insert into t (id, a) values (:id, 3) returning id";
    let made = bench.query(json!({"sql": made, "bind": {"id": 9}, "read_only": false})).await.unwrap();
    assert_eq!((&made["result"], &made["rows_affected"]), (&json!([{"id": 9}]), &json!(1)));
    let left = bench.query(json!({"sql": "select count(*) as n from t"})).await.unwrap();
    assert_eq!(left["result"], json!([{"n": 3}]), "what was wanted is kept");

    let mut wrong = server.datasource();
    wrong["password"] = "another-password".into();
    let error = Bench::new(wrong, CallsConfig::default()).refused(json!({"sql": "select 1"})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlExecutionFailed", false));
    assert!(error.message.contains("password authentication failed"), "{error}");
    assert!(!format!("{error:?}").contains("another-password"));

    server.postgres.kill().expect("it runs");
    server.postgres.wait().expect("it ends");
    let error = bench.refused(json!({"sql": "select 1"})).await;
    assert_eq!((error.error_type.as_str(), error.retryable), ("SqlExecutionFailed", true), "{error}");
    assert!(!format!("{error:?}").contains(PASSWORD));
}
