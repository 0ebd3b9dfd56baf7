//! JSON output for programs.

use serde_json::Value as Json;

use crate::console::Console;
use crate::error::Error;

/// Writes a value as indented JSON.
pub(crate) fn whole(value: &Json, console: &mut Console) -> Result<(), Error> {
    console.line(format_args!("{value:#}"))
}
