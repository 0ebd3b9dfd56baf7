//! A text that is sent in pieces while it grows. No piece ends within a secret: who shows a piece masks the secrets in it, and
//! could not find one that is cut. What may be the begin of a secret waits for what follows.

use tidemill_common::value::secrets::Secrets;

/// What waits to be sent, and how much of it may be.
#[derive(Debug, Default)]
pub(crate) struct Growing {
    text: String,
    /// Bytes that do not end within a secret, whatever follows.
    ready: usize,
}

impl Growing {
    pub(crate) fn push(&mut self, text: &str, secrets: &Secrets) {
        self.text.push_str(text);
        self.ready = if secrets.are_none() { self.text.len() } else { secrets.shown_of_growing(&self.text) };
    }

    /// Nothing follows: all of it may be sent.
    pub(crate) fn end(&mut self) {
        self.ready = self.text.len();
    }

    /// How many bytes may be sent.
    pub(crate) fn ready(&self) -> usize {
        self.ready
    }

    /// How many bytes wait.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// What may be sent.
    pub(crate) fn take(&mut self) -> String {
        let rest = self.text.split_off(std::mem::take(&mut self.ready));
        std::mem::replace(&mut self.text, rest)
    }
}
