//! Lets a model write a statement from the question and the tables. The statement is checked like any other.

use serde_json::{Value as Json, json};
use tidemill_common::nodes::step::CallError;
use tidemill_common::nodes::step::texts::Text;
use tidemill_common::registry::calls::DatabaseType;
use tidemill_common::value::JsonMap;

use crate::outside::calls::sql::database;
use crate::outside::calls::sql::database::Bounds;
use crate::outside::calls::sql::outcome::{failed, invalid};
use crate::outside::calls::sql::statement::Prepared;
use crate::outside::calls::sql::{CallContext, SqlRequest};
use crate::outside::calls::{Calls, model};

/// Most columns, over all tables, in the prompt.
const COLUMNS_MAX: u64 = 2000;

const SYSTEM: Text = Text {
    zh: "你是数据库专家。请根据下列数据表，为问题写出一条 SQL 查询语句。只能写一条只读语句（SELECT），只能使用列出的表和列。\
         只输出 SQL，不要解释。",
    en: "You are an expert in databases. Write one SQL query that answers the question, over the tables below. It must be \
         a single statement that only reads (SELECT), and use the listed tables and columns only. Answer with the SQL \
         alone and explain nothing.",
};
const WRITING: Text = Text {
    zh: "你是数据库专家。请根据下列数据表，写出一条满足要求的 SQL 语句，只能使用列出的表和列。只输出 SQL，不要解释。",
    en: "You are an expert in databases. Write one SQL statement that does what is asked, over the tables below, with the \
         listed tables and columns only. Answer with the SQL alone and explain nothing.",
};

/// Returns the statement that the model writes for the question.
pub(super) async fn sql(
    cx: CallContext<'_>,
    input: &JsonMap,
    request: &SqlRequest,
) -> Result<String, CallError> {
    if request.question.is_empty() {
        return Err(invalid("there is no question to write a statement for (mode: generate)", ""));
    }
    let tables = tables(cx.calls, request).await?;
    let model = model::find(cx.providers, cx.profile(input)).await?;
    let system = if request.read_only { SYSTEM } else { WRITING };
    let kind = request.source.database_type.name();
    let system = format!("{}\n\n{kind}:\n{tables}", system.of(cx.language));
    let params = JsonMap::from_iter([("temperature".to_owned(), json!(0))]);
    let messages = model::messages(&system, &request.question);
    let reply = model.ask(cx.journal, "llm:1", messages, params, &mut |_| {}).await?;
    cx.spend(reply.usage);
    Ok(written(&reply.text).to_owned())
}

/// Extracts the statement from a reply: its first fenced block, or the whole text. Reasoning is removed.
fn written(reply: &str) -> &str {
    let text = reply.rsplit_once("</think>").map_or(reply, |(_, text)| text).trim();
    let Some((_, fenced)) = text.split_once("```") else { return text };
    let inner = fenced.split_once("```").map_or(fenced, |(inner, _)| inner);
    // The first line of a block may name its language.
    match inner.split_once('\n') {
        Some((name, rest)) if name.trim().bytes().all(|byte| byte.is_ascii_alphanumeric()) => rest.trim(),
        _ => inner.trim(),
    }
}

/// Lists the tables with their columns, one per line.
pub(super) async fn tables(calls: &Calls, request: &SqlRequest) -> Result<String, CallError> {
    let (sql, values) = catalogue(request.source.database_type, &request.tables);
    let statement = Prepared::read(&sql, request.source.database_type, true);
    let statement = statement.map_err(|reason| invalid(reason.to_string(), &sql))?;
    let bounds = Bounds { rows: COLUMNS_MAX, ..request.bounds };
    let connection_limit = calls.connection_limit(&request.id);
    let columns = database::run(request.target(&connection_limit), &statement, &values, bounds).await;
    let columns = columns.map_err(|trouble| match trouble {
        database::Trouble::Bound(_) => invalid(
            format!(
                "the prompt can list at most {COLUMNS_MAX} columns: name the needed tables in table_name_list"
            ),
            "",
        ),
        other => request.without_password(failed(other, &sql, true)),
    })?;
    if columns.rows.is_empty() {
        let which = if request.tables.is_empty() { "tables".into() } else { request.tables.join(", ") };
        return Err(invalid(format!("the datasource {} has no {which}", request.id), ""));
    }
    Ok(listed(&columns.rows))
}

/// The query for columns, with its values. Without table names it covers the user's own schemas.
fn catalogue(database: DatabaseType, tables: &[String]) -> (String, Vec<Json>) {
    let named = |column: &str| match tables.len() {
        0 => String::new(),
        count => {
            let marks: Vec<String> = (0..count).map(|at| format!(":t{at}")).collect();
            format!(" AND {column} IN ({})", marks.join(", "))
        }
    };
    let values = tables.iter().map(|name| Json::from(name.as_str())).collect();
    let sql = match database {
        DatabaseType::Sqlite => format!(
            "SELECT m.name AS table_name, p.name AS column_name, p.type AS data_type \
             FROM sqlite_master AS m, pragma_table_info(m.name) AS p \
             WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%'{} ORDER BY m.name, p.cid",
            named("m.name")
        ),
        DatabaseType::Mysql => format!(
            "SELECT table_name AS table_name, column_name AS column_name, column_type AS data_type \
             FROM information_schema.columns WHERE table_schema = database(){} ORDER BY table_name, ordinal_position",
            named("table_name")
        ),
        DatabaseType::Postgres | DatabaseType::Opengauss | DatabaseType::Mongodb => format!(
            "SELECT CASE WHEN table_schema = current_schema() THEN '' ELSE table_schema || '.' END || table_name \
             AS table_name, column_name, data_type FROM information_schema.columns \
             WHERE table_schema NOT IN ('pg_catalog', 'information_schema'){} \
             ORDER BY table_schema, table_name, ordinal_position",
            named("table_name")
        ),
    };
    (sql, values)
}

fn listed(columns: &[Json]) -> String {
    let word = |row: &Json, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for row in columns {
        let (table, column) = (word(row, "table_name"), word(row, "column_name"));
        let column = format!("{column} {}", word(row, "data_type")).trim().to_owned();
        match lines.last_mut().filter(|(last, _)| *last == table) {
            Some((_, columns)) => columns.push(column),
            None => lines.push((table, vec![column])),
        }
    }
    let line = |(table, columns): &(String, Vec<String>)| format!("{table}({})", columns.join(", "));
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_may_be_fenced_or_thought_about() {
        for (reply, expected) in [
            ("select 1", "select 1"),
            ("```sql\nselect 1\n```", "select 1"),
            ("Here it is:\n```\nselect 1\n```\nBye", "select 1"),
            ("<think>select 2?</think>\nselect 1;", "select 1;"),
            ("```select 1```", "select 1"),
        ] {
            assert_eq!(written(reply), expected, "{reply}");
        }
    }

    #[test]
    fn every_dialect_knows_its_columns() {
        for database in [DatabaseType::Postgres, DatabaseType::Mysql, DatabaseType::Sqlite] {
            for tables in [vec![], vec!["a".to_owned(), "b".to_owned()]] {
                let (sql, values) = catalogue(database, &tables);
                let statement = Prepared::read(&sql, database, true).expect("it is a query");
                assert_eq!((statement.names.len(), values.len()), (tables.len(), tables.len()));
            }
        }
    }

    #[test]
    fn tables_are_lines() {
        let columns = [
            json!({"table_name": "t", "column_name": "id", "data_type": "integer"}),
            json!({"table_name": "t", "column_name": "a", "data_type": ""}),
            json!({"table_name": "u", "column_name": "b", "data_type": "text"}),
        ];
        assert_eq!(listed(&columns), "t(id integer, a)\nu(b text)");
    }
}
