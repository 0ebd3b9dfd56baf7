//! Conversations and their turns, as `enter_conversation.lua` and `settle_turn.lua` keep them.

use super::shard::Shard;
use crate::ids::RunId;
use crate::limits;
use crate::store::{Entered, Entering};

pub(super) fn enter(shard: &mut Shard, it: &Entering) -> Entered {
    let run = it.run.to_string();
    let known = shard.conversations.get(&it.id).map(|kept| &kept.fields);
    let field = |name: &str| known.and_then(|fields| fields.get(name)).cloned();
    let (last, number) = (field("last"), field("dialogue").and_then(|text| text.parse().ok()).unwrap_or(0));
    let run_of = |text: Option<String>| text.and_then(|id| id.parse::<RunId>().ok());
    if last.as_ref() == Some(&run) {
        return Entered::Entered { dialogue: number, previous: run_of(field("before")) };
    }
    let is_theirs = field("app").as_ref() == Some(&it.app) && field("user").as_ref() == Some(&it.user);
    if (last.is_some() && !is_theirs) || (last.is_none() && it.must_exist) {
        return Entered::Unknown;
    }
    let now = it.at.millis().to_string();
    let fields = &mut shard.conversations.entry(it.id.clone()).or_default().fields;
    let mut set = |name: &str, value: String| fields.insert(name.into(), value);
    if last.is_none() {
        set("app", it.app.clone());
        set("user", it.user.clone());
        set("created_at", now.clone());
    }
    set("last", run);
    set("before", last.clone().unwrap_or_default());
    set("updated_at", now);
    set("dialogue", (number + 1).to_string());
    Entered::Entered { dialogue: number + 1, previous: run_of(last) }
}

pub(super) fn settle(shard: &mut Shard, run: RunId, id: &str, turn: &str) -> bool {
    if !shard.unsettled.remove(&run) {
        return false;
    }
    let turns = &mut shard.conversations.entry(id.into()).or_default().turns;
    turns.push(turn.into());
    let surplus = turns.len().saturating_sub(limits::CONVERSATION_TURNS_MAX);
    turns.drain(..surplus);
    true
}
