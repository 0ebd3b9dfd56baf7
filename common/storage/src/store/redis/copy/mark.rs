//! The mark of an unfinished copy: a version that no process knows, so that none starts, also none of an older version, and
//! a field that says what the copy is of.

use redis::Value;
use serde::{Deserialize, Serialize};

use super::{Copy, CopyError};
use crate::store::StoreError;
use crate::store::redis::RedisStore;
use crate::store::redis::connection::replies::unexpected;
use crate::store::redis::connection::servers::Lane;

/// The version of the stored data in a copy that is not finished.
const UNFINISHED: u64 = u32::MAX as u64;

/// The field that says what the copy is of.
const FIELD: &str = "copy_of";

/// What a copy is of.
#[derive(Debug, Serialize, Deserialize)]
struct CopyOf {
    /// The address without password.
    from: String,
    namespace: String,
    token: String,
}

impl RedisStore {
    /// The error for a namespace of this version, which this process does not know.
    pub(in crate::store::redis) async fn refused_version(&self, version: u64) -> StoreError {
        if version == UNFINISHED {
            return match self.copy_of().await {
                Ok(of) => StoreError::Unusable(self.unfinished(of.as_ref())),
                Err(error) => error,
            };
        }
        StoreError::Newer { what: format!("the namespace of {}", self.keys.meta()), version }
    }

    fn unfinished(&self, of: Option<&CopyOf>) -> String {
        let of = of.map_or(String::new(), |of| format!(" of {:?} at {}", of.namespace, of.from));
        format!(
            "the namespace {:?} at {} is an unfinished copy{of}: a `tidemill namespace copy` was interrupted, or still goes on",
            self.keys.namespace(),
            self.address()
        )
    }

    async fn copy_of(&self) -> Result<Option<CopyOf>, StoreError> {
        let mut read = redis::cmd("HGET");
        read.arg(self.keys.meta()).arg(FIELD);
        let text: Option<String> = self.connector.ask("reading what a copy is of", &read).await?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

impl Copy<'_> {
    /// Marks the target. From then on nobody else starts there.
    pub(super) async fn begin(&self, again: bool) -> Result<(), CopyError> {
        const DOING: &str = "marking a copy as unfinished";
        let (meta, at) = (self.to.keys.meta(), self.to.address());
        let mut first = redis::cmd("HSETNX");
        first.arg(&meta).arg("v").arg(UNFINISHED);
        let is_first = self.to.connector.ask::<u8>(DOING, &first).await? == 1;
        if !is_first {
            let mut read = redis::cmd("HGET");
            read.arg(&meta).arg("v");
            let version: Option<u64> = self.to.connector.ask(DOING, &read).await?;
            match version {
                Some(UNFINISHED) if again => {}
                Some(UNFINISHED) => {
                    let of = self.to.copy_of().await?;
                    return Err(CopyError::Unfinished(self.to.unfinished(of.as_ref())));
                }
                Some(_) | None => return Err(CopyError::NotEmpty { key: meta, at }),
            }
        }
        let of = CopyOf {
            from: self.from.address(),
            namespace: self.from.keys.namespace().to_string(),
            token: self.token.clone(),
        };
        let of = serde_json::to_string(&of).map_err(|error| unexpected(DOING, error.to_string()))?;
        let mut write = redis::cmd("HSET");
        write.arg(&meta).arg(FIELD).arg(of);
        self.to.connector.ask::<()>(DOING, &write).await?;
        if is_first {
            if let Some(key) = self.first_of_target().await? {
                let mut remove = redis::cmd("UNLINK");
                remove.arg(&meta);
                self.to.connector.ask::<()>(DOING, &remove).await?;
                return Err(CopyError::NotEmpty { key, at });
            }
            return Ok(());
        }
        self.clear_target().await
    }

    /// Refuses to go on after another command has begun the copy again.
    pub(super) async fn is_ours(&self) -> Result<(), CopyError> {
        match self.to.copy_of().await? {
            Some(of) if of.token == self.token => Ok(()),
            Some(_) | None => Err(CopyError::Replaced { at: self.to.address() }),
        }
    }

    /// Copies the settings of the namespace, which replace the mark.
    pub(super) async fn finish(&self) -> Result<(), CopyError> {
        const DOING: &str = "finishing a copy";
        self.is_ours().await?;
        let server = self.from.connector.server_of(&self.from.keys.meta()).await?;
        let mut pipe = redis::pipe();
        pipe.cmd("DUMP").arg(self.from.keys.meta());
        let found = server.send(Lane::Short, DOING, &pipe).await?.pop();
        let Some(Value::BulkString(settings)) = found else {
            return Err(CopyError::UsedMeanwhile { at: self.from.address() });
        };
        let mut write = redis::cmd("RESTORE");
        write.arg(self.to.keys.meta()).arg(0).arg(settings).arg("REPLACE");
        let written = self.to.connector.ask::<()>(DOING, &write).await;
        written.map_err(|error| self.explained(error))
    }
}
