//! Checks a statement before it runs: it must be a single one and read-only, and its value placeholders are found.
//! Pure.
//!
//! The database also prevents writes (read-only transaction or file). A statement refused here never reaches it.

use std::ops::ControlFlow;
use std::thread;

use sqlparser::ast::{Query, Select, Statement, Visit, Visitor};
use sqlparser::dialect::{Dialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use tidemill_common::registry::calls::DatabaseType;

/// Functions with side effects, or that read more than tables, although they may appear in a query.
const DOING: [&str; 27] = [
    "benchmark",
    "dblink",
    "dblink_connect",
    "dblink_exec",
    "dblink_open",
    "dblink_send_query",
    "get_lock",
    "load_extension",
    "load_file",
    "lo_export",
    "lo_from_bytea",
    "lo_import",
    "lo_put",
    "lo_unlink",
    "nextval",
    "pg_cancel_backend",
    "pg_logical_emit_message",
    "pg_ls_dir",
    "pg_notify",
    "pg_read_binary_file",
    "pg_read_file",
    "pg_reload_conf",
    "pg_rotate_logfile",
    "pg_terminate_backend",
    "set_config",
    "setval",
    "sleep",
];
/// Stack size for parsing: with many operators the syntax tree is as deep as the statement is long.
const STACK_BYTES: usize = 256 * 1024 * 1024;
/// Most operators and keywords of a statement; each may be a level of its tree. Values, names and commas do not count.
const OPERATORS_MAX: usize = 8_192;

/// A checked statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prepared {
    /// The text between the values.
    pieces: Vec<String>,
    /// The names of the values between the pieces.
    pub(super) names: Vec<String>,
    /// True for a query, which only returns rows.
    pub(super) reads: bool,
    database: DatabaseType,
}

/// Reasons why a statement is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// It is not a single valid statement.
    #[error("{0}")]
    Invalid(String),
    /// It does more than read.
    #[error("only a single statement that reads may be run (read_only): {0}")]
    NotReadOnly(String),
}

impl Prepared {
    /// Parses a statement. `:name` marks a value. With `read_only` it must be a query.
    pub(super) fn read(sql: &str, database: DatabaseType, read_only: bool) -> Result<Self, Refused> {
        let (pieces, names) = cut(sql, database)?;
        let mut prepared = Self { pieces, names, reads: false, database };
        let text = prepared.text();
        prepared.reads = with_room(|| look(&text, database, read_only))?;
        Ok(prepared)
    }

    /// The statement with the database's own placeholders.
    pub(super) fn text(&self) -> String {
        let database = self.database;
        self.text_with(|at| match database {
            DatabaseType::Mysql => "?".into(),
            DatabaseType::Sqlite => format!("?{at}"),
            DatabaseType::Postgres | DatabaseType::Opengauss | DatabaseType::Mongodb => format!("${at}"),
        })
    }

    /// The statement with other placeholders, numbered from 1.
    pub(super) fn text_with(&self, mark: impl Fn(usize) -> String) -> String {
        let mut text = String::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            if at > 0 {
                text.push_str(&mark(at));
            }
            text.push_str(piece);
        }
        text
    }
}

fn dialect(database: DatabaseType) -> &'static dyn Dialect {
    match database {
        DatabaseType::Mysql => &MySqlDialect {},
        DatabaseType::Sqlite => &SQLiteDialect {},
        DatabaseType::Postgres | DatabaseType::Opengauss | DatabaseType::Mongodb => &PostgreSqlDialect {},
    }
}

/// Splits a statement at its values. Text after the last semicolon is dropped.
fn cut(sql: &str, database: DatabaseType) -> Result<(Vec<String>, Vec<String>), Refused> {
    let invalid = |reason: String| Refused::Invalid(format!("this is not valid SQL: {reason}"));
    // The server would run the content of such comments, but every parser ignores it.
    if sql.contains("/*!") || sql.contains("/*M!") {
        return Err(invalid("comments that are run (/*! … */) are not allowed".into()));
    }
    let tokens = Tokenizer::new(dialect(database), sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| invalid(error.to_string()))?;
    let operators = tokens.iter().filter(|here| may_nest(&here.token)).count();
    if operators > OPERATORS_MAX {
        let reason = format!("it has {operators} operators and key words, at most {OPERATORS_MAX} are read");
        return Err(invalid(reason));
    }
    let mut places = Places::new(sql);
    let (mut pieces, mut names, mut from, mut end) = (Vec::new(), Vec::new(), 0, sql.len());
    for (at, here) in tokens.iter().enumerate() {
        match &here.token {
            Token::Placeholder(mark) => {
                return Err(invalid(format!("values are written :name, and not {mark}")));
            }
            Token::SemiColon if is_last(&tokens[at..]) => {
                end = places.of(here.span.start);
                break;
            }
            Token::Colon => {
                let Some(TokenWithSpan { token: Token::Word(word), span }) = tokens.get(at + 1) else {
                    continue;
                };
                if span.start != here.span.end || word.quote_style.is_some() {
                    continue;
                }
                let begin = places.of(here.span.start);
                pieces.push(sql[from..begin].to_owned());
                names.push(word.value.clone());
                from = places.of(span.end);
            }
            _ => {}
        }
    }
    pieces.push(sql[from..end.max(from)].trim_end().to_owned());
    Ok((pieces, names))
}

/// Returns true if a token may add a level to the syntax tree.
fn may_nest(token: &Token) -> bool {
    match token {
        Token::Word(word) => word.keyword != Keyword::NoKeyword,
        Token::Comma | Token::Whitespace(_) | Token::Number(..) | Token::SingleQuotedString(_) => false,
        _ => true,
    }
}

fn is_last(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().all(|here| matches!(here.token, Token::SemiColon | Token::Whitespace(_)))
}

/// Converts line and column positions, given in order, to byte offsets.
struct Places<'a> {
    sql: &'a str,
    byte: usize,
    at: (u64, u64),
}

impl<'a> Places<'a> {
    fn new(sql: &'a str) -> Self {
        Self { sql, byte: 0, at: (1, 1) }
    }
    fn of(&mut self, target: Location) -> usize {
        for letter in self.sql[self.byte..].chars() {
            if self.at >= (target.line, target.column) {
                break;
            }
            self.byte += letter.len_utf8();
            self.at = if letter == '\n' { (self.at.0 + 1, 1) } else { (self.at.0, self.at.1 + 1) };
        }
        self.byte
    }
}

/// Runs `work` on a thread with a large stack for a deep syntax tree.
fn with_room<T: Send>(work: impl FnOnce() -> Result<T, Refused> + Send) -> Result<T, Refused> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("sql".into()).stack_size(STACK_BYTES);
        let done = thread.spawn_scoped(scope, work).map(thread::ScopedJoinHandle::join);
        match done {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(Refused::Invalid("this statement cannot be read".into())),
            Err(error) => Err(Refused::Invalid(format!("there is no room to read a statement: {error}"))),
        }
    })
}

/// Returns true if the statement is a query.
fn look(sql: &str, database: DatabaseType, read_only: bool) -> Result<bool, Refused> {
    let statements = Parser::parse_sql(dialect(database), sql)
        .map_err(|error| Refused::Invalid(format!("this is not valid SQL: {error}")))?;
    let [statement] = &statements[..] else {
        return Err(match (statements.len(), read_only) {
            (0, _) => Refused::Invalid("there is no statement".into()),
            (several, true) => Refused::NotReadOnly(format!("these are {several}")),
            (several, false) => Refused::Invalid(format!("one statement may be run, these are {several}")),
        });
    };
    let doing = does(statement, sql, database);
    match (doing, read_only) {
        (None, _) => Ok(true),
        (Some(doing), true) => Err(Refused::NotReadOnly(doing)),
        (Some(_), false) => Ok(false),
    }
}

/// Describes what a statement does besides reading, if anything.
fn does(statement: &Statement, sql: &str, database: DatabaseType) -> Option<String> {
    let first = |text: String| text.split_whitespace().next().unwrap_or_default().to_uppercase();
    if !matches!(statement, Statement::Query(_)) {
        return Some(format!("this is {}", first(statement.to_string())));
    }
    if let ControlFlow::Break(doing) = statement.visit(&mut Doing { depth: 0 }) {
        return Some(doing);
    }
    let tokens = Tokenizer::new(dialect(database), sql).tokenize().unwrap_or_default();
    let mut solid = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).peekable();
    while let Some(token) = solid.next() {
        if let (Token::Word(word), Some(Token::LParen)) = (token, solid.peek())
            && DOING.iter().any(|name| word.value.eq_ignore_ascii_case(name))
        {
            return Some(format!("{} does more than that", word.value));
        }
    }
    None
}

/// Finds side effects inside a query.
struct Doing {
    depth: usize,
}

impl Visitor for Doing {
    type Break = String;

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<String> {
        self.depth += 1;
        if self.depth == 1 {
            return ControlFlow::Continue(());
        }
        let text = statement.to_string();
        let verb = text.split_whitespace().next().unwrap_or_default();
        ControlFlow::Break(format!("it has {} within", verb.to_uppercase()))
    }
    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        if query.locks.is_empty() {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break("it locks rows (FOR UPDATE, FOR SHARE)".into())
    }
    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<String> {
        match &select.into {
            None => ControlFlow::Continue(()),
            Some(_) => ControlFlow::Break("it makes a table (SELECT … INTO)".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DatabaseType::{Mysql, Postgres, Sqlite};

    const ALL: [DatabaseType; 3] = [Postgres, Mysql, Sqlite];

    fn read(sql: &str, database: DatabaseType) -> Result<Prepared, Refused> {
        Prepared::read(sql, database, true)
    }

    #[test]
    fn se_a17_one_query_may_be_run_and_nothing_else() {
        for sql in [
            "select 1",
            "SELECT id FROM t WHERE a = :a ORDER BY id LIMIT 3;",
            "with x as (select 1 as a) select * from x union all select 2",
            "(select 1)",
            "select 'drop table t; delete from t' as harmless -- ; drop table t",
            "/* drop table t */ select count(*) from t",
            "select a.\"delete\" from a",
        ] {
            let database = if sql.contains('"') { Postgres } else { Mysql };
            assert!(read(sql, database).is_ok(), "{sql}: {:?}", read(sql, database));
        }
        for database in ALL {
            for sql in [
                "drop table t",
                "DELETE FROM t",
                "insert into t values (1)",
                "update t set a = 1",
                "select 1; drop table t",
                "select 1; select 2",
                "create table t (a int)",
                "/* select */ truncate table t",
                "select 1 /* ; */ ; delete from t",
                "select * from t for update",
            ] {
                assert!(matches!(read(sql, database), Err(Refused::NotReadOnly(_))), "{database:?} {sql}");
            }
        }
        for sql in [
            "with gone as (delete from t returning id) select * from gone",
            "with new as (insert into t values (1) returning id) select * from new",
            "select * into copy from t",
            "select pg_terminate_backend(1)",
            "select \"pg_read_file\" ('/etc/passwd')",
            "select * from dblink('x', 'drop table t') as t(a int)",
            "copy t to stdout",
            "call p()",
            "do $$ begin delete from t; end $$",
            "explain analyze delete from t",
            "set role admin",
        ] {
            let refused = read(sql, Postgres).unwrap_err();
            // Statements unknown to the parser are refused too.
            let known = !sql.starts_with("do ");
            assert!(!known || matches!(refused, Refused::NotReadOnly(_)), "{sql}: {refused}");
        }
        for sql in ["select 1 into outfile '/tmp/x'", "select load_file('/etc/passwd')", "select sleep(9)"] {
            assert!(read(sql, Mysql).is_err(), "{sql}");
        }
        for sql in ["select load_extension('x')", "attach 'x' as y", "pragma writable_schema = 1"] {
            assert!(read(sql, Sqlite).is_err(), "{sql}");
        }
    }

    #[test]
    fn se_a17_prose_is_no_statement() {
        for sql in
            ["Here is the query that you want.", "", "  ;  ", "-- nothing", "select (1", "select /*! 1 */ 1"]
        {
            for database in ALL {
                assert!(matches!(read(sql, database), Err(Refused::Invalid(_))), "{database:?} {sql:?}");
            }
        }
    }

    #[test]
    fn values_go_where_names_stand_and_not_into_texts_or_types() {
        let sql = "select a::text, ':b', \"x:y\" -- :c\nfrom t where ü = :a and b = :b_2 or c = :a ;";
        let prepared = read(sql, Postgres).unwrap();
        assert_eq!(prepared.names, ["a", "b_2", "a"]);
        assert_eq!(
            prepared.text(),
            "select a::text, ':b', \"x:y\" -- :c\nfrom t where ü = $1 and b = $2 or c = $3"
        );
        assert_eq!(read("select :a, :b", Mysql).unwrap().text(), "select ?, ?");
        assert_eq!(read("select :a, :b", Sqlite).unwrap().text(), "select ?1, ?2");
        assert_eq!(read("select :a", Postgres).unwrap().text_with(|at| format!("<{at}>")), "select <1>");
        for (sql, database) in [("select ?", Mysql), ("select $1", Postgres), ("select ?1", Sqlite)] {
            let error = read(sql, database).unwrap_err().to_string();
            assert!(error.contains(":name"), "{sql}: {error}");
        }
    }

    #[test]
    fn what_writes_is_known_where_writing_is_allowed() {
        let allowed = |sql: &str| Prepared::read(sql, Postgres, false);
        assert!(!allowed("delete from t where a = :a").unwrap().reads);
        assert!(allowed("select 1").unwrap().reads);
        assert!(matches!(allowed("delete from t; select 1"), Err(Refused::Invalid(_))));
    }

    #[test]
    fn a_long_chain_of_operators_is_read_or_refused_and_breaks_nothing() {
        let sql = format!("select 1{}", "+1".repeat(8_000));
        assert!(read(&sql, Postgres).is_ok());
        let sql = format!("select 1{}", "+1".repeat(30_000));
        assert!(matches!(read(&sql, Postgres), Err(Refused::Invalid(reason)) if reason.contains("8192")));
        let many = format!("select 1 where 1 in (1{})", ", 1".repeat(20_000));
        assert!(read(&many, Postgres).is_ok());
        let sql = format!("select {}1{}", "(".repeat(10_000), ")".repeat(10_000));
        assert!(matches!(read(&sql, Postgres), Err(Refused::Invalid(_))));
    }
}
