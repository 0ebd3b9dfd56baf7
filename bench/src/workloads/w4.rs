//! W4: whether a step costs the same in a short chain and in a long one. Work that grows with the length of a run, such
//! as a scan of its nodes or writing the whole state, would show here.

use futures_util::FutureExt as _;

use super::workflow::{self, Executor};
use super::{Unit, Workload};
use crate::error::Error;
use crate::fleet::Plan;
use crate::floor::{Floor, Shape};
use crate::lab::Lab;
use crate::measure::{Figure, Load, median};
use crate::process::Cpu;
use crate::report::Row;
use crate::target::Target;

pub(super) const WORKLOAD: Workload = Workload {
    name: "W4",
    about: "one run of 10, 100, 1 000, 10 000 steps on a worker, one after the other",
    floor: None,
    measure: |lab| measure(lab).boxed_local(),
};

/// A chain, and how often it is run in a round, in full and in a quick run.
struct Chain {
    steps: usize,
    times: [usize; 2],
}

/// From short to long.
static CHAINS: [Chain; 4] = [
    Chain { steps: 10, times: [40, 10] },
    Chain { steps: 100, times: [20, 5] },
    Chain { steps: 1_000, times: [3, 2] },
    Chain { steps: 10_000, times: [1, 1] },
];
/// Rounds over all lengths, in full and in a quick run.
const ROUNDS: [usize; 2] = [8, 1];

/// The figures of all rounds for one length, of one of the two sides.
#[derive(Default)]
struct Figures {
    seconds: Vec<f64>,
    cpu: Cpu,
}

impl Figures {
    fn add(&mut self, figure: Figure) {
        self.seconds.push(figure.seconds);
        self.cpu = self.cpu.map_with(figure.cpu_us_per_step, |sum, of_round| sum + of_round);
    }

    /// Returns the median seconds of a run and the median processor time per step.
    fn middle(&mut self) -> Figure {
        let rounds = self.seconds.len() as f64;
        let cpu_us_per_step = self.cpu.map(|sum| sum / rounds);
        Figure { seconds: median(&mut self.seconds), cpu_us_per_step }
    }
}

/// Tidemill and the bare loop take turns over all lengths, round by round, each on its own server. A machine that is
/// faster for some minutes is then faster for all of them.
async fn measure(lab: &Lab) -> Result<(), Error> {
    let in_short = usize::from(lab.is_quick);
    let (floor_server, server) = (lab.server().await?, lab.server().await?);
    let mut floor = Floor::start(&floor_server, &lab.programs.own).await?;
    let job = |chain: &Chain| workflow::job(Shape::Chain(chain.steps), Executor::Worker);
    let mut engine = lab.engine(&server, &Plan::of(&server, 1, 1), job(&CHAINS[0])).await?;
    let mut figures: [[Figures; 2]; CHAINS.len()] = Default::default();
    for round in 0..ROUNDS[in_short] {
        for (chain, [ours, bare]) in CHAINS.iter().zip(&mut figures) {
            // Two runs as warm-up, one on each shard, so that both have the graph loaded.
            let load = Load::one_by_one(chain.times[in_short]).warmed_by(if round == 0 { 2 } else { 0 });
            bare.add(floor.measure(Shape::Chain(chain.steps), load).await?);
            engine.change(job(chain))?;
            engine.warm_up(&load).await?;
            ours.add(engine.measure(&load).await?);
        }
    }
    let unit = Unit::MicrosPerStep;
    let (mut seconds, mut floors) = (Vec::new(), Vec::new());
    for (Chain { steps, .. }, [ours, bare]) in CHAINS.iter().zip(&mut figures) {
        let (ours, bare) = (ours.middle(), bare.middle());
        seconds.push((*steps, ours.seconds));
        floors.push((*steps, bare.seconds));
        let value = unit.value(bare.seconds, *steps);
        let row = Row::bare(format!("floor W4/{steps}"), value, unit.name(), "the bare loop");
        lab.add_row(Row { cpu_us_per_step: Some(bare.cpu_us_per_step), ..row });
        let value = unit.value(ours.seconds, *steps);
        let about = format!("one run of {steps} steps on a worker, including its start and its end");
        lab.add_row(Row {
            ratio_to_floor: Some(ours.seconds / bare.seconds),
            cpu_us_per_step: Some(ours.cpu_us_per_step),
            ..Row::bare(format!("W4/{steps}"), value, unit.name(), &about)
        });
    }
    let further = further_steps(&seconds);
    for (steps, seconds) in &further {
        let about = format!("a further step, up to the {steps}th, of a run that has begun");
        lab.add_row(Row::bare(format!("W4/to {steps}"), seconds * 1e6, unit.name(), &about));
    }
    let by_floor = by_floor(&further, &further_steps(&floors));
    lab.add_row(Row {
        targets: &[Target::AtMost(20.0)],
        ..Row::bare("W4", spread(&further), "%", "largest difference of these from the first")
    });
    let about = "the same, each divided by a further step of the bare loop";
    lab.add_row(Row::bare("W4/by floor", spread(&by_floor), "%", about));
    Ok(())
}

/// Returns the cost of each further step: the difference of two chains divided by the difference of their lengths. The
/// fixed cost of a run is in both chains, so it is not in the result.
fn further_steps(chains: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let between = |pair: &[(usize, f64)]| {
        let [(shorter, less), (longer, more)] = pair else { return None };
        Some((*longer, (more - less) / (longer - shorter) as f64))
    };
    chains.windows(2).filter_map(between).collect()
}

/// Divides each cost by that of the bare loop.
fn by_floor(further: &[(usize, f64)], floors: &[(usize, f64)]) -> Vec<(usize, f64)> {
    further.iter().zip(floors).map(|((steps, cost), (_, floor))| (*steps, cost / floor)).collect()
}

/// Returns the largest difference from the first, in per cent of it.
fn spread(costs: &[(usize, f64)]) -> f64 {
    let first = costs.first().map_or(f64::NAN, |(_, value)| *value);
    costs.iter().map(|(_, value)| (value / first - 1.0).abs() * 100.0).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_further_step_leaves_out_the_fixed_cost_of_a_run() {
        // Three for the run, two for each step.
        let chains = [(10, 23.0), (100, 203.0), (1_000, 2_003.0)];
        assert_eq!(further_steps(&chains), [(100, 2.0), (1_000, 2.0)]);
    }

    #[test]
    fn the_spread_counts_in_both_directions() {
        assert_eq!(spread(&[(10, 100.0), (100, 125.0), (1_000, 50.0)]), 50.0);
        assert_eq!(spread(&[(10, 100.0), (100, 150.0), (1_000, 75.0)]), 50.0);
    }
}
