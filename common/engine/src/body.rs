//! What is known of a container while its body runs: how far it is, what it was given, what its frames left.
//!
//! The parts are apart because they are written at different times: [`BodyState`] with every frame that opens or
//! closes, [`OpenContainer`] once, [`Collected`] once a frame.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::fact::NamedValues;
use super::node_state::started_attempts;
use super::run::{NodeState, NodeStatus, RunState, json_size};
use tidemill_base::value::{BlobRef, Stored};
use tidemill_workflow::nodes::llm::decimal::Decimal;
use tidemill_workflow::nodes::{Phase, Usage};

/// How far a container is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyState {
    /// Items in all, or the most rounds.
    pub count: u32,
    /// The number of the next item or round to open.
    pub next: u32,
    /// How many are closed.
    pub closed: u32,
    /// The first failure in a frame.
    pub error: Option<Arc<str>>,
    /// The part of it that a worker evaluates at present.
    pub phase: Option<Phase>,
}

impl BodyState {
    /// Nothing opened yet.
    pub const fn new(count: u32) -> Self {
        Self { count, next: 0, closed: 0, error: None, phase: None }
    }
    /// A container that a worker has to open.
    pub const fn to_open() -> Self {
        Self { count: 0, next: 0, closed: 0, error: None, phase: Some(Phase::Open) }
    }
    /// How many frames are open.
    pub const fn open(&self) -> u32 {
        self.next.saturating_sub(self.closed)
    }
}

/// What a container was given, and what its closed frames left.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OpenContainer {
    /// What its record shows as inputs.
    pub inputs: NamedValues,
    /// What is iterated: a list.
    pub items: Option<Stored>,
    /// What closed frames left, by their numbers; see [`OpenContainer::keep`].
    pub collected: BTreeMap<u32, Collected>,
    /// About how many bytes that is. Not written: it is added up again.
    pub bytes: usize,
    /// Items side by side whose outputs are at hand, and the bytes of those: the next page. Not written either.
    pub at_hand: (Range<u32>, usize),
}

impl OpenContainer {
    /// Keeps what a closed frame left.
    pub fn keep(&mut self, index: u32, left: Collected) {
        self.bytes += left.size();
        self.collected.insert(index, left);
        let (items, bytes) = &mut self.at_hand;
        while let Some(left) = self.collected.get(&items.end) {
            items.end += left.items();
            match (&left.page, &left.output) {
                (None, Some((Stored::Inline(segment), _))) => *bytes += json_size(&segment.value),
                (None, None) => {}
                (Some(_), _) | (_, Some((Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_), _))) => {
                    (items.start, *bytes) = (items.end, 0);
                }
            }
        }
    }

    /// The items whose outputs make a page of more than so many bytes, if there are such: those side by side in the order of
    /// the items, up to the first that is still open or whose output lies apart anyway.
    pub fn next_page(&mut self, page_bytes: usize) -> Option<Range<u32>> {
        let (items, bytes) = &mut self.at_hand;
        if *bytes <= page_bytes {
            return None;
        }
        let page = items.clone();
        (items.start, *bytes) = (items.end, 0);
        Some(page)
    }

    /// Takes what items left, to put a page in its place.
    pub fn take(&mut self, items: Range<u32>) -> Vec<Collected> {
        let taken: Vec<Collected> = items.filter_map(|index| self.collected.remove(&index)).collect();
        let bytes: usize = taken.iter().map(Collected::size).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        taken
    }

    /// How many frames have left something.
    pub fn closed(&self) -> usize {
        self.collected.values().map(|left| left.items() as usize).sum()
    }
}

/// What a closed frame left.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Collected {
    /// Of an item: its output, and the way from there into the value, when that must be gone later. None when it failed.
    pub output: Option<(Stored, Vec<String>)>,
    /// Of a round: the loop variables after it.
    pub variables: NamedValues,
    /// How long it was open, in seconds.
    pub seconds: f64,
    /// Stands for this item and those behind it, whose outputs lie apart together. Nothing else is known of them then.
    pub page: Option<Box<Page>>,
}

/// Outputs of items that lie apart as one list: what a long iteration has done weighs nothing.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Where: a list of [`tidemill_workflow::nodes::iteration::Outcome::entry`].
    pub outputs: BlobRef,
    /// How long each item was open, in seconds.
    pub seconds: Vec<f64>,
}

impl Collected {
    /// How many items it stands for.
    pub fn items(&self) -> u32 {
        self.page.as_ref().map_or(1, |page| u32::try_from(page.seconds.len()).unwrap_or(u32::MAX))
    }

    fn size(&self) -> usize {
        let size = |stored: &Stored| match stored {
            Stored::Inline(segment) => 64 + json_size(&segment.value),
            Stored::Blob(_) | Stored::Item { .. } | Stored::Secret(_) => 96,
        };
        let page = self.page.as_ref().map_or(0, |page| 96 + page.seconds.len() * size_of::<f64>());
        let variables: usize = self.variables.iter().map(|(name, value)| name.len() + size(value)).sum();
        96 + self.output.as_ref().map_or(0, |(value, _)| size(value)) + variables + page
    }
}

/// What model calls cost.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spent {
    /// Tokens.
    pub tokens: u64,
    /// Their price, when one is known. Apart, since each node of a run has room for some of these, and few nodes cost anything.
    pub price: Option<Box<Price>>,
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// How much.
    pub amount: Decimal,
    /// Of what: `USD`.
    pub currency: Arc<str>,
}

impl Spent {
    /// What one call cost.
    pub fn of(usage: Option<&Usage>) -> Self {
        let Some(usage) = usage.filter(|usage| usage.total_tokens > 0) else { return Self::default() };
        let amount = usage.total_price.parse().ok();
        let price = amount.map(|amount| Price { amount, currency: usage.currency.as_str().into() });
        let price = price.map(Box::new);
        Self { tokens: usage.total_tokens, price }
    }
    /// What is left of a sum when a part of it was counted before. The price of what is left is not told where there is
    /// nothing left of the tokens.
    #[must_use]
    pub fn without(&self, counted: &Self) -> Self {
        if counted.tokens == 0 {
            return self.clone();
        }
        let tokens = self.tokens.saturating_sub(counted.tokens);
        let price = self.price.clone().filter(|_| tokens > 0);
        let price = price.map(|price| match &counted.price {
            Some(of) => Box::new(Price { amount: price.amount.minus(of.amount), ..*price }),
            None => price,
        });
        Self { tokens, price }
    }
    /// The sum. Of two currencies that of the newer one stands, as on Dify.
    #[must_use]
    pub fn plus(&self, newer: &Self) -> Self {
        let price = match (&self.price, &newer.price) {
            (Some(old), Some(new)) => {
                let currency = new.currency.clone();
                Some(Box::new(Price { amount: old.amount.plus(new.amount), currency }))
            }
            (old, new) => new.clone().or_else(|| old.clone()),
        };
        Self { tokens: self.tokens + newer.tokens, price }
    }
}

/// Counters of a part of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tally {
    /// Node starts.
    pub steps: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Cost of model calls.
    pub spent: Spent,
}

impl Tally {
    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            failures: self.failures + other.failures,
            spent: self.spent.plus(&other.spent),
        }
    }
}

/// Counters over all frames of a run, kept up to date with every change of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Node starts.
    pub steps: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Tokens of model calls.
    pub tokens: u64,
    /// Jobs in a queue or with a worker.
    pub jobs: u64,
    /// Nodes that wait for their next attempt.
    pub retrying: u64,
    /// Nodes that wait for an answer.
    pub waiting: u64,
}

impl Sums {
    /// Counted anew.
    pub fn of(run: &RunState) -> Self {
        run.frames.iter().fold(Self::default(), |sums, (path, frame)| {
            let counts = run.failures_count(path);
            frame.nodes.iter().fold(sums, |sums, node| sums.plus(Self::of_node(node, counts)))
        })
    }
    /// What one node counts for; its own failures only when they count for the run.
    pub fn of_node(node: &NodeState, failures_count: bool) -> Self {
        let is = |status: NodeStatus| u64::from(node.status == status);
        let own_failures = if failures_count { u64::from(node.failures) } else { 0 };
        Self {
            steps: started_attempts(node) + node.inside.steps,
            failures: own_failures + node.inside.failures,
            tokens: node.spent.tokens + node.inside.spent.tokens,
            // A node that runs inside another's job has none of its own.
            jobs: u64::from(node.job.is_some()),
            retrying: is(NodeStatus::Retrying),
            waiting: is(NodeStatus::Waiting),
        }
    }
    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            steps: self.steps + other.steps,
            failures: self.failures + other.failures,
            tokens: self.tokens + other.tokens,
            jobs: self.jobs + other.jobs,
            retrying: self.retrying + other.retrying,
            waiting: self.waiting + other.waiting,
        }
    }
    /// The difference; `other` is a part of this.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            steps: self.steps - other.steps,
            failures: self.failures - other.failures,
            tokens: self.tokens - other.tokens,
            jobs: self.jobs - other.jobs,
            retrying: self.retrying - other.retrying,
            waiting: self.waiting - other.waiting,
        }
    }
}
