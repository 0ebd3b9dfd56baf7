//! Stories of the simulated fleet: they end as they must, and no longer do once a guard is taken away.

mod guards;
mod seeds;
