//! "Did you mean …?": finds the known word nearest to an unknown one.

/// Returns the nearest known word, when it is near enough to be a misspelling.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A longer word is not a misspelling, and measuring it would be slow.
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

/// Returns `did you mean "x"?` for the nearest known word.
pub(crate) fn hint<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|candidate| format!("did you mean {candidate:?}?"))
}

/// Returns the Levenshtein distance, in characters.
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
