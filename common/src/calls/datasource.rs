//! A connection to a database, for `sql` nodes.

use serde::Deserialize;

use crate::providers::{Secret, check};

/// A datasource.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DatasourceConfig {
    /// For people.
    pub name: Option<String>,
    /// What the server speaks.
    pub database_type: DatabaseType,
    /// Where it is.
    pub host: Option<String>,
    /// Absent: the usual one.
    pub port: Option<u16>,
    /// Who asks.
    pub username: Option<String>,
    /// The password.
    pub password: Option<Secret>,
    /// The environment variable of workers that holds it.
    pub password_env: Option<String>,
    /// Which of its databases; of SQLite the file, on the workers' machines.
    pub database: String,
    /// Whether the connection is encrypted.
    pub tls: Tls,
    /// Tables that a model is told of, unless the node names others; empty: all.
    pub table_name_list: Vec<String>,
    /// The text-to-SQL service that nodes with `mode: service` ask.
    pub service_url: Option<String>,
}

/// What a database speaks.
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
    /// A file.
    Sqlite,
    /// openGauss: asked through a service only.
    Opengauss,
    /// MongoDB: asked through a service only.
    Mongodb,
}

impl DatabaseType {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
            Self::Opengauss => "opengauss",
            Self::Mongodb => "mongodb",
        }
    }
    /// The port where such a server usually is.
    pub const fn usual_port(self) -> u16 {
        match self {
            Self::Postgres | Self::Opengauss => 5432,
            Self::Mysql => 3306,
            Self::Mongodb => 27017,
            Self::Sqlite => 0,
        }
    }
    /// Whether it is asked by a service alone.
    pub const fn by_service_only(self) -> bool {
        matches!(self, Self::Opengauss | Self::Mongodb)
    }
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tls {
    /// If the server can.
    #[default]
    Prefer,
    /// Never.
    Disable,
    /// Always, whoever the server says it is.
    Require,
    /// Always, and its certificate is one of its host.
    Verify,
}

impl DatasourceConfig {
    /// What can be wrong with it.
    ///
    /// # Errors
    /// What it is, and what to do.
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
            check::base_url(url).map_err(|reason| reason.replace("base_url", "service_url"))?;
        } else if kind.by_service_only() {
            return Err(format!("{} is asked through a service only: set service_url", kind.name()));
        }
        Ok(())
    }
}
