//! What an idle fleet costs is what the formulas say: the loops of real schedulers, counted in simulated time.

use tidemill_sim::plan::{Size, fleet, formula};

fn is_near(what: &str, size: Size, computed: f64, measured: f64) {
    let wrong = (measured / computed - 1.0).abs();
    assert!(wrong < 0.1, "{what} of {size:?}: {computed:.1} computed, {measured:.1} measured");
}

#[test]
fn an_idle_fleet_costs_what_the_formulas_say_and_a_kill_leaves_shards_alone_for_a_bounded_time() {
    for (workers, shards, schedulers) in [(1, 2, 2), (12, 16, 3), (60, 64, 10)] {
        let size = Size { workers, shards, schedulers, masters: 0 };
        let measured = fleet::measure(size).unwrap();
        let computed = formula::requests(size);
        is_near("requests of workers", size, computed.workers, measured.workers);
        is_near("requests of schedulers", size, computed.schedulers, measured.schedulers);
        assert!(measured.take_over <= formula::take_over_seconds(), "{size:?}: {measured:?}");
    }
}
