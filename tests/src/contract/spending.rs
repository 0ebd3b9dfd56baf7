//! The spending of keys: counted by commits, added up over the shards.

use super::fixtures::{created_at, run_id, write};
use super::{Outcome, Subject, same};
use tidemill_common::machine::order::changes::ChargeEntry;
use tidemill_common::machine::state::cost::Price;
use tidemill_common::store::day_of;
use tidemill_common::wire::commit::{ChargeWrite, RunWrite};

pub(super) fn spends(n: u8, key: &str, tokens: u64, price: &str) -> RunWrite {
    let price = Some(Price {
        amount: price.parse().unwrap_or(tidemill_common::nodes::llm::decimal::Decimal::UNPRICED),
        currency: "EUR".into(),
    });
    let call = ChargeEntry {
        at: created_at(n),
        provider: "p".into(),
        model: "m".into(),
        prompt_tokens: tokens - 1,
        completion_tokens: 1,
        total_tokens: tokens,
        price,
    };
    RunWrite { charges: Some(Box::new(ChargeWrite { key: Some(key.into()), calls: vec![call] })), ..write(n) }
}

pub(super) async fn the_spending_of_keys_is_added_up(s: Subject) -> Outcome {
    let mut owning = s.running(&[1, 2]).await?;
    owning.write(vec![spends(1, "k", 10, "0.5"), spends(2, "k", 5, "0.0000001")]).await?;
    owning.write(vec![spends(1, "other", 3, "1")]).await?;
    for day in [None, Some(day_of(created_at(1)))] {
        let spent = s.store().key_cost("k", day.as_deref()).await?;
        let counts = ["calls", "tokens", "prompt_tokens", "completion_tokens"].map(|name| spent.get(name));
        same("its calls", counts, [2, 15, 13, 2])?;
        same("its money", spent.paid("EUR").fixed(), "0.5000001".to_string())?;
    }
    same("another day", s.store().key_cost("k", Some("1999-01-01")).await?.get("calls"), 0)
}

pub(super) async fn a_budget_of_a_key_is_set_and_removed(s: Subject) -> Outcome {
    let store = s.store();
    store.put_key_budget("k", Some("{}")).await?;
    same("it is set", store.key_budgets().await?, vec![("k".to_string(), "{}".to_string())])?;
    store.put_key_budget("k", None).await?;
    same("it is removed", store.key_budgets().await?, vec![])
}

pub(super) async fn the_ledger_of_a_run_can_be_read(s: Subject) -> Outcome {
    let mut owning = s.running(&[1]).await?;
    same("nothing is spent", s.store().ledger(run_id(1)).await?, vec![])?;
    // More than one page.
    let entries: Vec<(String, String)> =
        (0..2500).map(|n| (format!("e/llm:{n}/1"), format!("{{\"n\":{n}}}"))).collect();
    let ledger = |of: &[(String, String)]| RunWrite { ledger: of.to_vec(), has_ledger: true, ..write(1) };
    owning.write(vec![ledger(&entries[..2000])]).await?;
    owning.write(vec![ledger(&entries[1000..])]).await?;
    let (mut kept, mut expected) = (s.store().ledger(run_id(1)).await?, entries);
    kept.sort();
    expected.sort();
    same("each call once", kept, expected)
}
