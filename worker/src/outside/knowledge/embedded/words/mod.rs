//! Finds texts that share words with a question and ranks them with BM25 over an index in memory.
//!
//! [`keywords`] splits texts into words: runs of letters and digits, and pairs of characters in scripts without spaces;
//! a single such character is also found. Each document has its own immutable index. So replacing a document does not
//! affect others, and a search skips documents that the filter excludes. A word's rarity is counted over all documents.
//! A score is divided by the highest score a text could reach, so it is between 0 and 1 and comparable between
//! datasets.

mod bm25;
mod index;

use std::collections::HashMap;

use tidemill_common::nodes::knowledge_retrieval::keywords::keywords;

use crate::outside::knowledge::embedded::words::bm25::Weight;
pub use crate::outside::knowledge::embedded::words::index::Words;

/// A segment found by a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The document's index in the searched list.
    pub document: usize,
    /// The segment's index in the document.
    pub segment: usize,
    /// From 0 to 1; higher is better.
    pub score: f64,
}

/// Returns the segments of wanted documents that share words with the question, the best first; ties keep their order.
pub fn search(query: &str, documents: &[&Words], is_wanted: impl Fn(usize) -> bool) -> Vec<Hit> {
    let all: u64 = documents.iter().map(|words| words.segments()).sum();
    let length: u64 = documents.iter().map(|words| words.total()).sum();
    let average = length as f32 / all.max(1) as f32;
    let mut scores: HashMap<(usize, usize), f64> = HashMap::new();
    let mut reachable = 0.0;
    let mut terms: Vec<String> = keywords(query).into_iter().collect();
    // Floating-point sums depend on their order.
    terms.sort_unstable();
    for word in terms {
        let found = documents.iter().enumerate().filter_map(|(at, words)| Some((at, words.list(&word)?)));
        let lists: Vec<_> = found.collect();
        // A word that no text contains does not affect the ranking.
        if lists.is_empty() {
            continue;
        }
        let holding = lists.iter().map(|(_, list)| list.segments).sum();
        let weight = Weight::new(holding, all, average);
        reachable += f64::from(weight.limit());
        for (document, list) in lists.into_iter().filter(|(document, _)| is_wanted(*document)) {
            for entry in list {
                let score = f64::from(weight.score(entry.times, entry.length));
                *scores.entry((document, entry.segment)).or_default() += score;
            }
        }
    }
    let hit = |((document, segment), score): ((usize, usize), f64)| Hit {
        document,
        segment,
        score: score / reachable,
    };
    let mut hits: Vec<Hit> = scores.into_iter().map(hit).collect();
    hits.sort_by(|a, b| {
        b.score.total_cmp(&a.score).then((a.document, a.segment).cmp(&(b.document, b.segment)))
    });
    hits
}

#[cfg(test)]
mod tests;
