//! A text that grows and is sent in pieces. No piece ends inside a secret, because the masking of a single piece would
//! not find half a secret. Text that may be the start of a secret waits for the next piece.

use tidemill_common::value::secrets::Secrets;

/// Text waiting to be sent.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    text: String,
    /// The number of bytes that can be sent now without cutting a secret.
    ready: usize,
}

impl Growing {
    pub(crate) fn push(&mut self, text: &str, secrets: &Secrets) {
        self.text.push_str(text);
        self.ready = if secrets.are_none() { self.text.len() } else { secrets.shown_of_growing(&self.text) };
    }

    /// Releases all text, because no more follows.
    pub(crate) fn end(&mut self) {
        self.ready = self.text.len();
    }

    /// The number of bytes that can be sent.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// The number of bytes that wait.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Removes and returns the text that can be sent.
    pub(crate) fn take(&mut self) -> String {
        let rest = self.text.split_off(std::mem::take(&mut self.ready));
        std::mem::replace(&mut self.text, rest)
    }
}
