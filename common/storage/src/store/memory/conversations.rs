//! Conversations, their turns and ratings, with the behaviour of the scripts. Lists are computed from all
//! conversations.

use std::time::Duration;

use super::Namespace;
use super::shard::{Blob, Conversation, Shard};
use crate::store::{
    ConversationChange, ConversationRef, ConversationsBy, Entered, Entering, FIELDS_LISTED,
    ListConversations, ListedConversation, OPEN_FIELD, Rated, Rating, Settling,
};
use tidemill_base::clock::Timestamp;
use tidemill_base::ids::RunId;
use tidemill_base::limits;

const KEPT: Duration = Duration::from_secs(limits::CONVERSATION_SECONDS);

impl Conversation {
    fn is_alive(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }
    /// Whether a run has entered it.
    fn is_there(&self, now: Timestamp) -> bool {
        self.is_alive(now) && self.fields.contains_key("last")
    }
    fn is_of(&self, app: &str, user: &str, now: Timestamp) -> bool {
        let is = |name: &str, value: &str| self.fields.get(name).is_some_and(|known| known == value);
        self.is_there(now) && is("app", app) && is("user", user)
    }
    /// The runs whose turns are not stored yet, without this one.
    fn open_without(&self, run: RunId) -> Vec<RunId> {
        let open = self.fields.get(OPEN_FIELD).map(String::as_str).unwrap_or_default();
        open.split(' ').filter_map(|id| id.parse().ok()).filter(|open| *open != run).collect()
    }
    /// Whether there are runs whose turns are not stored yet.
    pub(super) fn has_open_runs(&self) -> bool {
        self.fields.get(OPEN_FIELD).is_some_and(|open| !open.is_empty())
    }
    fn set_open(&mut self, runs: &[RunId]) {
        let ids: Vec<String> = runs.iter().map(ToString::to_string).collect();
        self.fields.insert(OPEN_FIELD.into(), ids.join(" "));
    }
}

/// Each use restarts the time to live of all parts of the conversation.
fn keep(shard: &mut Shard, it: &ConversationRef, now: Timestamp) {
    let until = Some(now.plus(KEPT));
    if let Some(kept) = shard.conversations.get_mut(&it.id) {
        kept.until = until;
    }
    for copy in &it.copies {
        if let Some(blob) = shard.blobs.get_mut(copy) {
            blob.until = until;
        }
    }
}

pub(super) fn enter(shard: &mut Shard, it: &Entering, now: Timestamp) -> Entered {
    let (run, of) = (it.run.to_string(), &it.conversation);
    let has_ended = &shard.unsettled;
    let kept = shard.conversations.entry(of.id.clone()).or_default();
    if !kept.is_alive(now) {
        *kept = Conversation::default();
    }
    let field = |name: &str| kept.fields.get(name).cloned();
    let (last, number) = (field("last"), field("dialogue").and_then(|text| text.parse().ok()).unwrap_or(0));
    let run_of = |text: Option<String>| text.and_then(|id| id.parse::<RunId>().ok());
    let mut open = kept.open_without(it.run);
    let entered = |dialogue, previous: Option<RunId>| {
        let is_meant = |run: &RunId| Some(*run) != previous && has_ended.contains(run);
        let unsettled = open.iter().copied().filter(is_meant).collect();
        Entered::Entered { dialogue, previous, unsettled }
    };
    if last.as_ref() == Some(&run) {
        return entered(number, run_of(field("before")));
    }
    let is_theirs = kept.is_of(&of.app, &of.user, now);
    if (last.is_some() && !is_theirs) || (last.is_none() && it.must_exist) {
        return Entered::Unknown;
    }
    let now_ms = it.at.millis().to_string();
    let mut set = |name: &str, value: String| kept.fields.insert(name.into(), value);
    if last.is_none() {
        set("app", of.app.clone());
        set("user", of.user.clone());
        set("created_at", now_ms.clone());
        it.begins.iter().for_each(|(name, value)| {
            set(name, value.clone());
        });
    }
    set("last", run);
    set("before", last.clone().unwrap_or_default());
    set("updated_at", now_ms);
    set("dialogue", (number + 1).to_string());
    if last.is_none() {
        kept.began_at = it.at;
    }
    kept.used_at = it.at;
    let answer = entered(number + 1, run_of(last));
    open.push(it.run);
    let surplus = open.len().saturating_sub(limits::CONVERSATION_OPEN_MAX);
    kept.set_open(&open[surplus..]);
    keep(shard, of, now);
    answer
}

pub(super) fn settle(shard: &mut Shard, it: &Settling, now: Timestamp) -> bool {
    if !shard.unsettled.remove(&it.run) {
        return false;
    }
    let of = &it.conversation;
    let Some(kept) = shard.conversations.get_mut(&of.id).filter(|kept| kept.is_there(now)) else {
        forget(shard, of);
        return false;
    };
    if !kept.is_of(&of.app, &of.user, now) {
        return false;
    }
    if kept.fields.contains_key(OPEN_FIELD) {
        let open = kept.open_without(it.run);
        kept.set_open(&open);
    }
    kept.turns.push(it.turn.clone());
    let surplus = kept.turns.len().saturating_sub(limits::CONVERSATION_TURNS_MAX);
    for turn in kept.turns.drain(..surplus) {
        let turn: serde_json::Value = serde_json::from_str(&turn).unwrap_or_default();
        kept.ratings.remove(turn["id"].as_str().unwrap_or_default());
    }
    keep(shard, of, now);
    true
}

fn forget(shard: &mut Shard, it: &ConversationRef) {
    shard.conversations.remove(&it.id);
    it.copies.iter().for_each(|copy| {
        shard.blobs.remove(copy);
    });
}

pub(super) fn change(shard: &mut Shard, it: &ConversationChange, now: Timestamp) -> bool {
    let of = &it.conversation;
    let known = shard.conversations.get_mut(&of.id);
    let Some(kept) = known.filter(|kept| kept.is_of(&of.app, &of.user, now)) else { return false };
    kept.fields.extend(it.fields.iter().cloned());
    kept.used_at = it.used_at.unwrap_or(kept.used_at);
    match &it.copy {
        Some((copy, Some(text))) => {
            shard.blobs.insert(copy.clone(), Blob { text: text.clone(), until: Some(now.plus(KEPT)) });
        }
        Some((copy, None)) => {
            shard.blobs.remove(copy);
        }
        None => {}
    }
    keep(shard, of, now);
    true
}

pub(super) fn drop_it(shard: &mut Shard, it: &ConversationRef, now: Timestamp) -> bool {
    let known = shard.conversations.get(&it.id);
    let is_theirs = known.is_some_and(|kept| kept.is_of(&it.app, &it.user, now));
    if is_theirs {
        forget(shard, it);
    }
    is_theirs
}

pub(super) fn rate(shard: &mut Shard, it: &Rating, now: Timestamp) -> Rated {
    let of = &it.conversation;
    let known = shard.conversations.get_mut(&of.id);
    let Some(kept) = known.filter(|kept| kept.is_of(&of.app, &of.user, now)) else { return Rated::Unknown };
    let message = it.message.to_string();
    match &it.rating {
        Some(rating) => {
            if kept.ratings.insert(message.clone(), rating.clone()).is_none() {
                // As in Redis, times are whole milliseconds.
                kept.rated_at.insert(message, Timestamp::from_millis(it.at.millis()));
            }
            Rated::Done
        }
        None if kept.ratings.remove(&message).is_some() => Rated::Done,
        None => Rated::Absent,
    }
}

pub(super) fn list(
    space: &Namespace,
    query: &ListConversations,
    now: Timestamp,
) -> Option<Vec<ListedConversation>> {
    let mut places = Vec::new();
    for (shard, of_shard) in &space.shards {
        for (id, kept) in &of_shard.conversations {
            if kept.is_of(&query.app, &query.user, now) {
                let at = match query.by {
                    ConversationsBy::Begin => kept.began_at,
                    ConversationsBy::Use => kept.used_at,
                };
                places.push((at, id, *shard, kept));
            }
        }
    }
    places.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    if query.newest_first {
        places.reverse();
    }
    let mut begin = 0;
    if let Some((shard, id)) = &query.after {
        begin = 1 + places.iter().position(|place| place.1 == id && place.2 == *shard)?;
    }
    let shown = places[begin..].iter().take(query.limit).map(|(_, id, shard, kept)| {
        let fields = kept.fields.iter().filter(|(name, _)| FIELDS_LISTED.contains(&name.as_str()));
        let fields = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
        ListedConversation { shard: *shard, id: (*id).clone(), fields }
    });
    Some(shown.collect())
}
