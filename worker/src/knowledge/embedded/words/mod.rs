//! Finds the texts that share words with a question, and ranks them: BM25 over an index in memory.
//!
//! Words are those of [`keywords`]: runs of letters and digits, and pairs of characters in scripts without spaces; a single
//! such character is found as well. Each document has its own index, which is built once and never changes. So a document
//! that is replaced leaves the others as they are, and a search does not read a document that the filter excludes. How rare
//! a word is, is counted over all documents. A score is a share of the score that a text could reach at most, one that
//! repeats every word of the question without end: it is between 0 and 1, and datasets can be compared by it.

mod bm25;
mod index;

use std::collections::HashMap;

use tidemill_common::nodes::knowledge_retrieval::keywords::keywords;

use bm25::Weight;
pub use index::Words;

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

/// The segments of wanted documents that share words with the question, the best first; of equals the first one.
pub fn search(query: &str, documents: &[&Words], is_wanted: impl Fn(usize) -> bool) -> Vec<Hit> {
    let all: u64 = documents.iter().map(|words| words.segments()).sum();
    let length: u64 = documents.iter().map(|words| words.total()).sum();
    let average = length as f32 / all.max(1) as f32;
    let mut scores: HashMap<(usize, usize), f64> = HashMap::new();
    let mut reachable = 0.0;
    let mut asked: Vec<String> = keywords(query).into_iter().collect();
    // Floating-point sums depend on their order.
    asked.sort_unstable();
    for word in asked {
        let found = documents.iter().enumerate().filter_map(|(at, words)| Some((at, words.list(&word)?)));
        let lists: Vec<_> = found.collect();
        // A word that no text has says nothing about any of them.
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
