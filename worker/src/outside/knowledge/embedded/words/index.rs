//! The word index of a document: for each word the segments that contain it, packed. Built once, then only read.

use std::collections::HashMap;

use tidemill_common::nodes::knowledge_retrieval::keywords::{each, is_unspaced};

use crate::outside::knowledge::embedded::words::bm25::Length;

/// Longest indexed word, in bytes; longer ones are never searched for.
const WORD_BYTES_MAX: usize = 65_530;

/// The words of a document's segments.
///
/// All words are in one sorted text, and all lists in one byte array, so a document needs few allocations. A list has
/// two numbers per segment: the distance to the previous segment, and the count of the word. Each is encoded with seven
/// bits per byte.
#[derive(Default)]
pub struct Words {
    text: String,
    lists: Vec<u8>,
    /// In the order of their words.
    entries: Vec<Entry>,
    /// The length of each segment.
    lengths: Vec<Length>,
    total: u64,
}

/// The ends of a word and its list.
struct Entry {
    text_end: usize,
    list_end: usize,
    segments: u64,
}

/// The segments with a word, in order.
pub struct List<'a> {
    pub segments: u64,
    bytes: &'a [u8],
    lengths: &'a [Length],
    next: usize,
}

/// A segment with the word.
pub struct Holding {
    /// The segment's index in the document.
    pub segment: usize,
    /// The count of the word.
    pub times: u32,
    /// The segment's length in words.
    pub length: Length,
}

/// A list while it is built.
#[derive(Default)]
struct Growing {
    bytes: Vec<u8>,
    segments: u64,
    /// The current segment and the word's count in it so far.
    last: usize,
    times: u32,
    next: usize,
}

impl Words {
    /// Indexes the words of these segments.
    pub fn new<'a>(segments: impl Iterator<Item = &'a str>) -> Self {
        let mut lists: HashMap<String, Growing> = HashMap::new();
        let mut made = Self::default();
        for (segment, text) in segments.enumerate() {
            let mut length: u32 = 0;
            let mut add = |word: String| {
                if word.len() <= WORD_BYTES_MAX {
                    lists.entry(word).or_default().add(segment);
                    length = length.saturating_add(1);
                }
            };
            each(text, &mut add);
            text.chars().filter(|c| is_unspaced(*c)).for_each(|c| add(c.into()));
            made.lengths.push(Length::of(length));
            made.total += u64::from(length);
        }
        let mut sorted: Vec<(String, Growing)> = lists.into_iter().collect();
        sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (word, mut list) in sorted {
            list.close();
            made.text.push_str(&word);
            made.lists.extend_from_slice(&list.bytes);
            let (text_end, list_end) = (made.text.len(), made.lists.len());
            made.entries.push(Entry { text_end, list_end, segments: list.segments });
        }
        made.text.shrink_to_fit();
        made.lists.shrink_to_fit();
        made.entries.shrink_to_fit();
        made.lengths.shrink_to_fit();
        made
    }

    /// The number of segments.
    pub fn segments(&self) -> u64 {
        self.lengths.len() as u64
    }

    /// The number of words in all segments.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The memory use in bytes.
    pub fn bytes(&self) -> u64 {
        let of_entries = self.entries.len() * size_of::<Entry>();
        (size_of::<Self>() + self.text.len() + self.lists.len() + of_entries + self.lengths.len()) as u64
    }

    /// The segments with a word, or `None` if there are none.
    pub fn list(&self, word: &str) -> Option<List<'_>> {
        let mut places = 0..self.entries.len();
        while !places.is_empty() {
            let middle = places.start + places.len() / 2;
            let (here, bytes) = self.at(middle);
            match here.cmp(word) {
                std::cmp::Ordering::Less => places.start = middle + 1,
                std::cmp::Ordering::Greater => places.end = middle,
                std::cmp::Ordering::Equal => {
                    let segments = self.entries[middle].segments;
                    return Some(List { segments, bytes, lengths: &self.lengths, next: 0 });
                }
            }
        }
        None
    }

    fn at(&self, place: usize) -> (&str, &[u8]) {
        let begin = place.checked_sub(1).map(|before| &self.entries[before]);
        let (text, list) = begin.map_or((0, 0), |before| (before.text_end, before.list_end));
        let entry = &self.entries[place];
        (&self.text[text..entry.text_end], &self.lists[list..entry.list_end])
    }
}

impl Iterator for List<'_> {
    type Item = Holding;

    fn next(&mut self) -> Option<Holding> {
        let gap = take_number(&mut self.bytes)?;
        let times = take_number(&mut self.bytes)?;
        let segment = self.next + gap as usize;
        self.next = segment + 1;
        Some(Holding { segment, times: times as u32, length: *self.lengths.get(segment)? })
    }
}

impl Growing {
    /// Counts the word in this segment, which is the current or a later one.
    fn add(&mut self, segment: usize) {
        if segment != self.last {
            self.close();
        }
        self.last = segment;
        self.times = self.times.saturating_add(1);
    }

    /// Writes the current segment to the list.
    fn close(&mut self) {
        if self.times > 0 {
            put_number(&mut self.bytes, (self.last - self.next) as u64);
            put_number(&mut self.bytes, self.times.into());
            self.next = self.last + 1;
            self.segments += 1;
            self.times = 0;
        }
    }
}

fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
