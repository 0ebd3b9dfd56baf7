//! Which texts a question finds by its words, and how well: Okapi BM25.
//!
//! Words are those of [`keywords`]: runs of letters and digits, and pairs of characters in scripts without spaces; a single
//! such character is found as well. Every document has its own lists, so that one that is replaced leaves the others as
//! they are; what a word is worth is counted over all of them. A score is the share of what a text could reach that
//! repeats every word of the question without end: from 0 to 1, and comparable between datasets.

use std::collections::HashMap;

use crate::nodes::knowledge_retrieval::keywords::{each, is_unspaced, keywords};

/// How soon a repeated word counts no more, as is usual.
const K1: f64 = 1.2;
/// How much longer texts are held back, as is usual.
const B: f64 = 0.75;

/// The words of a document's segments.
#[derive(Debug, Default)]
pub struct Words {
    /// Of every word: in which segments it is, and how often.
    lists: HashMap<Box<str>, Vec<(u32, u32)>>,
    /// Words of each segment.
    lengths: Vec<u32>,
}

/// A segment that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// Its document's place in the list that was searched.
    pub document: usize,
    /// Its own place in the document.
    pub segment: usize,
    /// How well it fits, the better the higher.
    pub score: f64,
}

impl Words {
    /// The words of these segments.
    pub fn new<'a>(segments: impl Iterator<Item = &'a str>) -> Self {
        let mut words = Self::default();
        for (at, text) in segments.enumerate() {
            let segment = u32::try_from(at).unwrap_or(u32::MAX);
            let mut length = 0;
            let mut add = |word: &str| {
                length += 1;
                match words.lists.get_mut(word) {
                    Some(list) => match list.last_mut() {
                        Some((last, times)) if *last == segment => *times += 1,
                        Some(_) | None => list.push((segment, 1)),
                    },
                    None => {
                        words.lists.insert(word.into(), vec![(segment, 1)]);
                    }
                }
            };
            each(text, |word| add(&word));
            let mut buffer = [0; 4];
            text.chars().filter(|c| is_unspaced(*c)).for_each(|c| add(c.encode_utf8(&mut buffer)));
            words.lengths.push(length);
        }
        words
    }

    /// About how many bytes of memory it takes.
    pub fn bytes(&self) -> u64 {
        // A word, its list and its place in the map.
        const ENTRY: usize = 72;
        let lists = self.lists.iter().map(|(word, list)| word.len() + list.capacity() * 8 + ENTRY);
        (lists.sum::<usize>() + self.lengths.capacity() * 4) as u64
    }

    fn containing(&self, word: &str) -> &[(u32, u32)] {
        self.lists.get(word).map_or(&[], Vec::as_slice)
    }
}

/// The segments of wanted documents that share words with the question, the best first; of equals the first one.
pub fn search(query: &str, documents: &[&Words], is_wanted: impl Fn(usize) -> bool) -> Vec<Hit> {
    let all: usize = documents.iter().map(|words| words.lengths.len()).sum();
    let length: u64 = documents.iter().flat_map(|words| &words.lengths).map(|it| u64::from(*it)).sum();
    let average = length as f64 / all.max(1) as f64;
    let mut scores: HashMap<(usize, u32), f64> = HashMap::new();
    let mut reachable = 0.0;
    let mut asked: Vec<String> = keywords(query).into_iter().collect();
    // So that sums come out the same.
    asked.sort_unstable();
    for word in asked {
        let holding: usize = documents.iter().map(|words| words.containing(&word).len()).sum();
        // A word that is nowhere says nothing about anything.
        if holding == 0 {
            continue;
        }
        let (all, holding) = (all as f64, holding as f64);
        let worth = (1.0 + (all - holding + 0.5) / (holding + 0.5)).ln() * (K1 + 1.0);
        reachable += worth;
        for (document, words) in documents.iter().enumerate().filter(|(at, _)| is_wanted(*at)) {
            for (segment, times) in words.containing(&word) {
                let length = words.lengths.get(*segment as usize).copied().unwrap_or_default();
                let times = f64::from(*times);
                let held_back = K1 * (1.0 - B + B * f64::from(length) / average);
                *scores.entry((document, *segment)).or_default() += worth * times / (times + held_back);
            }
        }
    }
    let hit = |((document, segment), score): ((usize, u32), f64)| Hit {
        document,
        segment: segment as usize,
        score: score / reachable,
    };
    let mut hits: Vec<Hit> = scores.into_iter().map(hit).collect();
    hits.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then((a.document, a.segment).cmp(&(b.document, b.segment)))
    });
    hits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str, documents: &[&[&str]]) -> Vec<(usize, usize)> {
        let words: Vec<Words> = documents.iter().map(|texts| Words::new(texts.iter().copied())).collect();
        let hits = search(query, &words.iter().collect::<Vec<_>>(), |_| true);
        assert!(hits.iter().all(|hit| hit.score > 0.0 && hit.score < 1.0), "{hits:?}");
        assert!(hits.is_sorted_by(|a, b| a.score >= b.score), "{hits:?}");
        hits.into_iter().map(|hit| (hit.document, hit.segment)).collect()
    }

    #[test]
    fn rare_words_count_more_and_long_texts_less() {
        let animals: &[&str] = &["the fox", "the dog and the cat and the cow", "the dog"];
        assert_eq!(found("the DOG", &[animals]), [(0, 2), (0, 1), (0, 0)]);
        assert_eq!(found("fox", &[animals, &["a red fox in the snow"]]), [(0, 0), (1, 0)]);
        assert!(found("horse", &[animals]).is_empty() && found("", &[animals]).is_empty());
        assert!(found("fox", &[]).is_empty());
    }

    #[test]
    fn scripts_without_spaces_are_found_by_pairs_and_by_single_characters() {
        let documents: &[&str] = &["年假共有三十天。", "请假流程：先填表。", "税"];
        assert_eq!(found("年假有几天", &[documents])[0], (0, 0));
        assert_eq!(found("填", &[documents]), [(0, 1)]);
        assert_eq!(found("休暇の申請", &[&["有給休暇は三十日です", "出張の申請"]]).len(), 2);
    }

    #[test]
    fn documents_that_are_not_wanted_are_not_found_and_still_say_what_a_word_is_worth() {
        let words = [Words::new(["red fox"].into_iter()), Words::new(["red dog"].into_iter())];
        let both: Vec<&Words> = words.iter().collect();
        let all = search("red fox", &both, |_| true);
        let one = search("red fox", &both, |at| at == 1);
        assert_eq!((one.len(), one[0].document), (1, 1));
        assert!((one[0].score - all[1].score).abs() < 1e-12);
    }
}
