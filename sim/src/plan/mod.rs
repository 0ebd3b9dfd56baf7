//! What a fleet costs that does nothing, and how long its shards have no owner after a scheduler was killed: computed
//! ([`formula`]), and measured in simulated time with the loops of real schedulers over the memory store ([`fleet`]).
//! docs/operations.md has the numbers.

pub mod fleet;
pub mod formula;
mod worker;

/// The size of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub workers: u16,
    pub shards: u16,
    pub schedulers: u16,
    /// The masters of the cluster; 0 for one server without a cluster.
    pub masters: u16,
}

/// Returns the table of a fleet: what is computed, and what is measured.
pub fn table(size: Size, measured: &fleet::Measured) -> String {
    let Size { workers, shards, schedulers, masters } = size;
    let requests = formula::requests(size);
    let mut lines = vec![
        format!("{workers} workers, {shards} shards, {schedulers} schedulers, all idle"),
        format!("{:<46}{:>12}{:>12}", "", "computed", "measured"),
        row("requests of all workers, per second", requests.workers, Some(measured.workers)),
        row("requests of all schedulers, per second", requests.schedulers, Some(measured.schedulers)),
        row(
            "seconds without an owner after a kill, at most",
            formula::take_over_seconds(),
            Some(measured.take_over),
        ),
    ];
    for masters in [0, masters.max(3)] {
        let costs = formula::costs(Size { masters, ..size });
        let of = if masters == 0 { "one server".to_owned() } else { format!("{masters} masters") };
        lines.push(row(&format!("{of}: connections of a worker"), costs.connections_of_worker, None));
        lines.push(row(&format!("{of}: connections of a scheduler"), costs.connections_of_scheduler, None));
        lines.push(row(&format!("{of}: connections to each server"), costs.connections_to_server, None));
        lines.push(row(&format!("{of}: commands per second, each server"), costs.commands_of_server, None));
    }
    lines.join("\n")
}

fn row(what: &str, computed: f64, measured: Option<f64>) -> String {
    let measured = measured.map(|measured| format!("{measured:>12.1}")).unwrap_or_default();
    format!("{what:<46}{computed:>12.1}{measured}")
}
