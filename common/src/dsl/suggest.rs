//! "Did you mean": the known word nearest to one that is not known.

/// The nearest of the known words, when one is near enough to be what was meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word of hundreds of letters is no misspelling, and measuring it would cost.
    if word.len() > 64 {
        return None;
    }
    let word = word.to_lowercase().replace('_', "-");
    known
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.replace('_', "-")), candidate))
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `did you mean "x"?` for the nearest known word.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|candidate| format!("did you mean {candidate:?}?"))
}

/// Levenshtein's distance, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelling_is_recognised_and_another_word_is_not() {
        let known = ["if-else", "http-request", "llm", "code"];
        for (word, meant) in [
            ("if_else", Some("if-else")),
            ("ifelse", Some("if-else")),
            ("htttp-reqest", Some("http-request")),
            ("LLM", Some("llm")),
            ("quantum-node", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
    }
}
