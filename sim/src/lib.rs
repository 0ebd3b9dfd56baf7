//! Proof by simulation: a fleet of schedulers and workers in one thread, with a clock that is moved by hand, to which
//! everything happens that can happen to a fleet, from one seed; and a second, very simple engine that says what must
//! come of each workflow all the same.
//!
//! What is real: the machine, the wire forms, the scheduler's deciding and its cache, and the store's contract (the
//! memory store passes the same suite as Redis). What is played: processes, network, time, and what workers' nodes
//! answer. [`draw`] makes workflows, [`script`] says how their attempts end, [`mod@reference`] what must come of them,
//! [`world`] lets it happen, [`checks`] looks, and [`guards`] are taken away one by one to see that looking helps.

pub mod checks;
pub mod dice;
pub mod draw;
pub mod features;
pub mod guards;
pub mod play;
pub mod reference;
pub mod script;
pub mod world;

pub use world::{Settings, Verdict, simulate};
