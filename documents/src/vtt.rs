//! Subtitles: who says what, one line a speaker.

/// One line an utterance, `speaker "text"`; what one speaker says in cues that follow one another is one utterance.
///
/// Behind the first cue, one without a speaker repeats what was gathered so far instead of its own words: so does Dify.
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

/// Speaker and words of each cue.
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

/// The speaker that `<v …>` names, and the words without any tags.
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
