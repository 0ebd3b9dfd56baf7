//! Calls of models that run while a plugin may end.

use std::sync::atomic::{AtomicU64, Ordering};

use tidemill_common::nodes::llm::tokens;
use tidemill_common::nodes::llm::usage::{self, Timing, Tokens};

use super::InPlace;
use crate::outside::providers::Model;

/// A call of a model. Dropped before its end, because the plugin has ended or its time is over, it counts as wasted with estimated
/// tokens: the provider has worked.
pub(super) struct Running<'c> {
    waiter: &'c InPlace<'c>,
    provider: &'c str,
    model: &'c Model,
    /// Tokens of the question.
    prompt: u64,
    /// Characters of the answer so far.
    chars: AtomicU64,
    has_ended: bool,
}

impl<'c> Running<'c> {
    pub(super) fn new(waiter: &'c InPlace<'c>, (provider, model): (&'c str, &'c Model), prompt: u64) -> Self {
        Self { waiter, provider, model, prompt, chars: AtomicU64::new(0), has_ended: false }
    }

    /// Counts a piece of the answer.
    pub(super) fn said(&self, piece: &str) {
        self.chars.fetch_add(piece.chars().count() as u64, Ordering::Relaxed);
    }

    /// The call has ended, and its cost is known.
    pub(super) fn end(mut self) {
        self.has_ended = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let chars = self.chars.load(Ordering::Relaxed);
        let is_asked = chars > 0 || !self.waiter.is_waiting();
        let Some(journal) = self.waiter.asker.journal.filter(|_| is_asked && !self.has_ended) else { return };
        let tokens = Tokens { prompt: self.prompt, completion: tokens::of_chars(chars) };
        let usage = usage::bill(tokens, self.model.pricing.as_ref(), Timing::default());
        journal.add_wasted(self.provider, self.model.name(), usage::estimated(usage));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use serde_json::json;
    use tidemill_common::config::HttpConfig;
    use tidemill_common::files::Folder;

    use super::super::Asker;
    use super::*;
    use crate::outside::http::Http;
    use crate::outside::providers::Providers;
    use crate::tests::fake::{FakeJobs, journal, run_id};

    #[tokio::test]
    async fn a_call_that_ends_with_its_plugin_counts_as_wasted() {
        let config = json!({"acme": {
            "kind": "openai_compatible", "base_url": "http://127.0.0.1:9/v1", "api_key": "k", "models": {"m": {}},
        }});
        let providers = Providers::new(&serde_json::from_value(config).unwrap(), &|_| None).unwrap();
        let model = providers
            .model_for(("acme", "m"), crate::outside::providers::profile::ModelKind::Llm, None)
            .await
            .unwrap();
        let (jobs, http) = (FakeJobs::new(), Http::new(&HttpConfig::default()).unwrap());
        let folder = tempfile::tempdir().unwrap();
        let files = Folder::at(folder.path().to_str().unwrap()).unwrap();
        let (journal, run) = (journal(&jobs), run_id());
        let asker = Asker {
            run: &run,
            http: &http,
            files: &files,
            journal: Some(&journal),
            nested: 0,
            auto_approved: None,
            given: &[],
        };
        let waiter = InPlace { asker, call: "ask/1", waits: AtomicBool::new(false) };
        let running = || Running::new(&waiter, ("acme", &model), 10);

        running().said("The tide comes.");
        let wasted = journal.take_wasted().unwrap();
        assert_eq!((wasted.provider.as_str(), wasted.model.as_str()), ("acme", "m"));
        assert_eq!(wasted.usage.total_tokens, 10 + tokens::of_chars(15));
        assert_eq!(wasted.usage.record["estimated"], true);

        running().end();
        assert!(journal.take_wasted().is_none(), "its cost is known");
        waiter.waits.store(true, Ordering::Relaxed);
        drop(running());
        assert!(journal.take_wasted().is_none(), "it has waited for a limit, so the model was not asked");
    }
}
