//! Connections for large values: a separate pool, so that they do not delay other requests. A connection to a
//! server that became read-only is dropped, because it leads to a demoted master.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue};

use super::connection::Connector;
use super::connection::servers::Lane;
use crate::store::StoreError;
use bb8_redis::bb8;

/// The way of large values: a connection of the pool to one server, or where the server of a key may change, in a cluster
/// or with Sentinels, the shared connections for them.
pub(super) enum BlobLane<'a> {
    Pool(bb8::PooledConnection<'a, BlobConnections>),
    Shared(&'a Connector),
}

impl BlobLane<'_> {
    /// Sends a command.
    pub(super) async fn ask<T: FromRedisValue>(
        &mut self,
        doing: &'static str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        match self {
            Self::Pool(connection) => connection.ask(doing, command).await,
            Self::Shared(connector) => connector.ask_in(Lane::Blobs, doing, command).await,
        }
    }
}

/// Opens the connections of the pool.
pub(super) struct BlobConnections(pub(super) Connector);

/// A pooled connection.
pub(super) struct BlobConnection {
    connection: MultiplexedConnection,
    connector: Connector,
    is_broken: bool,
}

impl BlobConnection {
    /// Sends a command.
    pub(super) async fn ask<T: FromRedisValue>(
        &mut self,
        doing: &'static str,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        let answer = command.query_async(&mut self.connection).await;
        answer.map_err(|error| {
            let error = self.connector.error(doing, &error);
            self.is_broken |= matches!(error, StoreError::Unreachable { .. });
            error
        })
    }
}

impl bb8::ManageConnection for BlobConnections {
    type Connection = BlobConnection;
    type Error = StoreError;

    async fn connect(&self) -> Result<BlobConnection, StoreError> {
        let connection = self.0.open().await?;
        Ok(BlobConnection { connection, connector: self.0.clone(), is_broken: false })
    }

    async fn is_valid(&self, connection: &mut BlobConnection) -> Result<(), StoreError> {
        connection.ask("testing a connection", &redis::cmd("PING")).await
    }

    fn has_broken(&self, connection: &mut BlobConnection) -> bool {
        connection.is_broken
    }
}
