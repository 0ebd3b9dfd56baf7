//! Server-sent events, taken apart as they come.

/// What has come and is not yet a whole frame.
#[derive(Default)]
pub(super) struct Frames {
    text: Vec<u8>,
    /// Up to here it is taken.
    taken: usize,
    /// Up to here there is no end of a frame.
    looked: usize,
}

impl Frames {
    /// Takes a piece.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.text.drain(..self.taken);
        self.looked -= self.taken;
        self.taken = 0;
        self.text.extend_from_slice(piece);
    }

    /// The data of the next whole frame that has any; comments are passed over.
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

    /// Where the blank line of the next frame begins.
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
    fn frames_come_whole_however_they_were_cut() {
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
