//! Simulates a fleet of schedulers and workers in one thread, with a clock that is moved by hand. One seed decides all
//! faults that happen. A second, very simple engine computes the outcome that each workflow must have in spite of them.
//!
//! Real are the machine, the wire forms, the scheduler's decisions and its cache, and the rules of the store (the
//! memory store passes the same tests as Redis). Simulated are processes, network, time and the answers of workers'
//! nodes. [`draw`] makes workflows, [`script`] decides how their attempts end, [`mod@reference`] computes the expected
//! outcomes, [`world`] simulates the fleet, [`checks`] has the invariants, and [`guards`] lists the guards that can be
//! removed one by one to prove that the checks find errors.
//!
//! [`plan`] is another simulation: what a fleet of a given size costs when it does nothing.

pub mod checks;
pub mod dice;
pub mod draw;
pub mod features;
pub mod guards;
pub mod plan;
pub mod play;
pub mod reference;
pub mod script;
pub mod world;

pub use world::{Settings, Verdict, simulate};
