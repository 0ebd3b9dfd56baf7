//! [`Durable`] in memory: there is no replica and no disk.

use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::store::{Durability, Durable, Unconfirmed, Written};

#[async_trait]
impl Durable for MemoryStore {
    async fn gives(&self, durability: Durability) -> Result<(), Unconfirmed> {
        match durability {
            Durability::Memory => Ok(()),
            Durability::Replicated | Durability::Fsync => Err(Unconfirmed::Unsupported(format!(
                "an embedded engine keeps runs in its own memory; durability {durability} needs Redis"
            ))),
        }
    }

    async fn confirm(&self, _: Written, durability: Durability, _: Duration) -> Result<(), Unconfirmed> {
        self.gives(durability).await
    }
}
