//! JavaScript: QuickJS in warm helpers, with a new engine per execution.

mod engine;
pub(crate) mod helper;
mod slot;

use std::sync::Arc;

use crate::builtin::Shared;
use crate::frame::outcome;
use crate::pool::{Failed, Pool};
use crate::{CodeError, Program};
use slot::Slot;

/// Runs JavaScript programs.
#[derive(Debug)]
pub(crate) struct JavaScript {
    shared: Arc<Shared>,
    idle: Pool<Slot>,
}

impl JavaScript {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, idle: Pool::default() }
    }

    pub(crate) async fn run(&self, program: Program<'_>) -> Result<String, CodeError> {
        let bytes = crate::frame::program(program)?;
        let mut last = String::new();
        // An idle helper may have been killed meanwhile. Code has no outside effects, so another helper may run it.
        for _ in 0..2 {
            let mut slot = match self.idle.take() {
                Some(idle) => idle,
                None => Slot::start(&self.shared).map_err(|reason| {
                    CodeError(format!("the JavaScript sandbox does not start: {reason}"))
                })?,
            };
            match slot.run(&bytes, &self.shared.bounds).await {
                Ok((verdict, stdout, stderr)) => {
                    if slot.is_fit(&verdict) {
                        self.idle.give(slot);
                    }
                    return outcome(&verdict, stdout, &stderr, self.shared.bounds);
                }
                Err(Failed::Execution(verdict, stderr)) => {
                    return outcome(&verdict, String::new(), &stderr, self.shared.bounds);
                }
                Err(Failed::Helper(reason)) => last = format!("{reason}{}", slot.complaint().await),
            }
        }
        tracing::warn!(reason = last, "the JavaScript sandbox failed twice with the same program");
        Err(CodeError(format!("the JavaScript sandbox ended while it ran the code: {last}")))
    }
}
