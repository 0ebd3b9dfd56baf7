//! Fails a run whose budget is exceeded. The call that exceeds it is counted and its events are emitted; then the run
//! fails, before another call begins. Wasted replies count, too.

use crate::flow::end_of_run;
use crate::step::Step;
use tidemill_base::failure::EngineErrorType;

/// Fails the run when it has spent more than its budget.
pub(crate) fn check(cx: &mut Step<'_>) {
    let Some(budget) = cx.run.head.options.budget.clone() else { return };
    if cx.run.status.is_over() {
        return;
    }
    let wasted = cx.run.control.wasted.as_ref().map_or(0, |wasted| wasted.tokens);
    if let Some(reason) = budget.crossed(cx.run.tokens() + wasted, || cx.run.paid()) {
        exceeded(cx, &reason);
    }
}

/// Fails the run because its budget, or the budget of its API key, is exceeded.
pub(crate) fn exceeded(cx: &mut Step<'_>, reason: &str) {
    end_of_run::fail_anywhere(cx, &format!("{}: {reason}", EngineErrorType::BudgetExceeded));
}
