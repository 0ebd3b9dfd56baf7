//! The shard of a conversation, and the variables it remembers. Its runs are on one shard, so that their commits can
//! write it. Ids that we create contain the shard, see [`conversation_id`].
//!
//! [`conversation_id`]: super::conversation_id

use std::collections::HashMap;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use tidemill_common::graph::{DocumentVariable, Graph};
use tidemill_common::ids::ShardId;
use tidemill_common::store::{Meta, Runs, StoreError};
use tidemill_common::value::{Segment, Stored};
use tidemill_common::wire::codec::value::stored_from_json;
use tidemill_common::wire::conversation::{CONVERSATION_MESSAGES, conversation_field};

use super::conversation_id;
use super::{SubmitError, inputs};

/// The longest id of a conversation, in characters. A UUID has 36.
const ID_CHARS_MAX: usize = 64;

pub(super) use super::conversation_id::new_id;

/// Checks an id in a request.
pub(super) fn check(id: &str) -> Result<(), SubmitError> {
    let fits =
        id.len() <= ID_CHARS_MAX && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if fits { Ok(()) } else { Err(SubmitError::ConversationId) }
}

/// The shard of a conversation. Our own ids contain it. For other ids it follows from the id and the first number of
/// shards, which never changes.
pub(super) fn shard_of(id: &str, meta: Meta) -> ShardId {
    if let Some(shard) = conversation_id::shard_in(id).filter(|shard| shard.0 < meta.shards) {
        return shard;
    }
    shard_by_hash(id, meta)
}

/// Whether the id contains a shard that a namespace with these settings does not have.
pub(super) fn is_beyond(id: &str, meta: Meta) -> bool {
    conversation_id::shard_in(id).is_some_and(|shard| shard.0 >= meta.shards)
}

/// The shard of an id that does not contain one.
pub(super) fn shard_by_hash(id: &str, meta: Meta) -> ShardId {
    let digest = Sha256::digest(id);
    let number = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    ShardId(u16::try_from(number % u32::from(meta.shards_first.max(1))).unwrap_or(0))
}

/// Returns the variables of the request, then those that the conversation remembers, and whether the conversation has a
/// list of messages. Leaves out variables that the workflow no longer defines, or defines with another type.
pub(super) async fn variables(
    store: &dyn Runs,
    shard: ShardId,
    id: &str,
    graph: &Graph,
    given: &[(String, Segment)],
) -> Result<(Vec<(String, Segment)>, bool), SubmitError> {
    let kept = store.conversation(shard, id).await?;
    let mut values = given.to_vec();
    for variable in &graph.conversation {
        if given.iter().any(|(name, _)| *name == *variable.name) {
            continue;
        }
        if let Some(segment) = kept_value(store, shard, id, variable, &kept).await? {
            values.push((variable.name.to_string(), segment));
        }
    }
    Ok((values, kept.contains_key(CONVERSATION_MESSAGES)))
}

/// The stored value of a conversation variable. Returns `None` when there is none, or when its type is not the one that
/// the workflow gives it now.
pub(crate) async fn kept_value(
    store: &dyn Runs,
    shard: ShardId,
    id: &str,
    variable: &DocumentVariable,
    kept: &HashMap<String, String>,
) -> Result<Option<Segment>, StoreError> {
    let name = &*variable.name;
    let Some(text) = kept.get(&conversation_field(name)) else { return Ok(None) };
    let Some(segment) = opened(store, shard, text).await? else {
        tracing::warn!(
            conversation = id,
            name,
            "the stored value of a conversation variable is missing; its initial value is used"
        );
        return Ok(None);
    };
    match inputs::typed(name, variable.value.ty, &segment.value) {
        Ok(segment) => Ok(Some(segment)),
        Err(error) => {
            tracing::debug!(conversation = id, %error, "the stored value of a conversation variable has another type and is ignored");
            Ok(None)
        }
    }
}

/// The value as the type of the variable, or `None` when it does not fit.
pub(crate) fn fitting(variable: &DocumentVariable, value: &Json) -> Option<Segment> {
    inputs::typed(&variable.name, variable.value.ty, value).ok()
}

async fn opened(store: &dyn Runs, shard: ShardId, text: &str) -> Result<Option<Segment>, StoreError> {
    let stored = serde_json::from_str(text).ok().and_then(|value| stored_from_json(value).ok());
    match stored {
        Some(Stored::Inline(segment)) => Ok(Some(segment)),
        Some(Stored::Blob(blob)) => {
            let text = store.blob(shard, &blob.id).await?;
            let value = text.and_then(|text| serde_json::from_str(&text).ok());
            Ok(value.map(|value| Segment::new(blob.ty, value)))
        }
        // An assigned value is never an item of a stored list: the node that assigned it had loaded the item.
        Some(Stored::Item { .. } | Stored::Secret(_)) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use tidemill_common::ids::RunId;

    #[test]
    fn our_ids_contain_their_shard_and_foreign_ids_never_change_theirs() {
        let meta = |shards| Meta { version: 1, shards, shards_first: 2 };
        let own = new_id(RunId::generate(ShardId(3)), meta(4));
        assert_eq!(shard_of(&own, meta(4)), ShardId(3));
        for foreign in
            ["f3b1a7ba-4f0e-4f4e-9d4e-2b8f3c5d7e91", "0199c0de-0000-7000-8000-000000000003", "conv-1"]
        {
            assert_eq!(shard_of(foreign, meta(2)), shard_of(foreign, meta(16_384)), "{foreign}");
            assert!(shard_of(foreign, meta(16_384)).0 < 2, "{foreign}");
        }
    }

    #[tokio::test]
    async fn a_conversation_on_a_shard_that_was_added_is_found_by_a_process_that_has_not_looked_since() {
        let clock = Arc::new(tidemill_common::clock::SystemClock);
        let store = Arc::new(tidemill_common::store::memory::MemoryStore::with(clock, 8, 100));
        let config = Arc::new(tidemill_common::config::Config::default());
        let workflows = Arc::new(crate::workflows::Workflows::new(&config, None));
        let submitter = crate::submit::Submitter::new(store, config, workflows);
        let earlier = Meta { version: tidemill_common::wire::VERSION, shards: 2, shards_first: 2 };
        submitter.namespace.note(earlier);
        let id = new_id(RunId::generate(ShardId(7)), Meta { shards: 8, ..earlier });
        assert!(is_beyond(&id, earlier));
        assert_eq!(submitter.shard_of_conversation(&id).await.expect("the store answers"), ShardId(7));
        assert_eq!(submitter.namespace.known().map(|meta| meta.shards), Some(8), "it has looked");
        assert!(!is_beyond("conv-1", earlier), "a foreign id contains no shard");
    }

    #[test]
    fn ids_that_cannot_be_part_of_a_key_are_refused() {
        let meta = Meta { version: 1, shards: 1, shards_first: 1 };
        assert!(check("conv-1").is_ok() && check(&new_id(RunId::generate(ShardId(0)), meta)).is_ok());
        for wrong in ["a b", "a{b}", "a:b", &"x".repeat(65)] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
