//! The `tidemill` program. Its code is in the library, so that tests can use it.

use std::process::ExitCode;

fn main() -> ExitCode {
    // This must come first: the sandbox starts this same program as its helper.
    if let Some(code) = tidemill_sandbox::helper::run_if_asked() {
        return code;
    }
    tidemill_common::telemetry::start_panics();
    tidemill::commands::main()
}
