//! Where a conversation lives, and what it remembers. Its runs live on one shard, so that their commits can write it.

use std::collections::HashMap;

use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use tidemill_common::graph::{DocumentVariable, Graph};
use tidemill_common::ids::{RunId, ShardId};
use tidemill_common::store::{Meta, Runs, StoreError};
use tidemill_common::value::{Segment, Stored};
use tidemill_common::wire::conversation::{CONVERSATION_MESSAGES, conversation_field};
use tidemill_common::wire::value::stored_from_json;

use super::{SubmitError, inputs};

/// Longest id of a conversation, in characters: that of a UUID and some.
const ID_CHARS_MAX: usize = 64;
/// The version of the UUIDs that we make for conversations: one that says its shard, and that no foreign id has.
const OWN_VERSION: usize = 8;

/// The id of the conversation that begins with a run: a request that is repeated begins the same one.
pub(super) fn new_id(run: RunId) -> String {
    uuid::Builder::from_custom_bytes(*run.uuid().as_bytes()).into_uuid().to_string()
}

/// Checks an id that a request names.
pub(super) fn check(id: &str) -> Result<(), SubmitError> {
    let fits =
        id.len() <= ID_CHARS_MAX && id.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if fits { Ok(()) } else { Err(SubmitError::ConversationId) }
}

/// The shard of a conversation: its id says it when it is one of ours; else it follows from the id and the number of
/// shards at first, which never changes.
pub(super) fn shard_of(id: &str, meta: Meta) -> ShardId {
    if let Ok(uuid) = uuid::Uuid::try_parse(id)
        && uuid.get_version_num() == OWN_VERSION
        && let Ok(like) = id.parse::<RunId>()
        && like.shard().0 < meta.shards
    {
        return like.shard();
    }
    let digest = Sha256::digest(id);
    let number = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    ShardId(u16::try_from(number % u32::from(meta.shards_first.max(1))).unwrap_or(0))
}

/// The variables that the conversation remembers, under those that the request gives; and whether it has a list of
/// messages. What the workflow does not define any more, or defines with another type, is left out.
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

/// The value that the hash of a conversation keeps for a variable: none when it keeps none, or one of another type than
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
        tracing::warn!(conversation = id, name, "conversation variable is gone, its first value is taken");
        return Ok(None);
    };
    match inputs::typed(name, variable.value.ty, &segment.value) {
        Ok(segment) => Ok(Some(segment)),
        Err(error) => {
            tracing::debug!(conversation = id, %error, "kept value is passed over");
            Ok(None)
        }
    }
}

/// A value that somebody sets, if it fits the type that the workflow gives the variable.
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
        // Assigned values are never items of a list apart: whoever assigns has loaded the item.
        Some(Stored::Item { .. } | Stored::Secret(_)) | None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_ours_says_its_shard_and_others_keep_theirs_for_ever() {
        let meta = |shards| Meta { version: 1, shards, shards_first: 2 };
        let own = new_id(RunId::generate(ShardId(3)));
        assert_eq!(shard_of(&own, meta(4)), ShardId(3));
        for foreign in
            ["f3b1a7ba-4f0e-4f4e-9d4e-2b8f3c5d7e91", "0199c0de-0000-7000-8000-000000000003", "conv-1"]
        {
            assert_eq!(shard_of(foreign, meta(2)), shard_of(foreign, meta(16_384)), "{foreign}");
            assert!(shard_of(foreign, meta(16_384)).0 < 2, "{foreign}");
        }
    }

    #[test]
    fn ids_that_could_not_be_keys_are_refused() {
        assert!(check("conv-1").is_ok() && check(&new_id(RunId::generate(ShardId(0)))).is_ok());
        for wrong in ["a b", "a{b}", "a:b", &"x".repeat(65)] {
            assert!(check(wrong).is_err(), "{wrong}");
        }
    }
}
