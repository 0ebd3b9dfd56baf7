//! Counts what model calls cost: [`charges`] adds a call to its node, [`ledger`] lists the calls of a run.

pub(crate) mod charges;
pub(crate) mod ledger;
