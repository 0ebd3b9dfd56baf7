//! Decides when new secrets are sealed under a salted key: as soon as every live process of the namespace can open such
//! seals. Before that, during a rolling upgrade, an older worker would take the seal for the secret.

use tidemill_common::dsl::SealingKey;
use tidemill_common::dsl::seal::Salt;
use tidemill_common::store::StoreError;
use tidemill_common::wire::{SALTED_SEALS, VERSION};
use uuid::Uuid;

use crate::stores::ShardStore;

/// Settles how this process seals secrets.
pub struct Sealing {
    key: Option<SealingKey>,
}

impl Sealing {
    /// Will give `key` the namespace's salt when all processes can read it. Without a key only the namespace's version
    /// is raised.
    pub fn new(key: Option<SealingKey>) -> Self {
        Self { key }
    }

    /// Raises the version of the namespace from `version` if all processes allow it, and then salts the key if
    /// possible. Call it again and again: what fails now, such as on a full Redis, is tried at the next call.
    pub async fn settle(&self, store: &dyn ShardStore, version: u32) {
        if let Err(error) = self.try_to_settle(store, version).await {
            tracing::debug!(%error, "the way of sealing secrets cannot be settled yet");
        }
    }

    async fn try_to_settle(&self, store: &dyn ShardStore, version: u32) -> Result<(), StoreError> {
        let version = if version < VERSION { store.raise_version().await? } else { version };
        let Some(key) = self.key.as_ref().filter(|key| version >= SALTED_SEALS && !key.is_salted()) else {
            return Ok(());
        };
        let text = store.seal_salt(&Salt::of(Uuid::new_v4().into_bytes()).text()).await?;
        match Salt::read(&text) {
            Some(salt) => key.salt_with(salt),
            None => tracing::warn!(
                "the field seal_salt of the namespace is invalid; secrets are sealed without a salt"
            ),
        }
        Ok(())
    }
}
