//! Since when new secrets are sealed under a salted key: once every live process of the namespace can open such seals.
//! Until then a rolling upgrade is under way, and an older worker would take the seal for the secret.

use tidemill_common::dsl::SealingKey;
use tidemill_common::dsl::seal::Salt;
use tidemill_common::store::StoreError;
use tidemill_common::wire::{SALTED_SEALS, VERSION};
use uuid::Uuid;

use crate::stores::ShardStore;

/// Settles how the process seals. See the module.
pub struct Sealing {
    key: Option<SealingKey>,
}

impl Sealing {
    /// Gives `key` the salt of the namespace when the time has come; without a key only the namespace's version is raised.
    pub fn new(key: Option<SealingKey>) -> Self {
        Self { key }
    }

    /// Raises the version of the namespace from `version` if all processes allow it, and salts the key if that allows it.
    /// To be called again and again: what does not succeed now, such as on a full Redis, is tried at the next call.
    pub async fn settle(&self, store: &dyn ShardStore, version: u32) {
        if let Err(error) = self.try_to_settle(store, version).await {
            tracing::debug!(%error, "secrets are sealed as before for now");
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
            None => tracing::warn!("seal_salt of the namespace is unreadable; secrets are sealed without it"),
        }
        Ok(())
    }
}
