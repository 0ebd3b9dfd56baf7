//! Requests in the wire format. Each word is copied once, directly into the buffer that is sent.

use tidemill_base::ids::{EntryId, ExecutionId, RunId};

/// The commands of a request.
#[derive(Debug, Default)]
pub(in crate::store::redis) struct Request {
    bytes: Vec<u8>,
    commands: usize,
    /// Words that the last command still needs.
    missing: usize,
    /// A command has more or fewer words than announced. Such a request is not sent.
    is_wrong: bool,
}

/// Larger buffers are freed instead of reused.
const KEPT_BYTES: usize = 256 * 1024;

impl Request {
    /// Begins a command with so many words after its name.
    pub(in crate::store::redis) fn command(&mut self, name: &str, words: usize) -> &mut Self {
        self.is_wrong |= self.missing != 0;
        self.commands += 1;
        self.missing = words + 1;
        self.head(b'*', words + 1);
        self.word(name)
    }

    /// Adds a word.
    #[inline]
    pub(in crate::store::redis) fn word(&mut self, word: impl Word) -> &mut Self {
        match self.missing.checked_sub(1) {
            Some(missing) => self.missing = missing,
            None => self.is_wrong = true,
        }
        word.write(self);
        self
    }

    /// Empties it for the next request.
    pub(in crate::store::redis) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        (self.commands, self.missing, self.is_wrong) = (0, 0, false);
    }

    /// The number of commands.
    pub(in crate::store::redis) fn commands(&self) -> usize {
        self.commands
    }

    /// The words of each command, read back from the bytes.
    pub(in crate::store::redis) fn each_command(&self) -> impl Iterator<Item = Vec<&[u8]>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let words = number_after(&mut rest, b'*')?;
            (0..words).map(|_| word_of(&mut rest)).collect()
        })
    }

    /// The same without its first commands.
    pub(in crate::store::redis) fn without_first(&self, commands: usize) -> Self {
        let mut rest = self.bytes.as_slice();
        for _ in 0..commands {
            let words = number_after(&mut rest, b'*').unwrap_or(0);
            for _ in 0..words {
                let _ = word_of(&mut rest);
            }
        }
        Self { bytes: rest.to_vec(), commands: self.commands.saturating_sub(commands), ..Self::default() }
    }

    /// The bytes to send and the number of replies; `None` if a command has a wrong number of words.
    pub(super) fn finished(&self) -> Option<(&[u8], usize)> {
        (self.missing == 0 && !self.is_wrong).then_some((self.bytes.as_slice(), self.commands))
    }

    #[inline]
    fn head(&mut self, kind: u8, number: usize) {
        // A commit has some dozens of words per step, nearly all shorter than this. A head of constant length
        // is written at once.
        let digit = |place: usize| b'0' + (number / place % 10) as u8;
        match number {
            0..10 => self.bytes.extend_from_slice(&[kind, digit(1), b'\r', b'\n']),
            10..100 => self.bytes.extend_from_slice(&[kind, digit(10), digit(1), b'\r', b'\n']),
            100..1000 => self.bytes.extend_from_slice(&[kind, digit(100), digit(10), digit(1), b'\r', b'\n']),
            _ => self.long_head(kind, number),
        }
    }

    #[cold]
    fn long_head(&mut self, kind: u8, number: usize) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// A word joined from these parts. Inlined, because the number of parts and mostly their lengths are
    /// constants.
    #[inline]
    fn bulk<const N: usize>(&mut self, parts: [&[u8]; N]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.bytes.reserve(length + ROOM_OF_ENDS);
        self.head(b'$', length);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Takes a head off the front: its number, if it is of this kind.
fn number_after(rest: &mut &[u8], kind: u8) -> Option<usize> {
    let end = rest.iter().position(|byte| *byte == b'\r')?;
    let (head, after) = rest.split_at_checked(end)?;
    let number = str::from_utf8(head.strip_prefix(&[kind])?).ok()?.parse().ok()?;
    *rest = after.get(2..)?;
    Some(number)
}

/// Takes a word off the front.
fn word_of<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = number_after(rest, b'$')?;
    let (word, after) = rest.split_at_checked(length)?;
    *rest = after.get(2..)?;
    Some(word)
}

/// The most bytes that a word takes beside its content.
const ROOM_OF_ENDS: usize = 32;

/// A type that can be a word of a command.
pub(in crate::store::redis) trait Word {
    fn write(&self, request: &mut Request);
}
impl<T: Word + ?Sized> Word for &T {
    fn write(&self, request: &mut Request) {
        (**self).write(request);
    }
}
impl Word for str {
    fn write(&self, request: &mut Request) {
        request.bulk([self.as_bytes()]);
    }
}
impl Word for String {
    fn write(&self, request: &mut Request) {
        request.bulk([self.as_bytes()]);
    }
}
/// One word in two parts.
impl Word for [&str; 2] {
    fn write(&self, request: &mut Request) {
        request.bulk([self[0].as_bytes(), self[1].as_bytes()]);
    }
}
impl Word for RunId {
    fn write(&self, request: &mut Request) {
        request.bulk([self.encode(&mut Self::buffer()).as_bytes()]);
    }
}
impl Word for ExecutionId {
    fn write(&self, request: &mut Request) {
        request.bulk([self.encode(&mut [0; 36]).as_bytes()]);
    }
}
impl Word for EntryId {
    fn write(&self, request: &mut Request) {
        let (mut major, mut minor) = (itoa::Buffer::new(), itoa::Buffer::new());
        request.bulk([major.format(self.major).as_bytes(), b"-", minor.format(self.minor).as_bytes()]);
    }
}
macro_rules! numbers {
    ($($ty:ty)*) => { $(impl Word for $ty {
        fn write(&self, request: &mut Request) {
            request.bulk([itoa::Buffer::new().format(*self).as_bytes()]);
        }
    })* };
}
numbers!(u32 u64 i64 usize u128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_go_out_as_the_server_wants_them() {
        let mut request = Request::default();
        request.command("HSET", 3).word(["k", "éy"]).word(EntryId::new(7, 12)).word(0u64);
        request.command("PING", 0);
        let (bytes, replies) = request.finished().unwrap();
        let text = "*4\r\n$4\r\nHSET\r\n$4\r\nkéy\r\n$4\r\n7-12\r\n$1\r\n0\r\n*1\r\n$4\r\nPING\r\n";
        assert_eq!((std::str::from_utf8(bytes).unwrap(), replies), (text, 2));
    }

    #[test]
    fn the_words_of_commands_are_read_back() {
        let mut request = Request::default();
        request.command("SET", 2).word("k\r\n").word(["a", "$b"]);
        request.command("PING", 0);
        let read: Vec<_> = request.each_command().collect();
        assert_eq!(read, [vec![b"SET".as_slice(), b"k\r\n", b"a$b"], vec![b"PING"]]);
        let rest = request.without_first(1);
        assert_eq!(rest.finished(), Some((&b"*1\r\n$4\r\nPING\r\n"[..], 1)));
        assert_eq!(request.without_first(0).finished(), request.finished());
    }

    #[test]
    fn lengths_are_written_with_all_their_digits() {
        for length in [0, 1, 9, 10, 11, 99, 100, 101, 999, 1000, 1001, 12_345] {
            let (mut request, word) = (Request::default(), "x".repeat(length));
            request.command("ECHO", 1).word(word.as_str());
            let text = format!("*2\r\n$4\r\nECHO\r\n${length}\r\n{word}\r\n");
            assert_eq!(request.finished().unwrap().0, text.as_bytes(), "{length}");
        }
    }

    #[test]
    fn a_command_that_was_counted_wrongly_is_not_sent() {
        let (mut short, mut long, mut last) = (Request::default(), Request::default(), Request::default());
        short.command("GET", 1);
        short.command("PING", 0);
        long.command("GET", 1).word("a").word("b");
        last.command("GET", 1);
        for request in [short, long, last] {
            assert!(request.finished().is_none());
        }
    }
}
