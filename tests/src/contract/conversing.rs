//! Conversations: only their own app and user enter them, each run's turn is stored once, they are listed for
//! their user, and a removed one never comes back.

use super::fixtures::{SHARD, created_at, ended, run_id};
use super::{Outcome, Subject, holds, same};
use tidemill_common::ids::{BlobId, ShardId};
use tidemill_common::limits::{CONVERSATION_OPEN_MAX, CONVERSATION_SECONDS, CONVERSATION_TURNS_MAX};
use tidemill_common::store::{
    ConversationChange, ConversationRef, ConversationsBy, Entered, Entering, ListConversations, OPEN_FIELD,
    Rated, Rating, Settling, StoreError,
};
use tidemill_common::wire::commit::{ConversationWrite, RunWrite};

pub(super) fn chat(id: &str, user: &str) -> ConversationRef {
    let (id, app, user) = (id.to_string(), "app".to_string(), user.to_string());
    ConversationRef { shard: SHARD, id, app, user, copies: vec![copy()] }
}

fn copy() -> BlobId {
    "copy-of-v".into()
}

pub(super) fn entering(n: u8, user: &str, must_exist: bool) -> Entering {
    let conversation = chat("chat", user);
    Entering { conversation, run: run_id(n), must_exist, at: created_at(n), begins: Vec::new() }
}

fn settling(n: u8, turn: &str) -> Settling {
    Settling { conversation: chat("chat", "u"), run: run_id(n), turn: turn.to_string() }
}

fn over(n: u8, leaves_turn: bool) -> RunWrite {
    RunWrite { leaves_turn, ..ended(n, created_at(9)) }
}

pub(super) async fn runs_enter_a_conversation_one_after_the_other(s: Subject) -> Outcome {
    let store = s.store();
    same("none yet", store.enter_conversation(&entering(1, "u", true)).await?, Entered::Unknown)?;
    let first = Entered::Entered { dialogue: 1, previous: None, unsettled: Vec::new() };
    let mut begin = entering(1, "u", false);
    begin.begins = vec![("name", "hello".to_string())];
    same("it begins", store.enter_conversation(&begin).await?, first.clone())?;
    same("the same run again", store.enter_conversation(&entering(1, "u", true)).await?, first)?;
    let second = Entered::Entered { dialogue: 2, previous: Some(run_id(1)), unsettled: Vec::new() };
    let mut next = entering(2, "u", true);
    next.begins = vec![("name", "again".to_string())];
    same("the next", store.enter_conversation(&next).await?, second.clone())?;
    for must_exist in [true, false] {
        let stranger = store.enter_conversation(&entering(3, "v", must_exist)).await?;
        same("another user's", stranger, Entered::Unknown)?;
    }
    same("and again", store.enter_conversation(&entering(2, "u", true)).await?, second)?;
    let name = store.conversation(SHARD, "chat").await?.get("name").cloned();
    same("the name is the first question", name.as_deref(), Some("hello"))
}

pub(super) async fn the_turn_of_an_ended_run_is_stored_once(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2, 3]).await?;
    let store = s.store();
    store.enter_conversation(&entering(1, "u", false)).await?;
    same("while it runs", store.is_unsettled(run_id(1)).await?, false)?;
    owning.write(vec![over(1, true), over(2, true), over(3, false)]).await?;
    let mut left = store.unsettled(&[SHARD]).await?;
    left.sort();
    same("the runs with an unsettled turn", left, vec![run_id(1), run_id(2)])?;
    same("its turn", store.settle_turn(&settling(2, "\"b\"")).await?, true)?;
    same("once", store.settle_turn(&settling(2, "\"b\"")).await?, false)?;
    same("the other", store.settle_turn(&settling(1, "\"a\"")).await?, true)?;
    same("of none", store.settle_turn(&settling(3, "\"c\"")).await?, false)?;
    same("in order", store.turns(SHARD, "chat", 10).await?, vec!["\"b\"".to_string(), "\"a\"".into()])?;
    same("the last", store.turns(SHARD, "chat", 1).await?, vec!["\"a\"".to_string()])?;
    same("nothing is left", store.unsettled(&[SHARD]).await?, vec![])
}

pub(super) async fn turns_at_the_same_time_are_known_until_they_are_stored(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2, 3]).await?;
    let store = s.store();
    for n in 1..=3 {
        store.enter_conversation(&entering(n, "u", false)).await?;
    }
    let open = async || {
        let open = store.conversation(SHARD, "chat").await?.remove(OPEN_FIELD).unwrap_or_default();
        Ok::<_, super::Broken>(open)
    };
    let ids = |runs: &[u8]| runs.iter().map(|n| run_id(*n).to_string()).collect::<Vec<_>>().join(" ");
    same("all are open", open().await?, ids(&[1, 2, 3]))?;
    owning.write(vec![over(1, true), over(3, true)]).await?;
    let unsettled = vec![run_id(1)];
    let fourth = Entered::Entered { dialogue: 4, previous: Some(run_id(3)), unsettled };
    for time in ["the next gets what has ended", "also when it is repeated"] {
        same(time, store.enter_conversation(&entering(4, "u", true)).await?, fourth.clone())?;
    }
    store.settle_turn(&settling(1, "\"a\"")).await?;
    same("one is stored", open().await?, ids(&[2, 3, 4]))?;
    let many = u8::try_from(CONVERSATION_OPEN_MAX).unwrap_or(u8::MAX);
    for n in 5..=5 + many {
        store.enter_conversation(&entering(n, "u", true)).await?;
    }
    same("the newest of many", open().await?, ids(&(6..=5 + many).collect::<Vec<_>>()))
}

async fn listed(s: &Subject, query: &ListConversations) -> Result<Option<Vec<String>>, StoreError> {
    let found = s.store().conversations(query).await?;
    Ok(found.map(|found| found.into_iter().map(|it| it.id).collect()))
}

fn all_of(user: &str) -> ListConversations {
    ListConversations {
        app: "app".into(),
        user: user.into(),
        by: ConversationsBy::Use,
        newest_first: true,
        after: None,
        limit: 10,
    }
}

fn ids(ids: &[&str]) -> Option<Vec<String>> {
    Some(ids.iter().map(ToString::to_string).collect())
}

pub(super) async fn a_users_conversations_are_listed_page_by_page(s: Subject) -> Outcome {
    let store = s.store();
    let enter = async |id: &str, user: &str, n: u8| {
        let conversation = chat(id, user);
        let it =
            Entering { conversation, run: run_id(n), must_exist: false, at: created_at(n), begins: vec![] };
        store.enter_conversation(&it).await.map(|_| ())
    };
    for (id, user, n) in [("a", "u", 1), ("b", "u", 2), ("x", "v", 3), ("c", "u", 4), ("a", "u", 5)] {
        enter(id, user, n).await?;
    }
    same("the most recently used first", listed(&s, &all_of("u")).await?, ids(&["a", "c", "b"]))?;
    same("another user's", listed(&s, &all_of("v")).await?, ids(&["x"]))?;
    same("of an unknown user", listed(&s, &all_of("w")).await?, ids(&[]))?;
    let mut oldest = ListConversations { newest_first: false, ..all_of("u") };
    same("the most recently used last", listed(&s, &oldest).await?, ids(&["b", "c", "a"]))?;
    oldest.by = ConversationsBy::Begin;
    same("in the order of their beginning", listed(&s, &oldest).await?, ids(&["a", "b", "c"]))?;
    let page = |after: Option<&str>| {
        let after = after.map(|id| (SHARD, id.to_string()));
        ListConversations { limit: 2, after, ..all_of("u") }
    };
    same("a page", listed(&s, &page(None)).await?, ids(&["a", "c"]))?;
    same("the next", listed(&s, &page(Some("c"))).await?, ids(&["b"]))?;
    same("after the last", listed(&s, &page(Some("b"))).await?, ids(&[]))?;
    same("after the conversation of another user", listed(&s, &page(Some("x"))).await?, None)?;
    let fields = store.conversations(&all_of("v")).await?.unwrap_or_default().pop().map(|it| it.fields);
    let begun = fields.and_then(|fields| fields.get("created_at").cloned());
    same("the listed time", begun, Some(created_at(3).millis().to_string()))
}

pub(super) async fn conversations_with_the_same_time_are_all_listed(s: Subject) -> Outcome {
    let mut all = Vec::new();
    for n in 1..=5 {
        let id = format!("chat-{n}");
        let conversation = chat(&id, "u");
        let it =
            Entering { conversation, run: run_id(n), must_exist: false, at: created_at(1), begins: vec![] };
        s.store().enter_conversation(&it).await?;
        all.push(id);
    }
    for newest_first in [true, false] {
        let mut query = ListConversations { limit: 2, newest_first, ..all_of("u") };
        let mut found = Vec::new();
        while let Some(page) = listed(&s, &query).await?.filter(|page| !page.is_empty()) {
            query.after = page.last().map(|id| (SHARD, id.clone()));
            found.extend(page);
        }
        found.sort();
        same("each once", found, all.clone())?;
    }
    Ok(())
}

pub(super) async fn only_its_own_user_changes_a_conversation(s: Subject) -> Outcome {
    let store = s.store();
    store.enter_conversation(&entering(1, "u", false)).await?;
    let other = Entering { conversation: chat("other", "u"), ..entering(2, "u", false) };
    store.enter_conversation(&other).await?;
    let change = |user: &str| ConversationChange {
        conversation: chat("chat", user),
        fields: vec![("name".into(), "mine".into()), ("v:n".into(), "1".into())],
        copy: None,
        used_at: Some(created_at(3)),
    };
    same("another user", store.change_conversation(&change("v")).await?, false)?;
    let absent = ConversationChange { conversation: chat("none", "u"), ..change("u") };
    same("none", store.change_conversation(&absent).await?, false)?;
    same("untouched", listed(&s, &all_of("u")).await?, ids(&["other", "chat"]))?;
    same("his own", store.change_conversation(&change("u")).await?, true)?;
    let fields = store.conversation(SHARD, "chat").await?;
    same("its fields", (fields["name"].as_str(), fields["v:n"].as_str()), ("mine", "1"))?;
    same("as used", listed(&s, &all_of("u")).await?, ids(&["chat", "other"]))?;
    for content in [Some("\"large\"".to_string()), None] {
        let copy = Some((copy(), content.clone()));
        let large = ConversationChange { copy, used_at: None, ..change("u") };
        same("with a large value", store.change_conversation(&large).await?, true)?;
        same("it is a blob", store.blob(SHARD, &self::copy()).await?, content)?;
    }
    Ok(())
}

pub(super) async fn a_removed_conversation_accepts_nothing_more(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    let store = s.store();
    store.enter_conversation(&entering(1, "u", false)).await?;
    let other = Entering { conversation: chat("other", "u"), ..entering(2, "u", false) };
    store.enter_conversation(&other).await?;
    let blob = BlobId::generate();
    let written = |n| RunWrite {
        run: run_id(n),
        blobs: vec![(blob.clone(), "\"large\"".to_string())],
        conversation: Some(Box::new(ConversationWrite {
            id: "chat".into(),
            fields: vec![("v:v".into(), "1".into())],
            copies: vec![(blob.clone(), copy())],
            dropped: vec![],
            kept: vec![],
            messages: None,
        })),
        ..super::fixtures::write(n)
    };
    owning.write(vec![written(1)]).await?;
    same("another user's", store.drop_conversation(&chat("chat", "v")).await?, false)?;
    same("its own", store.drop_conversation(&chat("chat", "u")).await?, true)?;
    same("once", store.drop_conversation(&chat("chat", "u")).await?, false)?;
    same("its large value", store.blob(SHARD, &copy()).await?, None)?;
    same("off the list", listed(&s, &all_of("u")).await?, ids(&["other"]))?;
    let after = ListConversations { after: Some((SHARD, "chat".into())), ..all_of("u") };
    same("nothing is after it", listed(&s, &after).await?, None)?;
    // Its run does not know that and continues to write.
    owning.write(vec![written(1)]).await?;
    same("no run enters it", store.enter_conversation(&entering(2, "u", true)).await?, Entered::Unknown)?;
    let change = ConversationChange {
        conversation: chat("chat", "u"),
        fields: vec![("name".into(), "mine".into())],
        copy: None,
        used_at: Some(created_at(3)),
    };
    same("no client changes it", store.change_conversation(&change).await?, false)?;
    owning.write(vec![over(1, true)]).await?;
    same("no turn is kept", store.settle_turn(&settling(1, "\"a\"")).await?, false)?;
    same("nothing to settle", store.unsettled(&[SHARD]).await?, vec![])?;
    same("no turn", store.turns(SHARD, "chat", 10).await?, vec![])?;
    holds("no data of it is left", store.conversation(SHARD, "chat").await?.is_empty())?;
    same("its large value is removed", store.blob(SHARD, &copy()).await?, None)?;
    same("still off the list", listed(&s, &all_of("u")).await?, ids(&["other"]))
}

pub(super) async fn a_turn_is_not_given_to_another_owner_of_the_id(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    let store = s.store();
    store.enter_conversation(&entering(1, "u", false)).await?;
    store.drop_conversation(&chat("chat", "u")).await?;
    store.enter_conversation(&entering(2, "v", false)).await?;
    owning.write(vec![over(1, true)]).await?;
    same("another user's", store.settle_turn(&settling(1, "\"a\"")).await?, false)?;
    same("no turn", store.turns(SHARD, "chat", 10).await?, vec![])?;
    same("it belongs to the other user", listed(&s, &all_of("v")).await?, ids(&["chat"]))
}

pub(super) async fn a_rating_is_removed_with_its_turn(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    let store = s.store();
    store.enter_conversation(&entering(1, "u", false)).await?;
    let rating = |user: &str, rating: Option<&str>| Rating {
        conversation: chat("chat", user),
        message: run_id(1),
        rating: rating.map(str::to_string),
        at: created_at(1),
    };
    same("nothing yet", store.rate_message(&rating("u", None)).await?, Rated::Absent)?;
    same("another user", store.rate_message(&rating("v", Some("1"))).await?, Rated::Unknown)?;
    same("kept", store.rate_message(&rating("u", Some("1"))).await?, Rated::Done)?;
    same("changed", store.rate_message(&rating("u", Some("2"))).await?, Rated::Done)?;
    let both = [run_id(1).to_string(), run_id(2).to_string()];
    let said = async || store.ratings(SHARD, "chat", &both).await;
    same("told", said().await?, vec![Some("2".into()), None])?;
    same("taken back", store.rate_message(&rating("u", None)).await?, Rated::Done)?;
    same("gone", said().await?, vec![None, None])?;

    store.rate_message(&rating("u", Some("3"))).await?;
    owning.write(vec![over(1, true)]).await?;
    let turn = format!(r#"{{"id":"{}"}}"#, run_id(1));
    store.settle_turn(&settling(1, &turn)).await?;
    same("with its turn", said().await?, vec![Some("3".into()), None])?;
    owning.write(vec![over(2, true)]).await?;
    for _ in 0..CONVERSATION_TURNS_MAX {
        // The fixtures have few runs, so the same one leaves another turn.
        owning.write(vec![RunWrite { leaves_turn: true, ..ended(2, created_at(9)) }]).await?;
        store.settle_turn(&settling(2, "{}")).await?;
    }
    let turns = store.turns(SHARD, "chat", 2 * CONVERSATION_TURNS_MAX).await?;
    same("the newest turns", turns.len(), CONVERSATION_TURNS_MAX)?;
    same("and their ratings", said().await?, vec![None, None])
}

pub(super) async fn expired_conversations_are_not_listed(s: Subject) -> Outcome {
    let long = std::time::Duration::from_secs(CONVERSATION_SECONDS);
    if s.control.patience() < long {
        return Ok(());
    }
    let store = s.store();
    store.enter_conversation(&entering(1, "u", false)).await?;
    s.control.advance(long * 2 / 3).await;
    let other = Entering { conversation: chat("other", "u"), ..entering(2, "u", false) };
    store.enter_conversation(&other).await?;
    s.control.advance(long * 2 / 3).await;
    same("the one that was used", listed(&s, &all_of("u")).await?, ids(&["other"]))?;
    same("no turns", store.turns(SHARD, "chat", 1).await?, vec![])?;
    let again = store.enter_conversation(&entering(3, "u", false)).await?;
    let fresh = Entered::Entered { dialogue: 1, previous: None, unsettled: Vec::new() };
    same("it begins again", again, fresh)?;
    let elsewhere = ListConversations { after: Some((ShardId(1), "chat".into())), ..all_of("u") };
    same("of another shard", listed(&s, &elsewhere).await?, None)
}
