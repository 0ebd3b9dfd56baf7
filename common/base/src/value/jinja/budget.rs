//! Limits the bytes that a render may produce, including intermediate texts. Doubling a text forty times
//! takes little fuel but would take all memory.

use minijinja::{Error, ErrorKind, State};

use crate::limits;

/// Bytes produced so far in this render.
#[derive(Default)]
struct Made(usize);

/// Adds `bytes` to the total.
///
/// # Errors
/// When the render has produced too much.
pub(super) fn charge(state: &mut State, bytes: usize) -> Result<(), Error> {
    let made = state.get_or_insert_extension(Made::default());
    made.0 = made.0.saturating_add(bytes);
    if made.0 > limits::VALUE_BYTES_MAX {
        return Err(Error::new(ErrorKind::InvalidOperation, "the template produces too much text"));
    }
    Ok(())
}

/// Converts a width or count that a filter received.
///
/// # Errors
/// When it is above one million, which is never intended.
pub(super) fn width(value: i64) -> Result<usize, Error> {
    match usize::try_from(value.max(0)) {
        Ok(width) if width <= 1_000_000 => Ok(width),
        Ok(_) | Err(_) => {
            Err(Error::new(ErrorKind::InvalidOperation, format!("a width of {value} is too large")))
        }
    }
}
