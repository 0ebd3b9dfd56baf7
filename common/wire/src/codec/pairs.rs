//! Key–value pairs and event entries packed into one `String` each. A commit writes many small values;
//! allocating each took 10 % of its time.

/// Names with optional texts, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pairs {
    text: String,
    /// The end of each name, and the end of its text if it has one.
    ends: Vec<(usize, Option<usize>)>,
}

impl Pairs {
    /// Empty, with capacity for `names` names and `bytes` bytes of names and texts.
    pub(crate) fn with_capacity(names: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ends: Vec::with_capacity(names) }
    }
    /// Adds a name and its text. The closures must only append.
    pub(crate) fn write(&mut self, name: impl FnOnce(&mut String), text: Option<impl FnOnce(&mut String)>) {
        name(&mut self.text);
        let end = self.text.len();
        let end_of_text = text.map(|text| {
            text(&mut self.text);
            self.text.len()
        });
        self.ends.push((end, end_of_text));
    }
    /// Adds a name and its text.
    pub(crate) fn add(&mut self, name: &str, text: Option<&str>) {
        self.write(|all| all.push_str(name), text.map(|text| |all: &mut String| all.push_str(text)));
    }
    /// Iterates over the names and their texts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Option<&str>)> + Clone {
        let mut at = 0;
        self.ends.iter().map(move |(end, end_of_text)| {
            let name = &self.text[at..*end];
            at = end_of_text.unwrap_or(*end);
            (name, end_of_text.map(|end_of_text| &self.text[*end..end_of_text]))
        })
    }
    /// The number of names.
    pub fn len(&self) -> usize {
        self.ends.len()
    }
    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
    /// Bytes of the names and texts.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }
}

impl<N: AsRef<str>, T: AsRef<str>> FromIterator<(N, Option<T>)> for Pairs {
    fn from_iter<I: IntoIterator<Item = (N, Option<T>)>>(given: I) -> Self {
        let mut pairs = Self::default();
        given.into_iter().for_each(|(name, text)| pairs.add(name.as_ref(), text.as_ref().map(T::as_ref)));
        pairs
    }
}

/// Entries of an event stream. Each entry is a list of events: type and text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventTexts {
    text: String,
    events: Vec<EventText>,
    entries: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct EventText {
    kind: &'static str,
    /// The end of its text; it begins at the end of the previous one.
    end: usize,
    /// Whether it is the last of its entry.
    is_last: bool,
}

impl EventTexts {
    /// Empty, with capacity for so many events and bytes of text.
    pub(crate) fn with_capacity(events: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), events: Vec::with_capacity(events), entries: 0 }
    }
    /// Adds an event to the current entry: `write` appends its text and returns its type.
    pub(crate) fn add(&mut self, write: impl FnOnce(&mut String) -> &'static str) {
        let kind = write(&mut self.text);
        self.events.push(EventText { kind, end: self.text.len(), is_last: false });
    }
    /// Ends the current entry. At least one event must have been added to it.
    pub(crate) fn close(&mut self) {
        self.events.last_mut().into_iter().for_each(|event| event.is_last = true);
        self.entries += 1;
    }
    /// Iterates over the entries; each gives the types and texts of its events.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = impl ExactSizeIterator<Item = (&'static str, &str)>> {
        let (mut left, mut begin) = (&self.events[..], 0);
        (0..self.entries).map(move |_| {
            let length = left.iter().position(|event| event.is_last).map_or(left.len(), |last| last + 1);
            let (events, others) = left.split_at(length);
            let mut from = begin;
            begin = events.last().map_or(begin, |event| event.end);
            left = others;
            events.iter().map(move |event| {
                let text = &self.text[from..event.end];
                from = event.end;
                (event.kind, text)
            })
        })
    }
    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }
    /// Bytes of the types and texts.
    pub fn bytes(&self) -> usize {
        self.text.len() + self.events.iter().map(|event| event.kind.len()).sum::<usize>()
    }
}

impl<T: AsRef<str>, E: IntoIterator<Item = (&'static str, T)>> FromIterator<E> for EventTexts {
    fn from_iter<I: IntoIterator<Item = E>>(given: I) -> Self {
        let mut texts = Self::default();
        for entry in given {
            for (kind, event) in entry {
                texts.add(|text| {
                    text.push_str(event.as_ref());
                    kind
                });
            }
            texts.close();
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_come_out_as_they_were_added(given in prop::collection::vec(("[a-zé]{0,4}", prop::option::of("[a-zé]{0,4}")), 0..9)) {
            let given: Vec<_> = given.iter().map(|(name, text)| (name.as_str(), text.as_deref())).collect();
            let pairs: Pairs = given.iter().copied().collect();
            prop_assert_eq!(pairs.iter().collect::<Vec<_>>(), given.clone());
            prop_assert_eq!((pairs.len(), pairs.is_empty()), (given.len(), given.is_empty()));
            prop_assert_eq!(pairs.bytes(), given.iter().map(|(name, text)| name.len() + text.map_or(0, str::len)).sum::<usize>());
        }

        #[test]
        fn entries_come_out_as_they_were_added(given in prop::collection::vec(prop::collection::vec("[a-zé]{0,4}", 1..4), 0..5)) {
            let kind = |event: &str| if event.is_empty() { "none" } else { "some" };
            let given: Vec<Vec<_>> =
                given.iter().map(|entry| entry.iter().map(|event| (kind(event), event.as_str())).collect()).collect();
            let texts: EventTexts = given.iter().cloned().collect();
            prop_assert_eq!(texts.iter().map(Iterator::collect).collect::<Vec<Vec<_>>>(), given.clone());
            prop_assert_eq!(texts.is_empty(), given.is_empty());
            let bytes: usize = given.iter().flatten().map(|(kind, text)| kind.len() + text.len()).sum();
            prop_assert_eq!(texts.bytes(), bytes);
        }
    }
}
