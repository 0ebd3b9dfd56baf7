//! The ids that we create for conversations. They contain the shard of the conversation, and are UUIDs of version 4 to all
//! others: Dify's clients check them, and older ones know no newer version.
//!
//! | bits | |
//! | --- | --- |
//! | 48 | of the hash of the run that begins the conversation |
//! | 4 | the version |
//! | 12 | of that hash |
//! | 2 | the variant |
//! | 16 | of that hash |
//! | 32 | a checksum of all that, which tells our ids from foreign ones |
//! | 14 | the shard |
//!
//! Ids of earlier versions of Tidemill are UUIDs of version 8 that end with the shard, too. A scheduler of such a version
//! finds the shard of an id of another form by its hash ([`shard_by_hash`]); among the ids that are possible for a run we
//! choose one for which it finds the right one.

use sha2::{Digest, Sha256};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::Meta;
use uuid::Uuid;

use super::conversation::shard_by_hash;

/// The UUID version of the ids of earlier versions of Tidemill.
const EARLIER_VERSION: usize = 8;
/// The ids that are tried for one that older schedulers find. With 64 shards, one of 50 runs gets another.
const TRIES: u32 = 256;
/// The width of the shard.
const SHARD_BITS: u32 = 14;
/// Checksum and shard.
const TAIL_BITS: u32 = 46;

/// The id of the conversation that begins with a run. It follows from the run, so a repeated request gets the same one.
pub(super) fn new_id(run: RunId, meta: Meta) -> String {
    let made = |number: u32| made(run, number).to_string();
    let is_found = |id: &String| shard_by_hash(id, meta) == run.shard();
    // A shard that was added later is never found by a hash.
    let tries = if run.shard().0 < meta.shards_first { TRIES } else { 0 };
    (0..tries).map(made).find(is_found).unwrap_or_else(|| made(0))
}

/// The shard in an id that we have created; `None` for other ids.
pub(super) fn shard_in(id: &str) -> Option<ShardId> {
    let uuid = Uuid::try_parse(id).ok()?;
    let is_ours = match uuid.get_version_num() {
        EARLIER_VERSION => true,
        4 => {
            let bits = uuid.as_u128();
            checksum(bits >> TAIL_BITS) == (bits >> SHARD_BITS) & u128::from(u32::MAX)
        }
        _ => false,
    };
    is_ours.then(|| id.parse::<RunId>().ok().map(|like| like.shard())).flatten()
}

/// One of the ids that are possible for a run.
fn made(run: RunId, number: u32) -> Uuid {
    let name = Sha256::new().chain_update(run.uuid().as_bytes()).chain_update(number.to_be_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&name.finalize()[..16]);
    let begin = uuid::Builder::from_random_bytes(bytes).into_uuid().as_u128() >> TAIL_BITS;
    let tail = (checksum(begin) << SHARD_BITS) | u128::from(run.shard().0);
    Uuid::from_u128((begin << TAIL_BITS) | tail)
}

fn checksum(begin: u128) -> u128 {
    let digest = Sha256::new().chain_update(b"conversation").chain_update(begin.to_be_bytes()).finalize();
    u128::from(u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(shards: u16) -> Meta {
        Meta { version: 1, shards, shards_first: 16 }
    }

    #[test]
    fn an_id_is_a_uuid_of_version_4_that_contains_the_shard_of_its_run() {
        for shard in [0, 3, 15, 16, 16_383] {
            let run = RunId::generate(ShardId(shard));
            let id = new_id(run, meta(16_384));
            assert_eq!(id, new_id(run, meta(16_384)), "it follows from the run");
            let uuid = Uuid::try_parse(&id).unwrap();
            assert_eq!((uuid.get_version_num(), uuid.get_variant()), (4, uuid::Variant::RFC4122), "{id}");
            assert_eq!(shard_in(&id), Some(ShardId(shard)), "{id}");
            assert_ne!(id, new_id(RunId::generate(ShardId(shard)), meta(16_384)));
        }
    }

    #[test]
    fn an_older_scheduler_finds_the_shard_by_the_hash() {
        for shard in 0..16 {
            let id = new_id(RunId::generate(ShardId(shard)), meta(16));
            assert_eq!(shard_by_hash(&id, meta(16)), ShardId(shard), "{id}");
        }
    }

    #[test]
    fn ids_of_earlier_versions_are_known_and_foreign_ids_are_not() {
        let run = RunId::generate(ShardId(5));
        let earlier = uuid::Builder::from_custom_bytes(*run.uuid().as_bytes()).into_uuid().to_string();
        assert_eq!(shard_in(&earlier), Some(ShardId(5)));
        for foreign in ["f3b1a7ba-4f0e-4f4e-9d4e-2b8f3c5d7e91", &run.to_string(), "conv-1", ""] {
            assert_eq!(shard_in(foreign), None, "{foreign}");
        }
        let unknown = (0..1000).filter(|_| shard_in(&Uuid::new_v4().to_string()).is_some()).count();
        assert_eq!(unknown, 0);
    }
}
