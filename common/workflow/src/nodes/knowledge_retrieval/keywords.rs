//! Compares the words of a question and of texts: the cosine of their TF-IDF vectors, weighted as on Dify.
//!
//! Words are runs of letters and digits, in lower case; in scripts without spaces, pairs of neighbouring characters.
//! Dify uses a dictionary there, so scores of such texts differ from Dify's, but their order rarely does.

use std::collections::{HashMap, HashSet};

pub use crate::knowledge::is_unspaced;

/// The score of each text for a question, from 0 to 1.
pub fn scores(query: &str, texts: &[&str]) -> Vec<f64> {
    let of_texts: Vec<HashSet<String>> = texts.iter().map(|text| keywords(text)).collect();
    let mut holding: HashMap<&str, usize> = HashMap::new();
    for word in of_texts.iter().flatten() {
        *holding.entry(word).or_default() += 1;
    }
    let all = texts.len() as f64;
    // A word that is in no text has no weight, also in the question (as on Dify).
    let weight =
        |word: &str| holding.get(word).map_or(0.0, |texts| ((1.0 + all) / (1.0 + *texts as f64)).ln() + 1.0);
    let query = keywords(query);
    let length = |words: &HashSet<String>| words.iter().map(|word| weight(word).powi(2)).sum::<f64>().sqrt();
    let query_length = length(&query);
    let score = |words: &HashSet<String>| {
        // An empty sum would be -0.0.
        let common = words.intersection(&query).fold(0.0, |sum, word| sum + weight(word).powi(2));
        let lengths = query_length * length(words);
        if lengths == 0.0 { 0.0 } else { common / lengths }
    };
    of_texts.iter().map(score).collect()
}

/// The words of a text, each once.
pub fn keywords(text: &str) -> HashSet<String> {
    let mut found = HashSet::new();
    each(text, |word| {
        found.insert(word);
    });
    found
}

/// Passes each word of a text to the callback, repeated words too.
pub fn each(text: &str, mut word_found: impl FnMut(String)) {
    let lower = text.to_lowercase();
    for word in lower.split(|c: char| !c.is_alphanumeric()) {
        let mut rest = word;
        while let Some(first) = rest.chars().next() {
            let kind = is_unspaced(first);
            let end = rest.find(|c: char| is_unspaced(c) != kind).unwrap_or(rest.len());
            let (run, after) = rest.split_at(end);
            rest = after;
            if kind {
                pairs(run).into_iter().for_each(&mut word_found);
            } else {
                word_found(run.to_owned());
            }
        }
    }
}

/// Pairs of neighbours; a single character counts as a word.
fn pairs(run: &str) -> Vec<String> {
    let characters: Vec<char> = run.chars().collect();
    match characters.as_slice() {
        [one] => vec![one.to_string()],
        many => many.windows(2).map(|pair| pair.iter().collect()).collect(),
    }
}
