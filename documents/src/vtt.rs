//! Subtitles (WebVTT): one line per speech of a speaker.

/// Returns one line `speaker "text"` per speech. Consecutive cues of one speaker are one speech.
///
/// A cue without a speaker after the first cue repeats the speech collected so far and loses its own words, as in Dify.
pub(crate) fn extract(text: &str) -> String {
    let mut spoken: Vec<(String, String)> = cues(text);
    if spoken.is_empty() {
        return String::new();
    }
    let mut merged: Vec<(String, String)> = Vec::new();
    let (mut speaker, mut words) = spoken.remove(0);
    for (next, its_words) in spoken {
        if next.is_empty() {
            merged.push((speaker.clone(), words.clone()));
        } else if next == speaker {
            words = format!("{words} {its_words}");
        } else {
            merged.push((std::mem::replace(&mut speaker, next), std::mem::replace(&mut words, its_words)));
        }
    }
    merged.push((speaker, words));
    let lines: Vec<String> = merged.iter().map(|(speaker, words)| format!("{speaker} \"{words}\"")).collect();
    lines.join("\n")
}

/// Returns the speaker and the words of each cue.
fn cues(text: &str) -> Vec<(String, String)> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    text.split("\n\n")
        .filter_map(|block| {
            let mut lines = block.lines().skip_while(|line| !line.contains("-->"));
            lines.next()?;
            Some(voice(&lines.collect::<Vec<_>>().join("\n")))
        })
        .collect()
}

/// Returns the speaker that `<v …>` names, and the words without tags.
fn voice(words: &str) -> (String, String) {
    let speaker = words
        .find("<v")
        .and_then(|at| words[at + 2..].split_once('>'))
        .map(|(inside, _)| inside)
        .and_then(|inside| inside.split_once(char::is_whitespace))
        .map(|(_, name)| name.trim().to_owned())
        .unwrap_or_default();
    let mut plain = String::new();
    let mut inside = false;
    for c in words.chars() {
        match c {
            '<' => inside = true,
            '>' if inside => inside = false,
            _ if inside => {}
            c => plain.push(c),
        }
    }
    (speaker, plain)
}
