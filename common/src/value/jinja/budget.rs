//! How many bytes a render may make on its way, the text it writes and everything it throws away again included.
//! Doubling a text forty times takes little fuel and would take all memory.

use minijinja::{Error, ErrorKind, State};

use crate::limits;

/// Bytes made so far in this render.
#[derive(Default)]
struct Made(usize);

/// Accounts for so many bytes.
///
/// # Errors
/// When the render has made more than it may.
pub(super) fn charge(state: &mut State, bytes: usize) -> Result<(), Error> {
    let made = state.get_or_insert_extension(Made::default());
    made.0 = made.0.saturating_add(bytes);
    if made.0 > limits::VALUE_BYTES_MAX {
        return Err(Error::new(ErrorKind::InvalidOperation, "the template makes too much text"));
    }
    Ok(())
}

/// A width or count that a filter was given; more than this is never meant.
///
/// # Errors
/// When it is beyond reason.
pub(super) fn width(value: i64) -> Result<usize, Error> {
    match usize::try_from(value.max(0)) {
        Ok(width) if width <= 1_000_000 => Ok(width),
        Ok(_) | Err(_) => {
            Err(Error::new(ErrorKind::InvalidOperation, format!("a width of {value} is too large")))
        }
    }
}
