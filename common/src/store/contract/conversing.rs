//! Conversations: entered by their own app and user, and each run's turn kept once.

use super::fixtures::{SHARD, created_at, ended, run_id};
use super::{Outcome, Subject, same};
use crate::store::{Entered, Entering};
use crate::wire::commit::RunWrite;

fn entering(n: u8, user: &str, must_exist: bool) -> Entering {
    Entering {
        id: "chat".into(),
        run: run_id(n),
        app: "app".into(),
        user: user.into(),
        must_exist,
        at: created_at(n),
    }
}

pub(super) async fn runs_enter_a_conversation_one_behind_the_other(s: Subject) -> Outcome {
    let store = s.store();
    same("none yet", store.enter_conversation(&entering(1, "u", true)).await?, Entered::Unknown)?;
    let first = Entered::Entered { dialogue: 1, previous: None };
    same("it begins", store.enter_conversation(&entering(1, "u", false)).await?, first.clone())?;
    same("the same run again", store.enter_conversation(&entering(1, "u", true)).await?, first)?;
    let second = Entered::Entered { dialogue: 2, previous: Some(run_id(1)) };
    same("the next", store.enter_conversation(&entering(2, "u", true)).await?, second.clone())?;
    for must_exist in [true, false] {
        let stranger = store.enter_conversation(&entering(3, "v", must_exist)).await?;
        same("somebody else's", stranger, Entered::Unknown)?;
    }
    same("and again", store.enter_conversation(&entering(2, "u", true)).await?, second)
}

pub(super) async fn the_turn_of_a_run_that_has_ended_is_kept_once(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2, 3]).await?;
    let store = s.store();
    let over = |n, leaves_turn| RunWrite { leaves_turn, ..ended(n, created_at(9)) };
    same("while it runs", store.is_unsettled(run_id(1)).await?, false)?;
    owning.write(vec![over(1, true), over(2, true), over(3, false)]).await?;
    let mut left = store.unsettled(&[SHARD]).await?;
    left.sort();
    same("those that say so", left, vec![run_id(1), run_id(2)])?;
    same("its turn", store.settle_turn(run_id(2), "chat", "\"b\"").await?, true)?;
    same("once", store.settle_turn(run_id(2), "chat", "\"b\"").await?, false)?;
    same("the other", store.settle_turn(run_id(1), "chat", "\"a\"").await?, true)?;
    same("of none", store.settle_turn(run_id(3), "chat", "\"c\"").await?, false)?;
    same("in order", store.turns(SHARD, "chat", 10).await?, vec!["\"b\"".to_string(), "\"a\"".into()])?;
    same("the last", store.turns(SHARD, "chat", 1).await?, vec!["\"a\"".to_string()])?;
    same("nothing is left", store.unsettled(&[SHARD]).await?, vec![])
}
