//! BM25 scores with the constants and arithmetic of Lucene. A text's length is stored in one byte.

/// Saturation of repeated words.
const K1: f32 = 1.2;
/// Influence of the text length, from 0 to 1.
const B: f32 = 0.75;
/// Lengths up to about this value are exact; longer ones keep four significant bits.
const EXACT: u32 = 24;

/// The length of a text, rounded down to a value that fits in a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length(u8);

/// The weight of one word of a question.
pub(super) struct Weight {
    rarity: f32,
    average: f32,
}

impl Weight {
    /// Creates the weight of a word in `holding` of `all` texts with `average` words each.
    pub(super) fn new(holding: u64, all: u64, average: f32) -> Self {
        let ratio = ((all - holding) as f32 + 0.5) / (holding as f32 + 0.5);
        Self { rarity: (1.0 + ratio).ln() * (1.0 + K1), average }
    }

    /// The score of a text of this length that has the word `times` times.
    pub(super) fn score(&self, times: u32, length: Length) -> f32 {
        let norm = K1 * (1.0 - B + B * length.words() as f32 / self.average);
        self.rarity * (times as f32 / (times as f32 + norm))
    }

    /// The highest possible score: a text that repeats the word endlessly.
    pub(super) fn limit(&self) -> f32 {
        self.score(u32::MAX, Length(0))
    }
}

impl Length {
    /// Rounds a number of words.
    pub fn of(words: u32) -> Self {
        let Some(beyond) = words.checked_sub(EXACT).filter(|beyond| *beyond >= 8) else {
            return Self(words as u8);
        };
        // This keeps the sum below at most 255.
        let beyond = beyond.min(i32::MAX as u32);
        let shift = beyond.ilog2() - 3;
        Self((EXACT + (shift + 1) * 8 + (beyond >> shift & 7)) as u8)
    }

    fn words(self) -> u32 {
        let Some(beyond) = u32::from(self.0).checked_sub(EXACT).filter(|beyond| *beyond >= 8) else {
            return self.0.into();
        };
        EXACT + ((8 + (beyond & 7)) << (beyond / 8 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_exact_up_to_forty_and_rounded_down_to_four_bits_beyond() {
        for words in 0..=40 {
            assert_eq!(Length::of(words).words(), words);
        }
        for (words, rounded) in [
            (41, 40),
            (42, 42),
            (57, 56),
            (60, 60),
            (63, 60),
            (151, 144),
            (1_000, 984),
            (u32::MAX, 2_013_265_944),
        ] {
            assert_eq!(Length::of(words).words(), rounded, "{words}");
        }
    }

    #[test]
    fn every_byte_is_a_length_and_longer_texts_never_have_a_smaller_one() {
        let lengths: Vec<u32> = (0..=255).map(|byte| Length(byte).words()).collect();
        assert!(lengths.is_sorted_by(|a, b| a < b), "{lengths:?}");
        assert!((0..=255).all(|byte| Length::of(Length(byte).words()) == Length(byte)));
    }
}
