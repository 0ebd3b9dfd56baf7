//! Datasources: connections to databases, for `sql` nodes.

use serde::Deserialize;

use crate::registry::http;
use crate::registry::secrets::Secret;

/// A datasource: a database and the credentials for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatasourceConfig {
    /// For display.
    pub name: Option<String>,
    pub database_type: DatabaseType,
    pub host: Option<String>,
    /// `None`: the usual port.
    pub port: Option<u16>,
    pub username: Option<String>,
    pub password: Option<Secret>,
    /// The workers' environment variable with the password.
    pub password_env: Option<String>,
    /// The name of the database; for SQLite the file on the workers' machines.
    pub database: String,
    /// Whether the connection is encrypted.
    pub tls: Tls,
    /// Tables that the model may know about, unless the node names others; empty: all.
    pub table_name_list: Vec<String>,
    /// The text-to-SQL service for nodes with `mode: service`.
    pub service_url: Option<String>,
}

/// The kind of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DatabaseType {
    /// PostgreSQL.
    #[default]
    #[serde(alias = "postgresql")]
    Postgres,
    /// MySQL and MariaDB.
    #[serde(alias = "mariadb")]
    Mysql,
    /// SQLite: a file.
    Sqlite,
    /// openGauss: only through a service.
    Opengauss,
    /// MongoDB: only through a service.
    Mongodb,
}

impl DatabaseType {
    /// The name in settings and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
            Self::Opengauss => "opengauss",
            Self::Mongodb => "mongodb",
        }
    }
    /// The usual port of such a server.
    pub const fn usual_port(self) -> u16 {
        match self {
            Self::Postgres | Self::Opengauss => 5432,
            Self::Mysql => 3306,
            Self::Mongodb => 27017,
            Self::Sqlite => 0,
        }
    }
    /// Whether it is only reached through a service.
    pub const fn by_service_only(self) -> bool {
        matches!(self, Self::Opengauss | Self::Mongodb)
    }
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// If the server supports it.
    #[default]
    Prefer,
    /// Never.
    Disable,
    /// Always, without checking the certificate.
    Require,
    /// Always, and the certificate must match the host.
    Verify,
}

impl DatasourceConfig {
    /// Checks the datasource.
    ///
    /// # Errors
    /// The problem, and what to do.
    pub(super) fn check(&self) -> Result<(), String> {
        let kind = self.database_type;
        let missing = |what: &Option<String>| what.as_ref().is_none_or(|text| text.trim().is_empty());
        if self.database.trim().is_empty() {
            return Err(if kind == DatabaseType::Sqlite {
                "database is required: the file, on the workers' machines".into()
            } else {
                "database is required: its name on the server".into()
            });
        }
        if kind == DatabaseType::Sqlite {
            let used = [
                ("host", self.host.is_some()),
                ("port", self.port.is_some()),
                ("username", self.username.is_some()),
                ("password", self.password.is_some() || self.password_env.is_some()),
            ];
            if let Some((name, _)) = used.into_iter().find(|(_, used)| *used) {
                return Err(format!("{name} has no meaning for sqlite: database is the file"));
            }
        } else if missing(&self.host) {
            return Err("host is required".into());
        } else if missing(&self.username) {
            return Err("username is required".into());
        }
        if self.password.is_some() && self.password_env.is_some() {
            return Err("has both password and password_env: keep one of them".into());
        }
        if let Some(url) = &self.service_url {
            http::base_url(url).map_err(|reason| reason.replace("base_url", "service_url"))?;
        } else if kind.by_service_only() {
            return Err(format!("{} is asked through a service only: set service_url", kind.name()));
        }
        Ok(())
    }
}
