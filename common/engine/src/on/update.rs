//! Sets variables that a client sends. They are written in the root frame; open items keep the values that they saw.

use crate::fact::UpdateVariables;
use crate::flow::values::variables;
use crate::step::Step;

#[inline(never)]
pub(crate) fn step(cx: &mut Step<'_>, it: UpdateVariables) {
    variables::update(cx, it);
}
