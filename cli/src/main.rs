//! The `tidemill` command. All of it is in the library, so that tests reach it.

use std::process::ExitCode;

fn main() -> ExitCode {
    // Before anything else: as a helper of the sandbox this program is another one.
    if let Some(code) = tidemill_sandbox::helper::run_if_asked() {
        return code;
    }
    tidemill_common::telemetry::start_panics();
    tidemill::commands::main()
}
