//! Splits a stream into server-sent events.

/// Bytes that have arrived and are not yet a complete frame.
#[derive(Default)]
pub(super) struct Frames {
    text: Vec<u8>,
    /// Bytes before this position have been returned.
    taken: usize,
    /// Bytes before this position contain no end of a frame.
    looked: usize,
}

impl Frames {
    /// Adds a piece.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.text.drain(..self.taken);
        self.looked -= self.taken;
        self.taken = 0;
        self.text.extend_from_slice(piece);
    }

    /// Returns the data of the next complete frame that has data; ignores comments.
    pub(super) fn next(&mut self) -> Option<&[u8]> {
        loop {
            let end = self.end()?;
            let from = self.taken;
            self.taken = end + 2;
            self.looked = self.taken;
            let line =
                self.text[from..end].split(|byte| *byte == b'\n').position(|l| l.starts_with(b"data: "));
            if let Some(line) = line {
                return self.text[from..end].split(|byte| *byte == b'\n').nth(line).map(|line| &line[6..]);
            }
        }
    }

    /// Returns the position of the blank line after the next frame.
    fn end(&mut self) -> Option<usize> {
        let at = self.text[self.looked..].windows(2).position(|pair| pair == b"\n\n");
        match at {
            Some(at) => Some(self.looked + at),
            None => {
                self.looked = self.text.len().saturating_sub(1).max(self.taken);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_complete_wherever_the_bytes_are_cut() {
        let wire = b": ping\n\nid: 1-0\nevent: a\ndata: {\"x\":1}\n\ndata: two\n\n";
        for cut in 1..wire.len() {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in wire.chunks(cut) {
                frames.push(piece);
                while let Some(data) = frames.next() {
                    seen.push(String::from_utf8_lossy(data).into_owned());
                }
            }
            assert_eq!(seen, ["{\"x\":1}", "two"], "cut after {cut}");
        }
    }
}
