//! The reasons why Redis does not serve a request, as clients, probes and `tidemill doctor` may read them. The errors
//! themselves have addresses and texts of Redis, which only logs show.

use super::StoreError;

/// A state of the store in which requests fail until it passes or the operator ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// It cannot be reached or does not answer in time.
    Silent,
    /// Its memory is used up.
    Full,
    /// It is a read-only replica.
    ReadOnly,
    /// Fewer replicas are connected than `min-replicas-to-write` asks for.
    FewReplicas,
    /// It cannot write its files.
    Disk,
    /// It reads its files after a start, or waits for its master.
    Loading,
    /// The slot of the request has no master in the cluster.
    NoMaster,
    /// A script blocks it.
    Busy,
    /// It does not accept this process's user or password, or the user has too few rights.
    Denied,
    /// Another server becomes the master.
    FailingOver,
    /// It refused the request for another reason that passes.
    Refused,
}

/// The beginnings of Redis's answers. Scripts put them in the middle of a sentence.
const ANSWERS: [(&str, Outage); 10] = [
    ("no master at the moment", Outage::FailingOver),
    ("READONLY", Outage::ReadOnly),
    ("OOM command not allowed", Outage::Full),
    ("OOM", Outage::Full),
    ("NOREPLICAS", Outage::FewReplicas),
    ("MISCONF", Outage::Disk),
    ("LOADING", Outage::Loading),
    ("MASTERDOWN", Outage::Loading),
    ("BUSY", Outage::Busy),
    ("CLUSTERDOWN", Outage::NoMaster),
];

impl Outage {
    /// Returns the state that this error reports; `None` for errors that are not the store's state.
    pub fn of(error: &StoreError) -> Option<Self> {
        let by_answer = |reason: &str, otherwise| {
            let found = ANSWERS.iter().find(|(answer, _)| reason.contains(answer));
            found.map_or(otherwise, |(_, outage)| *outage)
        };
        match error {
            StoreError::Unreachable { reason, .. } => Some(by_answer(reason, Self::Silent)),
            StoreError::Refused { reason, .. } => Some(by_answer(reason, Self::Refused)),
            StoreError::Denied { .. } | StoreError::SentinelDenied { .. } => Some(Self::Denied),
            StoreError::Unexpected { .. } | StoreError::Unusable(_) | StoreError::Newer { .. } => None,
        }
    }

    /// Returns a sentence for clients and probes.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Silent => "the store does not answer",
            Self::Full => {
                "the store takes no writes: Redis is full (used memory is at maxmemory); free memory or raise maxmemory"
            }
            Self::ReadOnly => {
                "the store takes no writes: Redis is a read-only replica; redis.url has to lead to the master"
            }
            Self::FewReplicas => {
                "the store takes no writes: Redis has fewer replicas than its min-replicas-to-write asks for"
            }
            Self::Disk => {
                "the store takes no writes: Redis cannot write its files; check whether its disk is full"
            }
            Self::Loading => "the store is not ready: Redis is loading its data",
            Self::NoMaster => {
                "the store is not ready: a part of the Redis Cluster has no master, or most of its masters are gone"
            }
            Self::Busy => "the store is busy: a script blocks Redis",
            Self::Denied => {
                "the store refuses this process: check the user, the password and its ACL in redis.url (of Sentinels: \
                 redis.sentinel_user and redis.sentinel_password)"
            }
            Self::FailingOver => "the store has no master at the moment: Redis is failing over",
            Self::Refused => "the store refused the request for now",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(reason: &str) -> StoreError {
        StoreError::Refused { doing: "testing", reason: reason.into() }
    }

    fn unreachable(reason: &str) -> StoreError {
        StoreError::Unreachable { address: "redis://r".into(), doing: "testing", reason: reason.into() }
    }

    #[test]
    fn each_answer_of_redis_has_its_own_words() {
        let denied =
            StoreError::Denied { address: "redis://r".into(), doing: "testing", reason: "NOAUTH".into() };
        for (error, outage, part) in [
            (unreachable("connection refused"), Outage::Silent, "does not answer"),
            (
                unreachable("READONLY You can't write against a read only replica."),
                Outage::ReadOnly,
                "replica",
            ),
            (unreachable("ERR Error running script: -READONLY You can't write"), Outage::ReadOnly, "replica"),
            (refused("OOM command not allowed when used memory > 'maxmemory'."), Outage::Full, "full"),
            (
                refused("NOREPLICAS Not enough good replicas to write."),
                Outage::FewReplicas,
                "min-replicas-to-write",
            ),
            (refused("there is no master at the moment: …"), Outage::FailingOver, "failing over"),
            (refused("MISCONF Errors writing to the AOF file"), Outage::Disk, "disk"),
            (refused("LOADING Redis is loading the dataset in memory"), Outage::Loading, "loading"),
            (refused("CLUSTERDOWN Hash slot not served"), Outage::NoMaster, "no master"),
            (refused("BUSY Redis is busy running a script."), Outage::Busy, "script"),
            (refused("other processes change the same document"), Outage::Refused, "for now"),
            (denied, Outage::Denied, "password"),
        ] {
            assert_eq!(Outage::of(&error), Some(outage), "{error}");
            assert!(outage.words().contains(part), "{error}: {}", outage.words());
        }
        assert_eq!(Outage::of(&StoreError::Unusable("x".into())), None);
    }
}
