//! Decodes bytes of any charset to text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::Encoding;

/// Decodes text by its byte order mark; without one as UTF-8 if it is valid, or else in the most likely charset. Drops
/// the mark and bytes that are not valid.
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
