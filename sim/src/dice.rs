//! Random numbers from a seed. The generator is our own (splitmix64, twenty lines) and not from a crate, because a seed
//! that found an error must give the same story also after an update of the dependencies.

/// A random generator. The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }
    /// Returns any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }
    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() % (bound.max(1) as u64)).unwrap_or(0)
    }
    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.roll() % (high.saturating_sub(low) + 1)
    }
    /// Returns true in `chance` of 100 cases.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.roll() % 100 < chance
    }
    /// Returns true in `chance` of 1000 cases.
    pub fn permille(&mut self, chance: u64) -> bool {
        self.roll() % 1000 < chance
    }
    /// Returns one element, or `None` for an empty slice.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}

/// Returns a number that depends only on a seed and a name.
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
    fn a_seed_always_gives_the_same_numbers() {
        let mut dice = Dice::new(7);
        assert_eq!([dice.roll(), dice.roll()], [0x63cb_e1e4_5932_0dd7, 0x044c_3cd7_f43c_661c]);
        assert_ne!(fate(1, &["a", "b"]), fate(1, &["ab"]));
        assert_eq!(fate(1, &["a"]), fate(1, &["a"]));
    }
}
