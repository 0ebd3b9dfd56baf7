//! Copies a namespace to another server, or between a server and a cluster, where its keys have other names. Nothing may
//! live on either side. The copy is marked as unfinished until it is whole, and no process starts on it before.

mod keys_of_copy;
mod mark;

use std::time::Duration;

use uuid::Uuid;

use super::RedisStore;
use super::connection::check::check_servers;
use crate::store::{ServerReport, StoreError};
use tidemill_base::ids::ShardId;

/// Why a namespace was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// No process has ever used the source.
    #[error("there is no namespace {namespace:?} at {at}: check --from and --namespace")]
    NothingThere {
        namespace: String,
        /// The address without password.
        at: String,
    },
    /// Processes live on the source.
    #[error("{who} at {at}: stop all schedulers and workers first, and wait until their leases are over")]
    InUse {
        /// Who lives there, in words.
        who: String,
        /// The address without password.
        at: String,
    },
    /// Processes used the source while it was copied.
    #[error(
        "processes used {at} while it was copied, so the copy is worth nothing; stop them, and repeat the command with --again"
    )]
    UsedMeanwhile {
        /// The address without password.
        at: String,
    },
    /// The target has keys already.
    #[error(
        "the target at {at} is not empty: it has the key {key}; choose another --namespace-to, or remove what is there"
    )]
    NotEmpty {
        key: String,
        /// The address without password.
        at: String,
    },
    /// An earlier copy to the target was interrupted, or still goes on.
    #[error("{0}; repeat the command with --again to remove what is there and begin again")]
    Unfinished(String),
    /// Another command began the copy again.
    #[error("another `tidemill namespace copy` has begun to copy to {at}; this one ends")]
    Replaced {
        /// The address without password.
        at: String,
    },
    /// The target cannot read the form in which the source gives its values.
    #[error(
        "Redis {to} at the target cannot read what Redis {from} at the source writes: {reason}; use a target of the same \
         version or a newer one"
    )]
    OtherVersion {
        /// Version of the source.
        from: String,
        /// Version of the target.
        to: String,
        /// Redis's answer.
        reason: String,
    },
    /// A key is on one side only.
    #[error("the copy is not whole: {key} is missing at {at}; repeat the command with --again")]
    Differs {
        key: String,
        /// The address without password.
        at: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How to copy.
#[derive(Debug, Clone, Copy)]
pub struct CopyPlan {
    /// A scheduler that was silent for longer is dead.
    pub scheduler_silent: Duration,
    /// Likewise a worker.
    pub worker_silent: Duration,
    /// Removes what an interrupted copy has left, and begins again.
    pub again: bool,
}

/// How far a copy is, and at its end what it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyProgress {
    /// Copied keys.
    pub keys: u64,
    /// Keys that are to be copied.
    pub of: u64,
    /// Bytes of their values, in Redis's form for transport.
    pub bytes: u64,
    /// Keys whose names begin like those of the namespace, but belong to another one. They are not copied.
    pub foreign: u64,
}

impl RedisStore {
    /// Copies the namespace to another server or cluster, with types and times of expiry. Removes nothing from the source.
    ///
    /// # Errors
    /// Processes live on the source, the target is not empty, or a server does not do what it is asked. A target on which the
    /// copy has begun stays marked as unfinished.
    pub async fn copy_to(
        &self,
        to: &Self,
        plan: CopyPlan,
        progress: &mut dyn FnMut(CopyProgress),
    ) -> Result<CopyProgress, CopyError> {
        let versions = [check_servers(self).await?, check_servers(to).await?];
        self.is_at_rest(plan).await?;
        let claims = self.claims().await?;
        let copy = Copy { from: self, to, token: Uuid::new_v4().simple().to_string(), versions };
        copy.begin(plan.again).await?;
        let done = copy.copy_keys(progress).await?;
        copy.compare().await?;
        self.is_at_rest(plan).await?;
        if self.claims().await? != claims {
            return Err(CopyError::UsedMeanwhile { at: self.address() });
        }
        copy.finish().await?;
        Ok(done)
    }

    fn address(&self) -> String {
        self.connector.address.to_string()
    }

    /// Refuses a namespace that does not exist, is written by a newer version or is itself an unfinished copy, and one with
    /// living processes.
    async fn is_at_rest(&self, plan: CopyPlan) -> Result<(), CopyError> {
        const DOING: &str = "looking at the namespace to copy";
        let mut read = redis::cmd("HGET");
        read.arg(self.keys.meta()).arg("v");
        let Some(version) = self.connector.ask::<Option<u64>>(DOING, &read).await? else {
            return Err(CopyError::NothingThere {
                namespace: self.keys.namespace().into(),
                at: self.address(),
            });
        };
        if version > u64::from(tidemill_wire::VERSION) {
            return Err(self.refused_version(version).await.into());
        }
        let who = self.living(plan).await?;
        if who.is_empty() {
            return Ok(());
        }
        Err(CopyError::InUse { who: who.join(", "), at: self.address() })
    }

    /// Who lives on the namespace, in words.
    async fn living(&self, plan: CopyPlan) -> Result<Vec<String>, StoreError> {
        let now = self.server_time().await?;
        let mut who = Vec::new();
        for (kind, key, silent) in [
            ("scheduler", self.keys.schedulers(), plan.scheduler_silent),
            ("worker", self.keys.workers(), plan.worker_silent),
        ] {
            let listed = self.listed(key, now).await?;
            let living = listed.into_iter().filter(|(_, since)| *since <= silent);
            who.extend(living.map(|(id, _)| format!("{kind} {id} lives")));
        }
        for shard in self.all_shards().await? {
            let mut read = redis::cmd("GET");
            read.arg(self.keys.owner(shard));
            let owner: Option<String> = self.connector.ask("reading the owner of a shard", &read).await?;
            who.extend(owner.map(|owner| format!("shard {shard} is held by {owner}")));
        }
        Ok(who)
    }

    /// How often each shard was taken. It changes as soon as a scheduler runs.
    async fn claims(&self) -> Result<Vec<Option<String>>, StoreError> {
        let mut claims = Vec::new();
        for shard in self.all_shards().await? {
            let mut read = redis::cmd("HGET");
            read.arg(self.keys.fence(shard)).arg("epoch");
            claims.push(self.connector.ask("reading the fence of a shard", &read).await?);
        }
        Ok(claims)
    }

    async fn all_shards(&self) -> Result<impl Iterator<Item = ShardId> + use<>, StoreError> {
        let mut read = redis::cmd("HGET");
        read.arg(self.keys.meta()).arg("shards");
        let shards: Option<u16> = self.connector.ask("reading the number of shards", &read).await?;
        Ok((0..shards.unwrap_or(0)).map(ShardId))
    }
}

/// A copy that goes on.
struct Copy<'a> {
    from: &'a RedisStore,
    to: &'a RedisStore,
    /// Tells this copy from others to the same target.
    token: String,
    /// What was found about the servers of the source and of the target.
    versions: [ServerReport; 2],
}
