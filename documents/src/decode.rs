//! Bytes as text, whatever charset they are in.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;

/// The text: by its mark, else UTF-8 if it is that, else what it most likely is. Bytes that mean nothing are dropped, and
/// so is the mark.
pub(crate) fn text(bytes: &[u8]) -> String {
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return without_losses(encoding, &bytes[mark..]);
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(bytes, true);
    without_losses(detector.guess(None, Utf8Detection::Allow), bytes)
}

fn without_losses(encoding: &'static Encoding, bytes: &[u8]) -> String {
    let (text, lossy) = encoding.decode_without_bom_handling(bytes);
    if lossy { text.replace(char::REPLACEMENT_CHARACTER, "") } else { text.into_owned() }
}
