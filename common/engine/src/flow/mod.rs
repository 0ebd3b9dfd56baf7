//! The consequences of a fact, in the order in which a node passes them:
//!
//! - [`ready`] starts ready nodes, in the step or as jobs; [`timeouts`] limits them.
//! - [`settle`] ends a node: its outputs ([`values`]), its taken and skipped [`edges`], its [`hooks`], or its [`retry`]
//!   after a [`backoff`].
//! - [`containers`] runs iterations and loops, [`children`] nodes inside a node, [`subruns`] workflows that are called.
//! - [`pauses`] waits for people, [`hold`] and [`breakpoints`] stop the run on command.
//! - [`response`] orders the text of answers; [`end_of_run`] pauses or ends the run, [`budget`] fails it. [`clock`] counts
//!   its working time, and [`time_limit`] limits it.
//! - [`rewind`] makes a run that begins again at a node of an earlier one.
//!
//! These files call each other in a circle, because a run is one: an end makes nodes ready, and they end.

pub mod backoff;
pub(crate) mod breakpoints;
pub(crate) mod budget;
pub(crate) mod children;
pub(crate) mod clock;
pub(crate) mod containers;
pub(crate) mod edges;
pub(crate) mod end_of_run;
pub(crate) mod hold;
pub(crate) mod hooks;
pub(crate) mod pauses;
pub(crate) mod ready;
pub(crate) mod response;
pub(crate) mod retry;
pub mod rewind;
pub(crate) mod settle;
pub(crate) mod subruns;
pub(crate) mod time_limit;
pub(crate) mod timeouts;
pub(crate) mod values;
pub(crate) mod warnings;
