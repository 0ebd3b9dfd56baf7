//! Dead letters. Each function does what the Redis store does in one request.

use super::Namespace;
use super::shard::Shard;
use crate::store::{Dead, DeadFact, DeadId, DeadLetter, ListDead, PutBack};
use tidemill_base::clock::Timestamp;

fn letter(id: DeadId, dead: &Dead) -> DeadLetter {
    let own = |(name, text): (&'static str, &str)| (name.to_string(), text.to_string());
    DeadLetter::from_fields(id, &dead.fields().into_iter().map(own).collect::<Vec<_>>())
}

pub(super) fn list(space: &Namespace, query: &ListDead) -> Vec<DeadLetter> {
    let of_shard = |(shard, keys): (&tidemill_base::ids::ShardId, &Shard)| {
        let id = |entry| DeadId { entry, shard: *shard };
        let all = keys.dead.after(tidemill_base::ids::EntryId::ZERO);
        all.map(|(entry, dead)| letter(id(entry), dead)).collect::<Vec<_>>()
    };
    let mut letters: Vec<DeadLetter> = space.shards.iter().flat_map(of_shard).collect();
    letters.retain(|letter| query.before.is_none_or(|before| letter.id < before));
    letters.sort_by_key(|letter| std::cmp::Reverse(letter.id));
    letters.truncate(query.limit);
    letters
}

pub(super) fn find(shard: &Shard, id: DeadId) -> Option<DeadLetter> {
    shard.dead.get(id.entry).map(|dead| letter(id, dead))
}

/// `put_back`
pub(super) fn put_back(shard: &mut Shard, fact: DeadFact<'_>, now: Timestamp) -> PutBack {
    if shard.dead.get(fact.id.entry).is_none() {
        return PutBack::Gone;
    }
    let Some(status) = shard.runs.get(&fact.run).map(|run| run.status()) else { return PutBack::NoRun };
    if let Some(status) = status.filter(|status| status.is_over()) {
        return PutBack::Over(status);
    }
    shard.add_fact(now, fact.run.to_string(), fact.kind, fact.body);
    shard.dead.remove(fact.id.entry);
    PutBack::Done
}
