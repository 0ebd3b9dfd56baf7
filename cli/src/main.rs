//! The `tidemill` command. All of it is in the library, so that tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidemill::commands::main()
}
