//! Stories of the simulated fleet: they end as expected, and some fail when a guard is removed.

mod guards;
mod plan;
mod seeds;
