//! Splits a text into segments: at headings and paragraphs where possible, else at sentences, else at words,
//! else between two characters.
//!
//! A heading begins a segment. Whole paragraphs are joined while they fit; a paragraph that does not fit into
//! one segment is split into sentences. When a segment is full, the next one may begin with the end of it
//! (the overlap).

use super::is_unspaced;

/// The unit of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Characters,
    /// Estimated tokens: one per character of a script without spaces, one per four other characters.
    Tokens,
}

impl Unit {
    /// Returns the name of the unit.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Characters => "characters",
            Self::Tokens => "tokens",
        }
    }
    /// Returns the unit with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Characters, Self::Tokens].into_iter().find(|unit| unit.name() == name)
    }
    /// Costs are counted in quarters of a token, so that they are integers.
    const fn whole(self) -> usize {
        match self {
            Self::Characters => 1,
            Self::Tokens => 4,
        }
    }
    fn cost(self, c: char) -> usize {
        match self {
            Self::Characters => 1,
            Self::Tokens if is_unspaced(c) => 4,
            Self::Tokens => 1,
        }
    }
}

/// The settings of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitSettings {
    /// Largest size of a segment; at least 1.
    pub size: usize,
    /// Largest part of a segment that repeats the one before it; less than the size.
    pub overlap: usize,
    /// The unit of both.
    pub unit: Unit,
}

impl Default for SplitSettings {
    fn default() -> Self {
        // Dify's defaults.
        Self { size: 1024, overlap: 50, unit: Unit::Characters }
    }
}

/// Returns the segments of a text; none is empty.
pub fn split(text: &str, settings: SplitSettings) -> Vec<String> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let size = settings.size.max(1).saturating_mul(settings.unit.whole());
    let overlap = settings.overlap.saturating_mul(settings.unit.whole());
    let mut cutter =
        Cutter { size, overlap: overlap.min(size - 1), unit: settings.unit, ..Cutter::default() };
    for block in blocks(&text) {
        if is_heading(block) && !cutter.holds_only_headings {
            cutter.close();
        }
        cutter.add(block, &mut |block, cutter| {
            for sentence in sentences(block) {
                cutter.add(sentence, &mut |sentence, cutter| cutter.add_by_words(sentence));
            }
        });
        cutter.holds_only_headings &= is_heading(block);
    }
    cutter.close();
    cutter.done
}

struct Cutter {
    size: usize,
    overlap: usize,
    unit: Unit,
    open: String,
    cost: usize,
    /// Bytes at the beginning of `open` that repeat the segment before.
    repeated: usize,
    holds_only_headings: bool,
    done: Vec<String>,
}

impl Default for Cutter {
    fn default() -> Self {
        let (open, done) = (String::new(), Vec::new());
        Self {
            size: 1,
            overlap: 0,
            unit: Unit::Characters,
            open,
            cost: 0,
            repeated: 0,
            holds_only_headings: true,
            done,
        }
    }
}

impl Cutter {
    fn cost_of(&self, text: &str) -> usize {
        text.chars().map(|c| self.unit.cost(c)).sum()
    }

    /// Adds a whole piece to this segment or to a new one; `cut` adds a piece that is too large for a
    /// segment.
    fn add(&mut self, piece: &str, cut: &mut dyn FnMut(&str, &mut Self)) {
        // Space at the end of a segment is dropped.
        let cost = self.cost_of(piece.trim_end());
        if cost > self.size {
            return cut(piece, self);
        }
        if self.cost + cost > self.size {
            self.next(cost);
        }
        self.cost += self.cost_of(piece);
        self.open.push_str(piece);
    }

    /// Adds a sentence that is too large for a segment: word by word, and a word that is too large by
    /// characters.
    fn add_by_words(&mut self, sentence: &str) {
        for word in sentence.split_inclusive(char::is_whitespace) {
            self.add(word, &mut |word, cutter| {
                let mut buffer = [0; 4];
                for c in word.chars() {
                    cutter.add(c.encode_utf8(&mut buffer), &mut |c, cutter| cutter.open.push_str(c));
                }
            });
        }
    }

    /// Ends the segment. The next one begins with its end, as far as `cost` more fits after it.
    fn next(&mut self, cost: usize) {
        let room = self.overlap.min(self.size - cost);
        let repeated = self.end_of_open(room).to_owned();
        self.close();
        self.cost = self.cost_of(&repeated);
        self.repeated = repeated.len();
        self.open = repeated;
    }

    /// Returns the longest end of the open segment that fits: whole sentences if possible, else whole words,
    /// else characters.
    fn end_of_open(&self, room: usize) -> &str {
        let open = &self.open[..];
        let (mut cost, mut from) = (0, open.len());
        for (at, c) in open.char_indices().rev() {
            cost += self.unit.cost(c);
            if cost > room {
                break;
            }
            from = at;
        }
        let end = &open[from..];
        if from == 0 || end.is_empty() {
            return end;
        }
        let begins = |separates: fn(char) -> bool| {
            let at = end.char_indices().find(|(_, c)| separates(*c)).map(|(at, c)| at + c.len_utf8());
            at.map(|at| end[at..].trim_start()).filter(|rest| !rest.is_empty())
        };
        let is_stop = |c: char| matches!(c, '.' | '!' | '?' | '。' | '！' | '？' | '\n');
        begins(is_stop).or_else(|| begins(char::is_whitespace)).unwrap_or(end)
    }

    /// Ends the segment. A segment that only repeats the one before is dropped.
    fn close(&mut self) {
        if !self.open[self.repeated..].trim().is_empty() {
            self.done.push(self.open.trim().to_owned());
        }
        self.open.clear();
        (self.cost, self.repeated, self.holds_only_headings) = (0, 0, true);
    }
}

/// Splits a text into paragraphs and headings, each with the blank lines after it.
fn blocks(text: &str) -> Vec<&str> {
    let (mut found, mut from, mut at) = (Vec::new(), 0, 0);
    let mut last_was_blank = false;
    for line in text.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        let begins = (last_was_blank && !is_blank) || is_heading(line) || is_heading(&text[from..at]);
        if begins && at > from && !is_blank {
            found.push(&text[from..at]);
            from = at;
        }
        last_was_blank = is_blank;
        at += line.len();
    }
    found.push(&text[from..]);
    found.retain(|block| !block.trim().is_empty());
    found
}

/// True when the block is one line that is a Markdown heading.
fn is_heading(block: &str) -> bool {
    let line = block.trim_end();
    let title = line.trim_start_matches('#');
    let level = line.len() - title.len();
    (1..=6).contains(&level) && title.starts_with([' ', '\t']) && !line.contains('\n')
}

/// Splits a block into sentences, each with the space after it.
fn sentences(block: &str) -> Vec<&str> {
    let (mut found, mut from) = (Vec::new(), 0);
    let mut chars = block.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '。' | '！' | '？' | '；' | '\n' => true,
            '.' | '!' | '?' => next.is_some_and(char::is_whitespace),
            _ => false,
        };
        if !ends {
            continue;
        }
        let mut end = at + c.len_utf8();
        while let Some((space_at, space)) = chars.next_if(|(_, c)| c.is_whitespace()) {
            end = space_at + space.len_utf8();
        }
        found.push(&block[from..end]);
        from = end;
    }
    found.push(&block[from..]);
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by(size: usize, overlap: usize, text: &str) -> Vec<String> {
        split(text, SplitSettings { size, overlap, unit: Unit::Characters })
    }

    #[test]
    fn headings_begin_segments_and_paragraphs_stay_whole() {
        let text = "# Leave\n\nThirty days.\n\nNo more.\n\n## Travel\nBy train.\n";
        assert_eq!(by(100, 0, text), ["# Leave\n\nThirty days.\n\nNo more.", "## Travel\nBy train."]);
        assert_eq!(by(22, 0, text), ["# Leave\n\nThirty days.", "No more.", "## Travel\nBy train."]);
        assert_eq!(by(100, 0, "# A\n## B\ntext"), ["# A\n## B\ntext"]);
        assert!(by(10, 0, " \n\n ").is_empty());
    }

    #[test]
    fn too_large_blocks_are_split_at_sentences_then_words_then_characters() {
        assert_eq!(by(12, 0, "One is. Two are! Three"), ["One is.", "Two are!", "Three"]);
        assert_eq!(by(8, 0, "aaa bbb ccc ddd"), ["aaa bbb", "ccc ddd"]);
        assert_eq!(by(4, 0, "abcdefghij"), ["abcd", "efgh", "ij"]);
        assert_eq!(by(6, 0, "年假三十天。请假要填表。"), ["年假三十天。", "请假要填表。"]);
        assert_eq!(by(3, 0, "年假三十天"), ["年假三", "十天"]);
    }

    #[test]
    fn a_full_segment_lends_its_end_to_the_next() {
        assert_eq!(by(16, 8, "aaaa bbb. ccc. dddd eee."), ["aaaa bbb. ccc.", "ccc. dddd eee."]);
        assert_eq!(by(8, 4, "aaa bbb ccc ddd"), ["aaa bbb", "bbb ccc", "ccc ddd"]);
        assert_eq!(by(4, 1, "abcdefg"), ["abcd", "defg"]);
        // There is no overlap where a new heading begins.
        assert_eq!(by(20, 10, "# A\nalpha.\n# B\nbeta."), ["# A\nalpha.", "# B\nbeta."]);
    }

    #[test]
    fn tokens_are_estimated() {
        let by_tokens = |size, text| split(text, SplitSettings { size, overlap: 0, unit: Unit::Tokens });
        assert_eq!(by_tokens(2, "abcd efg hijklmno"), ["abcd efg", "hijklmno"]);
        assert_eq!(by_tokens(3, "潮汐磨坊"), ["潮汐磨", "坊"]);
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nothing_is_too_long(
            text in "([a-c .#\n。年假]|[a-z]{1,6}|\\. |\n\n# ){0,60}",
            size in 1..30_usize,
            overlap in 0..30_usize,
        ) {
            let solid = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            let plain = by(size, 0, &text);
            prop_assert_eq!(solid(&plain.concat()), solid(&text));
            for segments in [&plain, &by(size, overlap, &text)] {
                prop_assert!(segments.iter().all(|it| it.chars().count() <= size && !it.trim().is_empty()));
            }
            let overlapping = by(size, overlap, &text).concat();
            prop_assert!(solid(&overlapping).len() >= solid(&text).len());
        }
    }
}
