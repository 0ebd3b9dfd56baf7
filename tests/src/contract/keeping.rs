//! Message lists, runtime values (`rt`) and the history of runs.

use super::conversing::{chat, entering};
use super::fixtures::{SHARD, conversation_write, created_at, ended, new_run, run_id, write};
use super::{Outcome, Subject, same};
use tidemill_common::store::{Created, NewRun, Page};
use tidemill_common::wire::commit::RunWrite;
use tidemill_common::wire::conversation::CONVERSATION_MESSAGES;
use tidemill_common::wire::state::messages::{MessagesAtRest, MessagesWrite, OBJECTS_FIELD};

fn texts(of: std::ops::Range<u32>) -> Vec<String> {
    of.map(|n| format!("{{\"role\":\"user\",\"content\":\"{n}\"}}")).collect()
}

/// A write of messages to `main`; `parts` lists the run's parts afterwards.
fn messages(n: u8, of: std::ops::Range<u32>, parts: &str) -> RunWrite {
    let index = format!("{{\"count\":{}}}", of.end);
    RunWrite {
        fields: vec![(OBJECTS_FIELD, parts.to_string())],
        state: [("m:main", Some(index))].into_iter().collect(),
        messages: Some(Box::new(MessagesWrite {
            messages: vec![("main".into(), texts(of))],
            ..MessagesWrite::default()
        })),
        ..write(n)
    }
}

pub(super) async fn messages_and_history_are_appended_and_read_in_pages(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    owning.write(vec![messages(1, 0..3, "messages:main")]).await?;
    let more = MessagesWrite {
        messages: vec![("main".into(), texts(3..5)), ("other".into(), texts(0..1))],
        runtime: vec![("answer".into(), Some("\"a\"".into())), ("time".into(), Some("1".into()))],
        history: vec!["{\"seq\":1}".into(), "{\"seq\":2}".into()],
        expire: Vec::new(),
    };
    let fields = vec![(OBJECTS_FIELD, "messages:main messages:other rt history".to_string())];
    owning.write(vec![RunWrite { messages: Some(Box::new(more)), fields, ..write(1) }]).await?;
    let change = MessagesWrite {
        runtime: vec![("answer".into(), Some("\"b\"".into())), ("time".into(), None)],
        ..MessagesWrite::default()
    };
    owning.write(vec![RunWrite { messages: Some(Box::new(change)), ..write(1) }]).await?;
    let store = s.store();
    let all = Page { from: 0, count: 100 };
    same("its messages", store.list_messages(run_id(1), "main", all).await?, texts(0..5))?;
    let page = Page { from: 1, count: 2 };
    same("a page", store.list_messages(run_id(1), "main", page).await?, texts(1..3))?;
    let none = Page { from: 1, count: 0 };
    same("an empty page", store.list_messages(run_id(1), "main", none).await?, vec![])?;
    same("its index", store.list_index(run_id(1), "main").await?, Some("{\"count\":3}".to_string()))?;
    same("no such list", store.list_index(run_id(1), "none").await?, None)?;
    same(
        "its history",
        store.history(run_id(1), Page { from: 1, count: 9 }).await?,
        vec!["{\"seq\":2}".into()],
    )?;
    let runtime = vec![("answer".to_string(), "\"b\"".to_string())];
    same("its runtime values", store.runtime(run_id(1)).await?, runtime.clone())?;
    let rest = store.load_run(run_id(1)).await?.unwrap_or_default().messages;
    let whole = MessagesAtRest {
        messages: vec![("main".into(), texts(0..5)), ("other".into(), texts(0..1))],
        runtime,
        history: vec!["{\"seq\":1}".into(), "{\"seq\":2}".into()],
    };
    same("all of it with the run", rest, whole)?;
    let other = store.load_run(run_id(2)).await?.unwrap_or_default().messages;
    same("another run has nothing", other, MessagesAtRest::default())
}

pub(super) async fn a_run_begins_with_a_copy_of_the_messages_of_its_conversation(s: Subject) -> Outcome {
    let store = s.store();
    let mut owning = s.running(&[1]).await?;
    store.enter_conversation(&entering(1, "u", false)).await?;
    let index = "{\"count\":2}".to_string();
    let kept = conversation_write("chat", vec![(CONVERSATION_MESSAGES.to_string(), index.clone())]);
    let left = RunWrite {
        conversation: Some(Box::new(tidemill_common::wire::commit::ConversationWrite {
            messages: Some(run_id(1)),
            ..kept
        })),
        ..messages(1, 0..2, "messages:main")
    };
    owning.write(vec![left]).await?;
    // Later writes belong to the run alone.
    owning.write(vec![messages(1, 2..3, "messages:main")]).await?;
    let next = NewRun { takes_messages: Some("chat".into()), ..new_run(2) };
    same("created", store.create_run(&next).await?, Created::Created)?;
    let rest = store.load_run(run_id(2)).await?.unwrap_or_default();
    same("a copy", rest.messages.messages, vec![("main".to_string(), texts(0..2))])?;
    same("and its index", rest.state, vec![("m:main".to_string(), index)])?;
    let none = NewRun { takes_messages: Some("none".into()), ..new_run(3) };
    same("of a conversation without messages", store.create_run(&none).await?, Created::Created)?;
    let rest = store.load_run(run_id(3)).await?.unwrap_or_default();
    same("nothing", rest.messages, MessagesAtRest::default())?;
    same("dropped", store.drop_conversation(&chat("chat", "u")).await?, true)?;
    store.enter_conversation(&entering(4, "u", false)).await?;
    let fresh = NewRun { takes_messages: Some("chat".into()), ..new_run(4) };
    same("created", store.create_run(&fresh).await?, Created::Created)?;
    let rest = store.load_run(run_id(4)).await?.unwrap_or_default();
    same("removed with its conversation", rest.messages, MessagesAtRest::default())
}

pub(super) async fn messages_and_history_are_removed_with_the_run(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    owning.write(vec![messages(1, 0..3, "messages:main")]).await?;
    let expire = MessagesWrite { expire: vec!["messages:main".into()], ..MessagesWrite::default() };
    owning.write(vec![RunWrite { messages: Some(Box::new(expire)), ..ended(1, created_at(10)) }]).await?;
    let all = Page { from: 0, count: 100 };
    same(
        "it is kept as long as its run",
        s.store().list_messages(run_id(1), "main", all).await?,
        texts(0..3),
    )?;
    same("swept", s.store().sweep(SHARD, owning.epoch(), created_at(15), 10).await?, 1)?;
    same("nothing is left", s.store().list_messages(run_id(1), "main", all).await?, vec![])
}
