//! The lines that a plugin writes, and the messages of a tool in them.
#![no_main]

use libfuzzer_sys::fuzz_target;

// The files are included by path: the whole crate would take minutes to build, and these files do not need it.
#[path = "../../plugins/src/process/event.rs"]
#[allow(dead_code)]
mod event;
#[path = "../../plugins/src/tool/message.rs"]
#[allow(dead_code)]
mod message;

use event::{Heard, hear};
use message::{Message, Messages};

/// Most bytes of the blobs of a session.
const BLOB_BYTES_MAX: usize = 64 * 1024;

fuzz_target!(|bytes: &[u8]| {
    let mut messages = Messages::new(BLOB_BYTES_MAX);
    let mut blobs = 0;
    for line in bytes.split(|byte| *byte == b'\n') {
        // As the host reads them.
        let text = String::from_utf8_lossy(line);
        match hear(text.trim_end()) {
            Heard::Stream { data, .. } => {
                if let Ok(Some(message)) = messages.read(data) {
                    assert!(message.as_json().is_object());
                    if let Message::Blob { bytes, .. } = message {
                        blobs += bytes.len();
                    }
                }
            }
            Heard::Other(shown) => assert!(shown.len() <= 4 * text.len() + 64, "a line became much longer"),
            _ => {}
        }
    }
    assert!(blobs <= BLOB_BYTES_MAX, "more bytes of blobs than allowed");
});
