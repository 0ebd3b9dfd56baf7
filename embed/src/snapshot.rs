//! Checks the text of a snapshot before the API sees it, so that an error is about a snapshot, and not about a request that
//! its reader has never written.

use serde_json::value::RawValue;

use crate::error::EmbedError;

/// Checks that a text may be the snapshot of a run: a JSON object, complete. [`Engine::resume_bytes`](crate::Engine::resume_bytes)
/// does so itself.
///
/// # Errors
/// [`EmbedError::Refused`] with `bad_request` for a text that is cut, or is something else.
pub fn check_snapshot(snapshot: &[u8]) -> Result<(), EmbedError> {
    let refused = |reason: String| EmbedError::Refused {
        code: "bad_request".into(),
        message: format!("the snapshot cannot be read: {reason}"),
        diagnostics: Vec::new(),
    };
    let text = std::str::from_utf8(snapshot).map_err(|_| refused("it is not UTF-8".into()))?;
    match serde_json::from_str::<&RawValue>(text) {
        Ok(_) if text.trim_start().starts_with('{') => Ok(()),
        Ok(_) => Err(refused("it is not a JSON object".into())),
        Err(error) if error.is_eof() => Err(refused(format!("it is cut: {error}"))),
        Err(error) => Err(refused(format!("it is not JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_snapshot_is_refused_as_one() {
        for (text, said) in [
            (&b"abc"[..], "it is not JSON: "),
            (b"", "it is cut: "),
            (b"{\"a\": [1", "it is cut: "),
            (b"[1]", "it is not a JSON object"),
            (b"{\"a\": \"\xff\"}", "it is not UTF-8"),
        ] {
            let refused = check_snapshot(text).expect_err("it is refused").to_string();
            assert!(
                refused.starts_with("the snapshot cannot be read: ") && refused.contains(said),
                "{refused}"
            );
        }
        assert!(check_snapshot(b" {\"run\": {}}\n").is_ok());
    }
}
