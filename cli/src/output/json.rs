//! For programs: what the scheduler said, one line an object or one object on many lines.

use serde_json::Value as Json;

use crate::console::Console;
use crate::error::Error;

/// Writes a whole answer, indented.
pub(crate) fn whole(value: &Json, console: &mut Console) -> Result<(), Error> {
    console.line(format_args!("{value:#}"))
}
