//! Chance from a seed. A generator of our own (splitmix64, twenty lines) and not a crate's, since a seed that has found
//! something is written down and must mean the same story after every update of a dependency.

/// Answers the same numbers for the same seed.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }
    /// A number below `bound`; 0 when that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() % (bound.max(1) as u64)).unwrap_or(0)
    }
    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high.saturating_sub(low) + 1)
    }
    /// True in so many of a hundred cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.roll() % 100 < chance
    }
    /// True in so many of a thousand cases.
    pub fn permille(&mut self, chance: u64) -> bool {
        self.roll() % 1000 < chance
    }
    /// One of several; none of none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}

/// A number that follows from a seed and a name: the same wherever and whenever it is asked for.
pub fn fate(seed: u64, name: &[&str]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ scramble(seed);
    for byte in name.iter().flat_map(|part| part.bytes().chain([0xff])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    scramble(hash)
}

fn scramble(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_means_the_same_for_ever() {
        let mut dice = Dice::new(7);
        assert_eq!([dice.roll(), dice.roll()], [0x63cb_e1e4_5932_0dd7, 0x044c_3cd7_f43c_661c]);
        assert_ne!(fate(1, &["a", "b"]), fate(1, &["ab"]));
        assert_eq!(fate(1, &["a"]), fate(1, &["a"]));
    }
}
