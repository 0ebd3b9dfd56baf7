//! Tests of the word search: over several documents, in scripts without spaces, and within limits.

use serde::Deserialize;

use crate::outside::knowledge::embedded::words::bm25::Length;
use crate::outside::knowledge::embedded::words::*;

/// Two hundred questions about 48 documents with the results of tantivy 0.27, whose ranking is the reference.
#[derive(Deserialize)]
struct Recorded {
    documents: Vec<Vec<String>>,
    queries: Vec<Query>,
}

#[derive(Deserialize)]
struct Query {
    query: String,
    /// Documents excluded from the search.
    left_out: Vec<usize>,
    /// `document.segment` of all hits, the best first.
    found: String,
    /// Scores of the first five hits, to six decimals.
    scores: Vec<f64>,
}

fn words(texts: &[&str]) -> Words {
    Words::new(texts.iter().copied())
}

fn hits(query: &str, documents: &[&[&str]]) -> Vec<Hit> {
    let words: Vec<Words> = documents.iter().map(|texts| words(texts)).collect();
    let hits = search(query, &words.iter().collect::<Vec<_>>(), |_| true);
    assert!(hits.iter().all(|hit| hit.score > 0.0 && hit.score < 1.0), "{hits:?}");
    assert!(hits.is_sorted_by(|a, b| a.score >= b.score), "{hits:?}");
    hits
}

fn found(query: &str, documents: &[&[&str]]) -> Vec<(usize, usize)> {
    hits(query, documents).into_iter().map(|hit| (hit.document, hit.segment)).collect()
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
    let documents = [words(&["red fox"]), words(&["red dog"])];
    let both: Vec<&Words> = documents.iter().collect();
    let all = search("red fox", &both, |_| true);
    let one = search("red fox", &both, |at| at == 1);
    assert_eq!((one.len(), one[0].document), (1, 1));
    assert!((one[0].score - all[1].score).abs() < 1e-12);
}

#[test]
fn scores_are_the_same_however_segments_are_spread_over_documents() {
    let texts = ["red fox", "red dog and red cat", "", "a fox in the snow"];
    let scores = |hits: Vec<Hit>| hits.into_iter().map(|hit| hit.score).collect::<Vec<f64>>();
    let apart: Vec<&[&str]> = texts.chunks(1).collect();
    assert_eq!(scores(hits("red fox", &[&texts])), scores(hits("red fox", &apart)));
    // Calculated by handle: 4 segments with 12 words; each word is in two, so both have the same weight.
    let share = |times: f64, length: f64| times / (times + 1.2 * (0.25 + 0.75 * length / 3.0));
    let expected = [share(1.0, 2.0), share(2.0, 5.0) / 2.0, share(1.0, 5.0) / 2.0];
    for (score, expected) in scores(hits("red fox", &[&texts])).into_iter().zip(expected) {
        assert!((score - expected).abs() < 1e-6, "{score} {expected}");
    }
}

#[test]
fn equals_keep_the_order_of_documents_and_segments() {
    let text = "old mill by the old river";
    let expected = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)];
    assert_eq!(found("the old, old mill", &[&[text, text], &[text], &[text, text, text]]), expected);
}

#[test]
fn texts_without_words_and_documents_without_texts_are_found_by_nothing() {
    for documents in [&[&[][..]][..], &[&["", "…"]], &[&[], &["", "?!"], &[]]] {
        assert!(found("old", documents).is_empty());
    }
    assert_eq!(found("old", &[&[], &["", "old"], &["…"]]), [(1, 1)]);
}

#[test]
fn words_of_any_length_and_more_segments_than_a_block_are_taken() {
    let long = "a".repeat(200_000);
    let text = format!("mill {long} wheel");
    let mut texts: Vec<&str> = vec!["mill"; 1000];
    texts.push(&text);
    assert_eq!(found("wheel", &[&texts]), [(0, 1000)]);
    assert_eq!(found("mill", &[&texts]).len(), 1001);
    assert!(found(&long, &[&texts]).is_empty(), "longer than any word that is kept");
}

#[test]
fn what_they_take_grows_with_the_words() {
    let (small, large) = (words(&["mill"]).bytes(), words(&["mill"; 100_000]).bytes());
    assert!((100..1_000).contains(&small), "{small}");
    assert!((200_000..1_000_000).contains(&large), "{large}");
}

#[test]
fn two_hundred_questions_find_the_segments_that_were_recorded_in_their_order() {
    let recorded: Recorded = serde_json::from_str(include_str!("recorded.json")).unwrap();
    let made = |texts: &Vec<String>| Words::new(texts.iter().map(String::as_str));
    let documents: Vec<Words> = recorded.documents.iter().map(made).collect();
    let documents: Vec<&Words> = documents.iter().collect();
    assert_eq!(recorded.queries.len(), 200);
    for query in recorded.queries {
        let hits = search(&query.query, &documents, |at| !query.left_out.contains(&at));
        let found: Vec<String> = hits.iter().map(|hit| format!("{}.{}", hit.document, hit.segment)).collect();
        assert_eq!(found.join(" "), query.found, "{:?}", query.query);
        let scores = hits.iter().map(|hit| (hit.score * 1e6).round() / 1e6);
        assert_eq!(scores.take(5).collect::<Vec<f64>>(), query.scores, "{:?}", query.query);
    }
}

#[test]
fn gaps_and_counts_of_any_size_are_packed_and_read_again() {
    let mut texts = vec![String::new(); 40_000];
    for (segment, times) in [(0, 1), (127, 127), (128, 128), (16_600, 20_000), (39_999, 2)] {
        texts[segment] = "mill ".repeat(times);
    }
    let words = Words::new(texts.iter().map(String::as_str));
    let list: Vec<_> =
        words.list("mill").unwrap().map(|entry| (entry.segment, entry.times, entry.length)).collect();
    let expected = [(0, 1), (127, 127), (128, 128), (16_600, 20_000), (39_999, 2)];
    assert_eq!(list, expected.map(|(segment, times)| (segment, times, Length::of(times))));
    assert!(words.list("mil").is_none() && words.list("mills").is_none() && words.list("").is_none());
}
